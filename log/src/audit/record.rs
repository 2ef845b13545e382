//! Record of the audit log, with the values of an item before and after a change.

use std::collections::{BTreeMap, BTreeSet};

use event::{Error, Result, Timestamp};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use table::{Item, item::Value};

use super::Author;
use crate::key::{self, AuditLog};

const ITEM_VERSION: i64 = 1;

/// Maximum bytes of text in the value before, and in the one after.
pub const MAX_VALUE_BYTES: usize = 16 * 1024;

/// Maximum bytes of text in the value of one attribute.
const MAX_ATTRIBUTE_BYTES: usize = 2 * 1024;

/// Attributes that are no decisions of people: the form of the item, its place in indexes, the times of its use, and counts.
const UNTOLD: [&str; 22] = [
    "v",
    "ver",
    "updated_at",
    "GSI1PK",
    "GSI1SK",
    // Set by a projection that places a release on the leaderboard.
    "board",
    "score",
    "place",
    "used_at",
    "begun_at",
    "spent_at",
    "followers",
    "expires_at",
    "had_rules",
    // Version up to which projections are deleted, after a rebuild has ended.
    "oldest",
    // Keys and progress of an erasure.
    "erases",
    "phase",
    "left",
    "touched",
    "beats",
    "progress",
    "cleared_at",
];

/// SHA-256 of a record.
pub type Digest = [u8; 32];

/// Record of a change, or of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Audit log of the record.
    pub audit_log: AuditLog,
    /// Number in the audit log, from 1, without holes.
    pub seq: u64,
    /// Time; never before the one of the record before.
    pub at: Timestamp,
    /// Author of the change.
    pub author: Author,
    /// Action, such as `model.create`.
    pub action: String,
    /// Id of the changed object.
    pub object: String,
    /// Name or path of the object.
    pub name: Option<String>,
    /// Value before, as JSON: for a change the attributes that it changed.
    pub before: Option<String>,
    /// Value after.
    pub after: Option<String>,
    /// Digest of the record before; zeros for the first.
    pub previous: Digest,
}

impl Record {
    /// Digest of all its fields, including the digest of the record before, by which the next record names it.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        let mut text = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        text(&self.audit_log.to_string());
        text(&self.seq.to_string());
        text(&self.at.micros().to_string());
        text(&self.author.principal);
        text(&self.action);
        text(&self.object);
        let address = self.author.address.map(|address| address.to_string());
        for some in
            [&self.author.request, &address, &self.author.source, &self.name, &self.before, &self.after]
        {
            // Distinguishes a missing value from an empty one.
            text(if some.is_some() { "+" } else { "-" });
            text(some.as_deref().unwrap_or_default());
        }
        hash.update(self.previous);
        hash.finalize().into()
    }

    /// Encodes it as an item.
    pub fn to_item(&self) -> Item {
        let key = key::audit_record(&self.audit_log, self.seq);
        let item = Item::record(key, ITEM_VERSION, &self.author)
            .with("at", self.at.to_string())
            .with("action", self.action.as_str())
            .with("object", self.object.as_str())
            .with("previous", self.previous.to_vec())
            .with("digest", self.digest().to_vec());
        let some = [("name", &self.name), ("before", &self.before), ("after", &self.after)];
        some.into_iter().fold(item, |item, (name, value)| match value {
            Some(value) => item.with(name, value.as_str()),
            None => item,
        })
    }

    /// Decodes a record and its stored digest.
    ///
    /// # Errors
    /// `Corrupt`, when the item is no record.
    pub fn from_item(item: &Item) -> Result<(Self, Digest)> {
        let (audit_log, seq) = key::parse_audit_record(&item.key)
            .ok_or_else(|| item.corrupt("its key is not one of a record"))?;
        let digest = |name: &str| -> Result<Digest> {
            item.bytes(name)?.try_into().map_err(|_| item.corrupt(format_args!("`{name}` is no digest")))
        };
        let record = Self {
            audit_log,
            seq,
            at: item.field("at")?,
            author: item.to_record(ITEM_VERSION)?,
            action: item.text("action")?.to_owned(),
            object: item.text("object")?.to_owned(),
            name: item.field("name")?,
            before: item.field("before")?,
            after: item.field("after")?,
            previous: digest("previous")?,
        };
        Ok((record, digest("digest")?))
    }
}

/// Returns whether a change of an attribute is recorded.
pub(super) fn is_told(name: &str) -> bool {
    !UNTOLD.contains(&name) && !name.starts_with("count_of_")
}

/// Returns the difference that a change makes to an item, as JSON: all attributes of a new or deleted item, and otherwise those
/// that differ. `None`, when no difference is a decision of people.
pub(super) fn difference(
    before: Option<&Item>,
    after: Option<&Item>,
) -> Option<(Option<String>, Option<String>)> {
    match (before, after) {
        (None, None) => None,
        (None, Some(item)) => Some((None, Some(text(&item.attributes, |_| true)))),
        (Some(item), None) => Some((Some(text(&item.attributes, |_| true)), None)),
        (Some(before), Some(after)) => {
            let names = before.attributes.keys().chain(after.attributes.keys());
            let differ: BTreeSet<&String> = names
                .filter(|name| is_told(name) && before.attributes.get(*name) != after.attributes.get(*name))
                .collect();
            let side = |item: &Item| text(&item.attributes, |name| differ.contains(&name.to_owned()));
            (!differ.is_empty()).then(|| (Some(side(before)), Some(side(after))))
        }
    }
}

