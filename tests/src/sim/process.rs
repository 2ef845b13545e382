//! The world as one process sees it: calls take time, fail, lose their answers, and hang while the
//! process is held up.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use event::{Columns, Error, ErrorKind, Result, Timestamp};
use log::{key, segment_item::Segment};
use table::{
    Changes, Condition, Direction, Index, Item, Key, Page, Position, Query, Shard, Table, Write,
    put_one_by_one,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};

use super::{
    Planted,
    random::Random,
    world::{State, World},
};

/// The longest that half of a call takes.
const MAX_HALF_MILLIS: u64 = 12;

/// Holds the calls of a process up. A `watch` channel would wake them in an order that is not the
/// same in every run.
#[derive(Debug, Default)]
pub struct Admission {
    is_closed: AtomicBool,
    opened: Notify,
}

impl Admission {
    /// Lets no call through.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Lets all calls through.
    pub fn open(&self) {
        self.is_closed.store(false, Ordering::Relaxed);
        self.opened.notify_waiters();
    }

    async fn pass(&self) {
        while self.is_closed.load(Ordering::Relaxed) {
            self.opened.notified().await;
        }
    }
}

/// A process's table.
#[derive(Debug)]
pub struct Process {
    world: Arc<World>,
    random: Random,
    name: String,
    gate: Arc<Admission>,
    planted: Option<Planted>,
}

impl Process {
    /// A process that is called `name`, whose calls go through `gate`.
    pub fn new(
        world: Arc<World>,
        seed: u64,
        name: &str,
        gate: Arc<Admission>,
        planted: Option<Planted>,
    ) -> Self {
        Self { world, random: Random::new(seed), name: name.to_owned(), gate, planted }
    }

    /// The way to the table and the way back.
    async fn half_a_call(&self) {
        sleep(Duration::from_millis(1 + self.random.below(MAX_HALF_MILLIS))).await;
        self.gate.pass().await;
    }

    fn fails(&self) -> bool {
        self.random.hits(self.world.faults.load(Ordering::Relaxed))
    }

