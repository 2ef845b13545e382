//! The table in memory (`feed` says what changed), and the list of everything that was ever appended, by which
//! `oracle` judges each write; `said` is what of it is release events.

mod feed;
mod oracle;
mod said;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
};

use event::{Clock, Columns, Definition, Error, Result, Timestamp};
use feed::Told;
use log::{
    key::{self, LogId},
    store::shown,
};
use table::{
    Condition, Item, Key, Write,
    item::{MAX_ITEM_BYTES, Value},
};
use tokio::{sync::Notify, time::Instant};

pub(super) use said::{Promoted, Said};

/// When the virtual time begins, in seconds since 1970: 2026-06-10T00:00:00Z.
const BEGIN_SECONDS: i64 = 1_781_049_600;

/// The table.
#[derive(Debug)]
pub struct World {
    state: Mutex<State>,
    /// The virtual time.
    pub(super) clock: Clock,
    /// By how many seconds the clock is ahead of the virtual time; behind, when less than 0.
    pub(super) ahead: Arc<AtomicI64>,
    /// The feed has grown.
    pub(super) grown: Notify,
    /// One call in so many fails; none when 0.
    pub(super) faults: AtomicU64,
    /// The most bytes of an item of an evaluation.
    pub(super) item_bytes: AtomicUsize,
}

/// Item under a key, and the write that made it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) item: Item,
    /// The number of the write that made it, as a new item.
    pub(super) created: u64,
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
    /// Segments as they were appended, and the number of the write that did it; an erasure writes them again.
    pub(super) appended: BTreeMap<Key, (u64, Item)>,
    /// Appended events: `None` for a segment that cannot be decoded.
    pub(super) logs: BTreeMap<LogId, Vec<Option<Columns>>>,
    /// Segments that an operator left out.
    pub(super) skipped: BTreeSet<(LogId, u64)>,
    /// The first definitions of releases.
    pub(super) definitions: BTreeMap<String, Definition>,
    /// Release events so far.
    pub(super) said: Said,
    /// Violations found.
    pub(super) violations: Vec<String>,
    /// True if writes are not judged, where too much is appended for that.
    pub(super) is_unjudged: bool,
}

impl World {
    /// An empty table with one shard.
    pub fn new() -> Arc<Self> {
        let begin = Instant::now();
        let ahead = Arc::<AtomicI64>::default();
        let by = Arc::clone(&ahead);
        let clock = Clock::from_fn(move || {
            let base = Timestamp::default().plus_seconds(BEGIN_SECONDS + by.load(Ordering::Relaxed));
            let micros = base.micros() + begin.elapsed().as_micros() as i64;
            Timestamp::from_micros(micros).unwrap_or(base)
        });
        let world = Self {
            state: Mutex::default(),
            clock,
            ahead,
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
        // Segments that an operator leaves out are noted before the rollup that moves past them is looked at.
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
            match self.is_holding && is_segment(&key) {
                true => self.held.push(key),
                false => self.tell(key),
            }
        }
        Ok(())
    }

    fn put(&mut self, item: Item) {
        if !self.is_unjudged {
            self.judge(&item);
        }
        let created = self.items.get(&item.key).map_or(self.writes, |stored| stored.created);
        let is_new = !self.items.contains_key(&item.key);
        if is_new && !self.is_unjudged && is_segment(&item.key) {
            self.appended.entry(item.key.clone()).or_insert_with(|| (created, item.clone()));
        }
        self.items.insert(item.key.clone(), Stored { item, created });
    }

    fn judge(&mut self, item: &Item) {
        let before = self.items.get(&item.key).map(|stored| stored.item.clone());
        let violation = self.check(before.as_ref(), item).err();
        let violations = violation.into_iter().chain(self.note_definition(before.as_ref(), item));
        let violations: Vec<String> = violations.map(|what| format!("{}: {what}", item.key)).collect();
        self.violations.extend(violations);
    }
}

/// True if a key is one of a segment, in any partition.
pub(super) fn is_segment(key: &Key) -> bool {
    key::parse_segment(&shown(Item::new(key.clone())).key).is_some()
}
