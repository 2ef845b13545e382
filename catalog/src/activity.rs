//! Recent activities of a user: items in the user's partition that expire by themselves.

use event::{Id, Timestamp};
use log::key::{self, EntityId};
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Write};

/// Time that an activity is kept, in seconds.
pub const ACTIVITY_SECONDS: i64 = 30 * 24 * 60 * 60;

pub(super) const ITEM_VERSION: i64 = 1;

/// Activity of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    let activity = Activity { at: now, what: what.to_owned(), about: about.to_string() };
    let item = Item::record(key::activity(user, &Id::new(now)), ITEM_VERSION, &activity)
        .with("expires_at", now.plus_seconds(ACTIVITY_SECONDS).micros().div_euclid(1_000_000));
    Some(Write::Put(item, Condition::None))
}
