//! One figure of an evaluation, by the metric that a workspace ranks its releases by.

use store::catalog::Metric;

use super::{Measures, ReleaseEvaluation};

impl ReleaseEvaluation {
    /// The value of a metric; `None`, when the task of the release has none, or nothing was judged.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        match (self.measures.as_ref()?, metric) {
            (Measures::Binary(of), Metric::Accuracy) => of.accuracy,
            (Measures::Binary(of), Metric::Auc) => of.auc,
            (Measures::Binary(of), Metric::LogLoss) => of.log_loss,
            (Measures::Binary(of), Metric::Brier) => of.brier,
            (Measures::Binary(of), Metric::Precision) => of.precision,
            (Measures::Binary(of), Metric::Recall) => of.recall,
            (Measures::Binary(of), Metric::F1) => of.f1,
            (Measures::Binary(of), Metric::Ece) => of.ece,
            (Measures::Multiclass(of), Metric::Accuracy) => of.accuracy,
            (Measures::Regression(of), Metric::Mae) => of.mae,
            (Measures::Regression(of), Metric::Rmse) => of.rmse,
            _ => None,
        }
    }
}
