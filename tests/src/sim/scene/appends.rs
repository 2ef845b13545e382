//! Appends, and an operator's answers to segments that are refused.

use std::sync::Arc;

use event::{
    Column, Columns, Kind, Values,
    fields::{REASON, RETRACTED},
};
use log::{
    batch::{BatchId, BatchPart},
    key::{self, LogId},
    segment_item::Segment,
};
use projector::dead_letters;
use table::{Condition, Item, Write};

use super::{Planted, Scene};

impl Scene {
    pub(super) fn append(&mut self, log: usize, is_broken: bool) {
        let log = self.log(log);
        if self.closed == Some(log.day) {
            return;
        }
        let at = self.world.lock().logs.get(&log).map_or(0, Vec::len);
        let columns = events_of(&log, at, 1 + self.random.below(3) as usize, self.releases);
        let part = BatchPart { batch: BatchId([at as u8; 16]), first: 0, rows: columns.rows };
        let segment = Segment::pack(log.clone(), at as u64 + 1, self.clock.now(), vec![part], &columns);
        let segment = segment.expect("a segment");
        let mut item = segment.to_item();
        if is_broken {
            item = item.with("data", vec![7, 7, 7]);
        }
        // First into the list: a projector may see it at once.
        let known = (!is_broken).then(|| columns.clone());
        self.world.lock().logs.entry(log).or_default().push(known);
        if let Err(error) = self.world.write(vec![Write::Put(item, Condition::Absent)]) {
            self.violated(format!("an append was refused: {error}"));
        } else if !is_broken {
            self.hand_over(&segment, columns, at);
        }
    }

    /// Hands what was appended over to most of the projectors that take it.
    fn hand_over(&self, segment: &Segment, columns: Columns, at: usize) {
        let columns = match self.planted {
            Some(Planted::WrongCachedSegment) => events_of(&segment.log, at + 1, columns.rows, self.releases),
            _ => columns,
        };
        let columns = Arc::new(columns);
        for running in self.processes.iter().flatten() {
            if !self.handing.hits(4) {
                running.segment_cache.give(segment, &columns, 0);
            }
        }
    }

    pub(super) fn repeat(&self, log: usize) {
        let log = self.log(log);
        if self.closed == Some(log.day) {
            return;
        }
        let segments = self.world.lock().logs.get(&log).map_or(0, Vec::len) as u64;
        let again = Item::new(key::segment(&log, segments.max(1)));
        if segments > 0 && self.world.write(vec![Write::Put(again, Condition::Absent)]).is_ok() {
            self.violated(format!("{log}: an append that was repeated was made twice"));
        }
    }

    pub(super) async fn skip(&mut self) {
        let (_, table) = self.table("operator");
        let letters = dead_letters::list(&*table, &self.workspace).await.unwrap_or_default();
        if let Some(letter) = letters.iter().find(|letter| letter.state == dead_letters::LetterState::Stopped)
        {
            // It may fail, or not be what stops the log; then nothing must have changed.
            _ = dead_letters::skip(&*table, letter).await;
        }
    }
}

/// The events of a segment: predictions, or outcomes of the same keys.
pub(in crate::sim) fn events(log: &LogId, at: usize, rows: usize) -> Columns {
    events_of(log, at, rows, 1)
}

/// Makes events of several releases. Some segments send again what stands two segments before, and take every other row of
/// it back.
fn events_of(log: &LogId, at: usize, rows: usize, releases: usize) -> Columns {
    if at % 7 == 5 {
        let mut again = new_events_of(log, at - 2, rows, releases);
        let valid: Vec<bool> = (0..rows).map(|row| row.is_multiple_of(2)).collect();
        let mut add = |name: &str, text: &str| {
            let said = valid.iter().map(|said| if *said { text } else { "" }).collect();
            let valid = valid.contains(&false).then(|| valid.clone());
            again.columns.push(Column { name: name.to_owned(), values: Values::Text(said), valid });
        };
        add(RETRACTED, "true");
        add(REASON, "sent by mistake");
        return again;
    }
    new_events_of(log, at, rows, releases)
}

fn new_events_of(log: &LogId, at: usize, rows: usize, releases: usize) -> Columns {
    let texts = |text: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..rows).map(text).collect();
        Values::Text(all.iter().map(String::as_str).collect())
    };
    let times = (0..rows).map(|row| log.day.start().micros() + (at * 10 + row) as i64).collect();
    let scores = (0..rows).map(|row| ((at * 7 + row * 3 + usize::from(log.lane)) % 10) as f64 / 10.0);
    let mut columns = vec![
        Column::new("key", texts(&|row| format!("{at}-{row}-{}", log.lane))),
        Column::new(log.kind.time_field(), Values::Time(times)),
        match log.kind {
            Kind::Predictions => {
                Column::new("release", texts(&|row| format!("v{}", 1 + (at + row) % releases)))
            }
            _ => Column::new("label", texts(&|row| ((at + row) % 2).to_string())),
        },
        match log.kind {
            Kind::Predictions => Column::new("score", Values::Float(scores.collect())),
            _ => Column::new("value", Values::Float(scores.collect())),
        },
    ];
    // Some segments have features or tags, and not all the same ones.
    if log.kind == Kind::Predictions && !at.is_multiple_of(3) {
        let numbers = (0..rows).map(|row| (at * 11 + row) as f64 / 4.0);
        columns.push(Column::new(format!("feature.f{}", at % 3), Values::Float(numbers.collect())));
    }
    if log.kind == Kind::Predictions && at.is_multiple_of(2) {
        columns.push(Column::new("tag.place", texts(&|row| format!("p{}", (at + row * 5) % 4))));
    }
    Columns { rows, columns }
}