/// Encodes some attributes as the text of a JSON object, of at most [`MAX_VALUE_BYTES`].
fn text(attributes: &BTreeMap<String, Value>, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut object = serde_json::Map::new();
    let (mut left, mut omitted) = (MAX_VALUE_BYTES - MAX_ATTRIBUTE_BYTES, 0);
    for (name, value) in attributes.iter().filter(|(name, _)| is_told(name) && is_wanted(name)) {
        let mut value = match value {
            Value::B(bytes) => json!(format!("({} bytes)", bytes.len())),
            other => json!(other),
        };
        let bytes = value.to_string().len();
        if bytes > MAX_ATTRIBUTE_BYTES {
            value = Json::String(format!("({bytes} bytes)"));
        }
        let bytes = name.len() + bytes.min(MAX_ATTRIBUTE_BYTES) + 8;
        if bytes > left {
            omitted += 1;
            continue;
        }
        left -= bytes;
        object.insert(name.clone(), value);
    }
    if omitted > 0 {
        object.insert("(omitted)".to_owned(), json!(omitted));
    }
    Json::Object(object).to_string()
}

/// Error of an audit log without a further number.
pub(super) fn full(audit_log: &AuditLog) -> Error {
    Error::corrupt(format!("the audit log {audit_log} has no number left"))
}

#[cfg(test)]
mod tests {
    use event::Id;
    use table::Key;

    use super::*;

    fn record() -> Record {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        Record {
            audit_log: AuditLog::Workspace(workspace),
            seq: 42,
            at: Timestamp::parse("2026-06-01T10:00:00Z").unwrap(),
            author: Author {
                principal: "user:ann".into(),
                request: Some("0ujsswThIG-7".into()),
                address: Some("192.0.2.7".parse().unwrap()),
                source: None,
            },
            action: "model.change".into(),
            object: "m_2NBs0tD5Ihm2PVFzM3kZvMYdQX9".into(),
            name: Some("churn".into()),
            before: Some(r#"{"threshold":0.5}"#.into()),
            after: Some(r#"{"threshold":0.4}"#.into()),
            previous: [7; 32],
        }
    }

    #[test]
    fn an_item_of_version_1_stays_readable() {
        let item = record().to_item();
        insta::assert_debug_snapshot!(item);
        let (read, digest) = Record::from_item(&item).unwrap();
        assert_eq!((&read, digest), (&record(), record().digest()));
        assert!(Record::from_item(&item.clone().with("v", 2)).is_err());
        assert!(Record::from_item(&item.with("previous", vec![1, 2])).is_err());
    }

    #[test]
    fn whatever_differs_has_another_digest() {
        let one = record();
        let others = [
            Record { seq: 43, ..one.clone() },
            Record { audit_log: AuditLog::Server, ..one.clone() },
            Record { at: Timestamp::default(), ..one.clone() },
            Record { author: Author::named("user:ann"), ..one.clone() },
            Record {
                action: "model".into(),
                object: ".changem_2NBs0tD5Ihm2PVFzM3kZvMYdQX9".into(),
                ..one.clone()
            },
            Record { name: None, ..one.clone() },
            Record { name: Some(String::new()), ..one.clone() },
            Record { before: one.after.clone(), after: one.before.clone(), ..one.clone() },
            Record { previous: [8; 32], ..one.clone() },
            one.clone(),
        ];
        let digests: BTreeSet<Digest> = others.iter().map(Record::digest).collect();
        assert_eq!(digests.len(), others.len());
    }

    #[test]
    fn what_differs_is_told_and_bounded() {
        let item = Item::new(Key::new("p", "s")).with("v", 1).with("ver", 1).with("name", "churn");
        let none: Option<&Item> = None;
        assert_eq!(difference(none, none), None);
        let made = difference(None, Some(&item)).unwrap();
        assert_eq!(made, (None, Some(r#"{"name":"churn"}"#.into())));
        let counted =
            item.clone().with("ver", 2).with("count_of_models", 3).with("score", 1).with("place", "x");
        assert_eq!(difference(Some(&item), Some(&counted)), None, "nothing that people decide");
        let renamed = item.clone().with("name", "risk").with("owner", "ann");
        let (before, after) = difference(Some(&item), Some(&renamed)).unwrap();
        assert_eq!(before.as_deref(), Some(r#"{"name":"churn"}"#));
        assert_eq!(after.as_deref(), Some(r#"{"name":"risk","owner":"ann"}"#));
        let long = item.clone().with("notes", "x".repeat(3_900));
        let (_, after) = difference(None, Some(&long)).unwrap();
        assert_eq!(after.as_deref(), Some(r#"{"name":"churn","notes":"(3902 bytes)"}"#));
        let many = (0..40).fold(item, |item, n| item.with(&format!("note{n}"), "x".repeat(1_000)));
        let after = difference(None, Some(&many)).unwrap().1.unwrap();
        assert!(after.len() <= MAX_VALUE_BYTES && after.contains("(omitted)"), "{} bytes", after.len());
        let set = Value::Ss(["b", "a"].map(str::to_owned).into());
        assert_eq!(json!(set).to_string(), r#"{"$set":["a","b"]}"#);
    }
}
