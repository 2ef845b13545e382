//! Predictions and outcomes of a day, read once: in memory, or in a temporary file if they are more than may be held.

use std::mem;

use event::{Columns, Error, Kind, Result, lane::LogPosition};
use fold::{
    LogSegment,
    evaluation::{self, Evaluator, Survey},
};
use log::{
    segment_item::{DATA, Segment},
    walk::Admitted,
};
use tokio::task::JoinHandle;

use crate::{Failure, Reading, Unreadable, blocking, caught, corrupt, interrupted, spill::Spill, unpacking};

/// Kinds of events that are joined.
const KINDS: [Kind; 2] = [Kind::Outcomes, Kind::Predictions];

/// Maximum number of bytes of a row; larger ones, such as those with the scores of many classes, count as several.
const BYTES_OF_ROW: usize = 128;

/// Share of the rows that may be held, from which on rows are written to the file.
const WRITTEN_SHARE: usize = 8;

/// Predictions and outcomes of some keys, with the positions of their segments.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    predictions: Vec<(LogPosition, Columns)>,
    outcomes: Vec<(LogPosition, Columns)>,
    count: usize,
    bytes: usize,
    weight: usize,
}

impl Rows {
    /// Adds the rows of a segment.
    pub(crate) fn push(&mut self, kind: Kind, position: LogPosition, columns: Columns) {
        self.count += columns.rows;
        self.bytes += columns.bytes();
        self.weight += Self::weight_of(&columns);
        match kind {
            Kind::Predictions => self.predictions.push((position, columns)),
            _ => self.outcomes.push((position, columns)),
        }
    }

    /// Returns the rows of each kind.
    pub(crate) fn by_kind(self) -> [(Kind, Vec<(LogPosition, Columns)>); 2] {
        [(Kind::Outcomes, self.outcomes), (Kind::Predictions, self.predictions)]
    }

    /// Returns the number of rows.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the approximate number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the number of rows, of which large ones count as several.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the weight of some rows.
    pub(crate) fn weight_of(columns: &Columns) -> usize {
        columns.rows.max(columns.bytes() / BYTES_OF_ROW)
    }

    /// Adds the rows to `evaluator`.
    pub(crate) fn judge(self, mut evaluator: Evaluator) -> fold::Result<Evaluator> {
        evaluator.add(&in_log(&self.predictions), &in_log(&self.outcomes))?;
        Ok(evaluator)
    }
}

fn in_log(segments: &[(LogPosition, Columns)]) -> Vec<LogSegment<'_>> {
    segments.iter().map(|(place, columns)| LogSegment { place: *place, columns }).collect()
}

/// Rows of a day that is read.
pub(crate) struct Day {
    rows: Rows,
    spill: Option<Spill>,
    at_once: usize,
}

impl Day {
    /// Reads a day, with some columns of predictions beside those of every evaluation, and adds all predictions to `survey`.
    pub(crate) async fn read(
        reading: &dyn Reading,
        columns: Vec<String>,
        survey: Option<Survey>,
    ) -> Result<(Self, Option<Survey>), Failure> {
        let at_once = reading.rows_at_once();
        let (rows, writing) = (Rows::default(), Writing::default());
        let mut intake = Intake { columns, survey, rows, writing, of_rows: 0, of_survey: 0, at_once };
        for kind in KINDS {
            let mut walk = reading.walk(kind)?;
            let mut page = walk.next(reading.table(), None).await;
            loop {
                reading.note(walk.notes());
                let Some(segments) = page.map_err(|error| reading.failed(error))? else { break };
                let (taken, next) =
                    tokio::join!(intake.take(reading, segments), walk.next(reading.table(), None));
                (intake, page) = (taken?, next);
                reading.check()?;
            }
        }
        let Intake { mut rows, survey, mut writing, of_rows, .. } = intake;
        if writing.has_begun() {
            writing.add(reading, mem::take(&mut rows), of_rows).await?;
        }
        let spill = writing.end(reading).await?;
        // Two partitions are held at a time: one is read while the one before is evaluated.
        Ok((Self { rows, spill, at_once: at_once / 2 }, survey))
    }

    /// Takes the rows to evaluate next; `None` after the last.
    pub(crate) async fn next(mut self, reading: &dyn Reading) -> Result<(Self, Option<Rows>), Failure> {
        let Some(mut spill) = self.spill.take() else {
            let rows = mem::take(&mut self.rows);
            return Ok((self, (rows.count() > 0).then_some(rows)));
        };
        let at_once = self.at_once;
        let next = move || Ok::<_, Error>((spill.next(at_once)?, spill));
        let (partition, mut spill) = blocking(next).await??;
        let Some(partition) = partition else { return Ok((Self { spill: Some(spill), ..self }, None)) };
        // Before the rows are read: those of a key that has most of a day are as many as there are.
        let expected = partition.bytes();
        reading.grow(expected).await?;
        let (rows, spill) = blocking(move || Ok::<_, Error>((spill.rows(&partition)?, spill))).await??;
        reading.grow(rows.bytes().saturating_sub(expected)).await?;
        reading.shrink(expected.saturating_sub(rows.bytes()));
        Ok((Self { spill: Some(spill), ..self }, Some(rows)))
    }
}

