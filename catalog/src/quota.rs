//! Quotas of appends: requests, rows and bytes, per second and per day, to a workspace or with a token.

use std::collections::BTreeMap;

use event::{Error, Id, Result};
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// Greatest value of a limit.
pub const MAX_QUOTA: u64 = 1_000_000_000_000_000;

/// Quantity of an append that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Requests.
    Requests,
    /// Rows.
    Rows,
    /// Bytes of bodies, as they are sent.
    Bytes,
}

/// Span of time in which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A second.
    Second,
    /// A UTC day.
    Day,
}

/// Limit of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name of the limit.
    pub name: &'static str,
    /// Counted quantity.
    pub measure: Measure,
    /// Span of time.
    pub span: Span,
    /// Description for people.
    pub says: &'static str,
}

/// Number of limits.
pub const LIMIT_COUNT: usize = 6;

/// All limits. Settings, tokens, routes, the command line and the counters of ingest derive from this table.
pub const LIMITS: [Limit; LIMIT_COUNT] = {
    use {Measure::*, Span::*};
    const fn limit(name: &'static str, measure: Measure, span: Span, says: &'static str) -> Limit {
        Limit { name, measure, span, says }
    }
    [
        limit("requests_per_second", Requests, Second, "Requests a second."),
        limit("requests_per_day", Requests, Day, "Requests a UTC day."),
        limit("rows_per_second", Rows, Second, "Rows a second."),
        limit("rows_per_day", Rows, Day, "Rows a UTC day."),
        limit("bytes_per_second", Bytes, Second, "Bytes of bodies, as they are sent, a second."),
        limit("bytes_per_day", Bytes, Day, "Bytes of bodies, as they are sent, a UTC day."),
    ]
};

/// Values of limits by name, to be set or, when there is none, removed.
pub type LimitValues = BTreeMap<String, Option<Number>>;

/// Limits that are set; an unset limit bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "LimitValues", into = "BTreeMap<&'static str, u64>")]
pub struct Quota {
    most: [Option<u64>; LIMIT_COUNT],
}

impl TryFrom<LimitValues> for Quota {
    type Error = Error;

    fn try_from(values: LimitValues) -> Result<Self> {
        Ok(Self::default().with(&Self::changes(&values)?))
    }
}

impl From<Quota> for BTreeMap<&'static str, u64> {
    fn from(quota: Quota) -> Self {
        quota.limits().filter_map(|(limit, most)| Some((limit.name, most?))).collect()
    }
}

/// Quota of the token of a request. It travels in the extensions of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenQuota {
    /// The id of the token.
    pub token: Id,
    /// Its quota.
    pub quota: Quota,
}

impl Quota {
    /// Limits, each with its value.
    pub fn limits(&self) -> impl Iterator<Item = (&'static Limit, Option<u64>)> {
        LIMITS.iter().zip(self.most)
    }

    /// Returns whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.most.iter().all(Option::is_none)
    }

    /// Fills unset limits from another quota.
    ///
    /// # Errors
    /// Limit that is above that of the other quota.
    pub fn within(&self, other: &Self) -> std::result::Result<Self, &'static Limit> {
        let mut most = self.most;
        for ((own, other), limit) in most.iter_mut().zip(other.most).zip(LIMITS.iter()) {
            match (*own, other) {
                (Some(most), Some(other)) if most > other => return Err(limit),
                (None, other) => *own = other,
                (Some(_), _) => {}
            }
        }
        Ok(Self { most })
    }

    /// Sets a limit, or removes it.
    ///
    /// # Errors
    /// `Invalid`, when there is no limit of this name, or the number is 0 or greater than [`MAX_QUOTA`].
    pub fn set(&mut self, name: &str, most: Option<u64>) -> Result<()> {
        *self = self.with(&[limit_of(name, most)?]);
        Ok(())
    }

    /// Reads the limits that are given by name: the place of each, and its value.
    ///
    /// # Errors
    /// `Invalid`, when a number is not whole; those of [`Quota::set`].
    pub fn changes(values: &LimitValues) -> Result<Vec<(usize, Option<u64>)>> {
        let change = |(name, number): (&String, &Option<Number>)| {
            // 4.0 is a whole number in JSON, too.
            let is_whole = |n: &f64| n.fract() == 0.0 && (0.0..=MAX_QUOTA as f64).contains(n);
            let whole = |number: &Number| match number.as_f64().filter(is_whole) {
                Some(whole) => Ok(whole as u64),
                None => Err(Error::invalid(format!("{name} is not a whole number from 1 to {MAX_QUOTA}"))),
            };
            limit_of(name, number.as_ref().map(whole).transpose()?)
        };
        values.iter().map(change).collect()
    }

    /// Returns the quota with limits set, and with those removed that have no value.
    #[must_use]
    pub fn with(mut self, changes: &[(usize, Option<u64>)]) -> Self {
        changes.iter().for_each(|(at, most)| self.most[*at] = *most);
        self
    }
}

/// Returns the place of a limit, and its checked value.
fn limit_of(name: &str, most: Option<u64>) -> Result<(usize, Option<u64>)> {
    let at = LIMITS.iter().position(|limit| limit.name == name).ok_or_else(|| {
        let known = LIMITS.map(|limit| limit.name).join(", ");
        Error::invalid(format!("`{name}` is not a limit; the limits are {known}"))
    })?;
    match most.is_some_and(|most| !(1..=MAX_QUOTA).contains(&most)) {
        true => Err(Error::invalid(format!("{name} is 1 to {MAX_QUOTA}, or none"))),
        false => Ok((at, most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_as_it_was_written() {
        let mut quota = Quota::default();
        assert!(quota.is_empty());
        for (number, limit) in (1..).zip(LIMITS) {
            quota.set(limit.name, Some(number)).unwrap();
        }
        quota.set("rows_per_day", None).unwrap();
        assert_eq!(serde_json::from_value::<Quota>(serde_json::json!(quota)).unwrap(), quota);
        for (name, most) in [("rows", Some(1)), ("rows_per_day", Some(0)), ("rows_per_day", Some(u64::MAX))] {
            assert!(quota.set(name, most).is_err(), "{name} {most:?}");
        }
        let read = |text: &str| serde_json::from_str::<Quota>(text).map(|quota| quota.most[3]);
        assert_eq!(read(r#"{"rows_per_day":4.0}"#).unwrap(), Some(4));
        for wrong in [r#"{"rows_per_day":1.5}"#, r#"{"rows_per_day":-1}"#, r#"{"rows":1}"#, "1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
