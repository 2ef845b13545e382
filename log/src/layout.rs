//! Layout of a table: the forms that its items may have.
//!
//! The layout is one number for the whole table. An Almanac that does not know it refuses the table at once, before the
//! first answer, not at the first unreadable item. In a table of an older layout an Almanac writes forms that the
//! previous one reads, so that one may be started again; `almanac admin upgrade` raises the layout, and then rewrites
//! items in older forms.

use event::{Error, Result, Timestamp};
use serde::{Deserialize, Serialize};
use table::{Change, Condition, Item, Policy, Table, Write, update};

use crate::key;

/// The highest layout that this Almanac knows; new tables have it. It is incremented when an item gets a form that an
/// older Almanac would misread; the test `layout` of `tests/tidy` lists these forms. Layout 2 lets snapshots pin days
/// (`catalog/src/retention.rs`).
pub const LAYOUT: u32 = 2;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Layout of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Its number.
    #[serde(rename = "layout")]
    pub number: u32,
    /// Version of the Almanac that raised the layout.
    pub by: String,
    /// Time at which it was raised.
    pub at: Timestamp,
}

impl Layout {
    /// Returns the layout that this Almanac creates or raises to.
    fn of_today(at: Timestamp) -> Self {
        Self { number: LAYOUT, by: env!("CARGO_PKG_VERSION").to_owned(), at }
    }

    /// Decodes an item; refuses a layout newer than this Almanac.
    fn from_item(item: &Item) -> Result<Self> {
        // These fields stay readable in all later forms of this item.
        let number = u32::try_from(item.int("layout")?).map_err(|_| item.corrupt("`layout` is none"))?;
        let by = item.text("by")?;
        if number > LAYOUT {
            return Err(Error::conflict(format!(
                "this table is of layout {number}, written by Almanac {by}; this Almanac ({}) knows layouts up to {LAYOUT}: use that \
                 version, or a newer one",
                env!("CARGO_PKG_VERSION"),
            )));
        }
        item.to_record(ITEM_VERSION)
    }

    fn to_item(&self) -> Item {
        Item::record(key::layout(), ITEM_VERSION, self)
    }
}

/// Reads the layout of a table: one read. A table without a layout is new.
///
/// # Errors
/// `Conflict` if it is newer than this Almanac; `Corrupt`; errors of the table.
pub async fn load(table: &dyn Table) -> Result<Layout> {
    Ok(held(table).await?.0)
}

/// Returns the layout of a table, and the check for a write in the form of that layout, so that no older form is
/// written after the layout was raised.
///
/// # Errors
/// As [`load`].
pub async fn held(table: &dyn Table) -> Result<(Layout, Write)> {
    let item = table.get(&key::layout()).await?;
    let (layout, ver) = match &item {
        Some(item) => (Layout::from_item(item)?, item.int("ver")?),
        None => (Layout::of_today(Timestamp::default()), 0),
    };
    Ok((layout, Write::Check(key::layout(), Condition::unchanged(ver))))
}

/// Writes the layout of a new table.
///
/// # Errors
/// As [`load`].
pub async fn begin(table: &dyn Table, now: Timestamp) -> Result<()> {
    say(table, now, false).await
}

/// Raises the layout of a table to that of this Almanac: older ones refuse it from then on.
///
/// # Errors
/// As [`load`].
pub async fn raise(table: &dyn Table, now: Timestamp) -> Result<()> {
    say(table, now, true).await
}

async fn say(table: &dyn Table, now: Timestamp, is_raised: bool) -> Result<()> {
    let key = key::layout();
    update(table, &key, Policy::of(&"the layout of the table"), async |item| {
        let known = item.as_ref().map(Layout::from_item).transpose()?;
        Ok(match known {
            Some(known) if known.number == LAYOUT || !is_raised => Change::Leave(()),
            _ => Change::Put(Layout::of_today(now).to_item(), ()),
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use event::{Clock, ErrorKind};
    use table::sqlite::SqliteTable;

    use super::*;

    fn table() -> (SqliteTable, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap(), folder)
    }

    fn now() -> Timestamp {
        Timestamp::parse("2026-06-10T00:00:00Z").unwrap()
    }

    fn of(number: u32) -> Layout {
        Layout { number, by: "7.0.0".into(), at: now() }
    }

    #[test]
    fn its_item_is_stored_so() {
        let item = of(2).to_item().with("ver", 3);
        insta::assert_snapshot!(table::text::line(&item).unwrap());
        assert_eq!(Layout::from_item(&item).unwrap(), of(2));
    }

    #[tokio::test]
    async fn a_new_table_says_its_layout_once() {
        let (table, _folder) = table();
        assert_eq!(load(&table).await.unwrap().number, LAYOUT);
        begin(&table, now()).await.unwrap();
        begin(&table, now().plus_seconds(9)).await.unwrap();
        assert_eq!(load(&table).await.unwrap(), Layout::of_today(now()));
    }

    #[tokio::test]
    async fn an_older_one_stays_until_it_is_raised() {
        let (table, _folder) = table();
        table.put(of(1).to_item().with("ver", 1), Condition::None).await.unwrap();
        begin(&table, now()).await.unwrap();
        assert_eq!(load(&table).await.unwrap(), of(1));
        raise(&table, now()).await.unwrap();
        raise(&table, now().plus_seconds(9)).await.unwrap();
        assert_eq!(load(&table).await.unwrap(), Layout::of_today(now()));
    }

    #[tokio::test]
    async fn newer_layout_is_refused_in_any_form() {
        let (table, _folder) = table();
        table.put(of(LAYOUT + 1).to_item().with("v", 9).with("ver", 4), Condition::None).await.unwrap();
        let refused = [
            load(&table).await.unwrap_err(),
            begin(&table, now()).await.unwrap_err(),
            raise(&table, now()).await.unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.to_string().contains("written by Almanac 7.0.0"), "{error}");
        }
    }
}
