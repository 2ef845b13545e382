//! Quotas of appends: requests, rows and bytes, per second and per day, to a workspace or with a token.

use std::fmt;

use event::{Error, Id, Result};
use log::key;
use table::{Change, Item, Policy, update};

use super::Catalog;

const ITEM_VERSION: i64 = 1;

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

/// Limits that are set; an unset limit bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    most: [Option<u64>; LIMIT_COUNT],
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

    /// Sets a limit by a text such as `rows_per_second=1000`, or removes it by `rows_per_second=none`.
    ///
    /// # Errors
    /// `Invalid`, when the text is no such pair; those of [`Quota::set`].
    pub fn set_pair(&mut self, pair: &str) -> Result<()> {
        let wrong = || Error::invalid(format!("`{pair}` is not a limit such as rows_per_second=1000"));
        match pair.split_once('=').ok_or_else(wrong)? {
            (name, "none") => self.set(name, None),
            (name, number) => self.set(name, Some(number.parse().map_err(|_| wrong())?)),
        }
    }

    /// Adds these limits to an item.
    pub fn note(&self, item: Item) -> Item {
        self.limits().fold(item, |item, (limit, most)| match most {
            Some(most) => item.with(limit.name, most as i64),
            None => item,
        })
    }

    /// Decodes the limits of an item.
    ///
    /// # Errors
    /// `Corrupt`, when a limit is not a valid number.
    pub fn of(item: &Item) -> Result<Self> {
        let mut quota = Self::default();
        for limit in LIMITS.iter().filter(|limit| item.attributes.contains_key(limit.name)) {
            let most = u64::try_from(item.int(limit.name)?).map_err(|_| item.corrupt(limit.name))?;
            quota.set(limit.name, Some(most)).map_err(|_| item.corrupt(limit.name))?;
        }
        Ok(quota)
    }

    fn from_setting(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        Self::of(item)
    }
}

/// Writes the set limits as on the command line.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.limits().filter_map(|(limit, most)| Some((limit.name, most?)));
        for (n, (name, most)) in set.enumerate() {
            write!(f, "{}{name}={most}", if n == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl Catalog {
    /// Reads the quota of a workspace: one read.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn quota(&self, workspace: &Id) -> Result<Quota> {
        let item = self.table.get(&key::quota(workspace)).await?;
        item.as_ref().map(Quota::from_setting).transpose().map(Option::unwrap_or_default)
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
            let known = item.as_ref().map(Quota::from_setting).transpose()?.unwrap_or_default();
            let ver = item.as_ref().map_or(Ok(0), |item| item.int("ver"))?;
            let mut wanted = known;
            change(&mut wanted)?;
            if wanted == known {
                return Ok(Change::Leave(known));
            }
            let item = Item::new(key.clone()).with("v", ITEM_VERSION).with("ver", ver + 1);
            Ok(Change::Put(wanted.note(item), wanted))
        })
        .await
    }
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
        quota.set_pair("rows_per_day=none").unwrap();
        assert_eq!(
            quota.to_string(),
            "requests_per_second=1 requests_per_day=2 rows_per_second=3 bytes_per_second=5 bytes_per_day=6"
        );
        let item = quota.note(Item::new(key::quota(&workspace)).with("v", ITEM_VERSION).with("ver", 3));
        assert_eq!(Quota::from_setting(&item).unwrap(), quota);
        for (name, most) in [("rows", Some(1)), ("rows_per_day", Some(0)), ("rows_per_day", Some(u64::MAX))] {
            assert!(quota.set(name, most).is_err(), "{name} {most:?}");
        }
        for pair in ["rows_per_day", "rows_per_day=", "rows_per_day=-1", "rows_per_day=1e3", "=1", ""] {
            assert!(quota.set_pair(pair).is_err(), "{pair}");
        }
        assert!(Quota::from_setting(&item.clone().with("rows_per_day", -1)).is_err());
        assert!(Quota::from_setting(&item.with("v", 2)).is_err());
    }
}
