//! An erasure as it stands in the table: what is erased, how far it is, and what came of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use event::{Day, Id, Result, Timestamp};
use log::{erased::Surrogates, key};
use table::{Condition, Item, Write, item::Value};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// The most names of segments that an erasure tells which it could not read.
pub const MAX_UNREADABLE: usize = 100;

/// How far an erasure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOfErasure {
    /// The day.
    pub day: Day,
    /// Whether it is the unmatched outcomes that came on it, or all else.
    pub is_unmatched: bool,
}

/// An erasure of keys of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// Grows by one with each write.
    pub ver: i64,
    /// Grows while it is worked on.
    pub beats: i64,
    /// The workspace.
    pub workspace: Id,
    /// Its id.
    pub id: Id,
    /// Why.
    pub reason: String,
    /// When it was begun.
    pub begun_at: Timestamp,
    /// How far it is.
    pub phase: ErasurePhase,
    /// The keys, each with its surrogate once that is drawn, else an empty text. None, when nothing else has the keys any more.
    pub keys: Surrogates,
    /// Whether it takes scores, labels and values as well.
    pub with_values: bool,
    /// How many keys it is of.
    pub count: u64,
    /// The surrogates, once nothing has the keys any more.
    pub surrogates: Vec<String>,
    /// What is still to be written again.
    pub left: BTreeSet<LeftOfErasure>,
    /// The days that had one of the keys, until nothing has them any more.
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
        let keys: Surrogates = keys.iter().map(|key| (key.clone(), String::new())).collect();
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
            surrogates: Vec::new(),
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
        let texts = |texts: &[String]| Value::L(texts.iter().map(|text| text.as_str().into()).collect());
        let item = Item::new(key::erasure(&self.workspace, &self.id))
            .with("v", ITEM_VERSION)
            .with("ver", ver)
            .with("beats", self.beats)
            .with("reason", self.reason.as_str())
            .with("begun_at", self.begun_at.micros())
            .with("keys", self.count as i64)
            .with("phase", self.phase.name());
        let item = if self.with_values { item.with(VALUES, Value::Bool(true)) } else { item };
        let item = match self.phase {
            ErasurePhase::Done => item,
            _ => item.with("GSI1PK", key::OPEN_ERASURES).with("GSI1SK", self.id.as_str()),
        };
        let counts = COUNTS.map(|(name, of)| (name.to_owned(), Value::from(of(self) as i64)));
        let mut found = BTreeMap::from(counts);
        found.insert("unreadable".to_owned(), texts(&self.unreadable));
        if let Some(version) = self.version {
            found.insert("version".to_owned(), i64::from(version).into());
        }
        let item = match self.phase.is_open() {
            true => {
                let keys =
                    self.keys.iter().map(|(key, surrogate)| (key.clone(), Value::from(surrogate.as_str())));
                let left = self.left.iter().map(|left| Value::from(left.to_string())).collect();
                let touched = self.touched.iter().map(|day| Value::from(day.to_string())).collect();
                let item = item.with("erases", keys.collect::<BTreeMap<_, _>>()).with("left", Value::L(left));
                let item = item.with("touched", Value::L(touched));
                item.with(PROGRESS, found)
            }
            // All at once, so that the audit log has two records of it: that it was begun, and what came of it.
            false => found
                .into_iter()
                .fold(item.with("surrogates", texts(&self.surrogates)), |item, (name, value)| {
                    item.with(&name, value)
                }),
        };
        match self.ended_at {
            Some(at) => item.with("cleared_at", at.micros()),
            None => item,
        }
    }

    /// Reads it from its item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let (workspace, id) =
            key::parse_erasure(&item.key).ok_or_else(|| item.corrupt("its key is not one of an erasure"))?;
        let wrong = |name: &str| item.corrupt(format_args!("`{name}` is not what an erasure has"));
        let phase = item.text("phase")?;
        let phase =
            ErasurePhase::ALL.into_iter().find(|one| one.name() == phase).ok_or_else(|| wrong("phase"))?;
        let found = match phase.is_open() {
            true => item.map(PROGRESS)?,
            false => &item.attributes,
        };
        let text = |value: &Value| match value {
            Value::S(text) => Some(text.clone()),
            _ => None,
        };
        let texts = |name: &str, value: Option<&Value>| match value {
            Some(Value::L(all)) => {
                all.iter().map(text).collect::<Option<Vec<_>>>().ok_or_else(|| wrong(name))
            }
            None => Ok(Vec::new()),
            _ => Err(wrong(name)),
        };
        let count = |name: &str| match found.get(name) {
            Some(Value::N(number)) => {
                number.as_i64().and_then(|number| u64::try_from(number).ok()).ok_or_else(|| wrong(name))
            }
            _ => Err(wrong(name)),
        };
        let mut keys = Surrogates::new();
        let (mut left, mut touched) = (BTreeSet::new(), BTreeSet::new());
        if phase.is_open() {
            for (key, surrogate) in item.map("erases")? {
                keys.insert(key.clone(), text(surrogate).ok_or_else(|| wrong("erases"))?);
            }
            let of = |name| texts(name, item.attributes.get(name));
            left = parsed(&of("left")?, LeftOfErasure::parse).ok_or_else(|| wrong("left"))?;
            touched = parsed(&of("touched")?, |day| day.parse().ok()).ok_or_else(|| wrong("touched"))?;
        }
        let version = found.contains_key("version").then(|| count("version")).transpose()?;
        let ended_at = item.attributes.contains_key("cleared_at").then(|| time(item, "cleared_at"));
        Ok(Self {
            ver: item.int("ver")?,
            beats: item.int("beats")?,
            workspace,
            id,
            reason: item.text("reason")?.to_owned(),
            begun_at: time(item, "begun_at")?,
            phase,
            keys,
            with_values: item.attributes.contains_key(VALUES),
            count: u64::try_from(item.int("keys")?).map_err(|_| wrong("keys"))?,
            surrogates: texts("surrogates", item.attributes.get("surrogates"))?,
            left,
            touched,
            days: count("days")?,
            segments: count("segments")?,
            rows: count("rows")?,
            items: count("items")?,
            unreadable: texts("unreadable", found.get("unreadable"))?,
            version: version
                .map(|version| u32::try_from(version).map_err(|_| wrong("version")))
                .transpose()?,
            ended_at: ended_at.transpose()?,
        })
    }
}

