//! Batches that have a record.

use std::collections::BTreeSet;

use event::{Error, Id, Result};
use log::content;

use super::{
    Appended, Appender, Job, Remember, differ,
    idempotency::{IdempotencyRecord, IdempotencyRecords},
    off_thread,
    pack::{Entry, GROUPED_ROWS, Look},
    place::Dealt,
};
use crate::batch::{Batch, Parts};

impl Appender {
    /// True if a batch is a repeat: it has a record, or some of its rows stand in a log as those of a recent batch without a
    /// key. An earlier request stored it, or a retry completes it.
    pub(crate) async fn is_repeat(
        &self,
        workspace: &Id,
        batch: Batch,
        idempotency_key: Option<&str>,
        remember: Remember,
    ) -> Result<bool> {
        let (kind, rows) = (batch.kind, batch.rows());
        let (digest, parts) = off_thread(rows, move || (batch.digest(), batch.into_parts())).await?;
        let name = idempotency_key.map_or_else(|| content::key(&digest), str::to_owned);
        if idempotency_key.is_none() && remember == Remember::Never {
            return Ok(false);
        }
        if idempotency_key.is_some() || parts.contains_key(&None) {
            let record =
                IdempotencyRecords { table: &*self.table, workspace, kind, name: &name }.read().await?;
            return Ok(record.is_some_and(|record| record.digest == digest));
        }
        // With one lane for days that have none yet, no segment is put that says how many there are.
        for dealt in self.deal(workspace, (kind, 1, self.times.now().day()), parts).await? {
            let log = self.log(&dealt.log);
            let (entry, _) = Entry::new(content::batch(&digest), dealt, Look::Lately);
            if log.stored(&entry).await? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends a batch that has a record; how many of its rows were missing.
    pub(super) async fn recorded(&self, mut job: Job<'_>, name: &str, parts: Parts) -> Result<Appended> {
        let records =
            IdempotencyRecords { table: &*self.table, workspace: job.workspace, kind: job.kind, name };
        let known = records.read().await?;
        if let Some(record) = &known {
            job.arrival = record.claimed_at.day();
        }
        let has_waiting = parts.contains_key(&None);
        let (record, dealt) = match known {
            Some(record) if record.digest == job.digest && record.is_settled(job.remember) => {
                return Ok(Appended::default());
            }
            Some(record) => (record, self.deal(job.workspace, job.to(), parts).await?),
            None => {
                let dealt = self.deal(job.workspace, job.to(), parts).await?;
                let rows = dealt.iter().map(|dealt| dealt.part.columns.rows).sum();
                let mut record = IdempotencyRecord::new(&job.digest, rows, job.remember, job.now);
                record.after = self.bounds(&dealt).await?;
                let record = records.open(record).await?;
                if has_waiting && record.claimed_at.day() != job.arrival {
                    let message = "the batch came at the same time a moment before midnight; try again";
                    return Err(Error::unavailable(message));
                }
                (record, dealt)
            }
        };
        self.fulfil(&records, record, &job, dealt).await
    }

    /// Appends what is missing of a batch by its record; how many rows that was.
    pub(super) async fn fulfil(
        &self,
        records: &IdempotencyRecords<'_>,
        mut record: IdempotencyRecord,
        job: &Job<'_>,
        dealt: Vec<Dealt>,
    ) -> Result<Appended> {
        let name = records.name;
        let batch = record.batch(name);
        if record.digest != job.digest {
            let differs = differ::difference(&*self.table, &record, batch, &dealt).await?;
            return Err(Error::conflict(format!(
                "the idempotency key `{name}` was used for other events: {differs}; new events need a new key"
            )));
        }
        if record.is_settled(job.remember) {
            return Ok(Appended::default());
        }
        let rows: usize = dealt.iter().map(|dealt| dealt.part.columns.rows).sum();
        let days = dealt.iter().map(|dealt| dealt.log.day).collect::<BTreeSet<_>>().len();
        let mut appended = Appended::default();
        if !record.is_done {
            appended = self.store(job, batch, dealt, &|log| Look::Behind(record.after(log))).await?;
        }
        let is_prolonged = job.remember == Remember::Forever && !record.is_forever;
        record.is_forever |= is_prolonged;
        if record.is_forever || days > 1 || rows > GROUPED_ROWS {
            record.is_done = true;
            match records.write(&record).await {
                Err(error) if is_prolonged => return Err(error),
                // Everything is stored: a record that stays open only makes a repeat look into the logs.
                Err(error) => tracing::warn!(%error, "the marker of a batch stays open"),
                Ok(()) => {}
            }
        }
        Ok(appended)
    }
}
