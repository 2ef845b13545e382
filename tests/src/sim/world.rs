//! The table in memory, and the list of everything that was ever appended.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use event::{Clock, Columns, Definition, Error, Kind, Result, Timestamp, lane::Place};
use fold::{Delta, LogSegment, rollup::Merge};
use log::{
    evaluated::{self, Found},
    key::{self, Counted, LogId, Projection},
    projection::{Applied, Projected},
    scan,
};
use table::{
    Changes, Condition, Item, Key, Position, Shard, Write,
    item::{MAX_ITEM_BYTES, Value},
};
use tokio::{sync::Notify, time::Instant};

/// Before the number of a shard.
const STREAM: &str = "sim/";

/// The most changes in one answer.
const MAX_CHANGES: usize = 8;

/// The most shards.
const MAX_SHARDS: usize = 9;

/// When the virtual time begins, in seconds since 1970: 2026-06-10T00:00:00Z.
const BEGIN_SECONDS: i64 = 1_781_049_600;

/// The table.
#[derive(Debug)]
pub struct World {
    state: Mutex<State>,
    /// The virtual time.
    pub(super) clock: Clock,
    /// The feed has grown.
    pub(super) grown: Notify,
    /// One call in so many fails; none when 0.
    pub(super) faults: AtomicU64,
    /// The most bytes of an item of an evaluation.
    pub(super) item_bytes: AtomicUsize,
}

/// What is stored under a key, and when.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) item: Item,
    /// The number of the write that made it, as a new item.
    pub(super) created: u64,
}

/// A segment: its kind, its place, and its events.
type Folded<'a> = (Kind, Place, &'a Columns);

#[derive(Debug, Default)]
struct Told {
    parent: Option<usize>,
    entries: Vec<Key>,
    /// How many of them are trimmed.
    trimmed: usize,
    children: Option<[usize; 2]>,
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) items: BTreeMap<Key, Stored>,
    pub(super) writes: u64,
    shards: Vec<Told>,
    /// Changes that the feed does not tell yet.
    pub(super) held: Vec<Key>,
    pub(super) is_holding: bool,
    /// What was appended: `None` for what cannot be decoded.
    pub(super) logs: BTreeMap<LogId, Vec<Option<Columns>>>,
    /// Segments that an operator left out.
    pub(super) skipped: BTreeSet<(LogId, u64)>,
    pub(super) definitions: BTreeMap<String, Definition>,
    /// What is wrong.
    pub(super) violations: Vec<String>,
}

