//! Evaluation of a day: reading its predictions and outcomes, joining them, and computing the metrics of each release.
//!
//! Projector and query evaluate days through [`evaluate_day`], so they cannot differ. Their differences are in a
//! [`Reading`]: how far the logs are read, the handling of unreadable segments, and the memory limit. Of a day with more
//! rows than may be held at a time, the rows go to a temporary file and are evaluated one partition of the keys after the
//! other; the result is the same to the bit.
//!
//! ```
//! # use std::{collections::BTreeMap, sync::Arc};
//! use almanac_evaluate::{Reading, Unreadable, evaluate_day};
//! # use async_trait::async_trait;
//! # use event::{Clock, Error, Id, Kind, Result, Timestamp};
//! # use fold::evaluation::Evaluator;
//! use log::walk::{Note, Until, Walk};
//! use table::{Table, sqlite::SqliteTable};
//!
//! /// A day as it is now; a segment that cannot be read ends the evaluation.
//! struct Now { table: SqliteTable, workspace: Id, at: Timestamp }
//!
//! #[async_trait]
//! impl Reading for Now {
//!     fn table(&self) -> &dyn Table { &self.table }
//!     fn walk(&self, kind: Kind) -> Result<Walk> {
//!         Ok(Walk::new(&self.workspace, self.at.day(), kind, Until::Now, Arc::default()))
//!     }
//!     fn note(&self, _: Vec<Note>) {}
//!     fn unpacks(&self, _: usize) {}
//!     fn failed(&self, error: Error) -> Error { error }
//!     fn leaves_out(&self, _: &Unreadable) -> bool { false }
//!     fn rows_at_once(&self) -> usize { 1_000_000 }
//!     async fn grow(&self, _: u64) -> Result<()> { Ok(()) }
//!     fn shrink(&self, _: u64) {}
//!     fn check(&self) -> Result<()> { Ok(()) }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let table = SqliteTable::open(&folder.path().join("almanac.db"), Clock::system())?;
//! let at = Timestamp::parse("2013-06-01T12:00:00Z")?;
//! let day = Now { table, workspace: Id::new(at), at };
//! let (evaluation, rows) = evaluate_day(&day, Evaluator::new(BTreeMap::new())).await.expect("an empty day");
//! assert_eq!((evaluation.releases.len(), rows), (0, 0));
//! # Ok(())
//! # }
//! ```
//!
//! [`latest`] searches for the predictions that undated outcomes label, and [`key_filters`] finds the logs of a day
//! that cannot have some keys. The crate writes nothing and schedules nothing.

pub mod key_filters;
pub mod latest;
mod rows;
mod spill;

use std::{
    any::Any,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
};

use async_trait::async_trait;
use event::{Error, ErrorKind, Kind, Result};
use fold::{Evaluation, FoldError, evaluation::Evaluator};
use log::{
    key::LogId,
    walk::{Note, Walk},
};
use table::Table;
use tokio::task::JoinError;

use rows::Day;
use spill::{SCORE_BYTES, ScoreFile};

/// Maximum number of bytes of a page that is unpacked on the current thread.
const SMALL_BYTES: usize = 64 * 1024;

/// Number of rows below which a day is evaluated on the current thread.
const SMALL_ROWS: usize = 10_000;

/// An unreadable segment with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Log of the segment.
    pub log: LogId,
    /// Number of the segment.
    pub seq: u64,
    /// Reason.
    pub reason: String,
    /// True if reading it panicked.
    pub has_panicked: bool,
}

/// Access to the predictions and outcomes of one day.
#[async_trait]
pub trait Reading: Send + Sync {
    /// Returns the table.
    fn table(&self) -> &dyn Table;

    /// Returns a walk through the logs of a kind.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn walk(&self, kind: Kind) -> Result<Walk>;

    /// Takes the notes of a walk.
    fn note(&self, notes: Vec<Note>);

    /// Counts the packed bytes of events to unpack.
    fn unpacks(&self, bytes: usize);

