//! A query of several partitions whose sort keys are those of one.
//!
//! The partition that has the next item is read up to the first item of any other, page by page; then it is looked again which is next.
//! Lanes are ranges of a day and kind, so that is one look a lane, day and kind.

use event::{Error, Result};
use futures::future::try_join_all;
use table::{Cursor, Direction, KeyRange, Page, Query, Table};

/// What cursors of this layer begin with.
const MARK: &str = "lanes";

/// Where a page begins.
struct Place {
    /// The least sort key that was not read, or the greatest when it is read backward.
    at: String,
    /// The partition that is being read, if it is known.
    reading: Option<Reading>,
}

struct Reading {
    pk: String,
    /// The first item of any other partition; empty, when there is none.
    until: String,
    after: Cursor,
}

impl Place {
    fn of(query: &Query) -> Result<Self> {
        let Some(cursor) = &query.after else {
            let KeyRange { from, to, .. } = query.range.clone();
            let at = if query.direction == Direction::Forward { from } else { to };
            return Ok(Self { at, reading: None });
        };
        match cursor.parts() {
            [mark, at] if mark == MARK => Ok(Self { at: at.clone(), reading: None }),
            [mark, at, pk, until, below @ ..] if mark == MARK => {
                let (pk, until, after) = (pk.clone(), until.clone(), Cursor::of(below.to_vec()));
                Ok(Self { at: at.clone(), reading: Some(Reading { pk, until, after }) })
            }
            _ => Err(Error::invalid(
                "the cursor does not belong to this query, or is from before its workspace had partitions of lanes; begin again without it",
            )),
        }
    }

    fn to_cursor(&self) -> Cursor {
        let own = [MARK.to_owned(), self.at.clone()];
        let reading = self.reading.iter().flat_map(|reading| {
            let below = reading.after.parts().iter().cloned();
            [reading.pk.clone(), reading.until.clone()].into_iter().chain(below)
        });
        Cursor::of(own.into_iter().chain(reading).collect())
    }
}

/// A page of what the partitions hold.
///
/// # Errors
/// `Invalid`, when the cursor is of something else; those of the table.
pub(super) async fn read(table: &dyn Table, query: &Query, partitions: &[String]) -> Result<Page> {
    let Place { at, reading } = Place::of(query)?;
    let mut units = None;
    let (pk, until, after) = match reading {
        Some(Reading { pk, until, after }) => {
            if !partitions.contains(&pk) {
                return Err(Error::invalid("the cursor does not belong to this query"));
            }
            (pk, until, Some(after))
        }
        None => match next(table, query, partitions, &at, &mut units).await? {
            Some((pk, until)) => (pk, until, None),
            None => return Ok(Page { read_units: units, ..Page::default() }),
        },
    };
    let asked = Query { range: range(query, &pk, &at, &until), after, ..query.clone() };
    let mut page = table.query(&asked).await?;
    let place = match page.next.take() {
        Some(after) => Some(Place { at, reading: Some(Reading { pk, until, after }) }),
        None => Some(until).filter(|until| !until.is_empty()).map(|at| Place { at, reading: None }),
    };
    add(&mut units, page.read_units);
    Ok(Page { next: place.map(|place| place.to_cursor()), read_units: units, ..page })
}

/// The range of a partition from `at` on, up to what another one has.
fn range(query: &Query, pk: &str, at: &str, until: &str) -> KeyRange {
    let end = |last: &str| if until.is_empty() { last.to_owned() } else { until.to_owned() };
    let (from, to) = match query.direction {
        Direction::Forward => (at.to_owned(), end(&query.range.to)),
        Direction::Backward => (end(&query.range.from), at.to_owned()),
    };
    KeyRange { pk: pk.to_owned(), from, to }
}

/// The partition that has the next item, and the next item of all others.
async fn next(
    table: &dyn Table,
    query: &Query,
    partitions: &[String],
    at: &str,
    units: &mut Option<f64>,
) -> Result<Option<(String, String)>> {
    let looks = partitions.iter().map(async |pk| {
        let range = range(query, pk, at, "");
        let mut look = Query { range, limit: Some(1), after: None, ..query.clone() }.only(&["v"]);
        let mut units = None;
        loop {
            let page = table.query(&look).await?;
            add(&mut units, page.read_units);
            match (page.items.into_iter().next(), page.next) {
                (Some(item), _) => return Ok((units, Some((item.key.sk, pk.clone())))),
                // A page may be empty and yet not be the last.
                (None, Some(next)) => look.after = Some(next),
                (None, None) => return Ok::<_, Error>((units, None)),
            }
        }
    });
    let mut found = Vec::new();
    for (read, first) in try_join_all(looks).await? {
        add(units, read);
        found.extend(first);
    }
    found.sort_unstable();
    if query.direction == Direction::Backward {
        found.reverse();
    }
    let mut found = found.into_iter();
    let first = found.next().map(|(_, pk)| pk);
    Ok(first.map(|pk| (pk, found.next().map(|(sk, _)| sk).unwrap_or_default())))
}

fn add(units: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *units = Some(units.unwrap_or_default() + more);
    }
}
