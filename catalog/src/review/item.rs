//! Stored item of a review: the prediction, its shown tags, its lease, and the answer.

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp};
use log::key::{self, LogId, ReviewItemId};
use sha2::{Digest as _, Sha256};
use table::{Item, item::Value};

use super::{Vote, number, time};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Prediction of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionSaid {
    /// Name of the release.
    pub release: String,
    /// Label; for a binary prediction with a score alone the positive label, when the score reaches the threshold.
    pub label: Option<String>,
    /// The score.
    pub score: Option<f64>,
    /// The value.
    pub value: Option<f64>,
}

impl PredictionSaid {
    /// Removes the prediction and keeps the release.
    pub(crate) fn forget(&mut self) {
        (self.label, self.score, self.value) = (None, None, None);
    }
}

/// Verdict of a reviewer.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The class.
    Label(String),
    /// The number.
    Value(f64),
    /// Better side, for an item of an arena.
    Vote(Vote),
}

/// Lease of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewLease {
    /// The reviewer.
    pub reviewer: String,
    /// End of the lease, from which another reviewer may have the item.
    pub until: Timestamp,
    /// SHA-256 of the link by which it may be judged.
    pub link: [u8; 32],
}

/// Answer. It never changes, but for [`ReviewAnswer::is_appended`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewAnswer {
    /// Verdict of the answer.
    pub verdict: Verdict,
    /// Reviewer who gave it.
    pub reviewer: String,
    /// Time of the answer.
    pub at: Timestamp,
    /// Segment that stands before its outcome, for each log that the outcome goes to.
    pub after: BTreeMap<LogId, u64>,
    /// True if the outcome is appended.
    pub is_appended: bool,
}

/// An item of a review.
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewItem {
    /// Version, which grows by one with each write.
    pub ver: i64,
    /// The name of the review.
    pub review: String,
    /// Key of the prediction.
    pub key: String,
    /// Instant of the prediction.
    pub predicted_at: Timestamp,
    /// Predictions of releases, which no reviewer is shown before the answer; in an arena those of the left and of the right
    /// side, of which only the names are hidden.
    pub said: Vec<PredictionSaid>,
    /// Tags of the prediction, which are shown to a reviewer.
    pub tags: BTreeMap<String, String>,
    /// In an arena, the tags of the left and of the right side that are not on both; the common ones are in `tags`.
    pub sides: Option<[BTreeMap<String, String>; 2]>,
    /// Present or last lease.
    pub lease: Option<ReviewLease>,
    /// The answer.
    pub answer: Option<ReviewAnswer>,
    /// Time from which it counts as gone, in seconds since 1970.
    pub expires_at: i64,
}

impl Verdict {
    /// Reads a verdict: exactly one of a label, a value and a vote.
    ///
    /// # Errors
    /// `Invalid`, when there are several or none, or the vote is not valid.
    pub fn read(label: Option<String>, value: Option<f64>, vote: Option<&str>) -> Result<Self> {
        match (label, value, vote) {
            (Some(label), None, None) => Ok(Self::Label(label)),
            (None, Some(value), None) => Ok(Self::Value(value)),
            (None, None, Some(vote)) => Vote::parse(vote).map(Self::Vote),
            _ => Err(Error::invalid("an answer has a `label`, a `value` or a `vote`, and no two of them")),
        }
    }

    /// Returns whether a release predicted the same label; `None`, if it predicted none.
    pub fn agrees(&self, said: &PredictionSaid) -> Option<bool> {
        match self {
            Self::Label(label) => said.label.as_ref().map(|said| said == label),
            Self::Value(_) | Self::Vote(_) => None,
        }
    }
}

impl ReviewItem {
    /// Digest by which it is known that a reviewer was shown this prediction, or this pair of releases on it, in any review.
    pub fn digest(&self) -> [u8; 16] {
        let mut hash = Sha256::new();
        if self.sides.is_some() {
            let mut releases: Vec<&str> = self.said.iter().map(|said| said.release.as_str()).collect();
            releases.sort_unstable();
            hash.update(b"pair\0");
            releases.iter().for_each(|release| {
                hash.update(release);
                hash.update(b"\0");
            });
        }
        hash.update(self.predicted_at.micros().to_le_bytes());
        hash.update(self.key.as_bytes());
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        digest
    }

