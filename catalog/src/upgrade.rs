//! Settings of a workspace that are still in an older form, written again in that of today.

use event::{Id, Result};
use log::key;
use table::{Change, Item, Key, Policy, update};

use super::{Catalog, alert, lanes, retention};

/// A kind of item whose form has changed.
struct Form {
    /// What it is, for people.
    what: &'static str,
    key: fn(&Id) -> Key,
    /// The version that is written today.
    version: i64,
    /// The same item in today's form.
    renew: fn(&Item, &Id) -> Result<Item>,
}

const FORMS: [Form; 3] = [
    Form { what: "alert rules", key: key::alert_rules, version: alert::ITEM_VERSION, renew: alert::renewed },
    Form { what: "lanes", key: key::lanes, version: lanes::ITEM_VERSION, renew: lanes::renewed },
    Form {
        what: "retention",
        key: key::retention,
        version: retention::ITEM_VERSION,
        renew: retention::renewed,
    },
];

/// A setting in an older form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OlderForm {
    /// What it is, such as `alert rules`.
    pub what: &'static str,
    /// The version that it was found in.
    pub version: i64,
    /// The version that is written today.
    pub today: i64,
}

impl Catalog {
    /// The settings of a workspace that are in an older form: a read for each kind of them that ever changed. With `renews`
    /// they are written again as they are in today's form, each under the condition that it did not change meanwhile.
    ///
    /// # Errors
    /// Those of the table, and `Corrupt`.
    pub async fn older_forms(&self, workspace: &Id, renews: bool) -> Result<Vec<OlderForm>> {
        let mut found = Vec::new();
        for form in FORMS {
            let (key, policy) = ((form.key)(workspace), Policy::of(&form.what));
            let older = update(&*self.table, &key, policy, async |item| {
                let Some(item) = item else { return Ok(Change::Leave(None)) };
                let version = item.int("v")?;
                if version >= form.version {
                    return Ok(Change::Leave(None));
                }
                let renewed = (form.renew)(&item, workspace)?;
                let older = Some(OlderForm { what: form.what, version, today: form.version });
                Ok(if renews { Change::Put(renewed, older) } else { Change::Leave(older) })
            });
            found.extend(older.await?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{Clock, Timestamp};
    use table::{Condition, Table, item::Value, sqlite::SqliteTable};

    use super::*;

    #[tokio::test]
    async fn what_is_older_is_written_once_in_the_form_of_today() {
        let folder = tempfile::tempdir().unwrap();
        let table = Arc::new(SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap());
        let catalog = Catalog::new(table.clone());
        let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let workspace = Id::new(now);
        assert_eq!(catalog.older_forms(&workspace, true).await.unwrap(), []);
        let none = || Value::L(Vec::new());
        let older = [
            Item::new(key::alert_rules(&workspace)).with("v", 1).with("ver", 3),
            Item::new(key::lanes(&workspace)).with("v", 1).with("ver", 2).with("count", 4),
            Item::new(key::retention(&workspace))
                .with("v", 1)
                .with("ver", 7)
                .with("days", 30)
                .with("changed_at", now.micros())
                .with("pinned_days", none())
                .with("pinned_releases", none()),
        ];
        for item in older {
            table.put(item, Condition::Absent).await.unwrap();
        }
        let (lanes, kept) =
            (catalog.lanes(&workspace).await.unwrap(), catalog.retention(&workspace).await.unwrap());
        let seen = catalog.older_forms(&workspace, false).await.unwrap();
        let said = seen.iter().map(|form| (form.what, form.version, form.today));
        assert_eq!(said.collect::<Vec<_>>(), [("alert rules", 1, 8), ("lanes", 1, 2), ("retention", 1, 2)]);
        assert_eq!(catalog.older_forms(&workspace, true).await.unwrap(), seen);
        assert_eq!(catalog.older_forms(&workspace, true).await.unwrap(), []);
        // They say what they said.
        assert_eq!(catalog.lanes(&workspace).await.unwrap().count, lanes.count);
        let now_kept = catalog.retention(&workspace).await.unwrap();
        assert_eq!((now_kept.days, now_kept.changed_at), (kept.days, kept.changed_at));
        let item = table.get(&key::retention(&workspace)).await.unwrap().unwrap();
        assert_eq!((item.int("v").unwrap(), item.int("ver").unwrap()), (2, 8));
    }
}
