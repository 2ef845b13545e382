//! Observations of a client, and the anomalies in them.

pub(crate) mod client;
pub(crate) mod faults;
pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet};

/// Maximum error of the clocks of processes, including the time between two readings, in microseconds.
pub(crate) const SKEW: i64 = 11_000_000;

/// Prediction in the order of sending: the key, and the number of the write.
pub(crate) type Row = (String, u64);

/// Events that were sent together, until they were acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) rows: Vec<Row>,
    pub(crate) begun: i64,
    /// Time of the acknowledgement; `None`, when the client gave up: the events may be there or not.
    pub(crate) acknowledged: Option<i64>,
}

/// Instant of a read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AsOf {
    Now,
    /// Instant that the answer named.
    Instant(i64),
    ReadVersion(String),
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) what: &'static str,
    pub(crate) as_of: AsOf,
    pub(crate) begun: i64,
    /// Rows, in order; `None` for answers without rows of events.
    pub(crate) rows: Option<Vec<Row>>,
    pub(crate) bytes: String,
    /// Read version that the answer named.
    pub(crate) read_version: String,
}

/// All actions of one client on the events of one day, which are its alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) appends: Vec<Append>,
    pub(crate) reads: Vec<Read>,
}

/// Contradiction in a history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Anomaly {
    /// Acknowledged before the read began, and missing.
    Lost(Row),
    /// Present more than once.
    Doubled(Row),
    /// Never sent.
    Invented(Row),
    /// The second was sent after the first was acknowledged, for one key, and stands before it.
    Swapped(Row, Row),
    /// A read of the last write of each key shows another one.
    Superseded(Row),
    /// Different bytes at one read version.
    ReadVersionChanged(String),
    /// Different bytes as of one closed instant.
    InstantChanged(i64),
    /// Sent after the instant, and present in the answer as of then.
    FromTheFuture(Row),
    /// Acknowledged before the instant, and missing in the answer as of then.
    ForgottenThen(Row),
}

/// Finds the anomalies of a history.
pub(crate) fn anomalies(history: &History) -> BTreeSet<Anomaly> {
    let mut found = BTreeSet::new();
    let mut sent = BTreeMap::<&Row, &Append>::new();
    for append in &history.appends {
        append.rows.iter().for_each(|row| _ = sent.insert(row, append));
    }
    // Answers are identified by the question, its instant, and its source.
    let mut same = BTreeMap::<(&str, &AsOf), &str>::new();
    let mut by_read_version = BTreeMap::<(&str, &str), &str>::new();
    for read in &history.reads {
        if let AsOf::Instant(instant) = read.as_of
            && *same.entry((read.what, &read.as_of)).or_insert(&read.bytes) != read.bytes
        {
            found.insert(Anomaly::InstantChanged(instant));
        }
        let read_version =
            if let AsOf::ReadVersion(read_version) = &read.as_of { read_version } else { &read.read_version };
        if *by_read_version.entry((read.what, read_version)).or_insert(&read.bytes) != read.bytes {
            found.insert(Anomaly::ReadVersionChanged(read_version.clone()));
        }
        let Some(rows) = &read.rows else { continue };
        if read.what == LATEST {
            found.extend(superseded(rows, read, history));
        } else {
            found.extend(rows_wrong(rows, read, &sent));
        }
    }
    found
}

/// Read that shows the valid write of each key.
pub(crate) const LATEST: &str = "joined";

fn rows_wrong(rows: &[Row], read: &Read, sent: &BTreeMap<&Row, &Append>) -> BTreeSet<Anomaly> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for row in rows {
        if !sent.contains_key(row) {
            found.insert(Anomaly::Invented(row.clone()));
        }
        if !seen.insert(row) {
            found.insert(Anomaly::Doubled(row.clone()));
        }
    }
    for (row, append) in sent {
        let is_there = seen.contains(row);
        let acknowledged_by = |instant| append.acknowledged.is_some_and(|at| at < instant);
        match read.as_of {
            AsOf::Now if !is_there && acknowledged_by(read.begun) => {
                found.insert(Anomaly::Lost((*row).clone()));
            }
            AsOf::Instant(instant) if !is_there && acknowledged_by(instant - SKEW) => {
                found.insert(Anomaly::ForgottenThen((*row).clone()));
            }
            AsOf::Instant(instant) if is_there && append.begun > instant + SKEW => {
                found.insert(Anomaly::FromTheFuture((*row).clone()));
            }
            _ => {}
        }
    }
    for (at, later) in rows.iter().enumerate() {
        for earlier in &rows[..at] {
            // `later` stands behind `earlier`; was it acknowledged before that one was sent?
            let (Some(first), Some(second)) = (sent.get(later), sent.get(earlier)) else { continue };
            if later.0 == earlier.0 && first.acknowledged.is_some_and(|at| at < second.begun) {
                found.insert(Anomaly::Swapped(later.clone(), earlier.clone()));
            }
        }
    }
    found
}

