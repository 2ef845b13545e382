//! Tasks of models: the type of their predictions, which determines how they are evaluated.

use std::fmt;

use crate::{Error, Result, fields::plain_label, id::MAX_NAME_BYTES};

/// Default threshold: a prediction without a label is of the positive class from this score on, unless its definition
/// has another one.
pub const POSITIVE_SCORE: f64 = 0.5;

/// Tasks that have a positive label, as part of messages.
pub(crate) const LABELLED: &str = "binary task or a ranking";

/// Task of a model: the type of its predictions, which determines how they are evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// One of two labels; `score` is the probability of the positive one.
    Binary {
        /// Label that the score is the probability of.
        positive_label: String,
    },
    /// One of several labels.
    Multiclass,
    /// A number.
    Regression,
    /// Items of a group, such as a query, of which those with the greatest `score` come first.
    Ranking {
        /// Label of relevant items; an outcome with a value has that relevance instead.
        positive_label: String,
    },
}

impl Task {
    /// All tasks by name; `binary` comes first.
    pub const NAMES: [&str; 4] = ["binary", "multiclass", "regression", "ranking"];

    /// Reads a task from its name and, for `binary` and `ranking`, its positive label (default `1`).
    ///
    /// # Errors
    /// `Invalid` for a name that is not one of these, or a positive label of a task that has none.
    pub fn parse(name: &str, positive_label: Option<&str>) -> Result<Self> {
        match (name, positive_label) {
            ("binary" | "ranking", Some(label)) if label.is_empty() || label.len() > MAX_NAME_BYTES => {
                Err(Error::invalid(format!("a positive label has 1 to {MAX_NAME_BYTES} bytes")))
            }
            ("binary", label) => Ok(Task::Binary { positive_label: label.unwrap_or("1").to_owned() }),
            ("ranking", label) => Ok(Task::Ranking { positive_label: label.unwrap_or("1").to_owned() }),
            ("multiclass", None) => Ok(Task::Multiclass),
            ("regression", None) => Ok(Task::Regression),
            ("multiclass" | "regression", Some(_)) => {
                Err(Error::invalid(format!("a positive label belongs to a {LABELLED}, not to `{name}`")))
            }
            _ => Err(Error::invalid(format!("the task `{name}` is none of {}", Self::NAMES.join(", ")))),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        match self {
            Task::Binary { .. } => "binary",
            Task::Multiclass => "multiclass",
            Task::Regression => "regression",
            Task::Ranking { .. } => "ranking",
        }
    }

    /// Normalises its positive label as the labels of events are.
    pub fn plain(&self) -> Self {
        let label = self.positive_label().map(|label| plain_label(label).into_owned());
        match (self, label.filter(|label| !label.is_empty())) {
            (Task::Binary { .. }, Some(positive_label)) => Task::Binary { positive_label },
            (Task::Ranking { .. }, Some(positive_label)) => Task::Ranking { positive_label },
            _ => self.clone(),
        }
    }

    /// Returns whether it is binary.
    pub fn is_binary(&self) -> bool {
        matches!(self, Task::Binary { .. })
    }

    /// Returns the positive label of a binary task or a ranking.
    pub fn positive_label(&self) -> Option<&str> {
        match self {
            Task::Binary { positive_label } | Task::Ranking { positive_label } => Some(positive_label),
            Task::Multiclass | Task::Regression => None,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.positive_label() {
            Some(label) => write!(f, "{}, positive `{label}`", self.name()),
            None => f.write_str(self.name()),
        }
    }
}