    pub(crate) fn to_item(&self, at: &ReviewItemId) -> Item {
        let said = self.said.iter().map(said_value).collect::<Vec<_>>();
        let mut item = Item::new(key::review_item(at))
            .with("v", ITEM_VERSION)
            .with("ver", self.ver)
            .with("review", self.review.as_str())
            .with("key", self.key.as_str())
            .with("predicted_at", self.predicted_at.micros())
            .with("said", said)
            .with("tags", tags_value(&self.tags))
            .with("expires_at", self.expires_at);
        if let Some(sides) = &self.sides {
            item = item.with("sides", sides.iter().map(tags_value).collect::<Vec<_>>());
        }
        if let Some(lease) = &self.lease {
            item = item
                .with("leased_to", lease.reviewer.as_str())
                .with("leased_until", lease.until.micros())
                .with("link", lease.link.to_vec());
        }
        if let Some(answer) = &self.answer {
            let after = answer.after.iter().map(|(log, seq)| (log.to_string(), Value::from(*seq as i64)));
            item = item
                .with("answered_by", answer.reviewer.as_str())
                .with("answered_at", answer.at.micros())
                .with("after", after.collect::<BTreeMap<_, _>>())
                .with("appended", Value::Bool(answer.is_appended));
            item = with_verdict(item, &answer.verdict);
        }
        item
    }

    pub(crate) fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        Ok(Self {
            ver: item.int("ver")?,
            review: item.text("review")?.to_owned(),
            key: item.text("key")?.to_owned(),
            predicted_at: time(item, "predicted_at")?,
            said: said_of(item)?,
            tags: tags_of(item, item.attributes.get("tags"))?,
            sides: sides_of(item)?,
            lease: lease_of(item)?,
            answer: answer_of(item)?,
            expires_at: item.int("expires_at")?,
        })
    }
}

fn tags_value(tags: &BTreeMap<String, String>) -> Value {
    Value::M(tags.iter().map(|(name, tag)| (name.clone(), Value::from(tag.as_str()))).collect())
}

fn tags_of(item: &Item, value: Option<&Value>) -> Result<BTreeMap<String, String>> {
    let Some(Value::M(tags)) = value else { return Err(item.corrupt("tags are no map")) };
    let tag = |(name, value): (&String, &Value)| match value {
        Value::S(text) => Ok((name.clone(), text.clone())),
        _ => Err(item.corrupt("a tag is no text")),
    };
    tags.iter().map(tag).collect()
}

fn sides_of(item: &Item) -> Result<Option<[BTreeMap<String, String>; 2]>> {
    match item.attributes.get("sides") {
        None => Ok(None),
        Some(Value::L(sides)) if sides.len() == 2 => {
            Ok(Some([tags_of(item, sides.first())?, tags_of(item, sides.get(1))?]))
        }
        Some(_) => Err(item.corrupt("`sides` are not two")),
    }
}

/// Decodes the predictions of releases from an item.
pub(super) fn said_of(item: &Item) -> Result<Vec<PredictionSaid>> {
    let said = |value: &Value| {
        let Value::M(said) = value else { return Err(item.corrupt("`said` is no list of maps")) };
        let text = |name: &str| match said.get(name) {
            Some(Value::S(text)) => Some(text.clone()),
            _ => None,
        };
        let number = |name: &str| said.get(name).map(|value| number(item, name, value)).transpose();
        let release = text("release").ok_or_else(|| item.corrupt("`said` names no release"))?;
        Ok(PredictionSaid { release, label: text("label"), score: number("score")?, value: number("value")? })
    };
    item.list("said")?.iter().map(said).collect()
}

/// Encodes a prediction of a release as a value.
pub(super) fn said_value(said: &PredictionSaid) -> Value {
    let mut map = BTreeMap::from([("release".to_owned(), Value::from(said.release.as_str()))]);
    if let Some(label) = &said.label {
        map.insert("label".to_owned(), Value::from(label.as_str()));
    }
    for (name, number) in [("score", said.score), ("value", said.value)] {
        if let Some(number) = number {
            map.insert(name.to_owned(), number.to_string().into());
        }
    }
    Value::M(map)
}