impl World {
    /// An empty table with one shard.
    pub fn new() -> Arc<Self> {
        let begin = Instant::now();
        let clock = Clock::from_fn(move || {
            let base = Timestamp::default().plus_seconds(BEGIN_SECONDS);
            let micros = base.micros() + begin.elapsed().as_micros() as i64;
            Timestamp::from_micros(micros).unwrap_or(base)
        });
        let world = Self {
            state: Mutex::default(),
            clock,
            grown: Notify::default(),
            faults: AtomicU64::default(),
            item_bytes: AtomicUsize::new(MAX_ITEM_BYTES),
        };
        world.lock().shards.push(Told::default());
        Arc::new(world)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shards(&self) -> Vec<Shard> {
        let state = self.lock();
        let id = |at: usize| format!("{STREAM}{at}");
        let shards = state.shards.iter().enumerate();
        shards.map(|(at, shard)| Shard { id: id(at), parent: shard.parent.map(id) }).collect()
    }

    pub(super) fn write(&self, writes: Vec<Write>) -> Result<()> {
        let most = self.item_bytes.load(Ordering::Relaxed);
        for write in &writes {
            if let Write::Put(item, _) = write
                && item.key.sk.contains("/eval")
                && item.size() > most
            {
                return Err(Error::invalid(format!("item {} is too large", item.key)));
            }
        }
        self.lock().write(writes)?;
        self.grown.notify_waiters();
        Ok(())
    }

    /// The changes after `from`.
    pub(super) fn changes(&self, shard: &str, from: &Position) -> Result<Changes> {
        let state = self.lock();
        let number = shard.strip_prefix(STREAM).and_then(|number| number.parse::<usize>().ok());
        let shard = number.and_then(|number| state.shards.get(number));
        let shard = shard.ok_or_else(|| Error::not_found("there is no such shard"))?;
        let end = shard.entries.len();
        let (at, gap) = match from {
            Position::Oldest => (shard.trimmed, false),
            Position::Latest => (end, false),
            Position::After(text) => {
                let at: usize =
                    text.parse().map_err(|_| Error::invalid(format!("`{text}` is no position")))?;
                (at.max(shard.trimmed), at < shard.trimmed)
            }
        };
        let until = end.min(at + MAX_CHANGES);
        let is_over = shard.children.is_some() && until == end;
        Ok(Changes {
            keys: shard.entries[at..until].to_vec(),
            next: (!is_over).then(|| Position::After(until.to_string())),
            gap,
        })
    }

    /// Tells of what was held back.
    pub(super) fn deliver(&self) {
        let mut state = self.lock();
        let held = std::mem::take(&mut state.held);
        held.into_iter().for_each(|key| state.tell(key));
        drop(state);
        self.grown.notify_waiters();
    }

    /// Tells again of a segment.
    pub(super) fn redeliver(&self, at: u64) {
        let mut state = self.lock();
        let logs: Vec<(LogId, u64)> =
            state.logs.iter().map(|(log, segments)| (log.clone(), segments.len() as u64)).collect();
        let total: u64 = logs.iter().map(|(_, segments)| segments).sum();
        let mut at = at % total.max(1);
        for (log, segments) in logs {
            if at < segments {
                state.tell(key::segment(&log, at + 1));
                break;
            }
            at -= segments;
        }
        drop(state);
        self.grown.notify_waiters();
    }

    /// Closes an open shard.
    pub(super) fn split(&self, which: u64) {
        let mut state = self.lock();
        let open: Vec<usize> =
            (0..state.shards.len()).filter(|at| state.shards[*at].children.is_none()).collect();
        if state.shards.len() + 2 <= MAX_SHARDS {
            let parent = open[which as usize % open.len()];
            let first = state.shards.len();
            state.shards[parent].children = Some([first, first + 1]);
            for _ in 0..2 {
                state.shards.push(Told { parent: Some(parent), ..Told::default() });
            }
        }
        drop(state);
        self.grown.notify_waiters();
    }

    /// Trims every shard that somebody reads from a position of its own. Whoever asks for the oldest
    /// change has none that could be lost, so to him it would not be told.
    pub(super) fn trim(&self) {
        let mut state = self.lock();
        for at in 0..state.shards.len() {
            let lease = key::lease(STREAM.trim_end_matches('/'), &format!("{STREAM}{at}"));
            let checkpoint = state.items.get(&lease).and_then(|lease| lease.item.optional_text("checkpoint"));
            if checkpoint.is_some_and(|text| text.starts_with("after:")) {
                state.shards[at].trimmed = state.shards[at].entries.len();
            }
        }
    }
}

fn whole(item: &Item, name: &str) -> i64 {
    item.int(name).unwrap_or(0)
}

impl State {
    fn holds(&self, key: &Key, condition: &Condition) -> bool {
        let found = self.items.get(key);
        match condition {
            Condition::None => true,
            Condition::Absent => found.is_none(),
            Condition::Exists => found.is_some(),
            Condition::Equals(name, value) => {
                found.is_some_and(|found| found.item.attributes.get(*name) == Some(value))
            }
            Condition::Without(name) => found.is_some_and(|found| !found.item.attributes.contains_key(*name)),
            Condition::All(conditions) => conditions.iter().all(|condition| self.holds(key, condition)),
        }
    }

