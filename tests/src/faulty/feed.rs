//! Change feed with faults.
//!
//! The changes of the engine below are read as they come and passed on, in shards of this feed's own. The faults of a change are
//! decided once, when it comes: every reader finds equal changes at a position. Each is passed on at least once, or replaced by a
//! gap.

use std::{collections::BTreeMap, mem::take, time::Duration};

use event::{Error, Result};
use table::{Changes, Key, Position, Shard, Table};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

use super::plan::{Dice, Fault};

/// Interval between two looks at the engine below.
const POLL: Duration = Duration::from_millis(5);

/// Maximum changes in one answer; few, so that much happens between two answers.
const MAX_CHANGES: usize = 8;

/// Maximum shards, closed ones included: the first one and three splits.
const MAX_SHARDS: usize = 7;

/// Prefix of the number of a shard, in its id.
const PREFIX: &str = "faulty-";

/// Feed with faults.
#[derive(Debug, Default)]
pub(super) struct Feed(Mutex<State>);

#[derive(Debug)]
struct State {
    shards: Vec<Told>,
    /// Positions in the shards below.
    below: BTreeMap<String, Option<Position>>,
    /// Changes that have come and were not passed on yet; `None` for lost changes below.
    arrived: Vec<Option<Key>>,
    /// Changes that are passed on after the next ones.
    held: Vec<Key>,
}

/// Shard: its changes, parent and children.
#[derive(Debug, Default)]
struct Told {
    parent: Option<usize>,
    /// Changes; `None` for a gap.
    entries: Vec<Option<Key>>,
    children: Option<[usize; 2]>,
}

impl Default for State {
    fn default() -> Self {
        Self { shards: vec![Told::default()], below: BTreeMap::new(), arrived: Vec::new(), held: Vec::new() }
    }
}

fn id(shard: usize) -> String {
    format!("{PREFIX}{shard}")
}

impl Feed {
    pub(super) async fn shards(&self) -> Vec<Shard> {
        let state = self.0.lock().await;
        // A child has a greater number than its parent.
        let shards = state.shards.iter().enumerate();
        shards.map(|(at, shard)| Shard { id: id(at), parent: shard.parent.map(id) }).collect()
    }

    pub(super) async fn changes(
        &self,
        table: &dyn Table,
        dice: &Dice,
        shard: &str,
        from: &Position,
        wait: Duration,
    ) -> Result<Changes> {
        let deadline = Instant::now() + wait;
        let mut start = None;
        loop {
            {
                let mut state = self.0.lock().await;
                state.pull(table, dice).await?;
                let shard = state.find(shard)?;
                let (at, gap) = match start {
                    Some(start) => start,
                    None => shard.start(from, dice)?,
                };
                start = Some((at, gap));
                let changes = shard.read(at, gap);
                let is_news = !changes.keys.is_empty() || changes.gap || changes.next.is_none();
                if is_news || Instant::now() >= deadline {
                    return Ok(changes);
                }
            }
            sleep(POLL.min(deadline - Instant::now())).await;
        }
    }
}

impl State {
    /// Reads the changes below. Nothing is lost when it is interrupted.
    async fn pull(&mut self, table: &dyn Table, dice: &Dice) -> Result<()> {
        for shard in table.shards().await? {
            let position = self.below.entry(shard.id.clone()).or_insert(Some(Position::Oldest));
            let Some(from) = position else { continue };
            let changes = table.changes(&shard.id, from, Duration::ZERO).await?;
            *position = changes.next;
            self.arrived.extend(changes.gap.then_some(None));
            self.arrived.extend(changes.keys.into_iter().map(Some));
        }
        self.tell(dice);
        Ok(())
    }

    /// Decides the faults of the changes that have come, and passes them on.
    fn tell(&mut self, dice: &Dice) {
        let held = take(&mut self.held);
        let mut keys = Vec::new();
        for key in take(&mut self.arrived) {
            let Some(key) = key else {
                let open = self.shards.iter_mut().filter(|shard| shard.children.is_none());
                open.for_each(|shard| shard.entries.push(None));
                continue;
            };
            if dice.hits(Fault::Trimmed) {
                let leaf = self.leaf(&key);
                self.shards[leaf].entries.push(None);
                continue;
            }
            if dice.hits(Fault::Duplicated) {
                self.put_somewhere(key.clone(), &mut keys, dice);
            }
            match dice.hits(Fault::Reordered) {
                true => self.put_somewhere(key, &mut keys, dice),
                false => keys.push(key),
            }
        }
        for key in keys.into_iter().chain(held) {
            let leaf = self.leaf(&key);
            self.shards[leaf].entries.push(Some(key));
            if self.shards.len() + 2 <= MAX_SHARDS && dice.hits(Fault::Split) {
                self.split(leaf);
            }
        }
    }

    /// Puts a change among the present ones, or after the next ones.
    fn put_somewhere(&mut self, key: Key, keys: &mut Vec<Key>, dice: &Dice) {
        match dice.below(2) {
            0 => keys.insert(dice.below(keys.len() as u64 + 1) as usize, key),
            _ => self.held.push(key),
        }
    }

    fn split(&mut self, shard: usize) {
        let first = self.shards.len();
        self.shards[shard].children = Some([first, first + 1]);
        for _ in 0..2 {
            self.shards.push(Told { parent: Some(shard), ..Told::default() });
        }
    }

    /// Open shard of a key: at every split one bit of its hash chooses the child.
    fn leaf(&self, key: &Key) -> usize {
        let mut hash = hash(key);
        let mut at = 0;
        while let Some(children) = self.shards[at].children {
            at = children[(hash & 1) as usize];
            hash >>= 1;
        }
        at
    }

    fn find(&self, id: &str) -> Result<&Told> {
        let number = id.strip_prefix(PREFIX).and_then(|number| number.parse::<usize>().ok());
        let shard = number.and_then(|number| self.shards.get(number));
        shard.ok_or_else(|| Error::not_found(format!("there is no shard `{id}`")))
    }
}

impl Told {
    /// Start of a read, and true if changes before it are gone.
    fn start(&self, from: &Position, dice: &Dice) -> Result<(usize, bool)> {
        let end = self.entries.len();
        match from {
            Position::Oldest => Ok((0, false)),
            Position::Latest => Ok((end, false)),
            Position::After(text) => {
                let at = text.parse().ok().filter(|at| *at <= end);
                let at = at.ok_or_else(|| Error::invalid(format!("`{text}` is not a position")))?;
                if dice.hits(Fault::Expired) {
                    return Ok((if dice.below(2) == 0 { 0 } else { end }, true));
                }
                Ok((at, false))
            }
        }
    }

    fn read(&self, at: usize, gap: bool) -> Changes {
        let until = self.entries.len().min(at + MAX_CHANGES);
        let told = &self.entries[at..until];
        let is_over = self.children.is_some() && until == self.entries.len();
        Changes {
            keys: told.iter().flatten().cloned().collect(),
            next: (!is_over).then(|| Position::After(until.to_string())),
            gap: gap || told.contains(&None),
        }
    }
}

/// FNV-1a, with its halves folded together: the lowest bit of FNV alone is only the parity of the bytes.
fn hash(key: &Key) -> u64 {
    let bytes = key.pk.bytes().chain([0]).chain(key.sk.bytes());
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    hash ^ (hash >> 32)
}
