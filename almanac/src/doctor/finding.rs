//! Findings of `almanac admin doctor`: the state of one thing, and its remedy.

use serde_json::{Value, json};

/// State of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// In order.
    Ok,
    /// Works, and needs attention.
    Warning,
    /// Does not work, or soon will not.
    Fault,
}

impl Level {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Name of the check, such as `clock`.
    pub(super) check: &'static str,
    /// State of the thing.
    pub(super) level: Level,
    /// Observation.
    pub(super) what: String,
    /// Remedy; empty if all is well.
    pub(super) remedy: String,
}

impl Finding {
    pub(super) fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, what: what.into(), remedy: String::new() }
    }

    pub(super) fn warning(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, what: what.into(), remedy: remedy.into() }
    }

    pub(super) fn fault(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Fault, what: what.into(), remedy: remedy.into() }
    }

    pub(super) fn document(&self) -> Value {
        let remedy = Some(&self.remedy).filter(|remedy| !remedy.is_empty());
        json!({"check": self.check, "level": self.level.name(), "what": self.what, "remedy": remedy})
    }
}
