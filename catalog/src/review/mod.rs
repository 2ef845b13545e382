//! Reviews: predictions that people judge, each by one of them.
//!
//! A review is made once: its items are picked by a policy and stored. An [`arena`] is one of pairs. A reviewer is served one
//! item at a time, under a lease ([`serve`]). The answer is written into the item under the condition that the item is unchanged
//! since the lease was checked ([`settle`]); from then on it is decided, and is appended to the log as an ordinary outcome,
//! exactly once. All of it expires, and expired items count as gone even before the engine deletes them.

mod answered;
mod arena;
mod item;
mod serve;
mod settle;
mod turn;
mod vote;

use std::collections::BTreeSet;

use event::{Error, Id, Result, Timestamp, Window, id::check_name};
use log::key;
use table::{Condition, Item, Query, item::Value, query_all, unless_overtaken};

use super::Catalog;

pub use answered::{ANSWERED_DAYS, AnsweredReview};
pub use arena::{
    ARENA_METRIC, ArenaPair, ArenaSpec, MAX_ARENA_JUDGES, MAX_ARENA_PAIRS, MAX_ARENA_RELEASES,
    MAX_ARENA_TAGS, MAX_PAIR_ITEMS, shared_tags,
};
pub use item::{PredictionSaid, ReviewAnswer, ReviewItem, ReviewLease, Verdict};
pub use serve::{
    DEFAULT_LEASE_SECONDS, MAX_LEASE_SECONDS, MIN_LEASE_SECONDS, ReviewLink, Served, guest_reviewer,
};
pub use settle::{AnsweredBy, GivenAnswer, MAX_GIVEN_ANSWERS, MAX_GIVEN_DAYS, Standing as ReviewStanding};
pub use vote::Vote;

/// Maximum items of a review.
pub const MAX_REVIEW_ITEMS: usize = 1_000;

/// Maximum reviews of a workspace.
pub const MAX_REVIEWS: usize = 1_000;

/// Maximum labels that a review names.
pub const MAX_REVIEW_LABELS: usize = 100;

/// Maximum days of the predictions of a review.
pub const MAX_REVIEW_WINDOW_DAYS: usize = 92;

/// Time that a review is kept, in days, unless the workspace keeps its events for a shorter time.
pub const REVIEW_DAYS: i64 = 400;

/// Version of the item of a review.
const REVIEW_VERSION: i64 = 1;

/// Number of items written side by side.
const PUTS_AT_ONCE: usize = 16;

/// Policy by which predictions are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewPolicy {
    /// Random choice.
    Random,
    /// Predictions of which a release is least certain first.
    Uncertain,
    /// Predictions on which releases differ most first.
    Disagree,
    /// Random choice, the same number for each value of a tag.
    Segment,
    /// Random choice of keys that two releases predicted: an arena.
    Pairs,
}

impl ReviewPolicy {
    /// All policies.
    pub const ALL: [Self; 5] = [Self::Random, Self::Uncertain, Self::Disagree, Self::Segment, Self::Pairs];

    /// Name of the policy.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Uncertain => "uncertain",
            Self::Disagree => "disagree",
            Self::Segment => "segment",
            Self::Pairs => "pairs",
        }
    }

    /// Finds the policy of a name.
    ///
    /// # Errors
    /// `Invalid`, for an unknown name.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("policy: `{name}` is none of {known}"))
        })
    }
}

/// Specification of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewSpec {
    /// Model whose releases' predictions are picked; all, when `None`.
    pub model: Option<String>,
    /// Release whose predictions are picked; all, when `None`.
    pub release: Option<String>,
    /// The days of the predictions.
    pub window: Window,
    /// Policy by which they are picked.
    pub policy: ReviewPolicy,
    /// Tag whose values [`ReviewPolicy::Segment`] takes equally often.
    pub by: Option<String>,
    /// Maximum number of items picked, 1 to [`MAX_REVIEW_ITEMS`]; in an arena, for each pair.
    pub n: u32,
    /// Seed of the random choice: the same events and the same seed give the same items.
    pub seed: u32,
    /// Allowed labels of an answer; any, when there are none.
    pub labels: Vec<String>,
    /// True if predictions with an outcome are picked too.
    pub with_outcomes: bool,
    /// Specification as an arena, only with the policy [`ReviewPolicy::Pairs`].
    pub arena: Option<ArenaSpec>,
}

