//! Where alert rules stand, and when they crossed: what was decided is written down once, and never derived again.

use std::collections::BTreeMap;

use event::{Day, Error, Id, Result, Timestamp};
use fold::alert::{Crossing, JudgedDay, Standing, State};
use log::{
    key,
    projection::{Applied, Projected},
};
use table::{Item, Query, Table, item::Value, query_all};

use super::AlertRule;
use crate::Catalog;

/// Version of both items.
const ITEM_VERSION: i64 = 1;

/// The most crossings of an answer.
pub const MAX_CROSSINGS: usize = 1_000;

/// Where a rule stands after the last day that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Counts the writes.
    pub ver: i64,
    /// When the rule was created, which tells it from one of its name that was deleted; or later, when it began again because a clock that was ahead had
    /// judged days that were not over.
    pub created_at: Timestamp,
    /// The last day that was judged.
    pub day: Day,
    /// Where it stands.
    pub standing: Standing,
}

/// That a rule began to fire, or was resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossedRule {
    /// The rule, by name.
    pub rule: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// The day that was judged.
    pub day: Day,
    /// What the rule did.
    pub crossing: Crossing,
    /// When it was judged.
    pub at: Timestamp,
    /// What was held against the threshold.
    pub measured: Option<f64>,
    /// The number of the day.
    pub value: Option<f64>,
    /// Of the logs of the day, up to which segment they are in the number, at least.
    pub cut: Applied,
    /// What people are told.
    pub text: String,
}

impl Judged {
    /// Tells the standing of this rule from that of a deleted one of its name.
    pub fn is_of(&self, rule: &AlertRule) -> bool {
        self.created_at >= rule.created_at
    }

    /// Reads it from its item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let state = State::from_name(item.text("state")?).ok_or_else(|| item.corrupt("`state` is none"))?;
        let days = u32::try_from(item.int("days")?).map_err(|_| item.corrupt("`days` is no count"))?;
        Ok(Self {
            ver: item.int("ver")?,
            created_at: time(item, "created_at")?,
            day: item.text("day")?.parse().map_err(|_| item.corrupt("`day` is none"))?,
            standing: Standing { state, days },
        })
    }

    /// Its item.
    pub fn to_item(&self, workspace: &Id, rule: &str) -> Item {
        Item::new(key::standing(workspace, rule))
            .with("v", ITEM_VERSION)
            .with("ver", self.ver)
            .with("created_at", self.created_at.micros())
            .with("day", self.day.to_string())
            .with("state", self.standing.state.name())
            .with("days", i64::from(self.standing.days))
    }
}

impl CrossedRule {
    /// What is to be told of a day on which a rule crossed at an instant; `None`, when it did not cross.
    pub fn of(rule: &AlertRule, day: &JudgedDay, cut: Applied, at: Timestamp) -> Option<Self> {
        let crossing = day.crossing?;
        Some(Self {
            rule: rule.name().to_owned(),
            created_at: rule.created_at,
            day: day.day,
            crossing,
            at,
            measured: day.measured,
            value: day.reading.value,
            cut,
            text: rule.says(day, crossing),
        })
    }

    /// What tells it from all other crossings of the workspace.
    pub fn id(&self) -> String {
        id(&self.rule, self.day, self.created_at)
    }

    /// Reads it from its item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let number = |name: &str| -> Result<Option<f64>> {
            let text = item.optional_text(name);
            text.map(|text| text.parse().map_err(|_| item.corrupt(format_args!("`{name}` is no number"))))
                .transpose()
        };
        let crossing = Crossing::from_name(item.text("what")?);
        Ok(Self {
            rule: item.text("rule")?.to_owned(),
            created_at: time(item, "created_at")?,
            day: item.text("day")?.parse().map_err(|_| item.corrupt("`day` is none"))?,
            crossing: crossing.ok_or_else(|| item.corrupt("`what` is no crossing"))?,
            at: time(item, "at")?,
            measured: number("measured")?,
            value: number("value")?,
            cut: Projected::applied_of(item)?,
            text: item.text("note")?.to_owned(),
        })
    }

    /// Its item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        let cut = self.cut.iter().map(|(log, seq)| (log.clone(), Value::from(*seq as i64)));
        let item = Item::new(key::crossing(workspace, self.day, &self.rule, self.created_at))
            .with("v", ITEM_VERSION)
            .with("rule", self.rule.as_str())
            .with("created_at", self.created_at.micros())
            .with("day", self.day.to_string())
            .with("what", self.crossing.name())
            .with("at", self.at.micros())
            .with("applied", cut.collect::<BTreeMap<_, _>>())
            .with("note", self.text.as_str());
        let numbers = [("measured", self.measured), ("value", self.value)];
        numbers.into_iter().fold(item, |item, (name, number)| match number {
            Some(number) => item.with(name, number.to_string()),
            None => item,
        })
    }
}

