//! Rules for the text of a field.

use std::borrow::Cow;

use catalog::Action;
use event::{
    Day, Id, Task,
    fields::{AppliesTo, Rule, plain_label},
    id::check_name,
    pseudonym::{PSEUDONYM_PREFIX, is_pseudonym},
};

use super::row::Scalar;
use crate::limits::{MAX_EVENT_ID_BYTES, MAX_KEY_BYTES};

/// Greatest size up to which doubles distinguish all whole numbers: 2^53.
pub(crate) const GREATEST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Returns the text as stored.
#[inline]
pub(crate) fn plain(rule: Rule, text: &str) -> Cow<'_, str> {
    match rule {
        Rule::Label => plain_label(text),
        _ => Cow::Borrowed(text),
    }
}

/// Message for a value that is no text and is not converted to one.
pub(crate) fn no_text(rule: Rule, value: &Scalar<'_>) -> String {
    match (rule, value) {
        (Rule::Label, Scalar::Float(_)) => {
            format!(
                "should be a string, or a whole number of at most {GREATEST_WHOLE}, but is another number"
            )
        }
        _ => format!("should be a string, but is {}", value.is_called()),
    }
}

/// Checks a text.
///
/// # Errors
/// The fault, as the rest of a sentence.
#[inline]
pub(crate) fn check(rule: Rule, text: &str) -> Result<(), String> {
    match rule {
        Rule::Key if !text.is_empty() && text.len() <= MAX_KEY_BYTES && !is_pseudonym(text) => Ok(()),
        _ => check_slowly(rule, text),
    }
}

fn check_slowly(rule: Rule, text: &str) -> Result<(), String> {
    let limit = rule.max_bytes();
    if text.len() > limit {
        return Err(match rule {
            Rule::Tag => format!("is longer than {limit} bytes"),
            _ => format!("is {} bytes long, more than {limit}", text.len()),
        });
    }
    match rule {
        Rule::Key if is_pseudonym(text) => {
            Err(format!("begins with `{PSEUDONYM_PREFIX}`, as only what stands for erased keys does"))
        }
        Rule::Name => check_name(text).map_err(|error| error.to_string()),
        Rule::Action if Action::from_name(text).is_none() => {
            Err(format!("`{text}` is none of {}", Action::ALL.map(Action::name).join(", ")))
        }
        Rule::Task if !Task::NAMES.contains(&text) => {
            Err(format!("`{text}` is none of {}", Task::NAMES.join(", ")))
        }
        Rule::AppliesTo if AppliesTo::from_name(text).is_none() => {
            Err(format!("`{text}` is none of {}", AppliesTo::NAMES.join(", ")))
        }
        Rule::Run => Id::parse(text).map(|_| ()).map_err(|error| error.to_string()),
        Rule::True if text != "true" => {
            Err(format!("is `{text}`, and should be `true`; leave it out of events that are not retracted"))
        }
        Rule::Day => text.parse::<Day>().map(|_| ()).map_err(|error| error.to_string()),
        _ if text.is_empty() && !rule.may_be_empty() => Err("is empty".into()),
        _ => Ok(()),
    }
}

/// Checks the id that an event gives itself.
pub(crate) fn check_event_id(text: &str) -> Result<(), String> {
    if text.len() > MAX_EVENT_ID_BYTES {
        return Err(format!("is {} bytes long, more than {MAX_EVENT_ID_BYTES}", text.len()));
    }
    if text.is_empty() {
        return Err("is empty".into());
    }
    match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err("holds something else than printable ASCII without blanks".into()),
    }
}