    /// Converts an error of a walk for the caller of this reading.
    fn failed(&self, error: Error) -> Error;

    /// Returns whether the day is evaluated without an unreadable segment; if not, its evaluation ends.
    fn leaves_out(&self, segment: &Unreadable) -> bool;

    /// Returns the maximum number of unpacked rows held at a time. Rows of one key are always held together.
    fn rows_at_once(&self) -> usize;

    /// Reserves memory for bytes held from now on.
    ///
    /// # Errors
    /// Fails if that is too much.
    async fn grow(&self, bytes: u64) -> Result<()>;

    /// Releases memory of bytes no longer held.
    fn shrink(&self, bytes: u64);

    /// Checks that the evaluation is still wanted.
    ///
    /// # Errors
    /// Fails if it is not.
    fn check(&self) -> Result<()>;
}

/// Reason why a day has no evaluation.
#[derive(Debug)]
pub enum Failure {
    /// A segment is unreadable, and must not be left out.
    Stopped(Unreadable),
    /// Any other error.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Evaluates a day with an empty evaluator, by release and by the declared dimensions. Also returns the number of joined
/// rows.
///
/// # Errors
/// See [`judge_day`].
pub async fn evaluate_day(reading: &dyn Reading, evaluator: Evaluator) -> Result<(Evaluation, u64), Failure> {
    let columns = evaluator.more_columns().into_iter().chain(evaluator.declared_columns()).collect();
    let (day, survey) = Day::read(reading, columns, evaluator.survey()).await?;
    let evaluator = match survey {
        Some(survey) => {
            reading.shrink(survey.bytes() as u64);
            evaluator.split(survey)
        }
        None => evaluator,
    };
    let (mut scores, before) = (ScoreFile::default(), evaluator.bytes());
    let (mut evaluator, rows) = judge(reading, day, evaluator, Some(&mut scores), &mut |_| ()).await?;
    reading.shrink(evaluator.bytes().saturating_sub(before) as u64);
    let finish = move || {
        scores.settle(&mut evaluator)?;
        Ok::<_, Error>(evaluator.finish())
    };
    // Many scores take a while to sort.
    let evaluation = if rows < SMALL_ROWS as u64 { finish() } else { blocking(finish).await? };
    Ok((evaluation?, rows))
}

/// Judges a day with an evaluator, which may continue with the next one, and calls `after` after each part of the day, in the
/// order of the places of keys. Also returns the number of joined rows. What the evaluator holds stays charged.
///
/// # Errors
/// [`Failure::Stopped`] at an unreadable segment that is not left out; errors of the reading; `Corrupt` if the events
/// cannot be joined; `Unavailable` if a large day cannot be kept in a temporary file.
pub async fn judge_day(
    reading: &dyn Reading,
    evaluator: Evaluator,
    mut after: impl FnMut(&mut Evaluator) + Send,
) -> Result<(Evaluator, u64), Failure> {
    let (day, _) = Day::read(reading, evaluator.more_columns(), None).await?;
    judge(reading, day, evaluator, None, &mut after).await
}

/// Evaluates the rows of a day, and reads those of the next partition meanwhile. Many scores are kept in a file, if there is
/// one.
async fn judge(
    reading: &dyn Reading,
    day: Day,
    mut evaluator: Evaluator,
    mut scores: Option<&mut ScoreFile>,
    after: &mut (dyn FnMut(&mut Evaluator) + Send),
) -> Result<(Evaluator, u64), Failure> {
    let refused = |error: FoldError| match error {
        FoldError::OtherTasks { .. } | FoldError::Refused { .. } => Error::invalid(error.to_string()),
        FoldError::TooManyBuckets => Error::new(ErrorKind::TooLarge, error.to_string()),
        _ => Error::corrupt(format!("the events cannot be evaluated: {error}")),
    };
    let (mut count, mut held) = (0, evaluator.bytes() as u64);
    let (mut day, mut next) = day.next(reading).await?;
    while let Some(rows) = next {
        let bytes = rows.bytes();
        count += rows.count() as u64;
        reading.check()?;
        let is_quick = rows.count() < SMALL_ROWS && !evaluator.has_condition();
        let judged = async {
            if is_quick { Ok(rows.judge(evaluator)) } else { blocking(move || rows.judge(evaluator)).await }
        };
        let (judged, read) = tokio::join!(judged, day.next(reading));
        evaluator = judged?.map_err(refused)?;
        after(&mut evaluator);
        if let Some(scores) = &mut scores
            && evaluator.bytes() > SCORE_BYTES
        {
            let (mut file, folder) = (std::mem::take(*scores), reading.table().scratch());
            (evaluator, **scores) = blocking(move || {
                file.add(folder, &mut evaluator)?;
                Ok::<_, Error>((evaluator, file))
            })
            .await??;
        }
        (day, next) = read?;
        reading.shrink(bytes);
        let before = std::mem::replace(&mut held, evaluator.bytes() as u64);
        // Beyond a number of predictions the evaluator drops those kept for intervals.
        reading.shrink(before.saturating_sub(held));
        reading.grow(held.saturating_sub(before)).await?;
    }
    Ok((evaluator, count))
}

/// Unpacks a page of `bytes` packed bytes by `work`: on the current thread if it is small, and else on a thread of
/// its own.
async fn unpacking<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if bytes < SMALL_BYTES {
        let unpacked = work();
        // Unpacking takes a thread for a while: folds have their turn in between.
        tokio::task::yield_now().await;
        return Ok(unpacked);
    }
    blocking(work).await
}

