//! Events: one immutable fact each, of one of four kinds, and the columns in which a kind is kept.

use std::{borrow::Cow, fmt};

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What a release predicted for a key.
    Predictions,
    /// What really happened to a key, often much later.
    Outcomes,
    /// An observation of a named number.
    Metrics,
    /// A change of a release.
    Releases,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// An instant, RFC 3339 in requests.
    Time,
    /// A finite double.
    Float,
    /// A string; in requests a whole number or a boolean is taken as its text.
    Text,
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in requests, segments and dataframes.
    pub name: &'static str,
    /// Its type.
    pub kind: FieldType,
    /// Whether every event must have it.
    pub required: bool,
}

/// Before the name of a tag, in the name of its column: `tag.carrier`.
pub const TAG_PREFIX: &str = "tag.";

const fn required(name: &'static str, kind: FieldType) -> Field {
    Field { name, kind, required: true }
}

const fn optional(name: &'static str, kind: FieldType) -> Field {
    Field { name, kind, required: false }
}

const PREDICTIONS: &[Field] = &[
    required("key", FieldType::Text),
    required("predicted_at", FieldType::Time),
    required("release", FieldType::Text),
    optional("score", FieldType::Float),
    optional("label", FieldType::Text),
    optional("value", FieldType::Float),
    optional("latency_ms", FieldType::Float),
];

const OUTCOMES: &[Field] = &[
    required("key", FieldType::Text),
    optional("predicted_at", FieldType::Time),
    required("observed_at", FieldType::Time),
    optional("label", FieldType::Text),
    optional("value", FieldType::Float),
];

const METRICS: &[Field] = &[
    required("name", FieldType::Text),
    required("measured_at", FieldType::Time),
    required("value", FieldType::Float),
    optional("release", FieldType::Text),
];

const RELEASES: &[Field] = &[
    required("release", FieldType::Text),
    required("released_at", FieldType::Time),
    required("model", FieldType::Text),
    required("action", FieldType::Text),
    optional("configuration", FieldType::Text),
    optional("environment", FieldType::Text),
    optional("note", FieldType::Text),
    optional("task", FieldType::Text),
    optional("positive_label", FieldType::Text),
    optional("threshold", FieldType::Float),
    optional("effective_from", FieldType::Text),
];

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Predictions, Kind::Outcomes, Kind::Metrics, Kind::Releases];

    /// The letter that stands for the kind in keys.
    pub fn letter(self) -> &'static str {
        match self {
            Kind::Predictions => "p",
            Kind::Outcomes => "o",
            Kind::Metrics => "m",
            Kind::Releases => "r",
        }
    }

    /// The kind of a letter in a key.
    pub fn from_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.letter() == letter)
    }

    /// The kind of a plural such as `predictions`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its plural, as in paths and commands.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Predictions => "predictions",
            Kind::Outcomes => "outcomes",
            Kind::Metrics => "metrics",
            Kind::Releases => "releases",
        }
    }

    /// Its fields, in the order in which they are stored; tags come after them.
    pub fn fields(self) -> &'static [Field] {
        match self {
            Kind::Predictions => PREDICTIONS,
            Kind::Outcomes => OUTCOMES,
            Kind::Metrics => METRICS,
            Kind::Releases => RELEASES,
        }
    }

    /// The field called `name`.
    pub fn field(self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| field.name == name)
    }

    /// Whether its events carry tags.
    pub fn has_tags(self) -> bool {
        matches!(self, Kind::Predictions | Kind::Metrics)
    }

    /// Whether a column of this name may exist: a field, or a tag where the kind has tags.
    pub fn may_have(self, column: &str) -> bool {
        let tag = || column.strip_prefix(TAG_PREFIX).is_some_and(|tag| !tag.is_empty());
        self.field(column).is_some() || (self.has_tags() && tag())
    }

    /// The time at which the event became known in the world: when it was predicted, observed,
    /// measured, released.
    pub fn time_field(self) -> &'static str {
        match self {
            Kind::Predictions => "predicted_at",
            Kind::Outcomes => "observed_at",
            Kind::Metrics => "measured_at",
            Kind::Releases => "released_at",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A label as it is kept: without white space around it, `True` and `FALSE` as `true` and `false`, and
/// a whole number such as `1.0` without its point. So labels that mean the same are the same, whatever
/// library wrote them.
#[inline]
pub fn plain_label(label: &str) -> Cow<'_, str> {
    let label = label.trim();
    let is = |word: &str| label.eq_ignore_ascii_case(word);
    match label.as_bytes() {
        [b't' | b'T' | b'f' | b'F', ..] if is("true") || is("false") => match label.as_bytes()[0] | 0x20 {
            b't' => Cow::Borrowed("true"),
            _ => Cow::Borrowed("false"),
        },
        [.., b'.' | b'0'] => whole_number(label).unwrap_or(Cow::Borrowed(label)),
        _ => Cow::Borrowed(label),
    }
}

/// `1` of `1.0`, `1.` and `1.00`; `None` for what is no such number.
fn whole_number(label: &str) -> Option<Cow<'_, str>> {
    let (whole, fraction) = label.split_once('.')?;
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_whole || fraction.bytes().any(|byte| byte != b'0') {
        return None;
    }
    let is_zero = digits.bytes().all(|byte| byte == b'0');
    Some(Cow::Borrowed(if is_zero { digits } else { whole }))
}

/// Whether two labels mean the same. Events that were stored before labels were made plain may hold
/// any.
#[inline]
pub fn same_label(one: &str, other: &str) -> bool {
    one == other || plain_label(one) == plain_label(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_mean_the_same_are_the_same() {
        for (label, plain) in [
            ("1.0", "1"),
            ("1.", "1"),
            ("-2.00", "-2"),
            ("-0.0", "0"),
            ("10", "10"),
            (" 1.0\t", "1"),
            ("True", "true"),
            ("FALSE", "false"),
            ("true", "true"),
            ("yes ", "yes"),
            ("\u{a0}yes", "yes"),
            ("Yes", "Yes"),
            ("1.5", "1.5"),
            ("v1.0", "v1.0"),
            ("1.0.0", "1.0.0"),
            (".0", ".0"),
            ("1e0", "1e0"),
            ("truely", "truely"),
            ("", ""),
            ("  ", ""),
        ] {
            assert_eq!(plain_label(label), plain, "{label:?}");
            assert!(same_label(label, plain));
            assert_eq!(plain_label(plain), plain, "a plain label stays as it is");
        }
        assert!(!same_label("1", "true") && !same_label("Yes", "yes"));
    }
}
