//! An erasure as an item: the keys, the phase, and the results.

use std::{collections::BTreeSet, ops::Not};

use event::{Day, Error, Id, Result, Timestamp};
use log::{erased::Pseudonyms, key};
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Write};

/// Form of the item.
const FORM: i64 = 1;

/// Maximum unreadable segments that an erasure names.
pub const MAX_UNREADABLE: usize = 100;

/// Phase of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErasurePhase {
    /// Waiting until every service refuses its keys.
    Waiting,
    /// Finding the segments with its keys.
    Looking,
    /// Rewriting these segments.
    Rewriting,
    /// Folding the projections again.
    Folding,
    /// Removing deleted data for good; nothing has its keys any more.
    Clearing,
    /// It is done.
    Done,
}

impl ErasurePhase {
    const ALL: [Self; 6] =
        [Self::Waiting, Self::Looking, Self::Rewriting, Self::Folding, Self::Clearing, Self::Done];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Looking => "looking",
            Self::Rewriting => "rewriting",
            Self::Folding => "folding",
            Self::Clearing => "clearing",
            Self::Done => "done",
        }
    }

    /// Returns the names of all phases.
    pub fn names() -> [&'static str; 6] {
        Self::ALL.map(Self::name)
    }

    /// Returns whether the item holds its keys. Then no other erasure of the workspace may begin.
    pub(super) fn is_open(self) -> bool {
        self < Self::Clearing
    }
}

/// Logs of a day with keys that are still to be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LeftOfErasure {
    /// The day.
    pub day: Day,
    /// True for the unmatched outcomes that arrived on that day, false for all other events.
    pub is_unmatched: bool,
}

/// An erasure of keys of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// Grows by one with each write.
    pub ver: i64,
    /// Counts signs of progress.
    pub beats: i64,
    /// The workspace.
    #[serde(skip_serializing)]
    pub workspace: Id,
    /// Its id.
    #[serde(skip_serializing)]
    pub id: Id,
    /// Reason.
    pub reason: String,
    /// Time of its begin.
    pub begun_at: Timestamp,
    /// Phase.
    pub phase: ErasurePhase,
    /// The keys, each with its pseudonym, an empty text before that is drawn. Empty once no data has the keys any more.
    #[serde(rename = "erases", default, skip_serializing_if = "Pseudonyms::is_empty")]
    pub keys: Pseudonyms,
    /// True if it also erases scores, labels and values.
    #[serde(rename = "values", default, skip_serializing_if = "Not::not")]
    pub with_values: bool,
    /// Number of keys.
    #[serde(rename = "keys")]
    pub count: u64,
    /// The pseudonyms, once no data has the keys any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pseudonyms: Vec<String>,
    /// Logs still to be rewritten.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub left: BTreeSet<LeftOfErasure>,
    /// The days with one of the keys, until no data has them any more.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub touched: BTreeSet<Day>,
    /// Number of days with rewritten events.
    pub days: u64,
    /// Number of rewritten segments.
    pub segments: u64,
    /// Events whose keys were erased.
    pub rows: u64,
    /// Other rewritten items: items and answers of reviews.
    pub items: u64,
    /// Unreadable segments, some by name: their contents are not erased.
    pub unreadable: Vec<String>,
    /// Version of the projections that is folded from the rewritten events.
    pub version: Option<u32>,
    /// Time of its end.
    #[serde(rename = "cleared_at")]
    pub ended_at: Option<Timestamp>,
}

impl Erasure {
    /// Creates an erasure that has not begun.
    pub(super) fn new(
        workspace: &Id,
        (keys, with_values): (&[String], bool),
        reason: &str,
        now: Timestamp,
    ) -> Self {
        let keys: Pseudonyms = keys.iter().map(|key| (key.clone(), String::new())).collect();
        Self {
            ver: 0,
            beats: 0,
            workspace: workspace.clone(),
            id: Id::new(now),
            reason: reason.to_owned(),
            begun_at: now,
            phase: ErasurePhase::Waiting,
            with_values,
            count: keys.len() as u64,
            keys,
            pseudonyms: Vec::new(),
            left: BTreeSet::new(),
            touched: BTreeSet::new(),
            days: 0,
            segments: 0,
            rows: 0,
            items: 0,
            unreadable: Vec::new(),
            version: None,
            ended_at: None,
        }
    }

    /// Makes the write of a new erasure.
    pub(super) fn put(&self) -> Write {
        Write::Put(self.to_item(1), Condition::Absent)
    }