/// Runs `work` on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(interrupted)
}

fn interrupted(error: JoinError) -> Error {
    match error.is_panic() {
        true => Error::corrupt(said(&*error.into_panic())),
        false => Error::unavailable("evaluating was interrupted").because(error),
    }
}

fn corrupt(error: FoldError) -> Error {
    Error::corrupt(error.to_string())
}

/// Returns the message of a panic as a reason.
pub fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.as_deref().unwrap_or("without a message"))
}

/// Returns the result of `work`, or else the reason of its failure, with true if it was a panic. A panic over a single
/// segment must not end the process, which would meet it again after every restart. State that `work` had begun to
/// change must not be used any more.
///
/// # Errors
/// Fails if it fails or panics.
pub fn caught<T, E: Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T, (String, bool)> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(made) => made.map_err(|error| (error.to_string(), false)),
        Err(panic) => Err((said(&*panic), true)),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{
            Arc,
            atomic::{AtomicI64, Ordering},
        },
    };

    use event::{Clock, Column, Columns, Day, Definition, Dimension, Id, Task, Timestamp, Values};
    use log::{
        segment_item::Segment,
        walk::{Heads, Until},
    };
    use table::{Condition, sqlite::SqliteTable};

    use super::*;

    const ROWS: i64 = 500;
    const SEGMENTS: u64 = 4;

    /// Day that counts the memory charged, now, at the least and at the most.
    struct Charged {
        table: SqliteTable,
        workspace: Id,
        day: Day,
        rows_at_once: usize,
        bytes: AtomicI64,
        least: AtomicI64,
        most: AtomicI64,
    }

    impl Charged {
        fn log(&self, kind: Kind) -> LogId {
            LogId { workspace: self.workspace.clone(), day: self.day, kind, lane: 0 }
        }

        /// Appends rows, every third of them of one key.
        async fn fill(&self, kind: Kind, time: &str) {
            for seq in 1..=SEGMENTS {
                let key = |row: i64| if row % 3 == 0 { "same".to_owned() } else { format!("{seq}-{row}") };
                let keys: Vec<String> = (0..ROWS).map(key).collect();
                let texts = |text: &str| Values::Text((0..ROWS).map(|_| text).collect());
                let columns = vec![
                    Column::new("key", Values::Text(keys.iter().map(String::as_str).collect())),
                    Column::new(time, Values::Time((0..ROWS).map(|row| row + seq as i64 * ROWS).collect())),
                    Column::new("release", texts("v1")),
                    Column::new("label", texts("late")),
                    Column::new("tag.t", texts("one")),
                ];
                let columns = Columns { rows: ROWS as usize, columns };
                let log = self.log(kind);
                let segment = Segment::pack(log, seq, Timestamp::default(), Vec::new(), &columns).unwrap();
                self.table.put(segment.to_item(), Condition::Absent).await.unwrap();
            }
        }
    }

    #[async_trait]
    impl Reading for Charged {
        fn table(&self) -> &dyn Table {
            &self.table
        }

        fn walk(&self, kind: Kind) -> Result<Walk> {
            let until = Until::Heads(Heads::from([(self.log(kind), SEGMENTS)]));
            Ok(Walk::new(&self.workspace, self.day, kind, until, Arc::default()))
        }

        fn note(&self, _: Vec<Note>) {}

        fn unpacks(&self, _: usize) {}

        fn failed(&self, error: Error) -> Error {
            error
        }

        fn leaves_out(&self, _: &Unreadable) -> bool {
            false
        }

        fn rows_at_once(&self) -> usize {
            self.rows_at_once
        }

        async fn grow(&self, bytes: u64) -> Result<()> {
            let held = self.bytes.fetch_add(bytes as i64, Ordering::Relaxed) + bytes as i64;
            self.most.fetch_max(held, Ordering::Relaxed);
            Ok(())
        }

        fn shrink(&self, bytes: u64) {
            let left = self.bytes.fetch_sub(bytes as i64, Ordering::Relaxed) - bytes as i64;
            self.least.fetch_min(left, Ordering::Relaxed);
        }

        fn check(&self) -> Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn memory_charged_for_a_day_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let at = Timestamp::parse("2013-06-01T12:00:00Z").unwrap();
        let (workspace, day) = (Id::new(at), at.day());
        let [bytes, least, most] = [0; 3].map(AtomicI64::new);
        let mut charged = Charged { table, workspace, day, rows_at_once: usize::MAX, bytes, least, most };
        charged.fill(Kind::Predictions, "predicted_at").await;
        charged.fill(Kind::Outcomes, "observed_at").await;
        let mut whole = None;
        // A row has a time of 8 bytes, and a key of 4 bytes or more.
        let mut of_day = 2 * SEGMENTS as i64 * ROWS * 12;
        let late = Definition {
            dimensions: Dimension::parse_all("tag.t").unwrap(),
            ..Definition::of(Task::Binary { positive_label: "late".into() })
        };
        let by = BTreeMap::from([("v1".to_owned(), late)]);
        for rows_at_once in [usize::MAX, 2_000, 50] {
            charged.most = AtomicI64::new(0);
            charged.rows_at_once = rows_at_once;
            let evaluated = evaluate_day(&charged, Evaluator::new(by.clone())).await.unwrap();
            assert_eq!(evaluated.1, 2 * SEGMENTS * ROWS as u64);
            assert_eq!(whole.get_or_insert_with(|| evaluated.clone()), &evaluated, "{rows_at_once} at once");
            assert_eq!(charged.bytes.load(Ordering::Relaxed), 0, "{rows_at_once} at once");
            assert_eq!(charged.least.load(Ordering::Relaxed), 0, "{rows_at_once} at once");
            let most = charged.most.load(Ordering::Relaxed);
            let expected = match rows_at_once {
                usize::MAX => of_day..2 * of_day,
                _ => of_day / 20..of_day,
            };
            assert!(expected.contains(&most), "{most} of {of_day} bytes with {rows_at_once} at once");
            of_day = of_day.max(most);
        }
    }

    #[test]
    fn an_error_and_a_panic_are_told_apart() {
        assert_eq!(caught(|| Ok::<_, String>(1)), Ok(1));
        assert_eq!(caught(|| Err::<u8, _>("no")), Err(("no".into(), false)));
        let (reason, has_panicked) = caught(|| -> Result<u8, String> { panic!("of {}", 1) }).unwrap_err();
        assert_eq!((&*reason, has_panicked), ("panicked: of 1", true));
    }
}