    fn write(&mut self, writes: Vec<Write>) -> Result<()> {
        for write in &writes {
            let exists = Condition::Exists;
            let condition = match write {
                Write::Put(_, condition) | Write::Delete(_, condition) | Write::Check(_, condition) => {
                    condition
                }
                Write::Add(..) => &exists,
                Write::Update(update) => &update.condition,
            };
            let is_there = !matches!(write, Write::Update(_)) || self.items.contains_key(write.key());
            if !is_there || !self.holds(write.key(), condition) {
                return Err(Error::conflict(format!("the condition of {} does not hold", write.key())));
            }
        }
        self.writes += 1;
        // What an operator leaves out is known before the rollup that moves past it is looked at.
        let letters = writes.iter().filter_map(|write| match write {
            Write::Put(item, _) if item.optional_text("state") == Some("skipped") => {
                key::parse_dead_letter(&item.key)
            }
            _ => None,
        });
        self.skipped.extend(letters.map(|(log, seq, _)| (log, seq)));
        for write in writes {
            let key = write.key().clone();
            match write {
                Write::Put(item, _) => self.put(item),
                Write::Delete(..) => _ = self.items.remove(&key),
                Write::Check(..) => continue,
                Write::Add(_, name, by) => {
                    if let Some(stored) = self.items.get_mut(&key) {
                        let sum = whole(&stored.item, &name) + by;
                        stored.item.attributes.insert(name, Value::from(sum));
                    }
                }
                Write::Update(update) => {
                    if let Some(stored) = self.items.get_mut(&key) {
                        update.apply(&mut stored.item)?;
                    }
                }
            }
            match self.is_holding && key::parse_segment(&key).is_some() {
                true => self.held.push(key),
                false => self.tell(key),
            }
        }
        Ok(())
    }

    fn put(&mut self, item: Item) {
        let before = self.items.get(&item.key).map(|stored| stored.item.clone());
        if let Err(violation) = self.check(before.as_ref(), &item) {
            self.violations.push(format!("{}: {violation}", item.key));
        }
        let created = self.items.get(&item.key).map_or(self.writes, |stored| stored.created);
        self.items.insert(item.key.clone(), Stored { item, created });
    }

    fn tell(&mut self, key: Key) {
        // By the sort key only: ids are not the same in every run.
        let mut hash = key.sk.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        hash ^= hash >> 32;
        let mut at = 0;
        while let Some(children) = self.shards[at].children {
            at = children[(hash & 1) as usize];
            hash >>= 1;
        }
        self.shards[at].entries.push(key);
    }

    /// What must hold of every write of a projector.
    fn check(&self, before: Option<&Item>, item: &Item) -> std::result::Result<(), String> {
        if key::parse_lease(&item.key).is_some() {
            return check_lease(before, item);
        }
        if key::parse_active(&item.key).is_some() {
            let version = |item: &Item| whole(item, "version");
            return match before.is_some_and(|before| version(before) > version(item)) {
                true => Err("the active version moves back".into()),
                false => Ok(()),
            };
        }
        if item.key.pk.contains("/rollup/v") {
            return self.check_projection(before, item);
        }
        Ok(())
    }

