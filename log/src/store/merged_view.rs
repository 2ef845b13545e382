//! View of merged items as segments, so that readers of logs need not know of merging ([`crate::merged`]). Queries for
//! stored items ([`Query::as_stored`]) get the merged items.
//!
//! The key of a merged item is that of its last segment. So a read that begins in its middle finds it, and one that
//! ends there also looks behind its end. Until the segments' own items are deleted both exist: the first in the order
//! of the read is shown, and no segment twice.

use std::collections::BTreeMap;

use event::Result;
use table::{Cursor, Direction, Index, Item, Key, KeyRange, Page, Query};

use super::{Store, lanes};
use crate::{
    key::{self, LogId},
    merged::{self, EVENTS, FROM, PARTS},
    segment_item::{DATA, ITEM_VERSION},
};

/// First part of the cursors of pages of segments.
const MARK: &str = "apart";

/// Reads the item of a key.
pub(super) async fn get(store: &Store, key: &Key) -> Result<Option<Item>> {
    let found = store.stored(key).await?;
    let Some((log, seq)) = key::parse_segment(key) else { return Ok(found) };
    let found = match found {
        Some(item) if merged::span(&item).is_none() => return Ok(Some(item)),
        Some(item) => Some(item),
        None => behind(store, &log, seq + 1, None).await?,
    };
    let shown = found.as_ref().map(|item| shown(item, None)).unwrap_or_default();
    Ok(shown.into_iter().find(|item| item.key == *key))
}

/// Reads a page of a query.
pub(super) async fn read(store: &Store, query: &Query) -> Result<Page> {
    let is_of_logs = query.index == Index::Table && key::is_of_logs(&query.range.pk);
    if !is_of_logs {
        return store.page(query).await;
    }
    if query.as_stored {
        return lanes::read(store, query).await;
    }
    let mut reading = Reading::of(query);
    if reading.range.from > reading.range.to {
        return Ok(Page::default());
    }
    match query.direction {
        Direction::Forward => forward(store, &mut reading).await,
        Direction::Backward => backward(store, &mut reading).await,
    }
}

/// Reads the first item of a log from a segment on, if it is a merged one.
async fn behind(store: &Store, log: &LogId, seq: u64, attributes: Option<&[String]>) -> Result<Option<Item>> {
    let mut query = Query::table(key::segments_from(log, seq)).limit(1).as_stored();
    query.attributes = attributes.map(<[String]>::to_vec);
    let item = lanes::first(store, log.lane, query).await?.items.into_iter().next();
    Ok(item.filter(|item| merged::span(item).is_some()))
}

async fn forward(store: &Store, reading: &mut Reading) -> Result<Page> {
    let page = lanes::read(store, &reading.below()).await?;
    let last = page.items.last().map(|item| item.key.sk.clone());
    let mut is_full = reading.take(page.items);
    // A merged item behind the end may hold segments before it.
    if let (None, false, Some((log, seq))) = (&page.next, is_full, reading.ends_in())
        && last.is_none_or(|last| last < reading.range.to)
        && let Some(item) = behind(store, &log, seq + 1, reading.attributes.as_deref()).await?
    {
        is_full = reading.take(vec![item]);
    }
    Ok(reading.page(is_full, page.next, page.read_units))
}

async fn backward(store: &Store, reading: &mut Reading) -> Result<Page> {
    if let (None, Some((log, seq))) = (&reading.after, reading.ends_in())
        && let Some(item) = behind(store, &log, seq + 1, reading.attributes.as_deref()).await?
    {
        reading.take(vec![item]);
        if !reading.shown.is_empty() {
            return Ok(reading.page(true, None, None));
        }
    }
    let page = lanes::read(store, &reading.below()).await?;
    let is_full = reading.take(page.items);
    Ok(reading.page(is_full, page.next, page.read_units))
}

/// A page that is being read.
struct Reading {
    query: Query,
    /// Rest of the range.
    range: KeyRange,
    /// Cursor of the lanes below within the rest.
    after: Option<Cursor>,
    /// Attributes to read, with those of merged items.
    attributes: Option<Vec<String>>,
    /// Last segment shown, on this page or an earlier one.
    last: Option<String>,
    shown: Vec<Item>,
}

