//! Quotas of appends: requests, rows and bytes, per second and per day, to a workspace or with a token.

use std::collections::BTreeMap;

use event::{Error, Id, Result};
use log::key;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use table::{Change, Item, Policy, item::Value, update};

use super::Catalog;

/// Form of the item of a quota.
const FORM: i64 = 1;

/// Attribute of an item that holds limits.
const LIMITS_ATTRIBUTE: &str = "limits";

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
#[serde(try_from = "LimitValues", into = "BTreeMap<&'static str, Option<u64>>")]
pub struct Quota {
    most: [Option<u64>; LIMIT_COUNT],
}

impl TryFrom<LimitValues> for Quota {
    type Error = Error;

    fn try_from(values: LimitValues) -> Result<Self> {
        let mut quota = Self::default();
        quota.change(&values)?;
        Ok(quota)
    }
}

impl From<Quota> for BTreeMap<&'static str, Option<u64>> {
    fn from(quota: Quota) -> Self {
        quota.limits().map(|(limit, most)| (limit.name, most)).collect()
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
        let at = LIMITS.iter().position(|limit| limit.name == name).ok_or_else(|| {
            let known = LIMITS.map(|limit| limit.name).join(", ");
            Error::invalid(format!("`{name}` is not a limit; the limits are {known}"))
        })?;
        if most.is_some_and(|most| !(1..=MAX_QUOTA).contains(&most)) {
            return Err(Error::invalid(format!("{name} is 1 to {MAX_QUOTA}, or none")));
        }
        self.most[at] = most;
        Ok(())
    }

    /// Sets the limits that are given, and removes those without a value.
    ///
    /// # Errors
    /// `Invalid`, when a number is not whole; those of [`Quota::set`].
    pub fn change(&mut self, values: &LimitValues) -> Result<()> {
        for (name, number) in values {
            // 4.0 is a whole number in JSON, too.
            let is_whole = |n: &f64| n.fract() == 0.0 && (0.0..=MAX_QUOTA as f64).contains(n);
            let whole = |number: &Number| match number.as_f64().filter(is_whole) {
                Some(whole) => Ok(whole as u64),
                None => Err(Error::invalid(format!("{name} is not a whole number from 1 to {MAX_QUOTA}"))),
            };
            self.set(name, number.as_ref().map(whole).transpose()?)?;
        }
        Ok(())
    }

    /// Adds these limits to an item.
    pub fn note(&self, item: Item) -> Item {
        if self.is_empty() { item } else { item.with(LIMITS_ATTRIBUTE, Value::record(self)) }
    }

    /// Decodes the limits of an item.
    ///
    /// # Errors
    /// `Corrupt`, when one is not a limit.
    pub fn of(item: &Item) -> Result<Self> {
        let limits = item.attributes.get(LIMITS_ATTRIBUTE).map(Value::to_record).transpose();
        limits.map(Option::unwrap_or_default).map_err(|error| item.corrupt(error))
    }
}

impl Catalog {
    /// Reads the quota of a workspace: one read.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn quota(&self, workspace: &Id) -> Result<Quota> {
        stored(self.table.get(&key::quota(workspace)).await?)
    }

    /// Changes the quota of a workspace. Services notice within 5 seconds.
    ///
    /// # Errors
    /// Errors of `change` and of the table.
    pub async fn change_quota(
        &self,
        workspace: &Id,
        change: impl Fn(&mut Quota) -> Result<()>,
    ) -> Result<Quota> {
        let key = key::quota(workspace);
        update(&*self.table, &key, Policy::of(&"the quota"), async |item| {
            let known = stored(item)?;
            let mut wanted = known;
            change(&mut wanted)?;
            if wanted == known {
                return Ok(Change::Leave(known));
            }
            Ok(Change::Put(wanted.note(Item::new(key.clone()).with("v", FORM)), wanted))
        })
        .await
    }
}

fn stored(item: Option<Item>) -> Result<Quota> {
    let Some(item) = item else { return Ok(Quota::default()) };
    item.check_version(FORM)?;
    Quota::of(&item)
}

#[cfg(test)]
mod tests {
    use event::Timestamp;

    use super::*;

    #[test]
    fn a_quota_is_read_as_it_was_written() {
        let workspace = Id::new(Timestamp::default());
        let mut quota = Quota::default();
        assert!(quota.is_empty());
        for (number, limit) in (1..).zip(LIMITS) {
            quota.set(limit.name, Some(number)).unwrap();
        }
        quota.set("rows_per_day", None).unwrap();
        let item = quota.note(Item::new(key::quota(&workspace)).with("v", FORM).with("ver", 3));
        assert_eq!(stored(Some(item.clone())).unwrap(), quota);
        for (name, most) in [("rows", Some(1)), ("rows_per_day", Some(0)), ("rows_per_day", Some(u64::MAX))] {
            assert!(quota.set(name, most).is_err(), "{name} {most:?}");
        }
        let wrong: BTreeMap<String, Value> = [("rows_per_day".to_owned(), Value::from(-1))].into();
        assert!(stored(Some(item.clone().with(LIMITS_ATTRIBUTE, wrong))).is_err());
        assert!(stored(Some(item.with("v", 2))).is_err());
        let read = |text: &str| serde_json::from_str::<Quota>(text).map(|quota| quota.most[3]);
        assert_eq!(read(r#"{"rows_per_day":4.0}"#).unwrap(), Some(4));
        for wrong in [r#"{"rows_per_day":1.5}"#, r#"{"rows_per_day":-1}"#, r#"{"rows":1}"#, "1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
