//! Deliveries: that a crossing or a digest is posted to a webhook, how often that was tried, and what came of it. One is written together with
//! what it posts, and placed in an index by when it is due until it is settled.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use event::{Day, Error, Id, Result, Timestamp};
use log::key;
use table::{Item, Key, Query};

use super::{CrossedRule, crossing::time};
use crate::{Catalog, ToldDigest, digest};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// What an item says that it is of.
const CROSSING: &str = "crossing";
const DIGEST: &str = "digest";

/// The most deliveries of an answer.
pub const MAX_DELIVERIES: usize = 1_000;

/// For how long a delivery is tried again, in seconds.
pub const TRIED_FOR_SECONDS: i64 = 24 * 60 * 60;

/// How long it is from the first try to the second; each later wait is twice as long as the one before.
const FIRST_WAIT: Duration = Duration::from_secs(20);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// The most bytes that are kept of why it failed.
const MAX_WHY_BYTES: usize = 300;

/// What came of a delivery so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// It is tried, again and again.
    Pending,
    /// The receiver took it.
    Delivered,
    /// It was tried for a day, or can never be delivered.
    GivenUp,
}

impl DeliveryState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::GivenUp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::GivenUp => "given_up",
        }
    }
}

/// What came of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The receiver took it.
    Delivered,
    /// It did not; it may the next time.
    Failed(String),
    /// It never will.
    Never(String),
}

/// What is posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// That a rule crossed on the day.
    Crossing {
        /// The rule, by name.
        rule: String,
        /// When that rule was created.
        created_at: Timestamp,
    },
    /// A page of the digest that ends with the day.
    Digest {
        /// Which, from 1.
        page: u32,
    },
}

impl Delivered {
    /// What there is, each in a word.
    pub const NAMES: [&'static str; 2] = [CROSSING, DIGEST];

    /// What it is, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Crossing { .. } => CROSSING,
            Self::Digest { .. } => DIGEST,
        }
    }

    /// The rule, by name; `None`, when it is of none.
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Crossing { rule, .. } => Some(rule),
            Self::Digest { .. } => None,
        }
    }
}

/// That something is posted to a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Counts the writes; 0 before the first.
    pub ver: i64,
    /// What is posted.
    pub of: Delivered,
    /// The day that was judged, or the last one that the digest tells of.
    pub day: Day,
    /// The webhook, by name.
    pub webhook: String,
    /// When the rule crossed, or the digest was made.
    pub made_at: Timestamp,
    /// What came of it so far.
    pub state: DeliveryState,
    /// How often it was tried.
    pub tries: u32,
    /// From when on it is tried the next time; of one that is settled, when that was.
    pub due_at: Timestamp,
    /// Why the last try failed.
    pub why: Option<String>,
}

impl Delivery {
    /// That of a crossing to a webhook, which is due at once.
    pub fn of(crossed: &CrossedRule, webhook: &str) -> Self {
        let (rule, created_at) = (crossed.rule.clone(), crossed.created_at);
        Self::new(Delivered::Crossing { rule, created_at }, (crossed.day, webhook), crossed.at)
    }

    /// That of a digest to its webhook, which is due at once.
    pub(crate) fn of_digest(told: &ToldDigest) -> Self {
        Self::new(Delivered::Digest { page: told.page }, (told.day, &told.webhook), told.at)
    }

    fn new(of: Delivered, (day, webhook): (Day, &str), made_at: Timestamp) -> Self {
        Self {
            ver: 0,
            of,
            day,
            webhook: webhook.to_owned(),
            made_at,
            state: DeliveryState::Pending,
            tries: 0,
            due_at: made_at,
            why: None,
        }
    }

