//! Verification of stages: each is the evaluation, or the rollup, of what had been appended when its day had the age.

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
    staged::{self, Stage},
    walk::Arrivals,
};
use table::Key;

use super::DayCheck;
use crate::{
    dlq::{self, Skipped, Stopped},
    evaluate::{SKIPPED, judged},
    stages::{JUDGED, arrivals, fold_of},
};

impl DayCheck<'_> {
    /// The stages of a day that has its events.
    pub(super) async fn stages(&mut self, catalog: &Catalog) -> Result<()> {
        let WorkspaceStages { stages, definitions } = self.load_stages(catalog).await?;
        if stages.is_empty() {
            return Ok(());
        }
        let skipped = dlq::skipped(self.table, self.version, self.day, SKIPPED).await?;
        for (hours, stage) in &stages {
            self.report.stages += 1;
            let Some(age) = self.age_of(*hours, &self.stage_key(*hours)) else { continue };
            let Some(told) = self.told(age, stage) else { continue };
            let left_out = &stage.left_out | &skipped;
            let arrived = arrivals(self.table, self.day, JUDGED, &left_out).await?;
            if !is_of_then(self.day.day, age, arrived, (&judged(&stage.applied), &left_out)) {
                self.fault(format_args!(
                    "its stage of {} is not of what had been appended by then; `almanac rebuild` makes it again",
                    age.name
                ));
                continue;
            }
            let by = definitions.covered(&stage.applied).of(self.day.day);
            match self.fold_again(stage, &by, &left_out).await? {
                Ok(None) => {}
                Ok(Some((fresh, rows))) => {
                    // Figures of its own may be made of tags and features, which went with keys that were erased since.
                    let differs = fresh.to_state() != told.to_state() && self.report.erased == 0;
                    if differs || stage.rows.is_some_and(|stored| stored != rows) {
                        self.fault(format_args!(
                            "its stage of {} is not what its predictions and outcomes give",
                            age.name
                        ));
                    }
                }
                Err(stopped) => self
                    .fault(format_args!("its stage of {} cannot be repeated: {}", age.name, stopped.reason)),
            }
        }
        Ok(())
    }

    /// The evaluation of the prefix of a stage and its rows; `None`, when a segment of it was damaged and skipped since, and what is
    /// left can be read.
    async fn fold_again(
        &self,
        stage: &Stage,
        by: &BTreeMap<String, Definition>,
        left_out: &Skipped,
    ) -> Result<Result<Option<(Evaluation, u64)>, Stopped>> {
        let is_skipped_since = *left_out != stage.left_out;
        match fold_of(self.table, self.day, &stage.applied, by, &stage.left_out).await {
            Ok(Err(_)) if is_skipped_since => {}
            Err(error) if is_skipped_since && error.kind() == ErrorKind::Incomplete => {}
            folded => return Ok(folded?.map(Some)),
        }
        let folded = fold_of(self.table, self.day, &stage.applied, by, left_out).await?;
        Ok(folded.map(|_| None))
    }

    /// Those of a day whose events are gone can be read.
    pub(super) async fn gone_stages(&mut self) -> Result<()> {
        let day = self.day.day;
        let stages = staged::between(self.table, &self.day.workspace, day, day).await?;
        for (hours, stage) in stages.get(&day).into_iter().flatten() {
            if let Some(age) = self.age_of(*hours, &self.stage_key(*hours)) {
                self.told(age, stage);
            }
        }
        Ok(())
    }

    async fn load_stages(&self, catalog: &Catalog) -> Result<WorkspaceStages> {
        let day = self.day.day;
        let mut stages = staged::between(self.table, &self.day.workspace, day, day).await?;
        let definitions = catalog.definitions(&self.day.workspace).await?;
        Ok(WorkspaceStages { stages: stages.remove(&day).unwrap_or_default(), definitions })
    }

    /// The age of a stage, whose key it is.
    pub(super) fn age_of(&mut self, hours: u32, key: &Key) -> Option<Age> {
        let age = AGES.into_iter().find(|age| age.hours == hours);
        if age.is_none() {
            self.fault(format_args!("item {key}: there is no such age"));
        }
        age
    }

    fn stage_key(&self, hours: u32) -> Key {
        key::stage(&self.day.workspace, self.day.day, hours)
    }

    /// What a stage says, if it can be read.
    fn told(&mut self, age: Age, stage: &Stage) -> Option<Evaluation> {
        let told = Evaluation::from_states(&stage.states);
        told.map_err(|error| self.fault(format_args!("its stage of {} cannot be read: {error}", age.name)))
            .ok()
    }
}

/// The stages of a day, and by what they are judged.
struct WorkspaceStages {
    stages: BTreeMap<u32, Stage>,
    definitions: catalog::Definitions,
}

/// Whether a stage that covers `applied` is of what had been appended when the day had an age. What is left out at the ends of logs makes no difference.
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