/// A review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// Id of the review.
    pub id: Id,
    /// Name, which no other review of the workspace has.
    pub name: String,
    /// Specification of the review.
    pub spec: ReviewSpec,
    /// Number of its items.
    pub items: u32,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Principal who created it.
    pub created_by: String,
    /// Time from which it counts as gone, in seconds since 1970.
    pub expires_at: i64,
}

impl ReviewSpec {
    /// Checks everything that can be checked without reading.
    ///
    /// # Errors
    /// `Invalid`, naming the fault.
    pub fn check(&self) -> Result<()> {
        if self.n == 0 || self.n as usize > MAX_REVIEW_ITEMS {
            return Err(Error::invalid(format!("n: a review has 1 to {MAX_REVIEW_ITEMS} items")));
        }
        if self.window.days().take(MAX_REVIEW_WINDOW_DAYS + 1).count() > MAX_REVIEW_WINDOW_DAYS {
            return Err(Error::invalid(format!("to: a review is of at most {MAX_REVIEW_WINDOW_DAYS} days")));
        }
        if self.model.is_some() && self.release.is_some() {
            return Err(Error::invalid("model: the release says of which model it is; give one of them"));
        }
        self.model.iter().chain(&self.release).chain(&self.by).try_for_each(|name| check_name(name))?;
        match (self.policy, &self.by) {
            (ReviewPolicy::Segment, None) => {
                return Err(Error::invalid("by: the policy `segment` needs the name of a tag"));
            }
            (ReviewPolicy::Segment, Some(_)) | (_, None) => {}
            (_, Some(_)) => return Err(Error::invalid("by: only the policy `segment` takes a tag")),
        }
        if self.policy == ReviewPolicy::Disagree && self.release.is_some() {
            return Err(Error::invalid("release: one release does not disagree; name a model or nothing"));
        }
        match (self.policy, &self.arena) {
            (ReviewPolicy::Pairs, Some(arena)) => arena.check(self)?,
            (ReviewPolicy::Pairs, None) | (_, Some(_)) => {
                return Err(Error::invalid("policy: an arena, and nothing else, has the policy `pairs`"));
            }
            (_, None) => {}
        }
        let distinct: BTreeSet<&String> = self.labels.iter().collect();
        if self.labels.len() > MAX_REVIEW_LABELS || distinct.len() < self.labels.len() {
            return Err(Error::invalid(format!(
                "labels: give at most {MAX_REVIEW_LABELS}, each of them once"
            )));
        }
        Ok(())
    }
}

impl Review {
    fn to_item(&self, workspace: &Id) -> Item {
        let spec = &self.spec;
        let labels: Vec<Value> = spec.labels.iter().map(|label| Value::from(label.as_str())).collect();
        let item = Item::new(key::review(workspace, &self.name))
            .with("v", REVIEW_VERSION)
            .with("id", self.id.as_str())
            .with("first_day", spec.window.from().to_string())
            .with("last_day", spec.window.to().to_string())
            .with("policy", spec.policy.name())
            .with("n", i64::from(spec.n))
            .with("seed", i64::from(spec.seed))
            .with("labels", labels)
            .with("with_outcomes", Value::Bool(spec.with_outcomes))
            .with("items", i64::from(self.items))
            .with("created_at", self.created_at.micros())
            .with("created_by", self.created_by.as_str())
            .with("expires_at", self.expires_at);
        let item = match &spec.arena {
            Some(arena) => item.with("arena", arena.to_value()),
            None => item,
        };
        let named = [("model", &spec.model), ("release", &spec.release), ("by", &spec.by)];
        named.into_iter().fold(item, |item, (name, text)| match text {
            Some(text) => item.with(name, text.as_str()),
            None => item,
        })
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(REVIEW_VERSION)?;
        let name =
            item.key.sk.strip_prefix("name#").ok_or_else(|| item.corrupt("its key names no review"))?;
        let day =
            |name| item.text(name)?.parse().map_err(|_| item.corrupt(format_args!("`{name}` is no day")));
        let count = |name| {
            u32::try_from(item.int(name)?).map_err(|_| item.corrupt(format_args!("`{name}` is no count")))
        };
        let text = |name| item.optional_text(name).map(str::to_owned);
        let spec = ReviewSpec {
            model: text("model"),
            release: text("release"),
            window: Window::new(day("first_day")?, day("last_day")?)?,
            policy: ReviewPolicy::parse(item.text("policy")?)
                .map_err(|_| item.corrupt("`policy` is not known"))?,
            by: text("by"),
            n: count("n")?,
            seed: count("seed")?,
            labels: texts(item, item.attributes.get("labels"))?,
            with_outcomes: item.attributes.get("with_outcomes") == Some(&Value::Bool(true)),
            arena: item.attributes.contains_key("arena").then(|| ArenaSpec::from_item(item)).transpose()?,
        };
        Ok(Self {
            id: Id::parse(item.text("id")?)?,
            name: name.to_owned(),
            spec,
            items: count("items")?,
            created_at: time(item, "created_at")?,
            created_by: item.text("created_by")?.to_owned(),
            expires_at: item.int("expires_at")?,
        })
    }
}