    /// Whether it is to be tried at an instant.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.state == DeliveryState::Pending && self.due_at <= now
    }

    /// What is written before it is tried: who finds it then leaves it alone until the try is over.
    #[must_use]
    pub fn claimed(&self, now: Timestamp) -> Self {
        let tries = self.tries.saturating_add(1);
        let due_at = Timestamp::from_micros(now.micros() + self.wait(tries).as_micros() as i64);
        Self { ver: self.ver + 1, tries, due_at: due_at.unwrap_or(now), ..self.clone() }
    }

    /// What is written of a try when it is over.
    #[must_use]
    pub fn after(&self, tried: &Tried, now: Timestamp) -> Self {
        let is_late = now >= self.made_at.plus_seconds(TRIED_FOR_SECONDS);
        let (state, why) = match tried {
            Tried::Delivered => (DeliveryState::Delivered, None),
            Tried::Failed(why) if !is_late => (DeliveryState::Pending, Some(why)),
            Tried::Failed(why) | Tried::Never(why) => (DeliveryState::GivenUp, Some(why)),
        };
        let due_at = if state == DeliveryState::Pending { self.due_at } else { now };
        let why = why.map(|why| why[..why.floor_char_boundary(MAX_WHY_BYTES)].to_owned());
        Self { ver: self.ver + 1, state, due_at, why, ..self.clone() }
    }

    /// What is written where it was not tried itself, since its receiver failed a moment ago. It counts as a try.
    #[must_use]
    pub fn passed_over(&self, tried: &Tried, now: Timestamp) -> Self {
        Self { ver: self.ver, ..self.claimed(now) }.after(tried, now)
    }

    /// The same, due at once, if a clock that was ahead put it off for longer than one waits, or gave it up after a time that has not passed: by `latest`,
    /// the latest of the clocks.
    #[must_use]
    pub fn hastened(&self, now: Timestamp, latest: Timestamp) -> Option<Self> {
        let is_early = match self.state {
            DeliveryState::Pending => self.due_at > latest.plus_seconds(2 * LONGEST_WAIT.as_secs() as i64),
            DeliveryState::GivenUp => self.due_at > latest,
            DeliveryState::Delivered => false,
        };
        let (made_at, state) = (self.made_at.min(now), DeliveryState::Pending);
        is_early.then(|| Self { ver: self.ver + 1, made_at, state, due_at: now, ..self.clone() })
    }

    /// How long it is from a try to the next: exponential, with jitter of a quarter up and down that its key decides, so that those
    /// that failed together do not come again together.
    fn wait(&self, tries: u32) -> Duration {
        let doubled = FIRST_WAIT.saturating_mul(1 << tries.saturating_sub(1).min(20)).min(LONGEST_WAIT);
        let mut hasher = DefaultHasher::new();
        (self.id(), &self.webhook, tries).hash(&mut hasher);
        let share = (hasher.finish() % 1_024) as f64 / 1_024.0;
        doubled.mul_f64(0.75 + share / 2.0)
    }

    /// What tells that which is posted from all else that is posted of the workspace.
    pub fn id(&self) -> String {
        match &self.of {
            Delivered::Crossing { rule, created_at } => super::crossing::id(rule, self.day, *created_at),
            Delivered::Digest { page } => digest::id(&self.webhook, self.day, *page),
        }
    }

    /// Where that is.
    pub fn source_key(&self, workspace: &Id) -> Key {
        match &self.of {
            Delivered::Crossing { rule, created_at } => key::crossing(workspace, self.day, rule, *created_at),
            Delivered::Digest { page } => key::digest(workspace, self.day, &self.webhook, *page),
        }
    }

    fn key(&self, workspace: &Id) -> Key {
        match &self.of {
            Delivered::Crossing { rule, created_at } => {
                key::delivery(workspace, self.day, rule, *created_at, &self.webhook)
            }
            Delivered::Digest { page } => key::digest_delivery(workspace, self.day, &self.webhook, *page),
        }
    }

    /// Reads it from its item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let of = match item.text("of")? {
            CROSSING => Delivered::Crossing {
                rule: item.text("rule")?.to_owned(),
                created_at: time(item, "created_at")?,
            },
            DIGEST => {
                let page = u32::try_from(item.int("page")?);
                Delivered::Digest { page: page.map_err(|_| item.corrupt("`page` is none"))? }
            }
            _ => return Err(item.corrupt("`of` is nothing that is posted")),
        };
        let state = item.text("state")?;
        let state = DeliveryState::ALL.into_iter().find(|known| known.name() == state);
        Ok(Self {
            ver: item.int("ver")?,
            of,
            day: item.text("day")?.parse().map_err(|_| item.corrupt("`day` is none"))?,
            webhook: item.text("webhook")?.to_owned(),
            made_at: time(item, "made_at")?,
            state: state.ok_or_else(|| item.corrupt("`state` is none"))?,
            tries: u32::try_from(item.int("tries")?).map_err(|_| item.corrupt("`tries` is no count"))?,
            due_at: time(item, "due_at")?,
            why: item.optional_text("why").map(str::to_owned),
        })
    }

    /// Its item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        let item = Item::new(self.key(workspace))
            .with("v", ITEM_VERSION)
            .with("ver", self.ver.max(1))
            .with("of", self.of.name())
            .with("day", self.day.to_string())
            .with("webhook", self.webhook.as_str())
            .with("made_at", self.made_at.micros())
            .with("state", self.state.name())
            .with("tries", i64::from(self.tries))
            .with("due_at", self.due_at.micros());
        let item = match &self.of {
            Delivered::Crossing { rule, created_at } => {
                item.with("rule", rule.as_str()).with("created_at", created_at.micros())
            }
            Delivered::Digest { page } => item.with("page", i64::from(*page)),
        };
        let item = match &self.why {
            Some(why) => item.with("why", why.as_str()),
            None => item,
        };
        match self.state {
            DeliveryState::Pending => {
                let (pk, sk) = key::delivery_index(self.due_at);
                item.with("GSI1PK", pk).with("GSI1SK", sk)
            }
            DeliveryState::Delivered | DeliveryState::GivenUp => item,
        }
    }
}