/// What tells a crossing from all others of the workspace.
pub(super) fn id(rule: &str, day: Day, created_at: Timestamp) -> String {
    format!("{rule}.{day}.{}", created_at.micros())
}

/// The instant of an attribute.
pub(crate) fn time(item: &Item, name: &str) -> Result<Timestamp> {
    Timestamp::from_micros(item.int(name)?).ok_or_else(|| item.corrupt(format_args!("`{name}` is no time")))
}

/// Where the rules of a workspace stand that were judged, by name.
///
/// # Errors
/// Those of the table, and `Corrupt`.
pub async fn judged_rules(table: &dyn Table, workspace: &Id) -> Result<BTreeMap<String, Judged>> {
    let items = query_all(table, Query::table(key::standings(workspace))).await?;
    let of = |item: &Item| {
        let name = key::parse_standing(&item.key.sk).ok_or_else(|| item.corrupt("its key is another"))?;
        Ok((name.to_owned(), Judged::from_item(item)?))
    };
    items.iter().map(of).collect()
}

impl Catalog {
    /// Where the rules of a workspace stand that were judged, by name.
    ///
    /// # Errors
    /// Those of the table, and `Corrupt`.
    pub async fn judged_rules(&self, workspace: &Id) -> Result<BTreeMap<String, Judged>> {
        judged_rules(&*self.table, workspace).await
    }

    /// When rules crossed on the days from one to another, the latest days first: one query.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is not 1 to [`MAX_CROSSINGS`]; those of the table, and `Corrupt`.
    pub async fn crossings(
        &self,
        workspace: &Id,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<CrossedRule>> {
        if !(1..=MAX_CROSSINGS).contains(&limit) {
            return Err(Error::invalid(format!("the limit is 1 to {MAX_CROSSINGS}")));
        }
        let query = Query::table(key::crossings(workspace, from, to)).backward().limit(limit);
        self.table.query(&query).await?.items.iter().map(CrossedRule::from_item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> Id {
        Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap()
    }

    #[test]
    fn the_items_are_stored_so() {
        let (day, at) =
            ("2013-06-01".parse::<Day>().unwrap(), Timestamp::from_micros(1_370_131_230_000_000).unwrap());
        let created_at = Timestamp::from_micros(1_370_000_000_000_000).unwrap();
        let standing = Standing { state: State::Pending, days: 1 };
        let judged = Judged { ver: 3, created_at, day, standing };
        let stored = Item::new(key::standing(&id(), "auc-low"))
            .with("v", 1)
            .with("ver", 3)
            .with("created_at", 1_370_000_000_000_000)
            .with("day", "2013-06-01")
            .with("state", "pending")
            .with("days", 1);
        assert_eq!(judged.to_item(&id(), "auc-low"), stored);
        assert_eq!(Judged::from_item(&stored).unwrap(), judged);
        assert!(Judged::from_item(&stored.with("state", "odd")).is_err());
        let crossed = CrossedRule {
            rule: "auc-low".into(),
            created_at,
            day,
            crossing: Crossing::Fires,
            at,
            measured: Some(0.65),
            value: Some(0.65),
            cut: Applied::from([("p/00".to_owned(), 7)]),
            text: "auc is 0.65.".into(),
        };
        let stored = Item::new(key::crossing(&id(), day, "auc-low", created_at))
            .with("v", 1)
            .with("rule", "auc-low")
            .with("created_at", 1_370_000_000_000_000)
            .with("day", "2013-06-01")
            .with("what", "fires")
            .with("at", 1_370_131_230_000_000)
            .with("applied", BTreeMap::from([("p/00".to_owned(), Value::from(7))]))
            .with("note", "auc is 0.65.")
            .with("measured", "0.65")
            .with("value", "0.65");
        assert_eq!(crossed.to_item(&id()), stored);
        assert_eq!(CrossedRule::from_item(&stored).unwrap(), crossed);
        assert!(CrossedRule::from_item(&stored.with("what", "odd")).is_err());
    }
}