    async fn call<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.half_a_call().await;
        if self.fails() {
            let kind = if self.random.hits(2) { ErrorKind::Throttled } else { ErrorKind::Unavailable };
            return Err(Error::new(kind, "a simulated fault: the call was not made"));
        }
        let answer = call();
        self.half_a_call().await;
        match self.fails() {
            true => Err(Error::unavailable("a simulated fault: the answer is lost")),
            false => answer,
        }
    }

    async fn write(&self, mut writes: Vec<Write>) -> Result<()> {
        if self.planted == Some(Planted::ShortRead) {
            // It has looked for the mark before it computed.
            writes
                .retain(|write| !matches!(write, Write::Check(key, _) if key::parse_expired(key).is_some()));
        }
        let planted = || writes.into_iter().map(|write| self.plant(write)).collect();
        self.call(|| self.world.write(planted())).await
    }

    /// Replaces a write by that of a projector with a bug.
    fn plant(&self, write: Write) -> Write {
        match (self.planted, write) {
            (Some(Planted::BlindIncrement), Write::Put(item, _)) if item.key.pk.contains("/rollup/v") => {
                Write::Put(item, Condition::None)
            }
            (Some(Planted::LeaseWithoutEpoch), Write::Put(item, _))
                if key::parse_lease(&item.key).is_some() =>
            {
                Write::Put(item, Condition::None)
            }
            (Some(Planted::BlindJudging), Write::Put(item, _))
                if ["standing#", "transition#", "delivery#"]
                    .iter()
                    .any(|kind| item.key.sk.starts_with(kind)) =>
            {
                Write::Put(item, Condition::None)
            }
            (Some(Planted::BlindDecision), Write::Put(item, _))
                if key::parse_decision(&item.key).is_some() =>
            {
                Write::Put(item, Condition::None)
            }
            (Some(Planted::BlindDelivery), Write::Put(item, condition))
                if key::parse_delivery(&item.key).is_some() =>
            {
                match condition {
                    Condition::Absent => Write::Put(item, condition),
                    _ => Write::Put(item, Condition::None),
                }
            }
            (Some(Planted::DeliveredTooEarly), Write::Put(item, condition))
                if key::parse_delivery(&item.key).is_some()
                    && item.int("tries").is_ok_and(|tries| tries > 0) =>
            {
                Write::Put(item.with("state", "delivered"), condition)
            }
            // It has moved the checkpoint before.
            (Some(Planted::CheckpointBeforeCommit), Write::Put(item, condition))
                if key::parse_lease(&item.key).is_some() =>
            {
                let stored = self.world.lock().items.get(&item.key).map(|stored| stored.item.clone());
                let checkpoint = stored.and_then(|item| item.attributes.get("checkpoint").cloned());
                match checkpoint {
                    Some(checkpoint) => Write::Put(item.with("checkpoint", checkpoint), condition),
                    None => Write::Put(item, condition),
                }
            }
            (_, write) => write,
        }
    }

    /// Moves the checkpoint to where a read has ended.
    fn checkpoint_early(&self, shard: &str, changes: &Changes) {
        let Some(Position::After(next)) = &changes.next else { return };
        let stream = shard.split('/').next().unwrap_or_default();
        let stored =
            self.world.lock().items.get(&key::lease(stream, shard)).map(|stored| stored.item.clone());
        let number = |text: &str| text.rsplit(':').next().and_then(|number| number.parse::<u64>().ok());
        let is_behind = |item: &Item| item.optional_text("checkpoint").and_then(number) < number(next);
        let is_own = |item: &Item| item.optional_text("owner") == Some(&self.name);
        if let Some(item) = stored.filter(|item| is_own(item) && is_behind(item)) {
            let moved = item.with("checkpoint", format!("after:{next}"));
            _ = self.world.write(vec![Write::Put(moved, Condition::None)]);
        }
    }

    fn page(&self, query: &Query, begun: u64) -> Page {
        let state = self.world.lock();
        let attribute = |item: &Item, name| item.optional_text(name).map(str::to_owned);
        let limit = query.limit.unwrap_or(usize::MAX);
        let mut items: Vec<Item> = match query.index {
            Index::Table => {
                let from = Key::new(query.range.pk.clone(), query.range.from.clone());
                let to = Key::new(query.range.pk.clone(), query.range.to.clone());
                let stored = if from <= to { Some(state.items.range(from..=to)) } else { None };
                let found = stored.into_iter().flatten().map(|(_, stored)| stored);
                // A page is not read at one instant: of what was written meanwhile it has some.
                let found = found.filter(|stored| stored.created <= begun || self.random.hits(2));
                let found = found.map(|stored| picked(&stored.item, query.attributes.as_deref()));
                match query.direction {
                    Direction::Forward => found.take(limit).collect(),
                    Direction::Backward => found.rev().take(limit).collect(),
                }
            }
            Index::Gsi1 | Index::Board => {
                let within = query.range.from.clone()..=query.range.to.clone();
                let found = state.items.values().filter_map(|stored| {
                    let pk = attribute(&stored.item, "GSI1PK")?;
                    let sk = attribute(&stored.item, "GSI1SK")?;
                    let item = picked(&stored.item, query.attributes.as_deref());
                    (pk == query.range.pk && within.contains(&sk)).then_some((sk, item))
                });
                let mut found: Vec<_> = found.collect();
                found.sort_by(|a, b| a.0.cmp(&b.0));
                if query.direction == Direction::Backward {
                    found.reverse();
                }
                found.into_iter().map(|(_, item)| item).take(limit).collect()
            }
        };
        if self.planted == Some(Planted::OldDefinitions) {
            items.retain(|item| key::parse_definition(&item.key).is_none());
        }
        if query.attributes.is_none() && self.planted == Some(Planted::NoHoleCheck) {
            items = without_holes(query, items);
        } else if query.attributes.is_none() && self.planted == Some(Planted::ShortRead) {
            items = without_gaps(query, items, &state);
        }
        // A limit is only ever used to look at the first item: there is no next page.
        Page { items, ..Page::default() }
    }
}

