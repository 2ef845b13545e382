//! The change feed of the table: shards that split and are trimmed, changes that are held back and told twice.

use event::{Error, Id, Result};
use log::key::{self, LogId};
use table::{Changes, Key, Position, Shard};

use super::{State, World};

/// Before the number of a shard.
const STREAM: &str = "sim/";

/// The most changes in one answer.
const MAX_CHANGES: usize = 8;

/// The most shards.
const MAX_SHARDS: usize = 9;

#[derive(Debug, Default)]
pub(super) struct Told {
    parent: Option<usize>,
    entries: Vec<Key>,
    /// Number of trimmed changes.
    trimmed: usize,
    children: Option<[usize; 2]>,
}

impl World {
    pub(in crate::sim) fn shards(&self) -> Vec<Shard> {
        let state = self.lock();
        let id = |at: usize| format!("{STREAM}{at}");
        let shards = state.shards.iter().enumerate();
        shards.map(|(at, shard)| Shard { id: id(at), parent: shard.parent.map(id) }).collect()
    }

    /// The changes after `from`.
    pub(in crate::sim) fn changes(&self, shard: &str, from: &Position) -> Result<Changes> {
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
    pub(in crate::sim) fn deliver(&self) {
        let mut state = self.lock();
        let held = std::mem::take(&mut state.held);
        held.into_iter().for_each(|key| state.tell(key));
        drop(state);
        self.grown.notify_waiters();
    }

    /// Tells again of a segment.
    pub(in crate::sim) fn redeliver(&self, at: u64) {
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
    pub(in crate::sim) fn split(&self, which: u64) {
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

    /// Trims every shard that somebody reads from a position of its own. A reader that asks for the oldest
    /// change has no position that could be lost, so it is told of no gap.
    pub(in crate::sim) fn trim(&self) {
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

impl State {
    pub(super) fn tell(&mut self, key: Key) {
        // By the sort key without its ids (an item of the catalog has one): they are not the same in every run.
        let is_id = |part: &str| Id::parse(part.trim_end_matches(['#', '/'])).is_ok();
        let parts = key.sk.split_inclusive(['#', '/']).filter(|part| !is_id(part));
        let mut hash = parts.flat_map(str::bytes).fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
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
}
