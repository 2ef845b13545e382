//! The rows of one day, for files that are kept by the day: the events of a kind, or the evaluation of the day.

use std::{fs::File, sync::Arc};

use event::{Day, Error, Id, Kind, Result, Timestamp, Window};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use log::{cut::Cut, segment_item::CLOSED_AFTER_SECONDS};
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
    request::{Request, What},
    work,
};

/// The rows of a day, before they are written. The column of the day is not among them: all have the same.
pub struct DayRows {
    empty: DataFrame,
    parts: Parts,
    from: ReadFrom,
    /// What of the bounds the rows take while they are read.
    held: (Option<StreamPlace>, Option<Hold>),
}

/// What rows are read from.
enum ReadFrom {
    Logs { cut: Box<Cut>, warnings: Vec<String>, fixed: Arc<Reading> },
    Stored { digest: String },
}

/// By what one tells whether rows of a day that were written before are those of now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Covered {
    /// Of events: the segments that they were read from.
    Cut(Box<Cut>),
    /// Of what is stored of the day: its digest.
    Digest(String),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenDay {
    /// How many rows.
    pub rows: u64,
    /// What they are.
    pub covered: Covered,
    /// What they lack, in sentences.
    pub warnings: Vec<String>,
}

impl Query {
    /// The last instant up to which nothing is appended any more.
    pub fn closed_instant(&self) -> Timestamp {
        self.now().plus_seconds(-CLOSED_AFTER_SECONDS)
    }

    /// The events of a kind on a day as they are now, to be read in parts.
    ///
    /// # Errors
    /// Those of [`Query::run`].
    pub async fn events_of(&self, workspace: &Id, kind: Kind, day: Day) -> Result<DayRows> {
        let request =
            Request { columns: None, ..Request::of(What::Events(kind), Window::of(day), Vec::new()) };
        let (place, hold) = self.budget.enter_stream(workspace).await?;
        let (service, asked) = (self, &request);
        let make = |reading: Arc<Reading>| async move { service.plan(&reading, asked).await }.boxed();
        let (plan, reading) = self.out_of_logs(workspace, &Point::of(asked), &hold, make).await?;
        let empty = plan.no_rows()?.drop(DAY).map_err(failed)?;
        let (parts, fixed) = plan.parts(&reading);
        let (cut, warnings) = reading.cut();
        let from = ReadFrom::Logs { cut: Box::new(cut), warnings, fixed };
        Ok(DayRows { empty, parts, from, held: (Some(place), Some(hold)) })
    }

    /// The evaluation of a day as it is stored now: a row a release.
    ///
    /// # Errors
    /// Those of [`Query::run`].
    pub async fn evaluation_of(&self, workspace: &Id, day: Day) -> Result<DayRows> {
        let request =
            Request { columns: None, ..Request::of(What::Evaluations, Window::of(day), Vec::new()) };
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
    /// The names and types of the columns.
    pub fn columns(&self) -> Vec<(String, DataType)> {
        let columns = self.empty.columns().iter();
        columns.map(|column| (column.name().to_string(), column.dtype().clone())).collect()
    }

    /// By what the rows will be known. Of a log that turns out to be unreadable only [`WrittenDay`] knows.
    pub fn covered(&self) -> Covered {
        match &self.from {
            ReadFrom::Logs { cut, .. } => Covered::Cut(cut.clone()),
            ReadFrom::Stored { digest } => Covered::Digest(digest.clone()),
        }
    }

    /// Writes the rows as Parquet, their columns called by `names`, in the order of [`DayRows::columns`]. The same rows give
    /// the same bytes.
    ///
    /// # Errors
    /// When they cannot be read or written.
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
            ReadFrom::Logs { mut cut, mut warnings, fixed } => {
                let (read, late) = fixed.cut();
                cut.left_out.extend(read.left_out);
                warnings.extend(late);
                warnings.sort();
                warnings.dedup();
                (Covered::Cut(cut), warnings)
            }
        };
        Ok(WrittenDay { rows, covered, warnings })
    }
}

/// A frame whose columns have these names.
fn called(mut frame: DataFrame, names: &[String]) -> Result<DataFrame> {
    frame.set_column_names(names).map_err(failed)?;
    Ok(frame)
}
