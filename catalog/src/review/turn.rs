//! Turn of a reviewer in a review: its present item, and the items done with.

use std::collections::{BTreeMap, BTreeSet};

use event::{Error, Result, Timestamp};
use table::{Item, item::Value};

use super::time;

/// Version of the item of a turn.
const TURN_VERSION: i64 = 1;

/// Turn of a reviewer in a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) ver: i64,
    /// Number of the item, and the end of its lease.
    pub(super) has: Option<(u32, Timestamp)>,
    /// First item of each stretch, by its number, that is not done: all before are answered, have expired or were shown to the
    /// reviewer.
    pub(super) done: BTreeMap<u32, u32>,
    /// Stretches in which some of these had expired: they return if they are kept for longer before they are deleted.
    pub(super) expired: BTreeSet<u32>,
}

impl Turn {
    /// Encodes it as the item under a key.
    pub(super) fn to_item(&self, key: table::Key, expires_at: i64) -> Item {
        let mut item = Item::new(key)
            .with("v", TURN_VERSION)
            .with("ver", self.ver)
            .with("from", i64::from(self.done.get(&0).copied().unwrap_or(0)))
            .with("expires_at", expires_at);
        let others = self.done.iter().filter(|(stretch, _)| **stretch > 0);
        let others: BTreeMap<String, Value> =
            others.map(|(stretch, from)| (stretch.to_string(), i64::from(*from).into())).collect();
        if !others.is_empty() {
            item = item.with("done", others);
        }
        if !self.expired.is_empty() {
            let stretches = self.expired.iter().map(|stretch| (stretch.to_string(), Value::Bool(true)));
            item = item.with("expired", stretches.collect::<BTreeMap<String, Value>>());
        }
        match self.has {
            Some((number, until)) => item.with("item", i64::from(number)).with("until", until.micros()),
            None => item,
        }
    }

    /// Decodes it from an item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn from_item(item: &Item) -> Result<Self> {
        item.check_version(TURN_VERSION)?;
        let number = |name| {
            u32::try_from(item.int(name)?).map_err(|_| item.corrupt(format_args!("`{name}` is no number")))
        };
        let has = item.attributes.contains_key("item");
        let has = has.then(|| Ok::<_, Error>((number("item")?, time(item, "until")?))).transpose()?;
        let mut done = BTreeMap::from([(0, number("from")?)]);
        if item.attributes.contains_key("done") {
            let of = |(stretch, from): (&String, &Value)| -> Option<(u32, u32)> {
                let Value::N(from) = from else { return None };
                Some((stretch.parse().ok()?, from.as_i64()?.try_into().ok()?))
            };
            let others = item.map("done")?.iter().map(of).collect::<Option<Vec<_>>>();
            done.extend(others.ok_or_else(|| item.corrupt("`done` is no numbers of items"))?);
        }
        let mut expired = BTreeSet::new();
        if item.attributes.contains_key("expired") {
            let all = item.map("expired")?.keys().map(|stretch| stretch.parse().ok());
            let all: Option<BTreeSet<u32>> = all.collect();
            expired = all.ok_or_else(|| item.corrupt("`expired` is no numbers of stretches"))?;
        }
        Ok(Self { ver: item.int("ver")?, has, done, expired })
    }
}

#[cfg(test)]
mod tests {
    use event::Id;
    use log::key;

    use super::*;

    #[test]
    fn the_item_of_a_turn_stays_readable() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let key = || key::review_turn(&workspace, &workspace, "user:ann");
        let until = Timestamp::parse("2026-06-10T00:10:00Z").unwrap();
        let stored = Item::new(key())
            .with("v", 1)
            .with("ver", 2)
            .with("from", 3)
            .with("item", 5)
            .with("until", 1_781_050_200_000_000)
            .with("expires_at", 1_900_000_000);
        let turn = Turn { ver: 2, has: Some((5, until)), done: [(0, 3)].into(), ..Turn::default() };
        assert_eq!(Turn::from_item(&stored).unwrap(), turn);
        assert_eq!(turn.to_item(key(), 1_900_000_000), stored);
        let of_pairs = stored.with("done", BTreeMap::from([("7".to_owned(), Value::from(712))]));
        let turn = Turn { done: [(0, 3), (7, 712)].into(), ..turn };
        assert_eq!(Turn::from_item(&of_pairs).unwrap(), turn);
        assert_eq!(turn.to_item(key(), 1_900_000_000), of_pairs);
        let with_expired = of_pairs.with("expired", BTreeMap::from([("7".to_owned(), Value::Bool(true))]));
        let turn = Turn { expired: [7].into(), ..turn };
        assert_eq!(Turn::from_item(&with_expired).unwrap(), turn);
        assert_eq!(turn.to_item(key(), 1_900_000_000), with_expired);
    }
}
