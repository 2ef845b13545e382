//! A release, or another bucket, while its predictions are being evaluated.

use std::{io, sync::Arc};

use event::{Day, Definition};

use super::{
    Record, ReleaseEvaluation,
    custom::Customs,
    evaluator::Options,
    fields::Fields,
    interval::{GoOn, IntervalsOf, Rows},
    judge::Judge,
};
use crate::{ExactSum, Result, formulas::mean, runs::Runs};

/// A release while its predictions are being evaluated.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) predictions: u64,
    pub(super) repeated: u64,
    pub(super) erased: u64,
    labelled: u64,
    scores: (u64, ExactSum),
    pub(super) record: Record,
    defined_from: Option<Day>,
    judge: Option<Judge>,
    /// Metrics that its model defines.
    pub(super) customs: Customs,
    /// Evaluated predictions, if intervals are requested.
    pub(super) rows: Option<Rows>,
    /// Requested intervals.
    intervals: Option<IntervalsOf>,
    /// Number of the release whose definition it evaluates by, in a pool.
    pub(super) judged_by: Option<u32>,
    /// Last of its releases by name, in a pool.
    pub(super) last_pooled: Option<String>,
}

impl Release {
    pub(super) fn new(definition: Option<&Definition>, options: Options) -> Self {
        let judge = definition.map(|definition| Judge::new(definition, options.instead));
        let rows = definition.zip(options.intervals);
        let rows = rows.map(|(definition, asked)| Rows::new(definition, options.instead, asked));
        Self {
            predictions: 0,
            repeated: 0,
            erased: 0,
            labelled: 0,
            scores: (0, ExactSum::new()),
            record: Record::default(),
            defined_from: definition.and_then(|definition| definition.from),
            judge,
            customs: Customs::new(options.intervals.is_some_and(IntervalsOf::has_customs)),
            rows,
            intervals: options.intervals,
            judged_by: None,
            last_pooled: None,
        }
    }

    /// Evaluates by the definition of a release of the pool from now on. Returns false if the kind of task differs.
    #[inline]
    pub(super) fn pool(
        &mut self,
        release: u32,
        names: &[String],
        definitions: &[Option<&Definition>],
        options: Options,
    ) -> bool {
        if self.judged_by == Some(release) {
            return true;
        }
        self.judged_by = Some(release);
        let name = &names[release as usize];
        if self.last_pooled.as_ref().is_none_or(|last| last < name) {
            self.last_pooled = Some(name.clone());
        }
        definitions[release as usize].is_none_or(|definition| self.go_on(definition, options))
    }

    /// Evaluates by another definition from now on. Returns false if the kind of task differs.
    pub(super) fn go_on(&mut self, definition: &Definition, options: Options) -> bool {
        match &mut self.judge {
            None => {
                let options = Options { intervals: self.intervals, ..options };
                let Self { judge, rows, .. } = Self::new(Some(definition), options);
                (self.judge, self.rows) = (judge, rows);
            }
            Some(judge) => {
                if !judge.go_on(definition, options.instead) {
                    return false;
                }
            }
        }
        if let Some(rows) = &mut self.rows {
            rows.go_on(definition);
        }
        self.defined_from = definition.from;
        true
    }

    /// Returns whether its predictions are evaluated, and not only met by those of other releases.
    pub(super) fn is_judged(&self) -> bool {
        self.judge.is_some()
    }

    /// Moves scores or errors to a file.
    pub(super) fn spill(&mut self, runs: &mut Runs) -> io::Result<()> {
        self.judge.as_mut().map_or(Ok(()), |judge| judge.spill(runs))
    }

    /// Computes the metrics of the scores or errors in a file.
    pub(super) fn settle(&mut self, runs: &mut Runs) -> io::Result<()> {
        self.judge.as_mut().map_or(Ok(()), |judge| judge.settle(runs))
    }

    pub(super) fn bytes(&self) -> usize {
        let judged = self.judge.as_ref().map_or(0, Judge::bytes) + self.rows.as_ref().map_or(0, Rows::bytes);
        judged + self.customs.bytes()
    }

    #[inline(always)]
    pub(super) fn add(&mut self, prediction: &Fields<'_>, outcome: Option<&Fields<'_>>) {
        self.predictions += 1;
        if let Some(score) = prediction.score {
            self.scores.0 += 1;
            self.scores.1.add(score);
        }
        let Some(outcome) = outcome else {
            if let Some(judge) = &mut self.judge {
                judge.add_without_outcome(prediction);
            }
            return;
        };
        self.labelled += 1;
        if let Some(judge) = &mut self.judge {
            judge.add(prediction, outcome);
        }
    }

    pub(super) fn finish<E>(self, options: Options, go_on: GoOn<'_, E>) -> Result<ReleaseEvaluation, E> {
        let (measures, singles) = self.judge.map(|judge| judge.finish(options.tested)).unzip();
        let mut evaluation = ReleaseEvaluation {
            predictions: self.predictions,
            repeated: self.repeated,
            erased: self.erased,
            labelled: self.labelled,
            mean_score: mean(&self.scores.1, self.scores.0),
            record: self.record,
            defined_from: self.defined_from,
            measures,
            custom: self.customs.finish(go_on)?,
            intervals: None,
            singles: singles.flatten().map(Arc::new),
        };
        if let Some(rows) = self.rows {
            evaluation.intervals = rows.intervals(&evaluation, go_on)?;
        }
        Ok(evaluation)
    }
}
