//! Histories of keys that expire: what is sent with a key, without one, to be stored in any case, or as a
//! chunk of a file; tried again, broken off after any write, minutes and days later, by two processes. The
//! oracle says for each row how often it must be stored.

use log::key;
use proptest::{collection, prelude::*};
use table::{Condition, Item};

use super::*;
use crate::{file::Origin, limits::IDEMPOTENCY_SECONDS};

const DAYS: [&str; 2] = ["2026-06-01", "2026-06-02"];
const ROWS: usize = 2;
const CONTENTS: usize = 2;

/// Name of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Name {
    Key(usize),
    Content,
    Nothing,
    /// It is a chunk of a file, of whose days these are good.
    Chunk([bool; 2]),
}

#[derive(Clone, Debug)]
enum Step {
    Send { name: Name, content: usize, process: usize, dies_after: Option<i64> },
    Wait(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = prop_oneof![
        4 => (0..2usize).prop_map(Name::Key),
        4 => Just(Name::Content),
        1 => Just(Name::Nothing),
        2 => any::<[bool; 2]>().prop_map(Name::Chunk),
    ];
    let dies_after = prop_oneof![2 => Just(None), 1 => (0..5i64).prop_map(Some)];
    let send = (name, 0..CONTENTS, 0..2usize, dies_after)
        .prop_map(|(name, content, process, dies_after)| Step::Send { name, content, process, dies_after });
    let waits =
        [1, REPEAT_SECONDS / 2, REPEAT_SECONDS, IDEMPOTENCY_SECONDS - REPEAT_SECONDS, IDEMPOTENCY_SECONDS];
    let wait = proptest::sample::select(waits.to_vec()).prop_map(Step::Wait);
    collection::vec(prop_oneof![3 => send, 2 => wait], 1..24)
}

/// Number of times that the rows of each content and day are stored.
type Counts = [[usize; 2]; CONTENTS];

/// Expected state of an idempotency key.
#[derive(Clone, Debug)]
struct Used {
    content: usize,
    until: i64,
    days: [bool; 2],
}

/// Expected contents of the logs, with the keys that explain them.
#[derive(Default)]
struct Oracle {
    now: i64,
    counts: Counts,
    keys: [Option<Used>; 2],
    /// Times at which the rows of a content and day were stored without a key.
    lately: [[Option<i64>; 2]; CONTENTS],
    taken: [[bool; 2]; CONTENTS],
}

impl Oracle {
    /// Returns the days of a batch that must be stored now; `None`, when it must be refused.
    fn expected(&mut self, name: Name, content: usize, records: bool) -> Option<[bool; 2]> {
        Some(match name {
            Name::Nothing => [true; 2],
            Name::Content => {
                self.lately[content].map(|at| at.is_none_or(|at| at <= self.now - REPEAT_SECONDS))
            }
            Name::Chunk(good) => [0, 1].map(|day| good[day] && !self.taken[content][day]),
            Name::Key(key) => {
                let used = self.keys[key].take_if(|used| used.until > self.now);
                match used {
                    Some(used) if used.content != content => {
                        self.keys[key] = Some(used);
                        return None;
                    }
                    Some(used) => {
                        self.keys[key] = Some(used.clone());
                        used.days.map(|stored| !stored)
                    }
                    None => {
                        let until = self.now + IDEMPOTENCY_SECONDS;
                        self.keys[key] = records.then_some(Used { content, until, days: [false; 2] });
                        [true; 2]
                    }
                }
            }
        })
    }