/// Rows in memory while a day is read.
struct Intake {
    /// Columns of predictions beside those of every evaluation.
    columns: Vec<String>,
    survey: Option<Survey>,
    rows: Rows,
    writing: Writing,
    /// Number of bytes that are charged for the rows.
    of_rows: u64,
    /// Number of bytes that are charged for the survey.
    of_survey: u64,
    at_once: usize,
}

impl Intake {
    /// Returns the number of rows beyond which rows are written to the file.
    fn most(&self) -> usize {
        if self.writing.has_begun() { self.at_once / WRITTEN_SHARE } else { self.at_once }
    }

    /// Takes the segments of a page. Few packed bytes may be many rows: those beyond what may be held are written before
    /// further segments are unpacked.
    async fn take(mut self, reading: &dyn Reading, page: Vec<Admitted>) -> Result<Self, Failure> {
        let bytes = page.iter().filter_map(|segment| segment.item.bytes(DATA).ok()).map(<[u8]>::len).sum();
        reading.unpacks(bytes);
        let mut left = page.into_iter();
        while left.len() > 0 {
            let taken = unpacking(bytes, move || {
                let mut unreadable = Vec::new();
                while self.rows.weight() <= self.most()
                    && let Some(segment) = left.next()
                {
                    unreadable.extend(self.take_segment(segment).err());
                }
                (self, left, unreadable)
            });
            let unreadable;
            (self, left, unreadable) = taken.await?;
            if let Some(segment) = unreadable.into_iter().find(|segment| !reading.leaves_out(segment)) {
                return Err(Failure::Stopped(segment));
            }
            self.settle(reading).await?;
        }
        Ok(self)
    }

    /// Charges the rows, up to those that may be held, and writes them if they are more.
    async fn settle(&mut self, reading: &dyn Reading) -> Result<(), Failure> {
        if let Some(survey) = &self.survey {
            let before = mem::replace(&mut self.of_survey, survey.bytes() as u64);
            reading.grow(self.of_survey.saturating_sub(before)).await?;
            reading.shrink(before.saturating_sub(self.of_survey));
        }
        let most = self.most();
        let held = self.rows.bytes().min(most.saturating_mul(BYTES_OF_ROW) as u64);
        let before = mem::replace(&mut self.of_rows, held);
        reading.grow(held.saturating_sub(before)).await?;
        if self.rows.weight() > most {
            let charged = mem::take(&mut self.of_rows);
            self.writing.add(reading, mem::take(&mut self.rows), charged).await?;
        }
        Ok(())
    }

    fn take_segment(&mut self, segment: Admitted) -> std::result::Result<(), Unreadable> {
        let Admitted { log, seq, item } = segment;
        let is_prediction = log.kind == Kind::Predictions;
        let taken = caught(|| {
            let segment = Segment::from_item(item)?;
            let is_wanted = |name: &str| {
                let is_named = is_prediction && self.columns.iter().any(|one| one == name);
                is_named || evaluation::needs(log.kind, name)
            };
            let columns = segment.unpack(is_wanted)?;
            if let Some(survey) = self.survey.as_mut().filter(|_| is_prediction) {
                survey.add(&columns).map_err(corrupt)?;
            }
            Ok::<_, Error>((segment.place(), columns))
        });
        match taken {
            Ok((position, columns)) => self.rows.push(log.kind, position, columns),
            Err((reason, has_panicked)) => return Err(Unreadable { log, seq, reason, has_panicked }),
        }
        Ok(())
    }
}

/// Writer of the file, beside the reading of further rows.
#[derive(Default)]
struct Writing {
    /// Rows that are being written, with their bytes that are charged.
    running: Option<(JoinHandle<Result<Spill>>, u64)>,
}

impl Writing {
    fn has_begun(&self) -> bool {
        self.running.is_some()
    }

    /// Writes rows, of which `charged` bytes are given back then, once those before are written.
    async fn add(&mut self, reading: &dyn Reading, rows: Rows, charged: u64) -> Result<(), Failure> {
        let folder = reading.table().scratch();
        let spill = mem::take(self).end(reading).await?;
        let write = move || {
            let mut spill = spill.map_or_else(|| Spill::create(folder), Ok)?;
            spill.add(rows)?;
            Ok(spill)
        };
        self.running = Some((tokio::task::spawn_blocking(write), charged));
        Ok(())
    }

    /// Waits until everything is written.
    async fn end(self, reading: &dyn Reading) -> Result<Option<Spill>, Failure> {
        let Some((running, charged)) = self.running else { return Ok(None) };
        let written = running.await.map_err(interrupted)?;
        reading.shrink(charged);
        Ok(Some(written?))
    }
}
