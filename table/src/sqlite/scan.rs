//! Reading the whole file, on a person's request.

use event::{Error, Result, Timestamp};
use rusqlite::{Connection, params};

use super::{SqliteTable, fault::Attempt, row};
use crate::{Cursor, Item, Key, MAX_PAGE_BYTES, Page, Scan};

/// Maximum items in a page.
const MAX_ITEMS: usize = 1_000;

/// First part of cursors.
const NAME: &str = "scan";

impl SqliteTable {
    /// Reads a page of all items, in the order of their keys.
    ///
    /// # Errors
    /// `Invalid`, when the cursor is of something else; those of reading.
    pub async fn scan(&self, scan: &Scan) -> Result<Page> {
        let (scan, now) = (scan.clone(), self.clock.now());
        // Keys and items must come from one state of the file.
        self.readers.run(move |connection| page(&*connection.transaction()?, &scan, now)).await
    }
}

/// Reads a page of the state that the transaction of the connection sees.
pub(super) fn page(connection: &Connection, scan: &Scan, now: Timestamp) -> Attempt<Page> {
    let after = match &scan.after {
        None => Key::new(&scan.prefix, ""),
        Some(cursor) => match cursor.parts() {
            [name, pk, sk] if name == NAME => Key::new(pk, sk),
            _ => return Err(Error::invalid("the cursor belongs to another query").into()),
        },
    };
    let end = format!("{}{}", scan.prefix, char::MAX);
    let sql = "SELECT pk, sk FROM item WHERE (pk, sk) > (?1, ?2) AND pk <= ?3
        AND (expires_at IS NULL OR expires_at > ?4) ORDER BY pk, sk LIMIT ?5";
    let most = MAX_ITEMS as i64 + 1;
    let mut statement = connection.prepare_cached(sql)?;
    let keys = statement
        .query_map(params![after.pk, after.sk, end, row::seconds(now), most], |row| {
            Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?
        .collect::<std::result::Result<Vec<Key>, _>>()?;
    let mut page = Page::default();
    let mut bytes = 0;
    for key in keys {
        let item = match scan.keys_only {
            true => Some(Item::new(key)),
            false => row::load(connection, &key, now, None)?,
        };
        let Some(item) = item else { continue };
        bytes += item.size();
        let is_full = page.items.len() == MAX_ITEMS || bytes > MAX_PAGE_BYTES;
        if let (true, Some(last)) = (is_full, page.items.last()) {
            let (pk, sk) = (last.key.pk.clone(), last.key.sk.clone());
            page.next = Some(Cursor::of(vec![NAME.to_owned(), pk, sk]));
            break;
        }
        page.items.push(item);
    }
    Ok(page)
}