impl Reading {
    fn of(query: &Query) -> Self {
        let mut range = query.range.clone();
        let (mut after, mut last) = (query.after.clone(), None);
        if let Some([mark, place, below @ ..]) = query.after.as_ref().map(Cursor::parts)
            && mark == MARK
        {
            last = Some(place.clone()).filter(|place| !place.is_empty());
            after = (!below.is_empty()).then(|| Cursor::of(below.to_vec()));
        }
        if let Some(last) = &last {
            match query.direction {
                Direction::Forward => range.from = next_to(&range.pk, last, 1),
                Direction::Backward => range.to = next_to(&range.pk, last, -1),
            }
        }
        let attributes = query.attributes.clone().map(|mut names| {
            let more: &[&str] = if is_of_keys(&names) { &[FROM] } else { &[FROM, PARTS, EVENTS] };
            names.extend(more.iter().map(|name| (*name).to_owned()));
            names
        });
        Self { query: query.clone(), range, after, attributes, last, shown: Vec::new() }
    }

    /// Returns the query for the lanes below.
    fn below(&self) -> Query {
        Query {
            range: self.range.clone(),
            after: self.after.clone(),
            attributes: self.attributes.clone(),
            as_stored: true,
            ..self.query.clone()
        }
    }

    /// Returns the segment with which the range ends, if it ends within a log.
    fn ends_in(&self) -> Option<(LogId, u64)> {
        key::parse_segment(&Key::new(self.range.pk.clone(), self.range.to.clone()))
    }

    /// Shows items within the range and the limit. Returns true if the page is full.
    fn take(&mut self, items: Vec<Item>) -> bool {
        let is_forward = self.query.direction == Direction::Forward;
        for item in items {
            let mut segments = match merged::span(&item) {
                None => vec![item],
                Some(_) => shown(&item, self.query.attributes.as_deref()),
            };
            if !is_forward {
                segments.reverse();
            }
            for segment in segments {
                let sk = &segment.key.sk;
                let is_new =
                    self.last.as_ref().is_none_or(|last| if is_forward { sk > last } else { sk < last });
                if !is_new || *sk < self.range.from || *sk > self.range.to {
                    continue;
                }
                if self.query.limit.is_some_and(|limit| self.shown.len() >= limit) {
                    return true;
                }
                self.last = Some(sk.clone());
                self.shown.push(segment);
            }
        }
        false
    }

    /// Returns the page. It has a cursor if it is full, or if the lanes below go on.
    fn page(&mut self, is_full: bool, next: Option<Cursor>, read_units: Option<f64>) -> Page {
        let goes_on = is_full || next.is_some();
        let is_moved = !self.shown.is_empty();
        let next = goes_on.then(|| {
            let below = next.filter(|_| !is_moved).map(|next| next.parts().to_vec()).unwrap_or_default();
            let place = self.last.clone().unwrap_or_default();
            Cursor::of([MARK.to_owned(), place].into_iter().chain(below).collect())
        });
        Page { items: std::mem::take(&mut self.shown), next, read_units }
    }
}

/// Returns true if the attributes show only that an item exists.
fn is_of_keys(names: &[String]) -> bool {
    names.iter().all(|name| name == "v")
}

/// Returns the sort key right after or right before one.
pub(super) fn next_to(pk: &str, sk: &str, by: i64) -> String {
    match key::parse_segment(&Key::new(pk, sk)) {
        Some((log, seq)) => key::segment(&log, seq.saturating_add_signed(by)).sk,
        None if by > 0 => format!("{sk}\u{1}"),
        // Only keys that are no segments lie in between.
        None => sk.strip_suffix(|_: char| true).unwrap_or_default().to_owned(),
    }
}

/// Returns the segments of a merged item, with these attributes. If it cannot be read, each is an item that is refused as damaged.
fn shown(item: &Item, names: Option<&[String]>) -> Vec<Item> {
    let Some((log, from, last)) = merged::span(item) else { return Vec::new() };
    let bare = |seq| Item::new(key::segment(&log, seq)).with("v", ITEM_VERSION);
    if names.is_some_and(is_of_keys) {
        return (from..=last).map(bare).collect();
    }
    let wants = |name: &str| names.is_none_or(|names| names.iter().any(|wanted| wanted == name));
    let segments = if wants(DATA) { merged::split(item) } else { merged::split_bare(item) };
    let Ok(segments) = segments else {
        return (from..=last).map(|seq| bare(seq).with(FROM, from as i64)).collect();
    };
    let shown = segments.iter().map(|segment| {
        let item = segment.to_item();
        let attributes = item.attributes.into_iter().filter(|(name, _)| wants(name));
        Item { key: item.key, attributes: attributes.collect::<BTreeMap<_, _>>() }
    });
    shown.collect()
}

#[cfg(test)]
mod tests;