/// The attribute that says that values are erased as well.
const VALUES: &str = "values";

/// The attribute that holds what an open erasure has found. It is not told in the audit log before the end.
const PROGRESS: &str = "progress";

/// What is counted, by the names of attributes.
type Count = fn(&Erasure) -> u64;
const COUNTS: [(&str, Count); 4] = [
    ("days", |erasure| erasure.days),
    ("segments", |erasure| erasure.segments),
    ("rows", |erasure| erasure.rows),
    ("items", |erasure| erasure.items),
];

/// What texts say, each by itself; `None`, when one of them says nothing.
fn parsed<T: Ord>(texts: &[String], parse: impl Fn(&str) -> Option<T>) -> Option<BTreeSet<T>> {
    texts.iter().map(|text| parse(text)).collect()
}

fn time(item: &Item, name: &str) -> Result<Timestamp> {
    Timestamp::from_micros(item.int(name)?).ok_or_else(|| item.corrupt(format_args!("`{name}` is no time")))
}

/// The letters behind a day of which the unmatched outcomes are left.
const UNMATCHED: &str = "/w";

impl LeftOfErasure {
    fn parse(text: &str) -> Option<Self> {
        let day = text.strip_suffix(UNMATCHED);
        Some(Self { is_unmatched: day.is_some(), day: day.unwrap_or(text).parse().ok()? })
    }
}

impl fmt::Display for LeftOfErasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.day, if self.is_unmatched { UNMATCHED } else { "" })
    }
}

#[cfg(test)]
mod tests {
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
                erasure.surrogates = vec!["erased~x".into()];
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
            assert_eq!(told.contains(VALUES), erasure.with_values, "{told}");
        }
        let with_values = Erasure::new(&workspace, (&["b".into()], true), "letter 9", Timestamp::default());
        assert_eq!(read(&with_values), with_values);
        assert_eq!(with_values.to_item(1).attributes.get(VALUES), Some(&Value::Bool(true)));
        let item = erasure.to_item(1);
        for (name, value) in
            [("phase", Value::from("x")), ("rows", "x".into()), ("surrogates", 1.into()), ("v", 2.into())]
        {
            assert!(Erasure::from_item(&item.clone().with(name, value)).is_err(), "{name}");
        }
    }
}