/// Items or pairs picked for a new review.
#[derive(Clone, Copy, Debug)]
pub enum Picked<'a> {
    /// The items of a review of predictions.
    Items(&'a [ReviewItem]),
    /// The pairs of an arena, each with its items.
    Pairs(&'a [(ArenaPair, Vec<ReviewItem>)]),
}

fn time(item: &Item, name: &str) -> Result<Timestamp> {
    Timestamp::from_micros(item.int(name)?).ok_or_else(|| item.corrupt(format_args!("`{name}` is no time")))
}

/// Decodes the texts of a list of an item.
fn texts(item: &Item, list: Option<&Value>) -> Result<Vec<String>> {
    let Some(Value::L(values)) = list else { return Err(item.corrupt("a list of texts is missing")) };
    let text = |value: &Value| match value {
        Value::S(text) => Ok(text.clone()),
        _ => Err(item.corrupt("what should be a text is none")),
    };
    values.iter().map(text).collect()
}

/// Decodes a number stored as a text: engines do not keep every double as a number.
fn number(item: &Item, name: &str, value: &Value) -> Result<f64> {
    let number = if let Value::S(text) = value { text.parse().ok() } else { None };
    number.ok_or_else(|| item.corrupt(format_args!("`{name}` is no number")))
}

impl Catalog {
    /// Makes a review of picked items, which are numbered in their order, or an arena of the items of its pairs. Returns the
    /// existing review for a repeat with the same name and the same specification.
    ///
    /// # Errors
    /// `Invalid`, when the name is not valid; `Conflict`, when another review has the name, or there are too many; those of the
    /// table.
    pub async fn create_review(&self, workspace: &Id, review: Review, items: Picked<'_>) -> Result<Review> {
        check_name(&review.name)?;
        if let Some(known) = self.review_again(workspace, &review.name, &review.spec).await? {
            return Ok(known);
        }
        let names = Query::table(key::reviews(workspace)).only(&["v"]);
        if query_all(&*self.table, names).await?.len() >= MAX_REVIEWS {
            return Err(Error::conflict(format!(
                "the workspace has {MAX_REVIEWS} reviews; delete those that are done"
            )));
        }
        // Without the review that names them the items are never found, and they expire.
        let of = (workspace, &review.id);
        match items {
            Picked::Items(items) => self.put_review_items(of, (0..).zip(items)).await?,
            Picked::Pairs(pairs) => self.add_to_pairs(of, pairs).await?,
        }
        match unless_overtaken(self.table.put(review.to_item(workspace), Condition::Absent).await)? {
            Some(()) => Ok(review),
            None => self.review_again(workspace, &review.name, &review.spec).await?.ok_or_else(|| {
                Error::conflict(format!("the review `{}` was made and deleted meanwhile", review.name))
            }),
        }
    }

    /// Finds the review of a name, which must have the same specification.
    ///
    /// # Errors
    /// `Conflict`, when it has another one; those of the table.
    pub async fn review_again(
        &self,
        workspace: &Id,
        name: &str,
        spec: &ReviewSpec,
    ) -> Result<Option<Review>> {
        check_name(name)?;
        let item = self.table.get(&key::review(workspace, name)).await?;
        let known = item.as_ref().map(Review::from_item).transpose()?;
        match known {
            Some(known) if known.spec != *spec => Err(Error::conflict(format!(
                "there is a review `{name}` that asks for something else; take another name, or delete it"
            ))),
            known => Ok(known),
        }
    }

    /// Reads a review.
    ///
    /// # Errors
    /// `NotFound`, when there is none of this name; those of the table.
    pub async fn review(&self, workspace: &Id, name: &str) -> Result<Review> {
        check_name(name)?;
        let item = self.table.get(&key::review(workspace, name)).await?;
        let missing = || Error::not_found(format!("there is no review `{name}` in this workspace"));
        Review::from_item(&item.ok_or_else(missing)?)
    }

    /// Reads the reviews of a workspace, by name.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn reviews(&self, workspace: &Id) -> Result<Vec<Review>> {
        let items = query_all(&*self.table, Query::table(key::reviews(workspace))).await?;
        items.iter().map(Review::from_item).collect()
    }

    /// Reads the items of a review, in their order; at most [`MAX_REVIEW_ITEMS`], and of an arena [`MAX_PAIR_ITEMS`] of each
    /// pair.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn review_items(&self, workspace: &Id, review: &Id) -> Result<Vec<(u32, ReviewItem)>> {
        let items =
            query_all(&*self.table, Query::table(key::review_items_from(workspace, review, 0))).await?;
        items.iter().map(numbered).collect()
    }

    /// Deletes a review; succeeds if it does not exist. Its items are served no more and expire; appended outcomes stay.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn delete_review(&self, workspace: &Id, name: &str) -> Result<()> {
        check_name(name)?;
        self.table.delete(&key::review(workspace, name), Condition::None).await
    }
}

