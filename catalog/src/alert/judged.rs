//! Stored decisions about alert rules: their states and transitions, and the lag of projections. A decision is written
//! once and never recomputed.

use std::collections::BTreeMap;

use event::{Day, Error, Id, Kind, Result, Timestamp};
use fold::alert::{JudgedDay, Standing, Transition};
use log::{key, projection::Applied};
use serde::{Deserialize, Serialize};
use table::{Item, KeyRange, Pages, Query, Table, query_all};
use utoipa::ToSchema;

use super::{AlertRule, Delivery};
use crate::Catalog;

/// Version of these items.
const ITEM_VERSION: i64 = 1;

/// Maximum transitions, or deliveries, of an answer.
pub const MAX_LISTED: usize = 1_000;

/// Number of days whose lag is kept.
const MAX_LAG_DAYS: usize = 92;

/// Standing of a rule after the last judged day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// Number of writes.
    pub ver: i64,
    /// Time at which the rule was created, which tells it from a deleted one of its name; or later, when it began again because a
    /// clock that was ahead had judged days that were not over.
    pub created_at: Timestamp,
    /// Last judged day.
    pub day: Day,
    /// Standing after that day.
    #[serde(flatten)]
    pub standing: Standing,
    /// Transition by which it fires, while it does.
    pub fired: Option<FiredBy>,
}

/// Transition by which a rule fires, and who was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiredBy {
    /// Day on which it crossed.
    pub day: Day,
    /// Model of the rule.
    pub model: Option<String>,
    /// Webhooks to which that was posted.
    pub webhooks: Vec<String>,
}

/// Transition of a rule: it began to fire, or was resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTransition {
    /// Unique id in the workspace.
    pub id: String,
    /// Name of the rule.
    pub rule: String,
    /// When the rule was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The day that was judged.
    #[schema(value_type = String, format = Date)]
    pub day: Day,
    /// Kind of the transition: `fires` or `resolves`.
    #[serde(rename = "what")]
    #[schema(value_type = String, pattern = "^(fires|resolves)$")]
    pub transition: Transition,
    /// When the day was judged.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The number of the day.
    #[schema(required)]
    pub value: Option<f64>,
    /// Number that was held against the threshold.
    #[schema(required)]
    pub measured: Option<f64>,
    /// Up to which segment of each log of the day, at least.
    pub read_version: Applied,
    /// Text for people.
    pub text: String,
}

impl Judged {
    /// Tells the standing of this rule from that of a deleted one of its name.
    pub fn is_of(&self, rule: &AlertRule) -> bool {
        self.created_at >= rule.created_at
    }

    /// Creates its item.
    pub fn to_item(&self, workspace: &Id, rule: &str) -> Item {
        Item::record(key::standing(workspace, rule), ITEM_VERSION, self)
    }
}

impl RuleTransition {
    /// Creates the transition of a rule on a judged day; `None`, when it did not cross.
    pub fn of(rule: &AlertRule, day: &JudgedDay, read_version: Applied, at: Timestamp) -> Option<Self> {
        let transition = day.transition?;
        let (value, measured, text) = (day.reading.value, day.measured, rule.says(day, transition));
        let rule_transition = Self::resolved(rule.name(), rule.created_at, (day.day, at), text);
        Some(Self { transition, value, measured, read_version, ..rule_transition })
    }

    /// Creates the end of an alert without a number, on a day, made at an instant.
    pub fn resolved(rule: &str, created_at: Timestamp, (day, at): (Day, Timestamp), text: String) -> Self {
        Self {
            id: format!("{rule}.{day}.{}", created_at.micros()),
            rule: rule.to_owned(),
            created_at,
            day,
            transition: Transition::Resolves,
            at,
            value: None,
            measured: None,
            read_version: Applied::new(),
            text,
        }
    }

    /// Reads it from its item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.to_record(ITEM_VERSION)
    }

    /// Creates its item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        Item::record(key::transition(workspace, self.day, &self.rule, self.created_at), ITEM_VERSION, self)
    }
}

/// Greatest lags of the projections on the last days, in seconds, if a rule watches them. They cannot be computed
/// later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lags {
    /// Number of writes; 0 before the first.
    pub ver: i64,
    days: BTreeMap<Day, BTreeMap<Kind, u64>>,
}

