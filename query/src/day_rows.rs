//! The rows of one day, for files by day: the events of a kind, or the evaluation of the day.

use std::{fs::File, sync::Arc};

use event::{Day, Error, Id, Kind, Result, Timestamp, Window};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use log::{read_version::ReadVersion, segment_item::CLOSED_AFTER_SECONDS};
use polars::prelude::{DataFrame, DataType};

use crate::{
    Point, Query,
    budget::{Hold, StreamPlace},
    digest::FrameDigest,
    encode::Encoder,
    events::DAY,
    frame::failed,
    output::Format,
    parts::{self, Part, Parts},
    read::Reading,
    request::{Dataset, Request},
    work,
};

/// The rows of a day, before they are written. They lack the column of the day, which is the same in all.
pub struct DayRows {
    empty: DataFrame,
    parts: Parts,
    from: ReadFrom,
    /// Memory reserved while the rows are read.
    held: (Option<StreamPlace>, Option<Hold>),
}

/// The source of the rows.
enum ReadFrom {
    Logs { read_version: Box<ReadVersion>, warnings: Vec<String>, fixed: Arc<Reading> },
    Stored { digest: String },
}

/// Identity of the rows of a day, to compare rows written before with the current ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Covered {
    /// For events: the segments that they were read from.
    ReadVersion(Box<ReadVersion>),
    /// For stored data of the day: its digest.
    Digest(String),
}

/// The result of writing a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenDay {
    /// Number of rows.
    pub rows: u64,
    /// Identity of the rows.
    pub covered: Covered,
    /// Warnings of missing data, one sentence each.
    pub warnings: Vec<String>,
}

impl Query {
    /// Returns the last closed instant.
    pub fn closed_instant(&self) -> Timestamp {
        self.now().plus_seconds(-CLOSED_AFTER_SECONDS)
    }

    /// Opens the current events of a kind on a day, to be read in parts.
    ///
    /// # Errors
    /// Errors of [`Query::run`].
    pub async fn events_of(&self, workspace: &Id, kind: Kind, day: Day) -> Result<DayRows> {
        let request =
            Request { columns: None, ..Request::of(Dataset::Events(kind), Window::of(day), Vec::new()) };
        let (place, hold) = self.budget.enter_stream(workspace).await?;
        let (service, asked) = (self, &request);
        let make = |reading: Arc<Reading>| async move { service.plan(&reading, asked).await }.boxed();
        let (plan, reading) = self.out_of_logs(workspace, &Point::of(asked), &hold, make).await?;
        let empty = plan.no_rows()?.drop(DAY).map_err(failed)?;
        let (parts, fixed) = plan.parts(&reading);
        let (read_version, warnings) = reading.read_version();
        let from = ReadFrom::Logs { read_version: Box::new(read_version), warnings, fixed };
        Ok(DayRows { empty, parts, from, held: (Some(place), Some(hold)) })
    }

    /// Reads the stored evaluation of a day: one row per release.
    ///
    /// # Errors
    /// Errors of [`Query::run`].
    pub async fn evaluation_of(&self, workspace: &Id, day: Day) -> Result<DayRows> {
        let request =
            Request { columns: None, ..Request::of(Dataset::Evaluations, Window::of(day), Vec::new()) };
        let frame = self.run(workspace, &request).await?.frame;
        let mut digest = FrameDigest::of_columns(&frame.clear());
        digest.add(&frame)?;
        let from = ReadFrom::Stored { digest: digest.text() };
        let empty = frame.clear().drop(DAY).map_err(failed)?;
        let part = Part { bytes: 0, frame, begin: None };
        let parts = stream::iter([Ok(part)]).boxed();
        Ok(DayRows { empty, parts, from, held: (None, None) })
    }
}

impl DayRows {
    /// Returns the names and types of the columns.
    pub fn columns(&self) -> Vec<(String, DataType)> {
        let columns = self.empty.columns().iter();
        columns.map(|column| (column.name().to_string(), column.dtype().clone())).collect()
    }

    /// Returns the identity of the rows. Logs that turn out to be unreadable appear only in [`WrittenDay`].
    pub fn covered(&self) -> Covered {
        match &self.from {
            ReadFrom::Logs { read_version, .. } => Covered::ReadVersion(read_version.clone()),
            ReadFrom::Stored { digest } => Covered::Digest(digest.clone()),
        }
    }

    /// Writes the rows as Parquet, with `names` for their columns in the order of [`DayRows::columns`]. Equal rows give equal
    /// bytes.
    ///
    /// # Errors
    /// An error if rows cannot be read or written.
    pub async fn write(self, names: Vec<String>, to: File) -> Result<WrittenDay> {
        let Self { empty, mut parts, from, held } = self;
        let names = Arc::new(names);
        let mut encoder = Encoder::begin(Format::Parquet, &called(empty, &names)?, to)?;
        let mut rows = 0;
        while let Some(Part { frame, bytes, .. }) = parts.try_next().await? {
            rows += frame.height() as u64;
            let names = Arc::clone(&names);
            let writing = work::piece(move || {
                encoder.rows(called(frame.drop(DAY).map_err(failed)?, &names)?)?;
                Ok::<_, Error>(encoder)
            });
            encoder = writing.await.map_err(parts::interrupted)??;
            if let (_, Some(hold)) = &held {
                hold.shrink(bytes);
            }
        }
        work::piece(move || encoder.end()).await.map_err(parts::interrupted)??;
        let (covered, warnings) = match from {
            ReadFrom::Stored { digest } => (Covered::Digest(digest), Vec::new()),
            ReadFrom::Logs { mut read_version, mut warnings, fixed } => {
                let (read, late) = fixed.read_version();
                read_version.left_out.extend(read.left_out);
                warnings.extend(late);
                warnings.sort();
                warnings.dedup();
                (Covered::ReadVersion(read_version), warnings)
            }
        };
        Ok(WrittenDay { rows, covered, warnings })
    }
}

/// Renames the columns of a frame.
fn called(mut frame: DataFrame, names: &[String]) -> Result<DataFrame> {
    frame.set_column_names(names).map_err(failed)?;
    Ok(frame)
}
