//! Evaluator of a day: it reads the predictions and outcomes, joins them and judges each release.
//!
//! Projector and query evaluate days through [`evaluate_day`], so they cannot differ. Their differences are in a
//! [`Reading`]: how far the logs are read, the handling of unreadable segments, and the memory limit. A day with more
//! rows than may be held at a time is read several times, one partition of its keys after the other; the result is
//! the same to the bit.
//!
//! ```
//! # use std::{collections::BTreeMap, sync::Arc};
//! use almanac_evaluate::{Reading, Unreadable, evaluate_day};
//! # use async_trait::async_trait;
//! # use event::{Clock, Error, Id, Kind, Result, Timestamp};
//! # use fold::evaluation::Evaluator;
//! use log::walk::{Heads, Note, Until, Walk};
//! use table::{Table, sqlite::SqliteTable};
//!
//! /// A day as it is now; a segment that cannot be read ends the evaluation.
//! struct Now { table: SqliteTable, workspace: Id, at: Timestamp }
//!
//! #[async_trait]
//! impl Reading for Now {
//!     fn table(&self) -> &dyn Table { &self.table }
//!     fn walk(&self, kind: Kind, again: Option<&Heads>) -> Result<Walk> {
//!         let until = again.map_or(Until::Now, |heads| Until::Heads(heads.clone()));
//!         Ok(Walk::new(&self.workspace, self.at.day(), kind, until, Arc::default()))
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
//! Besides, [`latest`] searches for the predictions that undated outcomes judge, and [`key_filters`] finds the logs
//! of a day that need not be read for some keys. The room writes nothing and schedules nothing.

mod held;
pub mod key_filters;
pub mod latest;

use std::{
    any::Any,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use async_trait::async_trait;
use event::{Error, ErrorKind, Kind, Result};
use fold::{
    Evaluation, FoldError,
    evaluation::{Evaluator, Partition, Survey},
};
use log::{
    key::LogId,
    segment_item::{DATA, Segment},
    walk::{Admitted, Heads, Note, Walk},
};
use table::Table;

use held::{Held, corrupt};

/// Maximum number of bytes of a page that is unpacked on the current thread.
const SMALL_BYTES: usize = 64 * 1024;

/// Number of rows below which a day is judged on the current thread.
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

/// Access to the predictions and outcomes of one day. A day of many rows is read several times: the first time as far
/// as the reading goes, and then exactly the same segments.
#[async_trait]
pub trait Reading: Send + Sync {
    /// Returns the table.
    fn table(&self) -> &dyn Table;

    /// Returns a walk through the logs of a kind; with `again`, through this many segments of each.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn walk(&self, kind: Kind, again: Option<&Heads>) -> Result<Walk>;

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
    let evaluator = match evaluator.survey() {
        Some(survey) => evaluator.split(surveyed(reading, survey).await?),
        None => evaluator,
    };
    let (evaluator, rows) = judge_day(reading, evaluator).await?;
    Ok((evaluator.finish(), rows))
}

/// Adds all predictions of the day to a survey.
async fn surveyed(reading: &dyn Reading, mut survey: Survey) -> Result<Survey, Failure> {
    let mut walk = reading.walk(Kind::Predictions, None)?;
    loop {
        let page = walk.next(reading.table(), None).await;
        reading.note(walk.notes());
        let Some(page) = page.map_err(|error| reading.failed(error))? else { break };
        let bytes = page.iter().filter_map(|segment| segment.item.bytes(DATA).ok()).map(<[u8]>::len).sum();
        reading.unpacks(bytes);
        let before = survey.bytes();
        let taken = unpacking(bytes, move || {
            let unreadable = take(&mut survey, page);
            (survey, unreadable)
        });
        let unreadable;
        (survey, unreadable) = taken.await?;
        for segment in unreadable {
            if !reading.leaves_out(&segment) {
                return Err(Failure::Stopped(segment));
            }
        }
        match survey.bytes() {
            after if after > before => reading.grow((after - before) as u64).await?,
            after => reading.shrink((before - after) as u64),
        }
        reading.check()?;
    }
    reading.shrink(survey.bytes() as u64);
    Ok(survey)
}

/// Takes the readable segments, and returns the rest.
fn take(survey: &mut Survey, page: Vec<Admitted>) -> Vec<Unreadable> {
    let mut unreadable = Vec::new();
    for Admitted { log, seq, item } in page {
        let taken = caught(|| {
            let columns = Segment::from_item(item)?.unpack(|name| survey.needs(name))?;
            survey.add(&columns).map_err(corrupt)
        });
        if let Err((reason, has_panicked)) = taken {
            unreadable.push(Unreadable { log, seq, reason, has_panicked });
        }
    }
    unreadable
}

/// Judges a day with an evaluator, which may continue with the next one. Also returns the number of joined rows.
///
/// # Errors
/// [`Failure::Stopped`] at an unreadable segment that is not left out; errors of the reading; `Corrupt` if the events
/// cannot be joined.
pub async fn judge_day(reading: &dyn Reading, mut evaluator: Evaluator) -> Result<(Evaluator, u64), Failure> {
    let refused = |error: FoldError| match error {
        FoldError::OtherTasks { .. } | FoldError::Refused { .. } => Error::invalid(error.to_string()),
        FoldError::TooManyBuckets => Error::new(ErrorKind::TooLarge, error.to_string()),
        _ => Error::corrupt(format!("the events cannot be evaluated: {error}")),
    };
    let columns = Arc::from(evaluator.more_columns());
    let (mut rows, mut heads) = (0, None);
    let mut partition = Some(Partition::ALL);
    while let Some(this) = partition {
        let held = Held::read(reading, this, &columns, &mut heads).await?;
        let bytes = held.bytes();
        rows += held.rows() as u64;
        partition = held.partition().following();
        reading.check()?;
        let is_quick = held.rows() == 0 || (held.rows() < SMALL_ROWS && !evaluator.has_condition());
        let judged = if is_quick {
            held.judge(evaluator)
        } else {
            match tokio::task::spawn_blocking(move || held.judge(evaluator)).await {
                Err(error) if error.is_panic() => {
                    return Err(Error::corrupt(said(&*error.into_panic())).into());
                }
                judged => {
                    judged.map_err(|error| Error::unavailable("evaluating was interrupted").because(error))?
                }
            }
        };
        evaluator = judged.map_err(refused)?;
        reading.shrink(bytes);
    }
    Ok((evaluator, rows))
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
    let unpacked = tokio::task::spawn_blocking(work).await;
    unpacked.map_err(|error| Error::unavailable("reading was interrupted").because(error))
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
    use super::*;

    #[test]
    fn an_error_and_a_panic_are_told_apart() {
        assert_eq!(caught(|| Ok::<_, String>(1)), Ok(1));
        assert_eq!(caught(|| Err::<u8, _>("no")), Err(("no".into(), false)));
        let (reason, has_panicked) = caught(|| -> Result<u8, String> { panic!("of {}", 1) }).unwrap_err();
        assert_eq!((&*reason, has_panicked), ("panicked: of 1", true));
    }
}
