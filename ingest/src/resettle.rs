//! Settles outcomes without a date again. A decision is final; so what was decided of one is taken back by a withdrawal, and the outcome is appended
//! again as it came, without a date. It then waits like any other, and judges what is found now.
//!
//! Both are ordinary batches under names made of where the outcome stands, which are remembered for good. First all is withdrawn, then it is appended
//! again: who dies in between, or comes twice, goes on where that ended, and never withdraws what was appended again.

use catalog::Workspace;
use event::{
    Column, Columns, Error, Kind, Result, Timestamp, Values,
    fields::{REASON, WITHDRAWN},
};
use log::{key::PendingSegment, pending, scan};
use table::Table;

use crate::{Batch, Ingest, Remember, SubmitError};

/// What the withdrawal of an outcome that is settled again gives as its reason.
const BECAUSE: &str = "it is settled again";

/// What of a pending outcome its withdrawal names.
const NAMED: [&str; 2] = ["key", "observed_at"];

/// Where a pending outcome stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRow {
    /// Its segment.
    pub segment: PendingSegment,
    /// Its row there.
    pub row: u32,
}

impl PendingRow {
    /// Its name in idempotency keys.
    fn name(&self) -> String {
        let PendingSegment { log, seq } = &self.segment;
        format!("{}.{:02}.{seq}.{}", log.day, log.lane, self.row)
    }
}

impl Ingest {
    /// Takes back what was decided of pending outcomes of one key and one `observed_at`, and appends the last of them again without a date.
    /// Returns the instants of the predictions that they judged.
    ///
    /// # Errors
    /// `Conflict`, when one of them judges nothing or is not appended yet; `Incomplete`, when its events are gone; as [`Ingest::submit`].
    pub async fn resettle(
        &self,
        table: &dyn Table,
        workspace: &Workspace,
        rows: &[PendingRow],
    ) -> std::result::Result<Vec<Timestamp>, SubmitError> {
        let Some(last) = rows.last() else { return Ok(Vec::new()) };
        let mut judged = Vec::with_capacity(rows.len());
        for row in rows {
            judged.push(judged_by(table, row).await?);
        }
        let again = events_of(table, last).await?;
        for (row, judged) in rows.iter().zip(&judged) {
            let columns = withdrawal(&events_of(table, row).await?, *judged);
            let batch = Batch { days: vec![judged.day()], ..batch(columns) };
            let name = format!("resettle-{}-withdraw-{}", last.name(), row.name());
            self.submit(workspace, batch, Some(&name), Remember::Forever).await?;
        }
        let today = self.clock().now().day();
        let batch = Batch { days: vec![today], waits: vec![true], ..batch(again) };
        let name = format!("resettle-{}-again", last.name());
        self.submit(workspace, batch, Some(&name), Remember::Forever).await?;
        Ok(judged)
    }
}

/// The instant of the prediction that a pending outcome judges.
async fn judged_by(table: &dyn Table, PendingRow { segment, row }: &PendingRow) -> Result<Timestamp> {
    let decisions = pending::decisions(table, segment, 1).await?;
    let found = decisions.iter().find_map(|(id, decision)| Some((id.number, *decision.judges.get(row)?)));
    let (number, micros) =
        found.ok_or_else(|| Error::conflict("it is not decided that the outcome judges a prediction"))?;
    let waiting = pending::of_segment(table, segment).await?;
    if waiting.is_some_and(|waiting| waiting.decided < number) {
        return Err(Error::conflict("what was decided of the outcome is not appended yet; try again"));
    }
    let missing = || Error::corrupt(format!("a decision about {segment} has no time"));
    Timestamp::from_micros(micros).ok_or_else(missing)
}

/// A pending outcome as it came.
async fn events_of(table: &dyn Table, PendingRow { segment, row }: &PendingRow) -> Result<Columns> {
    let found = scan::segments(table, &segment.log, segment.seq, segment.seq).await?;
    let columns = found.first().map(|segment| segment.unpack(|_| true)).transpose()?;
    let columns = columns.filter(|columns| (*row as usize) < columns.rows);
    let missing = || Error::conflict(format!("the pending outcomes {segment} are gone"));
    Ok(columns.ok_or_else(missing)?.take(&[*row as usize]))
}

/// A batch of one outcome.
fn batch(columns: Columns) -> Batch {
    Batch {
        kind: Kind::Outcomes,
        columns,
        days: Vec::new(),
        waits: Vec::new(),
        numbers: vec![1],
        event_id: None,
    }
}

/// What withdraws a pending outcome that judges a prediction.
fn withdrawal(columns: &Columns, judged: Timestamp) -> Columns {
    let text = |text: &str| Values::Text([text].into_iter().collect());
    let named = columns.columns.iter().filter(|column| NAMED.contains(&column.name.as_str())).cloned();
    let mut by_name: Vec<Column> = named.collect();
    by_name.push(Column::new("predicted_at", Values::Time(vec![judged.micros()])));
    by_name.push(Column::new(WITHDRAWN, text("true")));
    by_name.push(Column::new(REASON, text(BECAUSE)));
    // In the order of the fields.
    let place = |column: &Column| Kind::Outcomes.fields().iter().position(|field| field.name == column.name);
    by_name.sort_by_key(place);
    Columns { rows: columns.rows, columns: by_name }
}
