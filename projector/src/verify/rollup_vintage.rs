//! Verification of rollups at ages: each must equal the fold of the segments appended by the instant of its age.

use std::collections::BTreeMap;

use event::{ErrorKind, Kind, Result};
use fold::{
    Rollup,
    maturity::Age,
    rollup::{Folding, Part},
};
use log::{
    key,
    rollup_vintage::{self, RollupVintage},
    vintage::is_stated,
};
use table::Key;

use super::{DayCheck, is_of_then};
use crate::{
    dead_letters::{self, LeftOut, Refused, Skipped, Stopped},
    vintages::{arrivals, folded},
};

impl DayCheck<'_> {
    /// Verifies the rollups at ages of a day that has its events.
    pub(super) async fn rollup_vintage(&mut self) -> Result<()> {
        let vintages = self.load_rollup_vintage().await?;
        // On a day with events that have known-at times, vintages are made again before each use.
        if vintages.is_empty() || is_stated(self.table, &self.day.workspace, self.day.day).await? {
            return Ok(());
        }
        let skipped = dead_letters::skipped(self.table, self.version, self.day, Refused::ALL).await?;
        let of_features = LeftOut::of(self.table, self.version, self.day, Folding::Features).await?;
        let of_features = &of_features.always | &of_features.unreadable;
        let mut before: Option<RollupVintage> = None;
        for (hours, vintage) in &vintages {
            self.report.rollup_vintage += 1;
            let Some(age) = self.age_of(*hours, &self.rollup_vintage_key(*hours)) else { continue };
            if !self.is_told(age, vintage) {
                continue;
            }
            let left_out = &vintage.left_out | &skipped;
            let arrived = arrivals(self.table, self.day, &Kind::STORED, &left_out).await?;
            if !is_of_then(self.day.day, age, arrived, (&vintage.applied, &left_out)) {
                self.fault(format_args!(
                    "its rollup at {} is not of what had been appended by then; `almanac admin rebuild` makes it again",
                    age.name
                ));
                continue;
            }
            let fresh = match before.take().filter(|fresh| fresh.is_of_same(vintage)) {
                Some(fresh) => Some(fresh),
                None => match self.roll_again(vintage, &left_out).await? {
                    Ok(fresh) => fresh,
                    Err(stopped) => {
                        self.fault(format_args!(
                            "its rollup at {} cannot be repeated: {}",
                            age.name, stopped.reason
                        ));
                        continue;
                    }
                },
            };
            let Some(fresh) = fresh else { continue };
            // The vintage includes features of segments that were skipped since.
            let has_features = of_features.is_subset(&vintage.left_out);
            if !is_same(vintage, &fresh, has_features) {
                self.fault(format_args!("its rollup at {} is not what its segments fold to", age.name));
            }
            before = Some(fresh);
        }
        Ok(())
    }

    /// Folds the prefix of a vintage; `None`, when a segment of it was damaged and skipped since.
    async fn roll_again(
        &self,
        vintage: &RollupVintage,
        left_out: &Skipped,
    ) -> Result<Result<Option<RollupVintage>, Stopped>> {
        let is_skipped_since = *left_out != vintage.left_out;
        let of_vintage = (&vintage.applied, &vintage.left_out);
        match folded(self.table, self.version, self.day, of_vintage).await {
            Ok(Err(_)) if is_skipped_since => Ok(Ok(None)),
            Err(error) if is_skipped_since && error.kind() == ErrorKind::Incomplete => Ok(Ok(None)),
            folded => Ok(folded?.map(Some)),
        }
    }

    /// Checks that the rollups at ages of a day whose events are gone are readable.
    pub(super) async fn gone_rollups(&mut self) -> Result<()> {
        for (hours, vintage) in self.load_rollup_vintage().await? {
            if let Some(age) = self.age_of(hours, &self.rollup_vintage_key(hours)) {
                self.is_told(age, &vintage);
            }
        }
        Ok(())
    }

    async fn load_rollup_vintage(&self) -> Result<BTreeMap<u32, RollupVintage>> {
        let day = self.day.day;
        let mut vintages = rollup_vintage::between(self.table, &self.day.workspace, day, day).await?;
        Ok(vintages.remove(&day).unwrap_or_default())
    }

    fn rollup_vintage_key(&self, hours: u32) -> Key {
        key::rollup_vintage(&self.day.workspace, self.day.day, hours)
    }

    /// Returns whether all of it is readable.
    fn is_told(&mut self, age: Age, vintage: &RollupVintage) -> bool {
        let rollups = [Some(&vintage.rollup), vintage.features.as_ref()].into_iter().flatten();
        let rollups = rollups.map(|state| Rollup::from_state(state).map(drop));
        let parts = vintage.parts.iter().map(|(one, state)| Part::from_state(one.by, state).map(drop));
        match rollups.chain(parts).collect::<fold::Result<()>>() {
            Ok(()) => true,
            Err(error) => {
                self.fault(format_args!("its rollup at {} cannot be read: {error}", age.name));
                false
            }
        }
    }
}

/// Returns true if a rollup at an age equals the fold of its segments.
fn is_same(vintage: &RollupVintage, fresh: &RollupVintage, has_features: bool) -> bool {
    let parts = |of: &RollupVintage| -> BTreeMap<_, _> {
        let parts = of.parts.iter().filter(|(one, _)| has_features || one.by != key::By::Feature);
        parts.map(|(one, state)| (*one, state.clone())).collect()
    };
    vintage.rollup == fresh.rollup
        && parts(vintage) == parts(fresh)
        && (!has_features || vintage.features.is_some() == fresh.features.is_some())
}
