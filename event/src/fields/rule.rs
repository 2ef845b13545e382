//! What the values of a field must keep to, besides their type.

use std::ops::RangeInclusive;

use crate::id::MAX_NAME_BYTES;

/// The most bytes in the key of an event.
pub const MAX_KEY_BYTES: usize = 256;
/// The most bytes in any other text.
pub const MAX_TEXT_BYTES: usize = 128;
/// The most bytes in a note.
pub const MAX_NOTE_BYTES: usize = 4096;
/// The most bytes of a reason.
pub const MAX_REASON_BYTES: usize = 1024;
/// The most bytes in a text of several words that a definition has.
pub const MAX_WORDS_BYTES: usize = 8192;

/// The greatest step of a run: up to it a double stands for one whole number alone. From 2^53 on it may be one that was rounded.
pub const MAX_STEP: f64 = 9_007_199_254_740_991.0; // 2^53 - 1

/// What the values of a field must keep to, besides their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nothing more: any time, any finite number, any text that is not empty.
    Plain,
    /// A key of events. Keys are seldom repeated.
    Key,
    /// A remark: long, and possibly empty.
    Note,
    /// Why something is done: a text that is not empty.
    Reason,
    /// `true`. What is not so leaves the field out.
    True,
    /// A name, as people give them to releases.
    Name,
    /// What happened to a release.
    Action,
    /// A class that was predicted or observed; kept in [one form](super::plain_label).
    Label,
    /// What the predictions of a release say.
    Task,
    /// Words of a definition, with commas between.
    Words,
    /// A day, `2026-06-01`.
    Day,
    /// The value of a tag: a short text, possibly empty.
    Tag,
    /// A number from 0 to 1.
    Probability,
    /// A number that is not negative.
    Duration,
    /// Any number; where the event is of a run, also what is no number (NaN) or infinite.
    Measured,
    /// A whole number that a double holds exactly.
    Step,
    /// The id of a run.
    Run,
    /// Which predictions an outcome [judges](super::Judges).
    Judges,
}

impl Rule {
    /// The most bytes of a text.
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

    /// Whether a number may be NaN or infinite, where the event is of a run.
    pub fn may_be_special(self) -> bool {
        self == Rule::Measured
    }

    /// Whether a text may be empty.
    pub fn may_be_empty(self) -> bool {
        matches!(self, Rule::Note | Rule::Tag)
    }

    /// Whether few distinct texts are to be expected.
    pub fn is_repeated(self) -> bool {
        !matches!(self, Rule::Key | Rule::Note)
    }

    /// The least number, if the rule sets one.
    pub fn min(self) -> Option<u32> {
        matches!(self, Rule::Probability | Rule::Duration).then_some(0)
    }

    /// The greatest number, if the rule sets one.
    pub fn max(self) -> Option<u32> {
        matches!(self, Rule::Probability).then_some(1)
    }

    /// The numbers that keep the rule. All of them are finite, and 0 is one of them.
    pub fn range(self) -> RangeInclusive<f64> {
        if self == Rule::Step {
            return -MAX_STEP..=MAX_STEP;
        }
        self.min().map_or(f64::MIN, f64::from)..=self.max().map_or(f64::MAX, f64::from)
    }

    /// What is wrong with a number outside of the range, as the rest of a sentence.
    pub fn refusal(self, number: f64) -> String {
        match self {
            Rule::Measured => "is not a finite number, which only a metric of a run may have".to_owned(),
            _ if !number.is_finite() => "is not a finite number".to_owned(),
            Rule::Step => {
                format!("should be a whole number from -{MAX_STEP} to {MAX_STEP}, but {number} was given")
            }
            Rule::Duration => format!("is how long it took, but {number} was given"),
            _ => format!(
                "is a probability from 0 to 1, but {number} was given (other numbers go into `value`)"
            ),
        }
    }
}
