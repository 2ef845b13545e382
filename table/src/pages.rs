//! Reading a query to its end.

use event::Result;

use crate::{Item, Query, Table};

/// Pages of a query, read one by one on demand: so at most a page of a long result is held.
#[derive(Debug)]
pub struct Pages<'a> {
    table: &'a dyn Table,
    /// Query of the next page; `None` after the last page.
    rest: Option<Query>,
}

impl<'a> Pages<'a> {
    /// Begins with `query`, of which no page is read yet.
    pub fn of(table: &'a dyn Table, query: Query) -> Self {
        Self { table, rest: Some(query) }
    }

    /// Reads the items of the next page, which may be none; `None` after the last.
    ///
    /// # Errors
    /// Errors of [`Table::query`]. Then there are no more pages.
    pub async fn next(&mut self) -> Result<Option<Vec<Item>>> {
        let Some(query) = self.rest.take() else { return Ok(None) };
        let page = self.table.query(&query).await?;
        self.rest = page.next.map(|next| Query { after: Some(next), ..query });
        Ok(Some(page.items))
    }
}

/// Reads all items of a query, page after page.
///
/// # Errors
/// Errors of [`Table::query`].
pub async fn query_all(table: &dyn Table, query: Query) -> Result<Vec<Item>> {
    let (mut pages, mut items) = (Pages::of(table, query), Vec::new());
    while let Some(page) = pages.next().await? {
        items.extend(page);
    }
    Ok(items)
}
