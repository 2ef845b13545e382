//! Narrowing of the events or joined rows of a window: by conditions, by a sample of keys, by a limit.

use event::{
    Error, Kind, Result, Share, Timestamp,
    fields::{MAX_KEY_BYTES, TAG_PREFIX},
};

use crate::{
    request::{Dataset, Params},
    window::Span,
};

/// The field by which a share of the events is taken.
pub(crate) const KEY: &str = "key";

pub(crate) const MAX_LIMIT: usize = u32::MAX as usize;

pub(crate) const ORDERS: [&str; 2] = [OLDEST, NEWEST];
pub(crate) const OLDEST: &str = "oldest";
pub(crate) const NEWEST: &str = "newest";

/// Selection and order of events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowFilter {
    /// Only events that meet these conditions: expressions of SQL over their columns.
    pub conditions: Vec<String>,
    /// Maximum number of events.
    pub limit: Option<usize>,
    /// Only events with keys in this share.
    pub sample: Option<Share>,
    /// True for the last day first, and within each day the latest event first.
    pub newest: bool,
}

impl RowFilter {
    /// Adds the condition that events happened in a span of time.
    pub(crate) fn within(mut self, what: Dataset, span: Span) -> Self {
        let Some(kind) = what.rows_of() else { return self };
        let compared = |sign: &str, at: Timestamp| format!("{} {sign} '{at}'", kind.time_field());
        self.conditions.extend(span.since.map(|since| compared(">=", since)));
        self.conditions.extend(span.before.map(|before| compared("<", before)));
        self
    }

    /// Parses the parameters of narrowing.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub(crate) fn parse(what: Dataset, words: &Params<'_>) -> Result<Self> {
        let kind = what.rows_of().unwrap_or(Kind::Predictions);
        let named = |name: &str, error: Error| Error::invalid(format!("{name}: {error}"));
        let sample = words.sample.map(str::parse::<Share>).transpose();
        let sample = sample.map_err(|error| named("sample", error))?;
        if words.key.is_some_and(str::is_empty) {
            return Err(Error::invalid("key: no event has an empty one"));
        }
        if words.key.is_some_and(|key| key.len() > MAX_KEY_BYTES) {
            return Err(Error::invalid(format!("key: no event has one of more than {MAX_KEY_BYTES} bytes")));
        }
        let counted = if what == Dataset::Joined { "rows" } else { "events" };
        let limit = words.limit.map(|word| {
            let limit = word.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
            limit.ok_or_else(|| {
                Error::invalid(format!(
                    "limit: `{word}` is not a number of {counted} from 1 to {MAX_LIMIT}; leave it out for all"
                ))
            })
        });
        let newest = is_newest(words.order)?;
        Ok(Self { conditions: conditions(kind, words)?, limit: limit.transpose()?, sample, newest })
    }
}

/// Parses an order; returns true if the newest come first.
///
/// # Errors
/// `Invalid`, if it is no order.
pub(crate) fn is_newest(order: Option<&str>) -> Result<bool> {
    match order {
        None | Some(OLDEST) => Ok(false),
        Some(NEWEST) => Ok(true),
        Some(other) => Err(Error::invalid(format!("order: `{other}` is none of {}", ORDERS.join(", ")))),
    }
}

/// Returns all conditions, each an expression of its own.
fn conditions(kind: Kind, words: &Params<'_>) -> Result<Vec<String>> {
    let mut parts: Vec<String> = words.filter.iter().map(|filter| (*filter).to_owned()).collect();
    for pair in words.tag.iter().flat_map(|tags| tags.split(',')) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Error::invalid(format!(
                "tag: `{pair}` is not NAME=VALUE; a value that has a comma is asked for by a condition, such as tag.NAME = 'VALUE'"
            )));
        };
        let column = format!("{TAG_PREFIX}{}", name.trim());
        if kind.family(&column).is_none() {
            return Err(Error::invalid(format!("tag: {} have no tag `{name}`", kind.name())));
        }
        parts.push(format!("\"{column}\" = {}", quoted(value)));
    }
    parts.extend(words.key.map(|key| format!("{KEY} = {}", quoted(key))));
    Ok(parts)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