impl Lags {
    /// Reads those of a workspace.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        let item = table.get(&key::lags(workspace)).await?;
        item.map_or_else(|| Ok(Self::default()), |item| item.to_record(ITEM_VERSION))
    }

    /// Returns the greatest lag of events of a kind on a day; `None`, where nobody looked.
    pub fn of(&self, day: Day, kind: Kind) -> Option<u64> {
        self.days.get(&day)?.get(&kind).copied()
    }

    /// Adds what was seen on a day, of all kinds, and drops later days, which a clock that was ahead has seen; `None`, when that
    /// is nothing new.
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

    /// Creates its item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        Item::record(key::lags(workspace), ITEM_VERSION, self)
    }
}

/// Reads the states of the evaluated rules of a workspace, by name.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn judged_rules(table: &dyn Table, workspace: &Id) -> Result<BTreeMap<String, Judged>> {
    let items = query_all(table, Query::table(key::standings(workspace))).await?;
    let of = |item: &Item| {
        let name = key::parse_standing(&item.key.sk).ok_or_else(|| item.corrupt("its key is another"))?;
        Ok((name.to_owned(), item.to_record(ITEM_VERSION)?))
    };
    items.iter().map(of).collect()
}

impl Catalog {
    /// Reads the standings of the rules of a workspace that were judged, by name.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn judged_rules(&self, workspace: &Id) -> Result<BTreeMap<String, Judged>> {
        judged_rules(&*self.table, workspace).await
    }

    /// Lists when rules crossed on the days from one to another, the latest days first.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is not 1 to [`MAX_LISTED`]; those of the table, and `Corrupt`.
    pub async fn transitions(
        &self,
        workspace: &Id,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<RuleTransition>> {
        self.latest_of(key::transitions(workspace, from, to), limit, RuleTransition::from_item).await
    }

    /// Lists what was or is to be posted of the days from one to another, the latest days first.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is not 1 to [`MAX_LISTED`]; those of the table, and `Corrupt`.
    pub async fn deliveries(
        &self,
        workspace: &Id,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        self.latest_of(key::deliveries(workspace, from, to), limit, Delivery::from_item).await
    }

    async fn latest_of<T>(
        &self,
        range: KeyRange,
        limit: usize,
        read: fn(&Item) -> Result<T>,
    ) -> Result<Vec<T>> {
        if !(1..=MAX_LISTED).contains(&limit) {
            return Err(Error::invalid(format!("the limit is 1 to {MAX_LISTED}")));
        }
        let (mut listed, mut pages) =
            (Vec::new(), Pages::of(&*self.table, Query::table(range).backward().limit(limit)));
        while listed.len() < limit
            && let Some(items) = pages.next().await?
        {
            listed.extend(items.iter().map(read).collect::<Result<Vec<_>>>()?);
        }
        listed.truncate(limit);
        Ok(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(number: i64) -> Day {
        Timestamp::from_micros(number * event::time::DAY_MICROS).unwrap().day()
    }

    #[test]
    fn greatest_lag_of_recent_days_is_kept() {
        let seen = |seconds| BTreeMap::from([(Kind::Predictions, seconds)]);
        let mut lags = Lags::default().with(day(0), &seen(5)).unwrap();
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        assert_eq!(lags.to_item(&workspace).to_record::<Lags>(ITEM_VERSION).unwrap(), lags);
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
        let of = [(last, Kind::Predictions), (last, Kind::Outcomes), (day(500), Kind::Metrics)];
        assert_eq!(of.map(|(day, kind)| lags.of(day, kind)), [Some(9), Some(0), None]);
    }

    #[test]
    fn decisions_are_read_as_they_were_written() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let (day, at) = (day(15_000), Timestamp::from_micros(1_370_131_230_500_000).unwrap());
        let standing = Standing { state: fold::alert::State::Firing, days: 0 };
        let fired = Some(FiredBy { day, model: None, webhooks: vec!["oncall".into()] });
        let judged = Judged { ver: 3, created_at: at, day, standing, fired };
        let item = judged.to_item(&workspace, "auc-low");
        assert_eq!(item.to_record::<Judged>(ITEM_VERSION).unwrap(), judged);
        let rule_transition = RuleTransition {
            transition: Transition::Fires,
            value: Some(0.65),
            read_version: Applied::from([("p/00".to_owned(), 7)]),
            ..RuleTransition::resolved("auc-low", at, (day, at), "auc is 0.65.".into())
        };
        let item = rule_transition.to_item(&workspace);
        assert_eq!(RuleTransition::from_item(&item).unwrap(), rule_transition);
        assert!(RuleTransition::from_item(&item.with("what", "odd")).is_err());
    }
}