impl Catalog {
    /// What was or is to be posted of the days from one to another, the latest days first: one query.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is not 1 to [`MAX_DELIVERIES`]; those of the table, and `Corrupt`.
    pub async fn deliveries(
        &self,
        workspace: &Id,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        if !(1..=MAX_DELIVERIES).contains(&limit) {
            return Err(Error::invalid(format!("the limit is 1 to {MAX_DELIVERIES}")));
        }
        let query = Query::table(key::deliveries(workspace, from, to)).backward().limit(limit);
        self.table.query(&query).await?.items.iter().map(Delivery::from_item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> Id {
        Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap()
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn created_at() -> Timestamp {
        Timestamp::from_micros(1_370_000_000_000_000).unwrap()
    }

    fn delivery() -> Delivery {
        Delivery {
            ver: 1,
            of: Delivered::Crossing { rule: "auc-low".into(), created_at: created_at() },
            day: "2013-06-01".parse().unwrap(),
            webhook: "oncall".into(),
            made_at: at("2013-06-02T00:01:00Z"),
            state: DeliveryState::Pending,
            tries: 0,
            due_at: at("2013-06-02T00:01:00Z"),
            why: None,
        }
    }

    #[test]
    fn its_items_are_stored_so() {
        let key = key::delivery(&id(), delivery().day, "auc-low", created_at(), "oncall");
        let stored = Item::new(key)
            .with("v", 1)
            .with("ver", 1)
            .with("of", "crossing")
            .with("rule", "auc-low")
            .with("created_at", 1_370_000_000_000_000)
            .with("day", "2013-06-01")
            .with("webhook", "oncall")
            .with("made_at", 1_370_131_260_000_000)
            .with("state", "pending")
            .with("tries", 0)
            .with("due_at", 1_370_131_260_000_000)
            .with("GSI1PK", "deliveries")
            .with("GSI1SK", "1370131260000000");
        assert_eq!(delivery().to_item(&id()), stored);
        assert_eq!(Delivery::from_item(&stored).unwrap(), delivery());
        assert!(Delivery::from_item(&stored.clone().with("of", "odd")).is_err());
        assert!(Delivery::from_item(&stored.clone().with("v", 2)).is_err());
        let digest = Delivery { of: Delivered::Digest { page: 1 }, ..delivery() };
        let item = digest.to_item(&id());
        assert_eq!(item.key, key::digest_delivery(&id(), digest.day, "oncall", 1));
        let page = Delivery { of: Delivered::Digest { page: 2 }, ..delivery() };
        let of_page = page.to_item(&id());
        assert_eq!(of_page.key, key::digest_delivery(&id(), digest.day, "oncall", 2));
        assert_eq!(page.source_key(&id()), key::digest(&id(), digest.day, "oncall", 2));
        assert_eq!(Delivery::from_item(&of_page).unwrap(), page);
        assert_eq!((item.text("of").unwrap(), item.optional_text("rule")), ("digest", None));
        assert_eq!(Delivery::from_item(&item).unwrap(), digest);
        assert_eq!(digest.source_key(&id()), key::digest(&id(), digest.day, "oncall", 1));
        assert!(Delivery::from_item(&stored.with("state", "odd")).is_err());
        let settled = delivery().after(&Tried::Never("410 Gone".into()), at("2013-06-02T00:02:00Z"));
        let item = settled.to_item(&id());
        assert_eq!((item.text("state").unwrap(), item.text("why").unwrap()), ("given_up", "410 Gone"));
        assert!(!item.attributes.contains_key("GSI1PK"));
        assert_eq!(Delivery::from_item(&item).unwrap(), settled);
    }

    #[test]
    fn delivery_retries_back_off_and_end() {
        let (mut one, mut now, mut waits) = (delivery(), delivery().made_at, Vec::new());
        while one.state == DeliveryState::Pending {
            assert!(one.is_due(now));
            one = one.claimed(now);
            assert!(!one.is_due(now.plus_seconds(14)), "a try may take 10 s");
            waits.push((one.due_at.micros() - now.micros()) / 1_000_000);
            one = one.after(&Tried::Failed("503".into()), now);
            now = one.due_at;
        }
        assert_eq!((one.state, one.why.as_deref()), (DeliveryState::GivenUp, Some("503")));
        let day = one.due_at.micros() - one.made_at.micros();
        assert!((24 * 60 * 60..26 * 60 * 60).contains(&(day / 1_000_000)), "{waits:?}");
        assert!(
            waits
                .iter()
                .zip([20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600])
                .all(|(wait, usual)| { (usual * 3 / 4 - 1..=usual * 5 / 4).contains(wait) })
        );
        assert!((25..45).contains(&waits.len()), "{waits:?}");
        let mut other = Delivery { webhook: "slack".into(), ..delivery() };
        other = other.claimed(other.made_at);
        assert_ne!(other.due_at, delivery().claimed(other.made_at).due_at, "not all at one time");
        let taken = other.after(&Tried::Delivered, now);
        assert_eq!(
            (taken.state, taken.why.clone(), taken.is_due(now)),
            (DeliveryState::Delivered, None, false)
        );
    }
}