    fn check_projection(&self, before: Option<&Item>, item: &Item) -> std::result::Result<(), String> {
        let told = |error: event::Error| error.to_string();
        let (day, projection) = key::parse_projection(&item.key).map_err(told)?;
        // It means something with the head that names it.
        if let Projection::EvaluationPart(..) = projection {
            return Ok(());
        }
        let applied = Projected::applied_of(item).map_err(told)?;
        let was = before.map_or(Ok(Applied::new()), Projected::applied_of).map_err(told)?;
        if was.iter().any(|(log, seq)| applied.get(log).is_none_or(|now| now < seq)) {
            return Err(format!("`applied` moves back: {was:?} to {applied:?}"));
        }
        let workspace = self.logs.keys().next().map(|log| log.workspace.clone()).ok_or("nothing appended")?;
        let state = || Projected::from_item(item).map(|found| found.state).map_err(told);
        let (expected, found) = match projection {
            Projection::Rollup => (self.fold(&workspace, day, &applied)?.rollup.to_state(), state()?),
            Projection::Breakdown(breakdown) => {
                let parts = self.fold(&workspace, day, &applied)?.parts;
                (parts.get(&breakdown).ok_or("nothing of it was appended")?.to_state(), state()?)
            }
            Projection::Evaluation | Projection::EvaluationPart(..) => {
                let expected = self.evaluation(&workspace, day, &applied)?;
                let first = Key::new(item.key.pk.clone(), format!("{}/", item.key.sk));
                let parts = self.items.range(first..).map(|(_, stored)| &stored.item);
                let parts = parts.take_while(|part| part.key.sk.starts_with(&item.key.sk));
                (expected, whole_state(evaluated::assemble(parts.chain([item])).map_err(told)?)?)
            }
        };
        match expected == found {
            true => Ok(()),
            false => Err(format!("it is not the fold of {applied:?}")),
        }
    }

    fn fold(
        &self,
        workspace: &event::Id,
        day: event::Day,
        applied: &Applied,
    ) -> std::result::Result<Delta, String> {
        let mut fold = Delta::default();
        for (kind, place, columns) in self.prefix(workspace, day, applied)? {
            let segment = LogSegment { place, columns };
            fold.merge(&Delta::of(kind, segment).map_err(|error| error.to_string())?);
        }
        Ok(fold)
    }

    fn evaluation(
        &self,
        workspace: &event::Id,
        day: event::Day,
        applied: &Applied,
    ) -> std::result::Result<String, String> {
        let segments = self.prefix(workspace, day, applied)?;
        let of = |wanted: Kind| -> Vec<LogSegment<'_>> {
            let found = segments.iter().filter(|(kind, ..)| *kind == wanted);
            found.map(|(_, place, columns)| LogSegment { place: *place, columns }).collect()
        };
        fold::evaluate(&of(Kind::Predictions), &of(Kind::Outcomes), &self.definitions)
            .map(|evaluation| evaluation.to_state())
            .map_err(|error| error.to_string())
    }

