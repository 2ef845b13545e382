//! What `almanac doctor` finds: how well one thing is, and what to do about it.

use serde_json::{Value, json};

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// It works, and somebody should look at it.
    Warning,
    /// Something does not work, or soon will not.
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

/// What was found of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// What was looked at, such as `clock`.
    pub(super) check: &'static str,
    /// How well it is.
    pub(super) level: Level,
    /// What was seen.
    pub(super) what: String,
    /// What to do; nothing where all is well.
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