/// Adds the verdict of an answer to an item.
pub(super) fn with_verdict(item: Item, verdict: &Verdict) -> Item {
    match verdict {
        Verdict::Label(label) => item.with("label", label.as_str()),
        Verdict::Value(value) => item.with("value", value.to_string()),
        Verdict::Vote(vote) => item.with("vote", vote.name()),
    }
}

/// Decodes the verdict of an answer.
pub(super) fn verdict_of(item: &Item) -> Result<Verdict> {
    match (item.optional_text("label"), item.attributes.get("value"), item.optional_text("vote")) {
        (Some(label), None, None) => Ok(Verdict::Label(label.to_owned())),
        (None, Some(value), None) => Ok(Verdict::Value(number(item, "value", value)?)),
        (None, None, Some(vote)) => {
            Vote::parse(vote).map(Verdict::Vote).map_err(|_| item.corrupt("`vote` is not known"))
        }
        _ => Err(item.corrupt("an answer should have a label, a value or a vote")),
    }
}

fn lease_of(item: &Item) -> Result<Option<ReviewLease>> {
    let Some(reviewer) = item.optional_text("leased_to") else { return Ok(None) };
    let link = item.bytes("link")?.try_into().map_err(|_| item.corrupt("`link` is no digest"))?;
    Ok(Some(ReviewLease { reviewer: reviewer.to_owned(), until: time(item, "leased_until")?, link }))
}

fn answer_of(item: &Item) -> Result<Option<ReviewAnswer>> {
    let Some(reviewer) = item.optional_text("answered_by") else { return Ok(None) };
    let workspace = key::parse_workspace_part(&item.key.pk).map(|(workspace, _): (Id, _)| workspace);
    let workspace = workspace.ok_or_else(|| item.corrupt("its key names no workspace"))?;
    let mut after = BTreeMap::new();
    for (log, seq) in item.map("after")? {
        let seq = match seq {
            Value::N(seq) => seq.as_i64().and_then(|seq| u64::try_from(seq).ok()),
            _ => None,
        };
        let (Some(log), Some(seq)) = (key::parse_log(&workspace, log), seq) else {
            return Err(item.corrupt("`after` is not segment numbers of logs"));
        };
        after.insert(log, seq);
    }
    Ok(Some(ReviewAnswer {
        verdict: verdict_of(item)?,
        reviewer: reviewer.to_owned(),
        at: time(item, "answered_at")?,
        after,
        is_appended: item.attributes.get("appended") == Some(&Value::Bool(true)),
    }))
}

#[cfg(test)]
mod tests {
    use event::Kind;
    use proptest::prelude::*;

    use super::*;

    fn at() -> ReviewItemId {
        let id = |text| Id::parse(text).unwrap();
        let (workspace, review) = (id("2NBs0sLBnJxEcoDLgVnQdJkhEgV"), id("2NBs0tD5Ihm2PVFzM3kZvMYdQX9"));
        ReviewItemId { workspace, review, number: 3 }
    }

    fn answered() -> ReviewItem {
        let instant = |text| Timestamp::parse(text).unwrap();
        let day = "2026-06-01".parse().unwrap();
        let log = LogId { workspace: at().workspace, day, kind: Kind::Outcomes, lane: 2 };
        ReviewItem {
            ver: 4,
            review: "june".into(),
            key: "loan-1".into(),
            predicted_at: instant("2026-06-01T04:30:00Z"),
            said: vec![PredictionSaid {
                release: "v1".into(),
                label: Some("1".into()),
                score: Some(0.1),
                value: None,
            }],
            tags: [("region".to_owned(), "eu".to_owned())].into(),
            sides: None,
            lease: Some(ReviewLease {
                reviewer: "user:ann".into(),
                until: instant("2026-06-10T00:10:00Z"),
                link: [7; 32],
            }),
            answer: Some(ReviewAnswer {
                verdict: Verdict::Label("0".into()),
                reviewer: "user:ann".into(),
                at: instant("2026-06-10T00:00:00Z"),
                after: [(log, 7)].into(),
                is_appended: false,
            }),
            expires_at: 1_900_000_000,
        }
    }

