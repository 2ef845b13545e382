//! What happened to a user lately: items in the user's partition that end by themselves.

use event::{Id, Result, Timestamp};
use log::key::{self, EntityId};
use table::{Condition, Item, Write};

/// For how long it is kept, in seconds.
pub const ACTIVITY_SECONDS: i64 = 30 * 24 * 60 * 60;

const ITEM_VERSION: i64 = 1;

/// Something that happened to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// When.
    pub at: Timestamp,
    /// What, in words.
    pub what: String,
    /// The id of what it was about, as people see it.
    pub about: String,
}

/// What notes that something happened, if it happened to a user.
pub(super) fn noted(of: &EntityId, what: &str, about: &EntityId, now: Timestamp) -> Option<Write> {
    let EntityId::User(user) = of else { return None };
    let item = Item::new(key::activity(user, &Id::new(now)))
        .with("v", ITEM_VERSION)
        .with("at", now.micros())
        .with("what", what)
        .with("about", about.to_string())
        .with("expires_at", now.plus_seconds(ACTIVITY_SECONDS).micros().div_euclid(1_000_000));
    Some(Write::Put(item, Condition::None))
}

impl Activity {
    pub(super) fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        Ok(Self {
            at: Timestamp::from_micros(item.int("at")?).ok_or_else(|| item.corrupt("`at` is no time"))?,
            what: item.text("what")?.to_owned(),
            about: item.text("about")?.to_owned(),
        })
    }
}