/// Finds keys that do not show the last write: one that no acknowledged write, sent after its end, supersedes.
fn superseded(rows: &[Row], read: &Read, history: &History) -> BTreeSet<Anomaly> {
    let of = |row: &Row| history.appends.iter().find(|append| append.rows.contains(row));
    let mut found = BTreeSet::new();
    for row in rows {
        let Some(shown) = of(row) else {
            found.insert(Anomaly::Invented(row.clone()));
            continue;
        };
        let is_later = |append: &&Append| {
            let known = append.acknowledged.is_some_and(|at| at < read.begun);
            let follows = shown.acknowledged.is_some_and(|at| at < append.begun);
            known && follows && append.rows.iter().any(|(key, _)| *key == row.0)
        };
        if read.as_of == AsOf::Now && history.appends.iter().any(|append| is_later(&append)) {
            found.insert(Anomaly::Superseded(row.clone()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, write: u64) -> Row {
        (key.to_owned(), write)
    }

    fn append(rows: &[Row], begun: i64, acknowledged: Option<i64>) -> Append {
        let seconds = |at: i64| at * 1_000_000;
        Append { rows: rows.to_vec(), begun: seconds(begun), acknowledged: acknowledged.map(seconds) }
    }

    fn read(what: &'static str, as_of: AsOf, begun: i64, rows: &[Row], read_version: &str) -> Read {
        let rows = rows.to_vec();
        let bytes = format!("{rows:?}");
        Read {
            what,
            as_of,
            begun: begun * 1_000_000,
            rows: Some(rows),
            bytes,
            read_version: read_version.into(),
        }
    }

    /// Three writes of one key, one of another that was never acknowledged, and reads of all sorts.
    fn sound() -> History {
        let (first, second, third, open) = (row("a", 1), row("a", 2), row("a", 3), row("b", 4));
        let all = [first.clone(), second.clone(), third.clone()];
        let early = AsOf::Instant(40 * 1_000_000);
        History {
            appends: vec![
                append(std::slice::from_ref(&first), 10, Some(11)),
                append(std::slice::from_ref(&second), 12, Some(13)),
                append(std::slice::from_ref(&open), 14, None),
                append(std::slice::from_ref(&third), 60, Some(61)),
            ],
            reads: vec![
                read("predictions", AsOf::Now, 20, &all[..2], "one"),
                read("predictions", AsOf::Now, 70, &[all.as_slice(), &[open]].concat(), "two"),
                read("predictions", AsOf::ReadVersion("one".into()), 70, &all[..2], "one"),
                read("predictions", early.clone(), 75, &all[..2], "one"),
                read("predictions", early, 80, &all[..2], "one"),
                read(LATEST, AsOf::Now, 70, &all[2..], "three"),
            ],
        }
    }

    #[test]
    fn a_sound_history_has_no_anomaly() {
        assert_eq!(anomalies(&sound()), BTreeSet::new());
    }

    #[test]
    fn each_anomaly_that_is_planted_is_found() {
        let planted = |plant: fn(&mut History)| {
            let mut history = sound();
            plant(&mut history);
            history.reads.iter_mut().for_each(|read| read.bytes = format!("{:?}", read.rows));
            anomalies(&history)
        };
        let one = |anomaly: Anomaly| BTreeSet::from([anomaly]);
        let lost = planted(|history| _ = history.reads[1].rows.as_mut().unwrap().remove(0));
        assert_eq!(lost, one(Anomaly::Lost(row("a", 1))));
        let doubled = planted(|history| history.reads[1].rows.as_mut().unwrap().push(row("b", 4)));
        assert_eq!(doubled, one(Anomaly::Doubled(row("b", 4))));
        let invented = planted(|history| history.reads[1].rows.as_mut().unwrap().push(row("c", 9)));
        assert_eq!(invented, one(Anomaly::Invented(row("c", 9))));
        let swapped = planted(|history| history.reads[1].rows.as_mut().unwrap().swap(0, 1));
        assert_eq!(swapped, one(Anomaly::Swapped(row("a", 1), row("a", 2))));
        let superseded = planted(|history| history.reads[5].rows = Some(vec![row("a", 2)]));
        assert_eq!(superseded, one(Anomaly::Superseded(row("a", 2))));
        let read_version = planted(|history| _ = history.reads[2].rows.as_mut().unwrap().pop());
        assert_eq!(read_version, one(Anomaly::ReadVersionChanged("one".into())));
        let instant = planted(|history| {
            history.reads[4].rows.as_mut().unwrap().push(row("b", 4));
            history.reads[4].read_version = "four".into();
        });
        assert_eq!(instant, one(Anomaly::InstantChanged(40_000_000)));
        let future = planted(|history| {
            for at in [3, 4] {
                history.reads[at].rows.as_mut().unwrap().push(row("a", 3));
                history.reads[at].read_version = "four".into();
            }
        });
        assert_eq!(future, one(Anomaly::FromTheFuture(row("a", 3))));
        let forgotten = planted(|history| {
            for at in [3, 4] {
                history.reads[at].rows.as_mut().unwrap().pop();
                history.reads[at].read_version = "four".into();
            }
        });
        assert_eq!(forgotten, one(Anomaly::ForgottenThen(row("a", 2))));
    }
}