    /// A later program must read the items of an earlier one.
    #[test]
    fn the_item_of_version_1_stays_readable() {
        let said = [("release", Value::from("v1")), ("label", Value::from("1"))];
        let said = said.into_iter().chain([("score", Value::from("0.1"))]);
        let said = said.map(|(name, value)| (name.to_owned(), value)).collect();
        let map = |name: &str, value: Value| BTreeMap::from([(name.to_owned(), value)]);
        let stored = Item::new(key::review_item(&at()))
            .with("v", 1)
            .with("ver", 4)
            .with("review", "june")
            .with("key", "loan-1")
            .with("predicted_at", 1_780_288_200_000_000)
            .with("said", vec![Value::M(said)])
            .with("tags", map("region", "eu".into()))
            .with("leased_to", "user:ann")
            .with("leased_until", 1_781_050_200_000_000)
            .with("link", vec![7; 32])
            .with("answered_by", "user:ann")
            .with("answered_at", 1_781_049_600_000_000)
            .with("after", map("day#2026-06-01/o/02", 7.into()))
            .with("appended", Value::Bool(false))
            .with("label", "0")
            .with("expires_at", 1_900_000_000);
        assert_eq!(ReviewItem::from_item(&stored).unwrap(), answered());
        assert_eq!(answered().to_item(&at()), stored);
        let hex: String = answered().digest().iter().map(|byte| format!("{byte:02x}")).collect();
        insta::assert_snapshot!(hex, @"c29f57174a5a764f55256005fe3c948b");
    }

    #[test]
    fn an_answer_is_a_label_or_a_value() {
        assert!(Verdict::read(None, None, None).is_err());
        assert!(Verdict::read(Some("1".into()), Some(1.0), None).is_err());
        assert!(Verdict::read(Some("1".into()), None, Some("tie")).is_err());
        assert!(Verdict::read(None, None, Some("both")).is_err());
        assert_eq!(Verdict::read(None, None, Some("tie")).unwrap(), Verdict::Vote(Vote::Tie));
        let said = answered().said.remove(0);
        assert_eq!(Verdict::Label("1".into()).agrees(&said), Some(true));
        assert_eq!(Verdict::Label("0".into()).agrees(&said), Some(false));
        assert_eq!(Verdict::Value(1.0).agrees(&said), None);
    }

    /// A later program must read the items of an earlier one.
    #[test]
    fn arena_item_of_version_1_stays_readable() {
        let side = |text: &str| BTreeMap::from([("text".to_owned(), text.to_owned())]);
        let answer = ReviewAnswer { verdict: Verdict::Vote(Vote::Right), ..answered().answer.unwrap() };
        let item = ReviewItem { sides: Some([side("a"), side("b")]), answer: Some(answer), ..answered() };
        let stored = item.to_item(&at());
        let value = |text: &str| Value::M(BTreeMap::from([("text".to_owned(), text.into())]));
        assert_eq!(stored.attributes["sides"], Value::L(vec![value("a"), value("b")]));
        assert_eq!((stored.text("vote").unwrap(), stored.int("v").unwrap()), ("right", 1));
        assert_eq!(ReviewItem::from_item(&stored).unwrap(), item);
        let hex: String = item.digest().iter().map(|byte| format!("{byte:02x}")).collect();
        insta::assert_snapshot!(hex, @"3e7f2e98d30f777f0ba21b8cf30defc7");
    }

    proptest! {
        #[test]
        fn items_round_trip(key in "\\PC{1,40}", value in -1e100f64..1e100, tag in "\\PC{0,40}", is_appended: bool) {
            let answer = ReviewAnswer { verdict: Verdict::Value(value), is_appended, ..answered().answer.unwrap() };
            let said = PredictionSaid { value: Some(value), score: None, label: None, release: "v2".into() };
            let tags = [("t".to_owned(), tag)].into();
            let item = ReviewItem { key, said: vec![said], tags, answer: Some(answer), ..answered() };
            prop_assert_eq!(ReviewItem::from_item(&item.to_item(&at())).unwrap(), item);
        }
    }
}