/// Decodes an item with the number in its key.
fn numbered(item: &Item) -> Result<(u32, ReviewItem)> {
    let number = key::parse_review_item(&item.key);
    Ok((number.ok_or_else(|| item.corrupt("its key names no item"))?, ReviewItem::from_item(item)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ReviewSpec {
        let day = |text: &str| text.parse().unwrap();
        ReviewSpec {
            model: Some("churn".into()),
            release: None,
            window: Window::new(day("2026-06-01"), day("2026-06-07")).unwrap(),
            policy: ReviewPolicy::Segment,
            by: Some("region".into()),
            n: 50,
            seed: 7,
            labels: vec!["0".into(), "1".into()],
            with_outcomes: true,
            arena: None,
        }
    }

    /// A later program must read the items of an earlier one.
    #[test]
    fn the_item_of_a_review_stays_readable() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let at = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let review = Review {
            id: Id::parse("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").unwrap(),
            name: "june".into(),
            spec: spec(),
            items: 42,
            created_at: at,
            created_by: "user:ann".into(),
            expires_at: 1_900_000_000,
        };
        let text = |text: &str| Value::S(text.to_owned());
        let stored = Item::new(key::review(&workspace, "june"))
            .with("v", 1)
            .with("id", "2NBs0tD5Ihm2PVFzM3kZvMYdQX9")
            .with("model", "churn")
            .with("by", "region")
            .with("first_day", "2026-06-01")
            .with("last_day", "2026-06-07")
            .with("policy", "segment")
            .with("n", 50)
            .with("seed", 7)
            .with("labels", vec![text("0"), text("1")])
            .with("with_outcomes", Value::Bool(true))
            .with("items", 42)
            .with("created_at", 1_781_049_600_000_000)
            .with("created_by", "user:ann")
            .with("expires_at", 1_900_000_000);
        assert_eq!(Review::from_item(&stored).unwrap(), review);
        assert_eq!(review.to_item(&workspace), stored);
    }

    #[test]
    fn invalid_review_is_refused_with_reason() {
        assert!(spec().check().is_ok());
        let refused = |wrong: ReviewSpec| wrong.check().unwrap_err().to_string();
        let texts = [
            refused(ReviewSpec { n: 0, ..spec() }),
            refused(ReviewSpec { n: 1_001, ..spec() }),
            refused(ReviewSpec { release: Some("v1".into()), ..spec() }),
            refused(ReviewSpec { by: None, ..spec() }),
            refused(ReviewSpec { policy: ReviewPolicy::Random, ..spec() }),
            refused(ReviewSpec {
                policy: ReviewPolicy::Disagree,
                by: None,
                model: None,
                release: Some("v1".into()),
                ..spec()
            }),
            refused(ReviewSpec { labels: vec!["1".into(), "1".into()], ..spec() }),
            ReviewPolicy::parse("best").unwrap_err().to_string(),
            refused(ReviewSpec { policy: ReviewPolicy::Pairs, by: None, ..spec() }),
            refused(ReviewSpec { arena: Some(arena()), ..spec() }),
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
        n: a review has 1 to 1000 items
        n: a review has 1 to 1000 items
        model: the release says of which model it is; give one of them
        by: the policy `segment` needs the name of a tag
        by: only the policy `segment` takes a tag
        release: one release does not disagree; name a model or nothing
        labels: give at most 100, each of them once
        policy: `best` is none of random, uncertain, disagree, segment, pairs
        policy: an arena, and nothing else, has the policy `pairs`
        policy: an arena, and nothing else, has the policy `pairs`
        ");
    }

    fn arena() -> ArenaSpec {
        ArenaSpec { releases: vec!["v1".into(), "v2".into()], judges: 2, tags: vec!["text".into()] }
    }

    fn of_pairs(arena: ArenaSpec) -> ReviewSpec {
        let (policy, arena, labels) = (ReviewPolicy::Pairs, Some(arena), Vec::new());
        ReviewSpec { policy, arena, labels, model: None, by: None, ..spec() }
    }

    #[test]
    fn the_item_of_an_arena_stays_readable() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let review = Review {
            id: workspace.clone(),
            name: "june".into(),
            spec: of_pairs(arena()),
            items: 42,
            created_at: Timestamp::default(),
            created_by: "user:ann".into(),
            expires_at: 1_900_000_000,
        };
        let stored = review.to_item(&workspace);
        let text = |text: &str| Value::S(text.to_owned());
        let map: [(&str, Value); 3] = [
            ("releases", vec![text("v1"), text("v2")].into()),
            ("judges", 2.into()),
            ("tags", vec![text("text")].into()),
        ];
        let map = map.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(stored.attributes["arena"], Value::M(map.into()));
        assert_eq!(Review::from_item(&stored).unwrap(), review);
    }

    #[test]
    fn invalid_arena_is_refused_with_reason() {
        assert!(of_pairs(arena()).check().is_ok());
        let refused = |wrong: ReviewSpec| wrong.check().unwrap_err().to_string();
        let of = |arena: ArenaSpec| refused(of_pairs(arena));
        let texts = [
            of(ArenaSpec { releases: vec!["v1".into()], ..arena() }),
            of(ArenaSpec { releases: vec!["v1".into(), "v1".into()], ..arena() }),
            of(ArenaSpec { tags: vec!["t".into(), "t".into()], ..arena() }),
            of(ArenaSpec { judges: 0, ..arena() }),
            refused(ReviewSpec { n: 51, ..of_pairs(arena()) }),
            refused(ReviewSpec { labels: vec!["1".into()], ..of_pairs(arena()) }),
            refused(ReviewSpec { model: Some("m".into()), ..of_pairs(arena()) }),
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
        releases: name 2 to 14, each of them once, or none for those that are live
        releases: name 2 to 14, each of them once, or none for those that are live
        tags: name at most 64, each of them once
        judges: 1 to 10 people judge the same
        n: a pair has at most 100 items: `n` times `judges` is more
        policy: an arena takes `releases` and not `release`, no labels, and predictions with outcomes as well
        model: the releases say of which model they are; give one of them
        ");
    }
}
