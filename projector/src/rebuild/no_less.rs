//! Check that keeps a new version from becoming active if it would show less than the old one.

use std::collections::BTreeMap;

use event::{Day, Error, Result};
use log::{active, projection::Applied, scan};

use super::Rebuild;
use crate::{
    dead_letters::{DeadLetter, Refused},
    sweep::{Covered, applied},
};

impl Rebuild<'_> {
    /// Refuses a new version that covers less of something than the old one did at `point`, or that is stopped at a segment at
    /// which the old one is not.
    pub(super) async fn check_no_less(&self, building: u32, point: &Covered) -> Result<()> {
        let found = active::load(self.table, self.workspace).await?;
        if found.version == building {
            return Ok(());
        }
        let now = applied(self.table, found.version, self.workspace).await?;
        let new = applied(self.table, building, self.workspace).await?;
        let old = found.version;
        for (what, old_days, new_days, is_point) in [
            ("fold", &point.rollups, &new.rollups, true),
            ("evaluate", &point.evaluations, &new.evaluations, true),
            ("sketch", &point.features, &new.features, true),
            ("fold", &now.rollups, &new.rollups, false),
        ] {
            for (day, log, seq) in logs_of(old_days) {
                let covered = new_days.get(&day).and_then(|logs| logs.get(log)).copied().unwrap_or(0);
                let id = scan::log_named(self.workspace, day, log);
                let is_stopped = id.is_some_and(|id| self.stopped.contains(&id))
                    || (what == "evaluate" && self.unevaluated.iter().any(|stopped| stopped.day == day))
                    || (what == "sketch" && self.unsketched.iter().any(|stopped| stopped.day == day));
                if covered < seq && (is_stopped || is_point) {
                    let less = format!(
                        "version {building} can {what} {day} {log} only up to segment {covered}, \
                         version {old} is at {seq}; version {old} stays"
                    );
                    return Err(match is_stopped {
                        true => {
                            Error::corrupt(less + &self.way_out(building, what, (day, log.as_str())).await?)
                        }
                        false => Error::incomplete(less),
                    });
                }
            }
        }
        Ok(())
    }

    /// Names the segment that keeps a version from covering more of a log, and the remedies of an operator.
    async fn way_out(&self, building: u32, what: &str, (day, log): (Day, &str)) -> Result<String> {
        let is_it = |letter: &DeadLetter| match letter.refused {
            Refused::Rollup => what == "fold" && letter.log.name() == log,
            Refused::Evaluation => what == "evaluate",
            Refused::Features => what == "sketch",
        };
        let mut letters = self.stopping(building).await?;
        // A segment at which the rollup stops is also not covered by the evaluation and the breakdown.
        letters.retain(|letter| letter.log.day == day);
        letters.sort_by_key(|letter| !is_it(letter));
        Ok(letters.first().map_or_else(String::new, |letter| {
            let (segment, workspace) = (letter.segment(), self.workspace);
            format!(
                ". Segment {segment} stands in the way: {}. Put its bytes back, or leave it out for good with \
                 `almanac admin dead-letters skip {segment} -w {workspace}`, and then call the same again: it goes on",
                letter.reason
            )
        }))
    }
}

/// Coverage of rollups or evaluations, by day.
type Days = BTreeMap<Day, Applied>;

fn logs_of(days: &Days) -> impl Iterator<Item = (Day, &String, u64)> {
    days.iter().flat_map(|(day, logs)| logs.iter().map(|(log, seq)| (*day, log, *seq)))
}
