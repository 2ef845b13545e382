//! An erasure as it stands in the table: what is erased, how far it is, and what came of it.

use std::{collections::BTreeSet, ops::Not};

use event::{Day, Error, Id, Result, Timestamp};
use log::{erased::Pseudonyms, key};
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Write};

/// Form of the item.
const FORM: i64 = 1;

/// The most names of segments that an erasure tells which it could not read.
pub const MAX_UNREADABLE: usize = 100;

/// How far an erasure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErasurePhase {
    /// Until every service refuses its keys.
    Waiting,
    /// The segments with its keys are looked for.
    Looking,
    /// They are written again.
    Rewriting,
    /// What is folded of them is folded again.
    Folding,
    /// Nothing has its keys any more, and what was deleted is forgotten.
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

    /// The names of all of them.
    pub fn names() -> [&'static str; 6] {
        Self::ALL.map(Self::name)
    }

    /// Whether its keys stand in it, so that no other erasure of the workspace may begin.
    pub(super) fn is_open(self) -> bool {
        self < Self::Clearing
    }
}

/// Some logs of a day that have keys which are still to be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LeftOfErasure {
    /// The day.
    pub day: Day,
    /// True for the unmatched outcomes that came on it, false for all else.
    pub is_unmatched: bool,
}

/// An erasure of keys of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// Grows by one with each write.
    pub ver: i64,
    /// Grows while it is worked on.
    pub beats: i64,
    /// The workspace.
    #[serde(skip_serializing)]
    pub workspace: Id,
    /// Its id.
    #[serde(skip_serializing)]
    pub id: Id,
    /// Why.
    pub reason: String,
    /// When it was begun.
    pub begun_at: Timestamp,
    /// How far it is.
    pub phase: ErasurePhase,
    /// The keys, each with its pseudonym once that is drawn, else an empty text. None, when nothing else has the keys any more.
    #[serde(rename = "erases", default, skip_serializing_if = "Pseudonyms::is_empty")]
    pub keys: Pseudonyms,
    /// Whether it takes scores, labels and values as well.
    #[serde(rename = "values", default, skip_serializing_if = "Not::not")]
    pub with_values: bool,
    /// How many keys it is of.
    #[serde(rename = "keys")]
    pub count: u64,
    /// The pseudonyms, once nothing has the keys any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pseudonyms: Vec<String>,
    /// What is still to be written again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub left: BTreeSet<LeftOfErasure>,
    /// The days that had one of the keys, until nothing has them any more.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub touched: BTreeSet<Day>,
    /// Days of which events were written again.
    pub days: u64,
    /// Segments that were.
    pub segments: u64,
    /// Events whose keys were erased.
    pub rows: u64,
    /// Other items that were written again: items and answers of reviews.
    pub items: u64,
    /// Segments that cannot be read, some by name: what they hold is not known.
    pub unreadable: Vec<String>,
    /// The version of the projections that is folded of what was written again.
    pub version: Option<u32>,
    /// When it was done.
    #[serde(rename = "cleared_at")]
    pub ended_at: Option<Timestamp>,
}

impl Erasure {
    /// One that was not begun.
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

    /// The write of one that is new.
    pub(super) fn put(&self) -> Write {
        Write::Put(self.to_item(1), Condition::Absent)
    }

    /// The write in the place of what was read.
    pub(super) fn next(&self) -> Write {
        Write::Put(self.to_item(self.ver + 1), Condition::Equals("ver", self.ver.into()))
    }

    fn to_item(&self, ver: i64) -> Item {
        let mut item =
            Item::record(key::erasure(&self.workspace, &self.id), FORM, &Self { ver, ..self.clone() });
        if self.phase.is_open() {
            // Told all at once, so that the audit log has two records of it: that it was begun, and its result.
            let found = FOUND.into_iter().filter_map(|name| item.attributes.remove_entry(name));
            let found = table::item::Value::M(found.collect());
            item = item.with(PROGRESS, found);
        }
        match self.phase {
            ErasurePhase::Done => item,
            _ => item.with("GSI1PK", key::OPEN_ERASURES).with("GSI1SK", self.id.as_str()),
        }
    }

    /// Reads it from its item.
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

/// The attribute that holds what an open erasure has found, and the fields there. It is not told in the audit log before the end.
const PROGRESS: &str = "progress";
const FOUND: [&str; 6] = ["days", "segments", "rows", "items", "unreadable", "version"];

/// The letters behind a day of which the unmatched outcomes are left.
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
