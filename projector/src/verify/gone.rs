//! Verification of a day whose events are gone: its projections must cover the segments present when it was marked, and agree
//! with each other.

use event::{Kind, Result};
use fold::{
    Evaluation,
    rollup::{Folding, Part},
};
use log::{
    evaluated::{self, At},
    expired::Expired,
    projection::Applied,
};

use super::DayCheck;
use crate::{
    carry::is_covered,
    day::stored_parts,
    dead_letters::{self, Refused},
    evaluate::judged,
    features,
    project::read,
};

impl DayCheck<'_> {
    pub(super) async fn gone(&mut self, mark: &Expired) -> Result<()> {
        let (stored, rollup) = read(self.table, self.version, self.day).await?;
        if !is_covered(Some(&mark.heads), Some(&stored.applied)) {
            let (heads, applied) = (&mark.heads, &stored.applied);
            self.fault(format_args!(
                "its events are gone, all of {heads:?}, but the rollup covers {applied:?}"
            ));
        }
        if let Some((head, _)) = features::head(self.table, self.version, self.day).await?
            && !is_covered(Some(&features::wanted(&stored.applied)), Some(&head.applied))
        {
            let applied = &head.applied;
            self.fault(format_args!("its events are gone, but the breakdown by feature covers {applied:?}"));
        }
        let counted = self.gone_parts(&stored.applied).await?;
        let events = rollup.events(Kind::Predictions);
        if counted.total != events {
            let total = counted.total;
            self.fault(format_args!(
                "the breakdown by release counts {total} predictions, the rollup {events}"
            ));
        }
        let wanted = judged(&stored.applied);
        if events == 0 {
            return Ok(());
        }
        let at = At { workspace: &self.day.workspace, version: self.version, day: self.day.day };
        let Some((head, states)) = evaluated::load(self.table, at).await? else {
            self.fault("its events are gone, and it was not evaluated");
            return Ok(());
        };
        if !is_covered(Some(&wanted), Some(&head.applied)) {
            let applied = &head.applied;
            self.fault(format_args!(
                "its events are gone, all of {wanted:?}, but the evaluation covers {applied:?}"
            ));
        }
        let joined = events + rollup.events(Kind::Outcomes);
        // An operator left out the unreadable segments.
        let skipped =
            dead_letters::skipped(self.table, self.version, self.day, &[Refused::Evaluation]).await?;
        if let Some(rows) = head.rows.filter(|rows| *rows != joined && skipped.is_empty()) {
            self.fault(format_args!("the evaluation was made of {rows} events, the rollup of {joined}"));
        }
        match Evaluation::from_states(&states) {
            Ok(evaluation) => self.possible(&evaluation, &counted, skipped.is_empty()),
            Err(error) => self.fault(format_args!("the evaluation cannot be read: {error}")),
        }
        Ok(())
    }

    /// Checks that each release with events has predictions in the evaluation, and no more than these events.
    fn possible(&mut self, evaluation: &Evaluation, counted: &Counted, is_whole: bool) {
        for (name, events) in &counted.releases {
            let found = evaluation.releases.get(name).map_or(0, |release| release.predictions);
            if found > *events || (found == 0 && *events > 0 && is_whole) {
                self.fault(format_args!(
                    "the evaluation has {found} predictions of release {name}, of which there were {events}"
                ));
            }
        }
    }

    /// Checks that no part covers more of the expired events than the rollup. Returns their counts by release.
    async fn gone_parts(&mut self, applied: &Applied) -> Result<Counted> {
        let mut counted = Counted::default();
        for (breakdown, part) in stored_parts(self.table, self.version, self.day, Folding::Rollup).await? {
            // Release events never expire, so a part may be ahead in those.
            let is_release = |log: &str| log.starts_with(Kind::Releases.letter());
            let of = |log: &String| applied.get(log).copied().unwrap_or(0);
            if part.applied.iter().any(|(log, seq)| !is_release(log) && *seq > of(log)) {
                self.fault(format_args!(
                    "its events are gone, and the breakdown {breakdown} covers more than the rollup"
                ));
            }
            if let Part::Release(part) = &part.part {
                let names = part.counts.names();
                counted.total +=
                    names.values().chain(part.counts.others()).map(|counts| counts.p).sum::<u64>();
                counted.releases.extend(names.iter().map(|(name, counts)| (name.clone(), counts.p)));
            }
        }
        Ok(counted)
    }
}

/// Number of predictions, by the breakdown by release.
#[derive(Default)]
struct Counted {
    total: u64,
    /// Counts of the releases that are kept by name.
    releases: Vec<(String, u64)>,
}
