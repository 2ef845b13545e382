//! The layout of a table: which versions of the forms of its items there may be in it.
//!
//! Each item has a version of its own, and is read in every version that was ever written. The layout is one number for
//! all of them. A service that writes raises it when it starts, so an older Almanac refuses the whole table at once,
//! before it has answered anything, and not the first item that it cannot read. `almanac upgrade` rewrites what is still in an
//! older form, and then notes that this layout is complete.

use event::{Error, Result, Timestamp};
use table::{Change, Item, Policy, Table, update};

use crate::key;

/// The layout that this Almanac writes. It grows by one when an item gets a form, or a kind of item is added, that an older
/// Almanac would misread; the test `layout` of `tests/tidy` shows which versions belong to it. Layout 1 is that of tables which do not say
/// theirs.
pub const LAYOUT: u32 = 4;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// In which layout a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The highest layout of an Almanac that may have written into it.
    pub number: u32,
    /// The version of the Almanac that raised it to that; empty when none did.
    pub by: String,
    /// When it was raised.
    pub at: Timestamp,
    /// The layout up to which nothing is in an older form any more, as `almanac upgrade` noted it; 0 when it was never
    /// called.
    pub complete: u32,
}

impl Layout {
    /// That of a table which does not say its own.
    fn unsaid() -> Self {
        Self { number: 1, by: String::new(), at: Timestamp::default(), complete: 0 }
    }

    fn from_item(item: &Item) -> Result<Self> {
        // Whatever form a newer Almanac gives this item, the number stays readable.
        let layout = |name| {
            u32::try_from(item.int(name)?).map_err(|_| item.corrupt(format_args!("`{name}` is no layout")))
        };
        let number = layout("layout")?;
        let by = item.text("by")?.to_owned();
        if number <= LAYOUT {
            item.check_version(ITEM_VERSION)?;
        }
        let at = Timestamp::from_micros(item.int("at")?).ok_or_else(|| item.corrupt("`at` is no time"))?;
        Ok(Self { number, by, at, complete: layout("complete")? })
    }

    fn to_item(&self) -> Item {
        Item::new(key::layout())
            .with("v", ITEM_VERSION)
            .with("layout", i64::from(self.number))
            .with("by", self.by.as_str())
            .with("at", self.at.micros())
            .with("complete", i64::from(self.complete))
    }

    /// Refuses what is newer than this Almanac.
    ///
    /// # Errors
    /// `Conflict`.
    fn check(self) -> Result<Self> {
        match self.number {
            number if number <= LAYOUT => Ok(self),
            number => Err(Error::conflict(format!(
                "this table is of layout {number}, written by Almanac {}; this Almanac ({}) knows layouts up to {LAYOUT}: use that \
                 version, or a newer one",
                self.by,
                env!("CARGO_PKG_VERSION"),
            ))),
        }
    }
}

/// In which layout a table is: one read.
///
/// # Errors
/// `Conflict`, when a newer Almanac wrote into it; `Corrupt`; those of the table.
pub async fn load(table: &dyn Table) -> Result<Layout> {
    match table.get(&key::layout()).await? {
        Some(item) => Layout::from_item(&item)?.check(),
        None => Ok(Layout::unsaid()),
    }
}

/// Notes that this Almanac writes into the table, unless that is known. `is_empty` is asked when the table does not say its layout:
/// one that holds nothing yet has nothing in an older form.
///
/// # Errors
/// As [`load`]; those of `is_empty`.
pub async fn raise(
    table: &dyn Table,
    now: Timestamp,
    is_empty: impl AsyncFn() -> Result<bool>,
) -> Result<Layout> {
    let key = key::layout();
    update(table, &key, Policy::of(&"the layout of the table"), async |item| {
        let known = match &item {
            Some(item) => Layout::from_item(item)?.check()?,
            None => Layout::unsaid(),
        };
        if known.number == LAYOUT {
            return Ok(Change::Leave(known));
        }
        let complete = if item.is_none() && is_empty().await? { LAYOUT } else { known.complete };
        let raised = Layout { number: LAYOUT, by: env!("CARGO_PKG_VERSION").to_owned(), at: now, complete };
        Ok(Change::Put(raised.to_item(), raised))
    })
    .await
}

/// Notes that nothing is in an older form than this Almanac's any more.
///
/// # Errors
/// `Conflict`, when a newer Almanac wrote into the table, or none has said its layout; `Corrupt`; those of the table.
pub async fn complete(table: &dyn Table) -> Result<()> {
    let key = key::layout();
    update(table, &key, Policy::of(&"the layout of the table"), async |item| {
        let item = item.ok_or_else(|| Error::conflict("the table does not say its layout"))?;
        let known = Layout::from_item(&item)?.check()?;
        Ok(match known.complete {
            LAYOUT => Change::Leave(()),
            _ => Change::Put(Layout { complete: LAYOUT, ..known }.to_item(), ()),
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use event::{Clock, ErrorKind};
    use table::{Condition, sqlite::SqliteTable};

    use super::*;

    fn table() -> (SqliteTable, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap(), folder)
    }

    fn now() -> Timestamp {
        Timestamp::parse("2026-06-10T00:00:00Z").unwrap()
    }

    #[test]
    fn its_item_is_stored_so() {
        let layout = Layout { number: 2, by: "0.2.0".into(), at: now(), complete: 1 };
        let item = layout.to_item().with("ver", 3);
        insta::assert_snapshot!(table::text::line(&item).unwrap());
        assert_eq!(Layout::from_item(&item).unwrap(), layout);
    }

    #[tokio::test]
    async fn a_service_raises_it_once_and_an_upgrade_completes_it() {
        let (table, _folder) = table();
        assert_eq!(load(&table).await.unwrap(), Layout::unsaid());
        assert_eq!(complete(&table).await.unwrap_err().kind(), ErrorKind::Conflict);
        let raised = raise(&table, now(), async || Ok(false)).await.unwrap();
        assert_eq!((raised.number, raised.complete, raised.at), (LAYOUT, 0, now()));
        let again = raise(&table, now().plus_seconds(9), async || unreachable!()).await.unwrap();
        assert_eq!((&again, load(&table).await.unwrap()), (&raised, raised.clone()));
        complete(&table).await.unwrap();
        complete(&table).await.unwrap();
        let item = table.get(&key::layout()).await.unwrap().unwrap();
        assert_eq!((item.int("complete").unwrap(), item.int("ver").unwrap()), (i64::from(LAYOUT), 2));
    }

    #[tokio::test]
    async fn a_table_that_holds_nothing_has_nothing_old() {
        let (table, _folder) = table();
        assert_eq!(raise(&table, now(), async || Ok(true)).await.unwrap().complete, LAYOUT);
    }

    #[tokio::test]
    async fn a_newer_one_is_refused_in_whatever_form_it_is() {
        let (table, _folder) = table();
        let newer = Layout { number: LAYOUT + 1, by: "7.0.0".into(), at: now(), complete: 0 };
        table.put(newer.to_item().with("v", 9).with("ver", 4), Condition::None).await.unwrap();
        let refused = [
            load(&table).await.unwrap_err(),
            raise(&table, now(), async || Ok(true)).await.unwrap_err(),
            complete(&table).await.unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.to_string().contains("written by Almanac 7.0.0"), "{error}");
        }
    }
}
