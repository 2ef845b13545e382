//! Batches that have a claim.

use std::collections::BTreeSet;

use event::{Error, Id, Result};
use log::content;

use super::{
    Appended, Appender, Job, Remember,
    claim::{Claim, Claims},
    differ, off_thread,
    pack::{Entry, GROUPED_ROWS, Look},
    place::Dealt,
};
use crate::batch::{Batch, Parts};

impl Appender {
    /// True if a batch is a repeat: it has a claim, or some of its rows stand in a log as those of a recent batch without a
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
            let claim = Claims { table: &*self.table, workspace, kind, name: &name }.read().await?;
            return Ok(claim.is_some_and(|claim| claim.digest == digest));
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

    /// Appends a batch that has a claim; how many of its rows were missing.
    pub(super) async fn claimed(&self, mut job: Job<'_>, name: &str, parts: Parts) -> Result<Appended> {
        let claims = Claims { table: &*self.table, workspace: job.workspace, kind: job.kind, name };
        let known = claims.read().await?;
        if let Some(claim) = &known {
            job.arrival = claim.claimed_at.day();
        }
        let has_waiting = parts.contains_key(&None);
        let (claim, dealt) = match known {
            Some(claim) if claim.digest == job.digest && claim.is_settled(job.remember) => {
                return Ok(Appended::default());
            }
            Some(claim) => (claim, self.deal(job.workspace, job.to(), parts).await?),
            None => {
                let dealt = self.deal(job.workspace, job.to(), parts).await?;
                let rows = dealt.iter().map(|dealt| dealt.part.columns.rows).sum();
                let mut claim = Claim::new(&job.digest, rows, job.remember, job.now);
                claim.after = self.bounds(&dealt).await?;
                let claim = claims.open(claim).await?;
                if has_waiting && claim.claimed_at.day() != job.arrival {
                    let message = "the batch came at the same time a moment before midnight; try again";
                    return Err(Error::unavailable(message));
                }
                (claim, dealt)
            }
        };
        self.fulfil(&claims, claim, &job, dealt).await
    }

    /// Appends what is missing of a batch by its claim; how many rows that was.
    pub(super) async fn fulfil(
        &self,
        claims: &Claims<'_>,
        mut claim: Claim,
        job: &Job<'_>,
        dealt: Vec<Dealt>,
    ) -> Result<Appended> {
        let name = claims.name;
        let batch = claim.batch(name);
        if claim.digest != job.digest {
            let differs = differ::difference(&*self.table, &claim, batch, &dealt).await?;
            return Err(Error::conflict(format!(
                "the idempotency key `{name}` was used for other events: {differs}; new events need a new key"
            )));
        }
        if claim.is_settled(job.remember) {
            return Ok(Appended::default());
        }
        let rows: usize = dealt.iter().map(|dealt| dealt.part.columns.rows).sum();
        let days = dealt.iter().map(|dealt| dealt.log.day).collect::<BTreeSet<_>>().len();
        let mut appended = Appended::default();
        if !claim.is_done {
            appended = self.store(job, batch, dealt, &|log| Look::Behind(claim.after(log))).await?;
        }
        let is_prolonged = job.remember == Remember::Forever && !claim.is_forever;
        claim.is_forever |= is_prolonged;
        if claim.is_forever || days > 1 || rows > GROUPED_ROWS {
            claim.is_done = true;
            match claims.write(&claim).await {
                Err(error) if is_prolonged => return Err(error),
                // Everything is stored: a claim that stays open only makes a repeat look into the logs.
                Err(error) => tracing::warn!(%error, "the marker of a batch stays open"),
                Ok(()) => {}
            }
        }
        Ok(appended)
    }
}
