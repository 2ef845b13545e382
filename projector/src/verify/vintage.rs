//! Verification of vintages: each must equal the evaluation, or the rollup, of the events appended by the instant of
//! its age.

use std::collections::BTreeMap;

use catalog::Catalog;
use event::{Day, Definition, ErrorKind, Result};
use fold::{
    Evaluation,
    maturity::{AGES, Age},
};
use log::{
    key,
    projection::Applied,
    vintage::{self, Vintage},
    walk::Arrivals,
};
use table::Key;

use super::DayCheck;
use crate::{
    dead_letters::{self, Skipped, Stopped},
    evaluate::{SKIPPED, judged},
    vintages::{JUDGED, arrivals, fold_of},
};

impl DayCheck<'_> {
    /// Verifies the vintages of a day that has its events.
    pub(super) async fn vintages(&mut self, catalog: &Catalog) -> Result<()> {
        let WorkspaceVintages { vintages, definitions } = self.load_vintages(catalog).await?;
        if vintages.is_empty() {
            return Ok(());
        }
        let skipped = dead_letters::skipped(self.table, self.version, self.day, SKIPPED).await?;
        for (hours, vintage) in &vintages {
            self.report.vintages += 1;
            let Some(age) = self.age_of(*hours, &self.vintage_key(*hours)) else { continue };
            let Some(told) = self.told(age, vintage) else { continue };
            let left_out = &vintage.left_out | &skipped;
            let arrived = arrivals(self.table, self.day, JUDGED, &left_out).await?;
            if !is_of_then(self.day.day, age, arrived, (&judged(&vintage.applied), &left_out)) {
                self.fault(format_args!(
                    "its vintage of {} is not of what had been appended by then; `almanac admin rebuild` makes it again",
                    age.name
                ));
                continue;
            }
            let by = definitions.covered(&vintage.applied).of(self.day.day);
            match self.fold_again(vintage, &by, &left_out).await? {
                Ok(None) => {}
                Ok(Some((fresh, rows))) => {
                    // Custom metrics may use tags and features that were erased with keys since.
                    let differs = fresh.to_state() != told.to_state() && self.report.erased == 0;
                    if differs || vintage.rows.is_some_and(|stored| stored != rows) {
                        self.fault(format_args!(
                            "its vintage of {} is not what its predictions and outcomes give",
                            age.name
                        ));
                    }
                }
                Err(stopped) => self.fault(format_args!(
                    "its vintage of {} cannot be repeated: {}",
                    age.name, stopped.reason
                )),
            }
        }
        Ok(())
    }

    /// Evaluates the prefix of a vintage; returns it and its number of rows. `None`, when a segment was damaged and
    /// skipped since, and the rest is readable.
    async fn fold_again(
        &self,
        vintage: &Vintage,
        by: &BTreeMap<String, Definition>,
        left_out: &Skipped,
    ) -> Result<Result<Option<(Evaluation, u64)>, Stopped>> {
        let is_skipped_since = *left_out != vintage.left_out;
        match fold_of(self.table, self.day, &vintage.applied, by, &vintage.left_out).await {
            Ok(Err(_)) if is_skipped_since => {}
            Err(error) if is_skipped_since && error.kind() == ErrorKind::Incomplete => {}
            folded => return Ok(folded?.map(Some)),
        }
        let folded = fold_of(self.table, self.day, &vintage.applied, by, left_out).await?;
        Ok(folded.map(|_| None))
    }

    /// Checks that the vintages of a day whose events are gone are readable.
    pub(super) async fn gone_vintages(&mut self) -> Result<()> {
        let day = self.day.day;
        let vintages = vintage::between(self.table, &self.day.workspace, day, day).await?;
        for (hours, vintage) in vintages.get(&day).into_iter().flatten() {
            if let Some(age) = self.age_of(*hours, &self.vintage_key(*hours)) {
                self.told(age, vintage);
            }
        }
        Ok(())
    }

    async fn load_vintages(&self, catalog: &Catalog) -> Result<WorkspaceVintages> {
        let day = self.day.day;
        let mut vintages = vintage::between(self.table, &self.day.workspace, day, day).await?;
        let definitions = catalog.definitions(&self.day.workspace).await?;
        Ok(WorkspaceVintages { vintages: vintages.remove(&day).unwrap_or_default(), definitions })
    }

    /// Returns the age of a vintage with this key.
    pub(super) fn age_of(&mut self, hours: u32, key: &Key) -> Option<Age> {
        let age = AGES.into_iter().find(|age| age.hours == hours);
        if age.is_none() {
            self.fault(format_args!("item {key}: there is no such age"));
        }
        age
    }

    fn vintage_key(&self, hours: u32) -> Key {
        key::vintage(&self.day.workspace, self.day.day, hours)
    }

    /// Returns the evaluation of a vintage, if it is readable.
    fn told(&mut self, age: Age, vintage: &Vintage) -> Option<Evaluation> {
        let told = Evaluation::from_states(&vintage.states);
        told.map_err(|error| self.fault(format_args!("its vintage of {} cannot be read: {error}", age.name)))
            .ok()
    }
}

/// Vintages of a day, and their definitions.
struct WorkspaceVintages {
    vintages: BTreeMap<u32, Vintage>,
    definitions: catalog::Definitions,
}

/// Returns true if a vintage that covers `applied` covers exactly the events appended by the instant of its age.
/// Segments left out at the ends of logs make no difference.
pub(crate) fn is_of_then(
    day: Day,
    age: Age,
    arrived: Option<Arrivals>,
    (applied, left_out): (&Applied, &Skipped),
) -> bool {
    let heads = age.of(day).zip(arrived).map(|(at, arrived)| arrived.heads_at(at));
    let heads = heads.unwrap_or_default().into_iter().map(|(log, seq)| (log.name(), seq));
    let ends = |log: &String, seq: u64| {
        let is_left_out = |seq: &u64| left_out.contains(&(log.clone(), *seq));
        (1..=seq).rev().find(|seq| !is_left_out(seq))
    };
    let ends = |applied: Applied| {
        let ends = applied.into_iter().filter_map(|(log, seq)| ends(&log, seq).map(|seq| (log, seq)));
        ends.collect::<Applied>()
    };
    ends(heads.collect()) == ends(applied.clone())
}
