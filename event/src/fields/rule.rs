//! Rules for the values of a field, besides their type.

use std::ops::RangeInclusive;

use crate::id::MAX_NAME_BYTES;

/// Maximum number of bytes of the key of an event.
pub const MAX_KEY_BYTES: usize = 256;
/// Maximum number of bytes of any other text.
pub const MAX_TEXT_BYTES: usize = 128;
/// Maximum number of bytes of a note.
pub const MAX_NOTE_BYTES: usize = 4096;
/// Maximum number of bytes of a reason.
pub const MAX_REASON_BYTES: usize = 1024;
/// Maximum number of bytes of a text of several words in a definition.
pub const MAX_WORDS_BYTES: usize = 8192;

/// Maximum step of a run: up to it a double represents exactly one integer. From 2^53 on it may have been rounded.
pub const MAX_STEP: f64 = 9_007_199_254_740_991.0; // 2^53 - 1

/// Rule for the values of a field, besides their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No further rule: any time, any finite number, any nonempty text.
    Plain,
    /// A key of events. Keys seldom repeat.
    Key,
    /// A remark: long, and possibly empty.
    Note,
    /// Reason for an action: a nonempty text.
    Reason,
    /// `true`. False leaves the field out.
    True,
    /// A name that people give, such as that of a release.
    Name,
    /// Action on a release.
    Action,
    /// A predicted or observed class, kept in [normalised form](super::plain_label).
    Label,
    /// Task of a release.
    Task,
    /// Words of a definition, separated by commas.
    Words,
    /// A day, `2026-06-01`.
    Day,
    /// The value of a tag: a short text, possibly empty.
    Tag,
    /// A number from 0 to 1.
    Probability,
    /// A number from 0 to 1; beside a group any finite number, which ranks it.
    Score,
    /// A non-negative number.
    Duration,
    /// Any number; for an event of a run, also NaN or infinite.
    Measured,
    /// An integer that a double holds exactly.
    Step,
    /// Id of a run.
    Run,
    /// Selection of the predictions that an outcome [applies to](super::AppliesTo).
    AppliesTo,
}

impl Rule {
    /// Returns the maximum number of bytes of a text.
    pub fn max_bytes(self) -> usize {
        match self {
            Rule::Key => MAX_KEY_BYTES,
            Rule::Note => MAX_NOTE_BYTES,
            Rule::Reason => MAX_REASON_BYTES,
            Rule::Name => MAX_NAME_BYTES,
            Rule::Words => MAX_WORDS_BYTES,
            _ => MAX_TEXT_BYTES,
        }
    }

    /// Returns whether a number may be NaN or infinite, for an event of a run.
    pub fn may_be_special(self) -> bool {
        self == Rule::Measured
    }

    /// Returns whether a text may be empty.
    pub fn may_be_empty(self) -> bool {
        matches!(self, Rule::Note | Rule::Tag)
    }

    /// Returns whether few distinct texts are expected.
    pub fn is_repeated(self) -> bool {
        !matches!(self, Rule::Key | Rule::Note)
    }

    /// Returns the least number, if the rule sets one.
    pub fn min(self) -> Option<u32> {
        matches!(self, Rule::Probability | Rule::Duration).then_some(0)
    }

    /// Returns the greatest number, if the rule sets one.
    pub fn max(self) -> Option<u32> {
        matches!(self, Rule::Probability).then_some(1)
    }

    /// Returns the range of allowed numbers. All of them are finite, and 0 is one of them.
    pub fn range(self) -> RangeInclusive<f64> {
        if self == Rule::Step {
            return -MAX_STEP..=MAX_STEP;
        }
        self.min().map_or(f64::MIN, f64::from)..=self.max().map_or(f64::MAX, f64::from)
    }

    /// Returns the reason for refusing a number outside of the range, as the rest of a sentence.
    pub fn refusal(self, number: f64) -> String {
        match self {
            Rule::Measured => "is not a finite number, which only a metric of a run may have".to_owned(),
            _ if !number.is_finite() => "is not a finite number".to_owned(),
            Rule::Step => {
                format!("should be a whole number from -{MAX_STEP} to {MAX_STEP}, but {number} was given")
            }
            Rule::Duration => format!("is how long it took, but {number} was given"),
            Rule::Score => format!(
                "is a probability from 0 to 1, but {number} was given (other numbers go into `value`, scores of \
                 rankings beside a `group`)"
            ),
            _ => format!(
                "is a probability from 0 to 1, but {number} was given (other numbers go into `value`)"
            ),
        }
    }
}
