//! Rewrites segments with surrogates in the place of keys.

use std::mem::take;

use catalog::{Catalog, Erasure, LeftOfErasure};
use event::{Error, Result};
use log::{
    erased,
    key::{self, LogId},
    merged::{self, Erased},
    scan,
    segment_item::Segment,
};
use table::{Item, MAX_TRANSACTION_BYTES, MAX_TRANSACTION_WRITES, Query, Table, Write};

use super::look::{Found, kinds, left_of};
use crate::caught;

/// Maximum segments written in a transaction, beside the erasure itself.
const MAX_WRITES: usize = MAX_TRANSACTION_WRITES / 2;

/// Maximum bytes of these segments: with the erasure and its record they stay below the bound of a transaction.
const MAX_BYTES: usize = MAX_TRANSACTION_BYTES / 2;

/// Segments that are rewritten in one transaction.
#[derive(Default)]
struct Group {
    writes: Vec<Write>,
    bytes: usize,
    rows: u64,
}

/// Rewrites the segments of a day, as many at once as a transaction may hold, each time with the progress of the erasure.
///
/// # Errors
/// `Conflict`, when another process was quicker, or a segment is being deleted; `TooLarge`, when a segment without the keys fits
/// no item; those of the table. It may be called again: rewritten segments have none of the keys any more.
pub(super) async fn rewrite(
    table: &dyn Table,
    catalog: &Catalog,
    erasure: &mut Erasure,
    left: LeftOfErasure,
) -> Result<()> {
    let mut group = Group::default();
    for kind in kinds() {
        for head in scan::heads_of_kind(table, &erasure.workspace, left.day, kind).await? {
            if left_of(&head.log) == left {
                rewrite_log(table, catalog, erasure, &head.log, &mut group).await?;
            }
        }
    }
    erasure.left.remove(&left);
    write(catalog, erasure, &mut group).await
}

async fn rewrite_log(
    table: &dyn Table,
    catalog: &Catalog,
    erasure: &mut Erasure,
    log: &LogId,
    group: &mut Group,
) -> Result<()> {
    let mut query = Query::table(key::segments_from(log, 0)).as_stored();
    // Last segment that still has an item of its own.
    let mut own = 0;
    loop {
        let page = table.query(&query).await?;
        for item in page.items {
            let Some((_, seq)) = key::parse_segment(&item.key) else { continue };
            let from = merged::span(&item).map_or(seq, |(_, from, _)| from);
            let Ok(erased) = caught::text(|| erased_of(item, erasure, own)) else {
                (from..=seq).for_each(|seq| Found::note_unreadable(&mut erasure.unreadable, log, seq));
                continue;
            };
            own = seq;
            // A segment that fits no item stops the erasure, which does not go on with the key left in it.
            let Some(Erased { write: rewritten, bytes, rows }) = erased? else { continue };
            if group.writes.len() == MAX_WRITES || group.bytes + bytes > MAX_BYTES {
                write(catalog, erasure, group).await?;
            }
            group.writes.push(rewritten);
            group.bytes += bytes;
            group.rows += rows;
        }
        match page.next {
            Some(after) => query.after = Some(after),
            None => return Ok(()),
        }
    }
}

/// Rewrites an item without the keys, which holds one segment or several, of which those up to `counted` are counted; an error,
/// when it cannot be read.
fn erased_of(item: Item, erasure: &Erasure, counted: u64) -> Result<Result<Option<Erased>>> {
    let erased = match merged::span(&item) {
        Some(_) => merged::erase(&item, (&erasure.keys, erasure.with_values), counted),
        None => erased::erase(&Segment::from_item(item)?, &erasure.keys, erasure.with_values).map(|erased| {
            erased.map(|(segment, rows)| Erased {
                write: erased::write(&segment),
                bytes: segment.item_bytes(),
                rows,
            })
        }),
    };
    match erased {
        Err(error) if super::is_unreadable(&error) => Err(error),
        erased => Ok(erased),
    }
}

async fn write(catalog: &Catalog, erasure: &mut Erasure, group: &mut Group) -> Result<()> {
    let Group { writes, rows, .. } = take(group);
    erasure.segments += writes.len() as u64;
    erasure.rows += rows;
    match catalog.move_erasure(erasure, writes).await? {
        true => Ok(()),
        false => Err(Error::conflict("somebody else was quicker to write segments again")),
    }
}