/// An item with the attributes that are asked for.
fn picked(item: &Item, names: Option<&[String]>) -> Item {
    let Some(names) = names else { return item.clone() };
    let attributes = item.attributes.iter().filter(|(name, _)| names.contains(name));
    Item {
        key: item.key.clone(),
        attributes: attributes.map(|(name, value)| (name.clone(), value.clone())).collect(),
    }
}

/// Fills holes of an answer with empty segments, as a projector sees it that does not look for holes.
fn without_holes(query: &Query, items: Vec<Item>) -> Vec<Item> {
    let Some((log, first)) = key::parse_segment(&Key::new(query.range.pk.clone(), query.range.from.clone()))
    else {
        return items;
    };
    let mut next = first.max(1);
    let mut filled: Vec<Item> = Vec::new();
    for item in items {
        if let Some((_, seq)) = key::parse_segment(&item.key) {
            for missing in next..seq {
                let nothing = Columns { rows: 0, columns: Vec::new() };
                let empty = Segment::pack(log.clone(), missing, Timestamp::default(), Vec::new(), &nothing);
                filled.extend(empty.ok().map(|segment| segment.to_item()));
            }
            next = seq + 1;
        }
        filled.push(item);
    }
    filled
}

/// Fills deleted segments of an answer with empty ones, as a projector sees it that accepts fewer segments than there must be.
fn without_gaps(query: &Query, items: Vec<Item>, state: &State) -> Vec<Item> {
    let place = |sk: &String| key::parse_segment(&Key::new(query.range.pk.clone(), sk.clone()));
    let (Some((log, first)), Some((_, last))) = (place(&query.range.from), place(&query.range.to)) else {
        return items;
    };
    let mut items: BTreeMap<Key, Item> = items.into_iter().map(|item| (item.key.clone(), item)).collect();
    let appended = state.logs.get(&log).map_or(0, Vec::len) as u64;
    for seq in first.max(1)..=last.min(appended) {
        let key = key::segment(&log, seq);
        if !state.items.contains_key(&key) {
            let nothing = Columns { rows: 0, columns: Vec::new() };
            let empty = Segment::pack(log.clone(), seq, Timestamp::default(), Vec::new(), &nothing);
            items.extend(empty.ok().map(|segment| (key, segment.to_item())));
        }
    }
    items.into_values().collect()
}

#[async_trait]
impl Table for Process {
    fn item_bytes(&self) -> usize {
        self.world.item_bytes.load(Ordering::Relaxed)
    }

    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.call(|| Ok(self.world.lock().items.get(key).map(|stored| stored.item.clone()))).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        let begun = self.world.lock().writes;
        self.call(|| Ok(self.page(query, begun))).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.write(vec![Write::Put(item, condition)]).await
    }

    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        put_one_by_one(self, items, within).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.write(vec![Write::Delete(key.clone(), condition)]).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        self.write(writes).await
    }

    async fn forget_deleted(&self) -> Result<()> {
        self.call(|| Ok(())).await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        Some(self.world.clock.now())
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.call(|| Ok(self.world.shards())).await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        let deadline = Instant::now() + wait;
        self.half_a_call().await;
        let mut from = from.clone();
        loop {
            let grown = self.world.grown.notified();
            let changes = self.world.changes(shard, &from)?;
            let is_news = !changes.keys.is_empty() || changes.gap || changes.next.is_none();
            if is_news || Instant::now() >= deadline {
                let changes = self.call(|| Ok(changes)).await?;
                if self.planted == Some(Planted::CheckpointBeforeCommit) {
                    self.checkpoint_early(shard, &changes);
                }
                return Ok(changes);
            }
            // The newest position stands still while it is waited for.
            from = changes.next.unwrap_or(from);
            _ = timeout_at(deadline, grown).await;
        }
    }
}
