//! Recent activities of a user: items in the user's partition that expire by themselves.

use event::{Id, Result, Timestamp};
use log::key::{self, EntityId};
use table::{Condition, Item, Write};

/// Time that an activity is kept, in seconds.
pub const ACTIVITY_SECONDS: i64 = 30 * 24 * 60 * 60;

const ITEM_VERSION: i64 = 1;

/// Activity of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Time at which it happened.
    pub at: Timestamp,
    /// Description in words.
    pub what: String,
    /// Id of its subject, as people see it.
    pub about: String,
}

/// Returns the write that notes an activity of a user; `None` for other entities.
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
