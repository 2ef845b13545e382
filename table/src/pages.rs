//! Reading a query to its end.

use event::Result;

use crate::{Item, Query, Table};

/// The pages of a query, read one by one as they are asked for: so no more than a page is held of what may be long.
#[derive(Debug)]
pub struct Pages<'a> {
    table: &'a dyn Table,
    /// What is to be read next; `None` after the last page.
    rest: Option<Query>,
}

impl<'a> Pages<'a> {
    /// Those of `query`, none of which is read yet.
    pub fn of(table: &'a dyn Table, query: Query) -> Self {
        Self { table, rest: Some(query) }
    }

    /// The items of the next page, which may be none; `None` after the last.
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

/// All items of a query, page after page.
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