    /// Makes the write that replaces the item as it was read.
    pub(super) fn next(&self) -> Write {
        Write::Put(self.to_item(self.ver + 1), Condition::Equals("ver", self.ver.into()))
    }

    fn to_item(&self, ver: i64) -> Item {
        let mut item =
            Item::record(key::erasure(&self.workspace, &self.id), FORM, &Self { ver, ..self.clone() });
        if self.phase.is_open() {
            // Recorded at once, so that the audit log has two records of an erasure: its begin and its result.
            let found = FOUND.into_iter().filter_map(|name| item.attributes.remove_entry(name));
            let found = table::item::Value::M(found.collect());
            item = item.with(PROGRESS, found);
        }
        match self.phase {
            ErasurePhase::Done => item,
            _ => item.with("GSI1PK", key::OPEN_ERASURES).with("GSI1SK", self.id.as_str()),
        }
    }

    /// Decodes an item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        let (workspace, id) =
            key::parse_erasure(&item.key).ok_or_else(|| item.corrupt("its key is not one of an erasure"))?;
        let mut item = item.clone();
        if item.attributes.contains_key(PROGRESS) {
            let found = item.map(PROGRESS)?.clone();
            item.attributes.extend(found);
        }
        item.to_record_with(FORM, [("workspace", workspace.as_str()), ("id", id.as_str())])
    }
}

/// Attribute with the progress of an open erasure, and its fields. The audit log has it only at the end.
const PROGRESS: &str = "progress";
const FOUND: [&str; 6] = ["days", "segments", "rows", "items", "unreadable", "version"];

/// Suffix of a day whose unmatched outcomes are still to be erased.
const UNMATCHED: &str = "/w";

impl TryFrom<String> for LeftOfErasure {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let day = text.strip_suffix(UNMATCHED);
        Ok(Self { is_unmatched: day.is_some(), day: day.unwrap_or(&text).parse()? })
    }
}

impl From<LeftOfErasure> for String {
    fn from(left: LeftOfErasure) -> Self {
        format!("{}{}", left.day, if left.is_unmatched { UNMATCHED } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use table::item::Value;

    use super::*;

    #[test]
    fn erasure_round_trips_and_drops_keys_when_closed() {
        let workspace = Id::new(Timestamp::default());
        let mut erasure = Erasure::new(
            &workspace,
            (&["loan-17".into(), "b".into()], false),
            "letter 9",
            Timestamp::default(),
        );
        let day = "2013-06-01".parse().unwrap();
        let read = |erasure: &Erasure| Erasure::from_item(&erasure.to_item(erasure.ver)).unwrap();
        for phase in ErasurePhase::ALL {
            erasure.phase = phase;
            if phase.is_open() {
                erasure.keys.insert("b".into(), "erased~x".into());
                erasure.left = [true, false].map(|is_unmatched| LeftOfErasure { day, is_unmatched }).into();
                erasure.touched = [day].into();
            } else {
                erasure.keys.clear();
                erasure.left.clear();
                erasure.touched.clear();
                erasure.pseudonyms = vec!["erased~x".into()];
            }
            (erasure.ver, erasure.beats) = (erasure.ver + 1, erasure.beats + 3);
            (erasure.days, erasure.segments, erasure.rows, erasure.items) = (1, 2, 3, 4);
            erasure.unreadable = vec!["day#2013-06-01/p/00/0000000007".into()];
            erasure.version = Some(2);
            erasure.ended_at = (phase == ErasurePhase::Done).then(Timestamp::default);
            erasure.with_values = !erasure.with_values;
            assert_eq!(read(&erasure), erasure, "{phase:?}");
            let told = format!("{:?}", erasure.to_item(1));
            assert_eq!(told.contains("loan-17"), phase.is_open(), "{told}");
            assert_eq!(told.contains("GSI1PK"), phase != ErasurePhase::Done);
            assert_eq!(told.contains("values"), erasure.with_values, "{told}");
        }
        let with_values = Erasure::new(&workspace, (&["b".into()], true), "letter 9", Timestamp::default());
        assert_eq!(read(&with_values), with_values);
        assert_eq!(with_values.to_item(1).attributes.get("values"), Some(&Value::Bool(true)));
        let item = erasure.to_item(1);
        for (name, value) in
            [("phase", Value::from("x")), ("rows", "x".into()), ("pseudonyms", 1.into()), ("v", 2.into())]
        {
            assert!(Erasure::from_item(&item.clone().with(name, value)).is_err(), "{name}");
        }
    }
}