    fn stored(&mut self, name: Name, content: usize, day: usize) {
        self.counts[content][day] += 1;
        match name {
            Name::Nothing => {}
            Name::Content => self.lately[content][day] = Some(self.now),
            Name::Chunk(_) => self.taken[content][day] = true,
            Name::Key(key) => {
                if let Some(used) = &mut self.keys[key] {
                    used.days[day] = true;
                }
            }
        }
    }
}

fn two_days(content: usize) -> Batch {
    let row = |row: usize| {
        let day = DAYS[row / ROWS];
        format!(r#"{{"key":"{content}","predicted_at":"{day}T04:30:0{row}Z","release":"v1","score":0.5}}"#)
    };
    let body = (0..2 * ROWS).map(row).collect::<Vec<_>>().join("\n");
    let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
    read_ndjson(Kind::Predictions, body.as_bytes(), now).unwrap()
}

async fn send(world: &World, appender: &Appender, name: Name, content: usize) -> Result<Receipt> {
    let (lanes, batch) = (1, two_days(content));
    let keys = ["one", "two"];
    match name {
        Name::Key(key) => {
            appender.append(&world.workspace, lanes, batch, Some(keys[key]), Remember::Week).await
        }
        Name::Content => appender.append(&world.workspace, lanes, batch, None, Remember::Week).await,
        Name::Nothing => appender.append(&world.workspace, lanes, batch, None, Remember::Never).await,
        Name::Chunk(good) => {
            let origin = Origin { digest: format!("{content}"), first: 1 };
            let good: Vec<usize> = (0..batch.rows()).filter(|row| good[row / ROWS]).collect();
            let chunk = ChunkRows { origin: &origin, batch: &batch, good: &good };
            appender.append_chunk(&world.workspace, lanes, &chunk).await
        }
    }
}

async fn counts(world: &World) -> Counts {
    let mut counts = Counts::default();
    for (log, keys) in world.stored().await {
        let day = DAYS.iter().position(|day| log.contains(day)).unwrap();
        keys.iter().for_each(|key| counts[key.parse::<usize>().unwrap()][day] += 1);
    }
    counts.map(|days| {
        days.map(|rows| {
            assert_eq!(rows % ROWS, 0, "a part of a segment");
            rows / ROWS
        })
    })
}

async fn run(steps: Vec<Step>) {
    let world = World::new();
    let mut processes = [world.appender(), world.appender()];
    let mut oracle = Oracle::default();
    for step in steps {
        let (name, content, process, dies_after) = match step {
            Step::Wait(seconds) => {
                world.wait(seconds);
                oracle.now += seconds;
                continue;
            }
            Step::Send { name, content, process, dies_after } => (name, content, process, dies_after),
        };
        world.die_after(dies_after.unwrap_or(i64::MAX));
        let result = send(&world, &processes[process], name, content).await;
        world.live();
        if result.is_err() {
            // Writes begun by the process before it died have landed once this one has.
            let barrier = Item::new(key::batch(&world.workspace, Kind::Metrics, "barrier"));
            world.table.inner.put(barrier, Condition::None).await.unwrap();
        }
        let counts = counts(&world).await;
        // The record is the first write.
        let expected = oracle.expected(name, content, dies_after != Some(0));
        match (&result, expected) {
            (Err(error), None) => assert!(error.is_conflict() || dies_after.is_some(), "{error}"),
            (Ok(receipt), Some(days)) => {
                let appended = days.iter().filter(|stored| **stored).count() * ROWS;
                assert_eq!((receipt.appended, receipt.replayed), (appended, appended == 0), "{name:?}");
                (0..2).filter(|day| days[*day]).for_each(|day| oracle.stored(name, content, day));
            }
            (Err(error), Some(days)) => {
                assert!(dies_after.is_some(), "{error}");
                // Whatever got in had to, and is known from then on.
                let got_in = |day: &usize| days[*day] && counts[content][*day] > oracle.counts[content][*day];
                let got_in: Vec<usize> = (0..2).filter(got_in).collect();
                got_in.into_iter().for_each(|day| oracle.stored(name, content, day));
                processes[process] = world.appender();
            }
            (Ok(_), None) => panic!("other events were taken under a key"),
        }
        assert_eq!(counts, oracle.counts, "after {name:?} of {content}, broken off: {}", result.is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn expiring_keys_store_rows_as_often_as_promised(steps in steps()) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run(steps));
    }
}
