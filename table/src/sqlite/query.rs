//! Reading a page.

use event::{Error, Result, Timestamp};
use rusqlite::{Connection, params_from_iter, types::Value as Sql};

use super::{
    cursor::{IndexEntry, SortKey},
    fault::Attempt,
    row,
};
use crate::{Direction, Index, Item, Key, MAX_PAGE_BYTES, Page, Query, item::Value};

/// Reads a page of `query`. There is a next page exactly when another item was seen.
pub(super) fn page(connection: &Connection, query: &Query, now: Timestamp) -> Attempt<Page> {
    let statement = Statement::new(query, now)?;
    let wanted = query.attributes.as_deref();
    let wants_data = row::wants_data(wanted);
    let mut prepared = connection.prepare_cached(&statement.sql)?;
    let mut rows = prepared.query(params_from_iter(statement.parameters))?;
    let mut page = Page::default();
    let mut last = None;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        if query.limit == Some(page.items.len()) {
            page.next = last.map(|place: IndexEntry| place.cursor(query.index));
            break;
        }
        let key = Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        let attributes = row::decode(&key, row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?, wanted)?;
        let mut item = Item { key, attributes };
        let data = row.get::<_, Option<i64>>(5)?.filter(|_| wants_data);
        let size = item.size() + data.map_or(0, |length| row::DATA.len() + length as usize);
        if !page.items.is_empty() && bytes + size > MAX_PAGE_BYTES {
            page.next = last.map(|place| place.cursor(query.index));
            break;
        }
        if data.is_some() {
            item.attributes.insert(row::DATA.to_owned(), Value::B(data_of(connection, row.get(4)?)?));
        }
        let sort = match query.index {
            Index::Table | Index::Gsi1 => SortKey::Text(row.get(3)?),
            Index::Board => SortKey::Score(row.get(3)?),
        };
        last = Some(IndexEntry { sort, key: item.key.clone() });
        bytes += size;
        page.items.push(item);
    }
    Ok(page)
}

/// Reads the bytes of a row separately. If the statement of the page named the column, SQLite would read it also for the row that
/// no longer fits in the page; with long items that is a good part of all reading. Both statements see the same state of the
/// file.
fn data_of(connection: &Connection, row: i64) -> Attempt<Vec<u8>> {
    let mut statement = connection.prepare_cached("SELECT data FROM item WHERE rowid = ?1")?;
    Ok(statement.query_row([row], |row| row.get(0))?)
}

/// SQL of a page, with its parameters. It names its index, so that a query which could not use it fails in the first test instead
/// of reading the whole table.
struct Statement {
    sql: String,
    parameters: Vec<Sql>,
}

impl Statement {
    fn new(query: &Query, now: Timestamp) -> Result<Self> {
        if query.limit == Some(0) {
            return Err(Error::invalid("a page needs a limit of at least 1"));
        }
        let (index, partition, order) = along(query.index);
        let (sort, ways) = match query.direction {
            Direction::Forward => (order[0], "ASC"),
            Direction::Backward => (order[0], "DESC"),
        };
        let mut statement = Self {
            sql: format!(
                "SELECT pk, sk, attributes, {sort}, rowid, length(data) FROM item INDEXED BY {index}
                WHERE {partition} = ?1 AND (expires_at IS NULL OR expires_at > ?2)"
            ),
            parameters: vec![Sql::Text(query.range.pk.clone()), Sql::Integer(row::seconds(now))],
        };
        statement.bound(query, order)?;
        let order: Vec<String> = order.iter().map(|column| format!("{column} {ways}")).collect();
        statement.sql += &format!(" ORDER BY {}", order.join(", "));
        Ok(statement)
    }

    /// Narrows to the range and to the items after the cursor. Only the narrower of the range's near end and the cursor is a
    /// condition: SQLite starts reading at one of them, and it would not know which is nearer.
    fn bound(&mut self, query: &Query, order: &[&str]) -> Result<()> {
        let after = query.after.as_ref().map(|cursor| IndexEntry::read(cursor, query.index)).transpose()?;
        let forward = query.direction == Direction::Forward;
        let (near, far) =
            if forward { (&query.range.from, &query.range.to) } else { (&query.range.to, &query.range.from) };
        let (past, near_end, far_end) = if forward { (">", ">=", "<=") } else { ("<", "<=", ">=") };
        let ranged = query.index != Index::Board;
        let beyond = |place: &IndexEntry| match &place.sort {
            SortKey::Text(sort) => {
                if forward {
                    sort >= near
                } else {
                    sort <= near
                }
            }
            SortKey::Score(_) => true,
        };
        match after.filter(beyond) {
            Some(place) => self.compare(order, past, place.columns(query.index)),
            None if ranged => self.compare(&order[..1], near_end, vec![Sql::Text(near.clone())]),
            None => {}
        }
        if ranged {
            self.compare(&order[..1], far_end, vec![Sql::Text(far.clone())]);
        }
        Ok(())
    }

    fn compare(&mut self, columns: &[&str], operator: &str, values: Vec<Sql>) {
        let first = self.parameters.len() + 1;
        let marks: Vec<String> = (first..first + values.len()).map(|at| format!("?{at}")).collect();
        self.sql += &format!(" AND ({}) {operator} ({})", columns.join(", "), marks.join(", "));
        self.parameters.extend(values);
    }
}

/// Index in the file, its partition column, and the columns that order it.
fn along(index: Index) -> (&'static str, &'static str, &'static [&'static str]) {
    match index {
        Index::Table => ("sqlite_autoindex_item_1", "pk", &["sk"]),
        Index::Gsi1 => ("item_gsi1", "gsi1pk", &["gsi1sk", "pk", "sk"]),
        Index::Board => ("item_board", "board", &["score", "pk", "sk"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema;

    /// Plan of SQLite for the statement of `query`.
    fn plan(connection: &Connection, query: &Query) -> String {
        let statement = Statement::new(query, Timestamp::default()).unwrap();
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql)).unwrap();
        let lines = explain.query_map(params_from_iter(statement.parameters), |row| row.get::<_, String>(3));
        lines.unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn every_page_is_one_index_search_without_sorting() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(schema::CREATE).unwrap();
        for (index, columns) in
            [(Index::Table, "sk"), (Index::Gsi1, "(gsi1sk,pk,sk)"), (Index::Board, "(score,pk,sk)")]
        {
            let sort = if index == Index::Board { SortKey::Score(0.5) } else { SortKey::Text("s".into()) };
            let place = IndexEntry { sort, key: Key::new("p", "s") };
            let first = Query::index(index, "p");
            let next = Query { after: Some(place.cursor(index)), ..first.clone() };
            for query in [first.clone(), first.backward(), next.clone(), next.clone().backward()] {
                let plan = plan(&connection, &query);
                let search = format!("SEARCH item USING INDEX {}", along(index).0);
                assert!(plan.starts_with(&search) && !plan.contains(';'), "{plan}");
                let bounded = query.after.is_none()
                    || plan.contains(&format!("{columns}>"))
                    || plan.contains(&format!("{columns}<"));
                assert!(bounded, "does not start after the cursor: {plan}");
            }
        }
    }
}
