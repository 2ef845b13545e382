//! What the text of a field may be.

use std::borrow::Cow;

use catalog::Action;
use event::{
    Day, Task,
    fields::{Field, plain_label},
    id::check_name,
};

use crate::limits::{MAX_EVENT_ID_BYTES, MAX_KEY_BYTES, MAX_NOTE_BYTES, MAX_TEXT_BYTES};

/// The rule for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Key,
    Note,
    /// A name, as people give them to releases.
    Name,
    Action,
    /// A class that was predicted or observed.
    Label,
    Task,
    /// A day, `2026-06-01`.
    Day,
    Tag,
    /// Any text that is not empty.
    Plain,
}

impl Rule {
    /// The rule of a field.
    pub(crate) fn of(field: &Field) -> Self {
        match field.name {
            "key" => Rule::Key,
            "note" => Rule::Note,
            "release" | "model" | "configuration" | "environment" => Rule::Name,
            "action" => Rule::Action,
            "label" | "positive_label" => Rule::Label,
            "task" => Rule::Task,
            "effective_from" => Rule::Day,
            _ => Rule::Plain,
        }
    }

    /// Whether few distinct strings are to be expected.
    pub(crate) fn is_repeated(self) -> bool {
        !matches!(self, Rule::Key | Rule::Note)
    }

    /// The text as it is kept.
    #[inline]
    pub(crate) fn plain(self, text: &str) -> Cow<'_, str> {
        match self {
            Rule::Label => plain_label(text),
            _ => Cow::Borrowed(text),
        }
    }

    /// Checks a text.
    ///
    /// # Errors
    /// What is wrong with it, as the rest of a sentence.
    #[inline]
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        match self {
            Rule::Key if !text.is_empty() && text.len() <= MAX_KEY_BYTES => Ok(()),
            _ => self.check_slowly(text),
        }
    }

    fn check_slowly(self, text: &str) -> Result<(), String> {
        let limit = match self {
            Rule::Key => MAX_KEY_BYTES,
            Rule::Note => MAX_NOTE_BYTES,
            _ => MAX_TEXT_BYTES,
        };
        if text.len() > limit {
            return Err(match self {
                Rule::Tag => format!("is longer than {limit} bytes"),
                _ => format!("is {} bytes long, more than {limit}", text.len()),
            });
        }
        match self {
            Rule::Note | Rule::Tag => Ok(()),
            Rule::Name => check_name(text).map_err(|error| error.to_string()),
            Rule::Action if Action::from_name(text).is_none() => {
                Err(format!("`{text}` is none of {}", Action::ALL.map(Action::name).join(", ")))
            }
            Rule::Task if !Task::NAMES.contains(&text) => {
                Err(format!("`{text}` is none of {}", Task::NAMES.join(", ")))
            }
            Rule::Day => text.parse::<Day>().map(|_| ()).map_err(|error| error.to_string()),
            _ if text.is_empty() => Err("is empty".into()),
            _ => Ok(()),
        }
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
