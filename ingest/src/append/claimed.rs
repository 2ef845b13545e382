//! Batches that have a claim.

use std::collections::BTreeSet;

use event::{Error, Id, Kind, Result};

use super::{
    Appender, Job, Remember,
    claim::{Claim, Claims},
    differ,
    pack::{GROUPED_ROWS, Look},
    place::{Dealt, as_claimed},
};
use crate::batch::Parts;

impl Appender {
    /// Whether events with this digest were claimed under an idempotency key: what came of them was stored, or is completed by a retry.
    pub(crate) async fn is_claimed(
        &self,
        workspace: &Id,
        kind: Kind,
        name: &str,
        digest: &str,
    ) -> Result<bool> {
        let claims = Claims { table: &*self.table, workspace, kind, name };
        Ok(claims.read().await?.is_some_and(|claim| claim.digest == digest))
    }

    /// Appends a batch that has a claim; how many of its rows were missing.
    pub(super) async fn claimed(&self, mut job: Job<'_>, name: &str, parts: Parts) -> Result<usize> {
        let claims = Claims { table: &*self.table, workspace: job.workspace, kind: job.kind, name };
        let known = claims.read().await?;
        if let Some(claim) = &known {
            job.arrival = claim.claimed_at.day();
        }
        let has_waiting = parts.contains_key(&None);
        let (claim, dealt) = match known {
            Some(claim) if claim.digest == job.digest && claim.is_settled(job.remember) => return Ok(0),
            Some(claim) if claim.digest == job.digest && claim.is_by_batch() => {
                let dealt = as_claimed(&claim, parts)?;
                (claim, dealt)
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
    ) -> Result<usize> {
        let name = claims.name;
        let batch = claim.batch(name);
        if claim.digest != job.digest {
            let differs = differ::difference(&*self.table, &claim, batch, &dealt).await?;
            return Err(Error::conflict(format!(
                "the idempotency key `{name}` was used for other events: {differs}; new events need a new key"
            )));
        }
        if claim.is_settled(job.remember) {
            return Ok(0);
        }
        let rows: usize = dealt.iter().map(|dealt| dealt.part.columns.rows).sum();
        let days = dealt.iter().map(|dealt| dealt.log.day).collect::<BTreeSet<_>>().len();
        let mut appended = 0;
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
