//! How far projections were behind on the last days, where a rule watches it: the greatest lag that the projector saw on each day. It is noted, since
//! nobody can find out later.

use std::collections::BTreeMap;

use event::{Day, Id, Kind, Result};
use log::key;
use table::{Item, Table, item::Value};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// How many days are kept.
pub const MAX_LAG_DAYS: usize = 92;

/// The greatest lags of the last days, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// Counts the writes; 0 before the first.
    pub ver: i64,
    days: BTreeMap<Day, BTreeMap<Kind, u64>>,
}

impl Lags {
    /// Reads those of a workspace.
    ///
    /// # Errors
    /// Those of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        let item = table.get(&key::lags(workspace)).await?;
        item.as_ref().map_or_else(|| Ok(Self::default()), Self::from_item)
    }

    /// The greatest lag of events of a kind on a day; `None`, where nobody looked.
    pub fn of(&self, day: Day, kind: Kind) -> Option<u64> {
        self.days.get(&day)?.get(&kind).copied()
    }

    /// The same with what was seen on a day, of all kinds, and without later days, which a clock that was ahead has seen; `None`, when that is nothing new.
    pub fn with(&self, day: Day, seen: &BTreeMap<Kind, u64>) -> Option<Self> {
        let mut after = Self { ver: self.ver + 1, days: self.days.clone() };
        after.days.retain(|known, _| *known <= day);
        let kinds = after.days.entry(day).or_default();
        for kind in Kind::ALL {
            let greatest = kinds.entry(kind).or_default();
            *greatest = (*greatest).max(seen.get(&kind).copied().unwrap_or(0));
        }
        while after.days.len() > MAX_LAG_DAYS {
            after.days.pop_first();
        }
        (after.days != self.days).then_some(after)
    }

    /// Reads it from its item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let wrong = || item.corrupt("`days` are none");
        let Some(Value::M(days)) = item.attributes.get("days") else { return Err(wrong()) };
        let mut read = BTreeMap::<Day, BTreeMap<Kind, u64>>::new();
        for (day, kinds) in days {
            let Value::M(kinds) = kinds else { return Err(wrong()) };
            let of = kinds.iter().map(|(kind, seconds)| {
                let Value::N(seconds) = seconds else { return None };
                Some((Kind::from_name(kind)?, u64::try_from(seconds.as_i64()?).ok()?))
            });
            let of: Option<_> = of.collect();
            read.insert(day.parse().map_err(|_| wrong())?, of.ok_or_else(wrong)?);
        }
        Ok(Self { ver: item.int("ver")?, days: read })
    }

    /// Its item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        let of = |kinds: &BTreeMap<Kind, u64>| {
            let kinds = kinds.iter().map(|(kind, seconds)| {
                let seconds = i64::try_from(*seconds).unwrap_or(i64::MAX);
                (kind.name().to_owned(), Value::from(seconds))
            });
            Value::M(kinds.collect())
        };
        let days = self.days.iter().map(|(day, kinds)| (day.to_string(), of(kinds)));
        Item::new(key::lags(workspace))
            .with("v", ITEM_VERSION)
            .with("ver", self.ver)
            .with("days", days.collect::<BTreeMap<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(number: i64) -> Day {
        event::Timestamp::from_micros(number * event::time::DAY_MICROS).unwrap().day()
    }

    /// What a program stored, a later one must read.
    #[test]
    fn the_item_is_stored_so() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let kinds = [("metrics", 0), ("outcomes", 0), ("predictions", 90), ("releases", 0)];
        let kinds = Value::M(kinds.map(|(kind, seconds)| (kind.to_owned(), Value::from(seconds))).into());
        let stored = Item::new(key::lags(&workspace))
            .with("v", 1)
            .with("ver", 1)
            .with("days", BTreeMap::from([("1970-01-02".to_owned(), kinds)]));
        let lags = Lags::default().with(day(1), &[(Kind::Predictions, 90)].into()).unwrap();
        assert_eq!(lags.to_item(&workspace), stored);
        assert_eq!(Lags::from_item(&stored).unwrap(), lags);
        for wrong in [Value::from("x"), Value::M([("May".to_owned(), Value::M([].into()))].into())] {
            assert!(Lags::from_item(&stored.clone().with("days", wrong)).is_err());
        }
    }

    #[test]
    fn greatest_lag_of_recent_days_is_kept() {
        let seen = |seconds| BTreeMap::from([(Kind::Predictions, seconds)]);
        let mut lags = Lags::default().with(day(0), &seen(5)).unwrap();
        assert_eq!(lags.with(day(0), &seen(4)), None);
        assert_eq!(lags.with(day(0), &BTreeMap::new()), None);
        let ahead = lags.with(day(200), &seen(7_000_000)).unwrap();
        assert_eq!(
            ahead.with(day(0), &seen(4)).unwrap().days,
            lags.days,
            "a clock that was ahead has seen nothing"
        );
        for number in 0..=MAX_LAG_DAYS as i64 {
            lags = lags.with(day(number), &seen(9)).unwrap();
        }
        assert_eq!((lags.of(day(0), Kind::Predictions), lags.days.len()), (None, MAX_LAG_DAYS));
        let last = day(MAX_LAG_DAYS as i64);
        assert_eq!(
            (
                lags.of(last, Kind::Predictions),
                lags.of(last, Kind::Outcomes),
                lags.of(day(500), Kind::Metrics)
            ),
            (Some(9), Some(0), None)
        );
    }
}