    /// The segments up to `applied`, without those that were left out.
    fn prefix(
        &self,
        workspace: &event::Id,
        day: event::Day,
        applied: &Applied,
    ) -> std::result::Result<Vec<Folded<'_>>, String> {
        let mut prefix = Vec::new();
        for (name, last) in applied {
            let log = scan::log_named(workspace, day, name).ok_or("`applied` names no log")?;
            let segments = self.logs.get(&log).map_or(&[][..], Vec::as_slice);
            if segments.len() < *last as usize {
                return Err(format!("{log} has {} segments, not {last}", segments.len()));
            }
            for (seq, segment) in (1..=*last).zip(segments) {
                match segment {
                    Some(columns) => prefix.push((log.kind, Place::of(log.lane, seq), columns)),
                    // Whether an operator left it out is checked against the dead letters.
                    None if self.is_left_out(&log, seq) => {}
                    None => return Err(format!("segment {seq} of {log} cannot be decoded, but is folded")),
                }
            }
        }
        Ok(prefix)
    }

    fn is_left_out(&self, log: &LogId, seq: u64) -> bool {
        self.skipped.contains(&(log.clone(), seq))
    }

    /// Everything that the projections in use lack or have wrong, once all should be written.
    pub(super) fn unfinished(&self) -> Vec<String> {
        let mut found = Vec::new();
        let Some(workspace) = self.logs.keys().next().map(|log| log.workspace.clone()) else { return found };
        let active = self.items.get(&key::active(&workspace));
        let version = active.map_or(1, |active| whole(&active.item, "version") as u32);
        let mut counts = BTreeMap::<String, u64>::new();
        for (log, segments) in &self.logs {
            let is_stop =
                |(seq, segment): &(u64, &Option<Columns>)| segment.is_none() && !self.is_left_out(log, *seq);
            let stop = (1..).zip(segments).find(is_stop).map_or(segments.len() as u64 + 1, |(seq, _)| seq);
            let folded = segments.iter().take(stop as usize - 1).flatten();
            *counts.entry(log.kind.name().to_owned()).or_default() +=
                folded.map(|columns| columns.rows as u64).sum::<u64>();
            for (key, what) in [
                (key::rollup(&workspace, version, log.day), "rollup"),
                (key::evaluation(&workspace, version, log.day), "evaluation"),
            ] {
                let stored = self.items.get(&key).and_then(|stored| Projected::applied_of(&stored.item).ok());
                let applied = stored.and_then(|applied| applied.get(&log.name()).copied()).unwrap_or(0);
                if applied != stop - 1 && (what == "rollup" || self.has_predictions(log, version)) {
                    found.push(format!("{log}: the {what} v{version} covers {applied} of {}", stop - 1));
                }
            }
            if stop <= segments.len() as u64
                && !self.items.contains_key(&key::dead_letter(log, version, stop))
            {
                found.push(format!("{log}: segment {stop} has no dead letter"));
            }
        }
        let letters = self.items.keys().filter(|key| key::parse_unwritten(key).is_some());
        found.extend(letters.map(|key| format!("{key}: a projection is not written")));
        for (kind, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let counted = self.counted(&workspace, &kind);
            if counted != count {
                found.push(format!("the counters count {counted} {kind}, not {count}"));
            }
        }
        found
    }

    /// Without predictions there is nothing to evaluate that anybody must find.
    fn has_predictions(&self, log: &LogId, version: u32) -> bool {
        let rollup = self.items.get(&key::rollup(&log.workspace, version, log.day));
        let applied = rollup.and_then(|stored| Projected::from_item(&stored.item).ok());
        applied.is_some_and(|stored| stored.applied.keys().any(|name| name.starts_with('p')))
    }

    fn counted(&self, workspace: &event::Id, kind: &str) -> u64 {
        let months: BTreeSet<String> = self.logs.keys().map(|log| log.day.month()).collect();
        let mut sum = 0;
        for month in months {
            let Some(stored) = self.items.get(&key::counter(workspace, &Counted::Workspace, &month)) else {
                continue;
            };
            for day in stored.item.map("days").into_iter().flat_map(BTreeMap::values) {
                if let Value::M(kinds) = day
                    && let Some(Value::N(count)) = kinds.get(kind)
                {
                    sum += count.as_i64().unwrap_or(0) as u64;
                }
            }
        }
        sum
    }
}

/// The text that an evaluation would have if it stood in one item.
fn whole_state(found: Found) -> std::result::Result<String, String> {
    let Found::Whole(_, states) = found else { return Err("a part of the evaluation is missing".into()) };
    let whole = fold::Evaluation::from_states(&states).map_err(|error| error.to_string())?;
    Ok(whole.to_state())
}

fn check_lease(before: Option<&Item>, item: &Item) -> std::result::Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    let (was, is) = (whole(before, "epoch"), whole(item, "epoch"));
    if is < was {
        return Err(format!("the epoch of a lease moves back from {was} to {is}"));
    }
    let checkpoint = |item: &Item| -> i64 {
        let text = item.optional_text("checkpoint").and_then(|text| text.strip_prefix("after:"));
        text.and_then(|text| text.parse().ok()).unwrap_or(-1)
    };
    if is == was && checkpoint(item) < checkpoint(before) {
        let (from, to) = (checkpoint(before), checkpoint(item));
        return Err(format!("the checkpoint moves back from {from} to {to} within epoch {is}"));
    }
    Ok(())
}
