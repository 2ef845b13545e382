//! Contributions of single predictions to a metric, beyond the stored results: the inputs of a test of a part of them
//! against the rest.
//!
//! No extra data is gathered while predictions are evaluated. An evaluation keeps all scores until it ends, and they are
//! sufficient.

use std::sync::Arc;

use crate::{
    formulas::{ClassProbabilities, Curve, Scores, brier, log_loss},
    metric::Evidence,
};

/// Metric whose test needs more than the stored results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// Brier score, whose test needs the squares of the losses.
    Brier,
    /// Logarithmic loss, whose test needs the squares of the losses.
    LogLoss,
    /// Area under the curve of a binary task, whose test needs all scores.
    Auc,
}

/// Contributions of the predictions of a bucket to the tested metric, and to no other one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Singles {
    /// Losses of the Brier score.
    pub brier: Option<Evidence>,
    /// Losses of the logarithmic loss; `None` also for a task of several classes with too many scores.
    pub log_loss: Option<Evidence>,
    /// Scores of the area under the curve.
    pub curve: Option<Arc<Curve>>,
}

impl Singles {
    /// Takes the scores of a binary task.
    pub(super) fn of_scores(tested: Tested, scores: Scores) -> Self {
        let losses = |of: fn(f64, bool) -> f64| {
            Evidence::of_losses(|each| scores.each(|score, positive| each(of(score, positive))))
        };
        match tested {
            Tested::Brier => Self { brier: losses(brier), ..Self::default() },
            Tested::LogLoss => Self { log_loss: losses(log_loss), ..Self::default() },
            Tested::Auc => Self { curve: Some(Arc::new(scores.curve())), ..Self::default() },
        }
    }

    /// Takes the scores of several classes; `None` for a metric that they do not test.
    pub(super) fn of_classes(tested: Tested, scores: &ClassProbabilities) -> Option<Self> {
        let mut are_kept = false;
        let log_loss = match tested {
            Tested::LogLoss => Evidence::of_losses(|each| are_kept = scores.each_log_loss(each)),
            Tested::Brier | Tested::Auc => return None,
        };
        are_kept.then(|| Self { log_loss, ..Self::default() })
    }

    /// Returns the maximum number of further bytes needed once parts of the curve are tested.
    pub fn bytes_of_tests(&self) -> usize {
        self.curve.as_ref().map_or(0, |curve| curve.bytes_of_tests())
    }

    /// Returns the number of bytes of the kept scores.
    pub fn bytes(&self) -> usize {
        self.curve.as_ref().map_or(0, |curve| curve.bytes())
    }
}
