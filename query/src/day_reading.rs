//! Reading of events for the one evaluation of a day, on behalf of a query.

use async_trait::async_trait;
use evaluate::Unreadable;
use event::{Day, Error, Kind, Result};
use log::walk::{Note, Walk};
use meter::catalogue::QUERY_DECODED_BYTES;
use table::Table;

use crate::{meters, read::Reading};

/// Maximum number of rows of a day that are held unpacked at a time.
const MAX_ROWS_AT_ONCE: usize = 2_000_000;

/// Approximate bytes per row of the columns that an evaluation needs.
const BYTES_OF_ROW: u64 = 64;

/// Divisor of the memory of all queries: the maximum share of the rows of one day.
const SHARE_OF_MEMORY: u64 = 8;

/// A day of a reading. A segment that cannot be read is left out, with a warning in the answer.
pub(crate) struct DayReading<'a> {
    pub(crate) reading: &'a Reading,
    pub(crate) day: Day,
    /// True if the predictions have been read once, and are now read up to the same heads again.
    pub(crate) is_surveyed: bool,
}

#[async_trait]
impl evaluate::Reading for DayReading<'_> {
    fn table(&self) -> &dyn Table {
        &*self.reading.table
    }

    fn walk(&self, kind: Kind) -> Result<Walk> {
        if self.is_surveyed && kind == Kind::Predictions {
            return Ok(self.reading.walk_again(self.day, kind, self.reading.heads(self.day, kind)));
        }
        self.reading.walk(self.day, kind)
    }

    fn note(&self, notes: Vec<Note>) {
        self.reading.note(notes);
    }

    fn unpacks(&self, bytes: usize) {
        QUERY_DECODED_BYTES.counter([]).increment(bytes as u64);
    }

    fn failed(&self, error: Error) -> Error {
        self.reading.failed(error)
    }

    fn leaves_out(&self, segment: &Unreadable) -> bool {
        let because = format!("it cannot be read ({})", segment.reason);
        self.reading.leave_out(&segment.log, segment.seq, meters::UNREADABLE, &because);
        true
    }

    fn rows_at_once(&self) -> usize {
        let rows = self.reading.hold.memory() / BYTES_OF_ROW / SHARE_OF_MEMORY;
        usize::try_from(rows).unwrap_or(MAX_ROWS_AT_ONCE).min(MAX_ROWS_AT_ONCE)
    }

    async fn grow(&self, bytes: u64) -> Result<()> {
        self.reading.grow(bytes).await
    }

    fn shrink(&self, bytes: u64) {
        self.reading.hold.shrink(bytes);
    }

    fn check(&self) -> Result<()> {
        self.reading.hold.check()
    }
}
