//! What single predictions say of a figure, beyond what is stored of it: what a test of a part of them against the rest needs.
//!
//! Nothing is gathered for it while predictions are judged. A judge keeps all scores until it ends, and they say it all.

use std::sync::Arc;

use crate::{
    figure::Evidence,
    metrics::{ClassProbabilities, Curve, Scores, brier, log_loss},
};

/// A figure whose test needs more than what is stored of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// The Brier score, of which the squares of the losses are needed.
    Brier,
    /// The logarithmic loss, likewise.
    LogLoss,
    /// The area under the curve of a binary task, of which all scores are needed.
    Auc,
}

/// What the predictions of a bucket say of the figure that is tested, and of no other one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Singles {
    /// Of the Brier score.
    pub brier: Option<Evidence>,
    /// Of the logarithmic loss; `None` also where a task of several classes has too many scores.
    pub log_loss: Option<Evidence>,
    /// Of the area under the curve.
    pub curve: Option<Arc<Curve>>,
}

impl Singles {
    /// Of the scores of a binary task.
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

    /// Of the scores of several classes; `None` of a figure that they do not test.
    pub(super) fn of_classes(tested: Tested, scores: &ClassProbabilities) -> Option<Self> {
        let mut are_kept = false;
        let log_loss = match tested {
            Tested::LogLoss => Evidence::of_losses(|each| are_kept = scores.each_log_loss(each)),
            Tested::Brier | Tested::Auc => return None,
        };
        are_kept.then(|| Self { log_loss, ..Self::default() })
    }

    /// How many bytes more they take at most once parts of the curve are tested.
    pub fn bytes_of_tests(&self) -> usize {
        self.curve.as_ref().map_or(0, |curve| curve.bytes_of_tests())
    }

    /// How many bytes the scores take that are kept.
    pub fn bytes(&self) -> usize {
        self.curve.as_ref().map_or(0, |curve| curve.bytes())
    }
}
