//! Events: one immutable fact each, of a kind, and the columns in which a kind is kept.
//!
//! The table (`event/src/fields/table.rs`) declares each field once: its name, type, rule and description, and what else matters of it.
//! Columns, checks, bounds, body formats, JSON Schemas and dataframes derive from it.

mod judges;
mod label;
mod rule;
mod table;

#[cfg(test)]
mod tests;

use std::fmt;

pub use self::{
    judges::Judges,
    label::{plain_label, same_label},
    rule::{
        MAX_KEY_BYTES, MAX_NOTE_BYTES, MAX_REASON_BYTES, MAX_STEP, MAX_TEXT_BYTES, MAX_WORDS_BYTES, Rule,
    },
    table::{
        FEATURE_PREFIX, JUDGES, KNOWN_AT, PREDICTED_SINCE, REASON, SCORE_PREFIX, TAG_PREFIX, UNDATED,
        WITHDRAWN,
    },
};

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
    /// An outcome that does not say which prediction it judges. It waits in the logs of the day on which it came until that is
    /// found, and becomes one of [`Kind::Outcomes`] then.
    Pending,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldType {
    /// An instant, RFC 3339 in requests.
    Time,
    /// A double; finite, unless the rule says otherwise.
    Float,
    /// A string; in requests a whole number or a boolean is taken as its text.
    Text,
}

impl FieldType {
    /// What values of it are called in messages.
    pub fn plural(self) -> &'static str {
        match self {
            FieldType::Time => "times",
            FieldType::Float => "numbers",
            FieldType::Text => "strings",
        }
    }
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in requests, segments and dataframes.
    pub name: &'static str,
    /// Its type.
    pub kind: FieldType,
    /// What its values must keep to.
    pub rule: Rule,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Whether every event must have it.
    pub is_required: bool,
    /// Whether an event that has it says something: where a kind has such fields, every event has one at least.
    pub is_telling: bool,
    /// The field that is no less than it, where an event has both.
    pub at_most: Option<&'static str>,
    /// An event that has it has one of these as well, if there are any.
    pub needs: &'static [&'static str],
    /// Whether rollups count it or sum it up.
    pub is_rolled_up: bool,
    /// Whether it is of an event that takes others back, so that no event that counts has it.
    pub is_of_withdrawal: bool,
    /// Whether erasing the key of an event takes it away.
    pub erased: Erased,
}

/// When an erasure of its key takes away what an event has in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// Never: figures count the event by it.
    Never,
    /// Always: it is written freely, or tells of one alone.
    WithKey,
    /// When it takes the values as well: a number or a class of which figures are made.
    WithValues,
}

/// Columns of one type whose names the client chooses; an event may have several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// What one of them is called: `tag`.
    pub noun: &'static str,
    /// The field that holds them as an object in JSON: `tags`.
    pub name: &'static str,
    /// Before the name of a member, in the name of its column: `tag.`.
    pub prefix: &'static str,
    /// What stands for the name of a member in documents: `NAME`.
    pub placeholder: &'static str,
    /// The type of their values.
    pub kind: FieldType,
    /// What their values must keep to.
    pub rule: Rule,
    /// What their names must keep to.
    pub name_rule: Rule,
    /// What they are, in a sentence.
    pub about: &'static str,
    /// The most members of an event.
    pub max: usize,
    /// The most different members of a batch: each is a column of its own.
    pub max_batch: usize,
    /// Whether the numbers of an event add up to 1, as the probabilities of classes do.
    pub sums_to_one: bool,
    /// Whether an event that has one says something, as [`Field::is_telling`].
    pub is_telling: bool,
    /// Whether rollups count it or sum it up.
    pub is_rolled_up: bool,
    /// Whether the numbers of a day are kept as sketches, by member and release.
    pub is_sketched: bool,
    /// Whether erasing the key of an event takes its members away.
    pub erased: Erased,
}

impl Family {
    /// The name of the column of a member.
    pub fn column(&self, member: &str) -> String {
        format!("{}{member}", self.prefix)
    }

    /// The member whose column has this name.
    pub fn member<'a>(&self, column: &'a str) -> Option<&'a str> {
        column.strip_prefix(self.prefix).filter(|member| !member.is_empty())
    }

    /// A regular expression of the names of its columns.
    pub fn pattern(&self) -> String {
        let member = if self.name_rule == Rule::Name { "[A-Za-z0-9][A-Za-z0-9._-]{0,127}$" } else { "." };
        format!("^{}{member}", self.prefix.replace('.', "\\."))
    }

    /// How its columns are called in documents: `tag.NAME`.
    pub fn columns_are_called(&self) -> String {
        self.column(self.placeholder)
    }
}

impl Kind {
    /// All kinds that clients send and ask for.
    pub const ALL: [Kind; 4] = [Kind::Predictions, Kind::Outcomes, Kind::Metrics, Kind::Releases];

    /// All kinds that have logs.
    pub const STORED: [Kind; 5] =
        [Kind::Predictions, Kind::Outcomes, Kind::Metrics, Kind::Releases, Kind::Pending];

    /// The letter that stands for the kind in keys.
    pub fn letter(self) -> &'static str {
        match self {
            Kind::Predictions => "p",
            Kind::Outcomes => "o",
            Kind::Metrics => "m",
            Kind::Releases => "r",
            Kind::Pending => "w",
        }
    }

    /// The kind of a letter in a key.
    pub fn from_letter(letter: &str) -> Option<Self> {
        Self::STORED.into_iter().find(|kind| kind.letter() == letter)
    }

    /// The kind that clients call by a plural such as `predictions`.
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
            Kind::Pending => "pending",
        }
    }

    /// Its fields, in the order in which they are stored; the members of [families](Kind::families) come after them.
    pub fn fields(self) -> &'static [Field] {
        match self {
            Kind::Predictions => table::PREDICTIONS,
            Kind::Outcomes => table::OUTCOMES,
            Kind::Metrics => table::METRICS,
            Kind::Releases => table::RELEASES,
            Kind::Pending => table::PENDING,
        }
    }

    /// The fields that may be sent of an event of the kind: its own, and those that are of no event once it is stored.
    pub fn sent_fields(self) -> &'static [Field] {
        match self {
            Kind::Outcomes => table::SENT_OUTCOMES,
            kind => kind.fields(),
        }
    }

    /// The fields that an event may have that is not taken back.
    pub fn lasting_fields(self) -> impl Iterator<Item = &'static Field> {
        self.fields().iter().filter(|field| !field.is_of_withdrawal)
    }

    /// The field called `name`.
    pub fn field(self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| field.name == name)
    }

    /// Its families of columns, in the order in which they are stored.
    pub fn families(self) -> &'static [Family] {
        match self {
            Kind::Predictions => table::PREDICTION_FAMILIES,
            Kind::Metrics => table::METRIC_FAMILIES,
            Kind::Outcomes | Kind::Releases | Kind::Pending => &[],
        }
    }

    /// The family of which the column called `name` is a member.
    pub fn family(self, name: &str) -> Option<&'static Family> {
        self.families().iter().find(|family| family.member(name).is_some())
    }

    /// The type of the column called `name`; `None` where events of the kind cannot have it.
    pub fn column_type(self, name: &str) -> Option<FieldType> {
        let field = self.field(name).map(|field| field.kind);
        field.or_else(|| self.family(name).map(|family| family.kind))
    }

    /// The same of events that are not taken back.
    pub fn lasting_type(self, name: &str) -> Option<FieldType> {
        let is_lasting = !self.field(name).is_some_and(|field| field.is_of_withdrawal);
        self.column_type(name).filter(|_| is_lasting)
    }

    /// Whether a column of this name may exist: a field, or a member of a family.
    pub fn may_have(self, column: &str) -> bool {
        self.column_type(column).is_some()
    }

    /// Whether erasing the key of an event takes away what it has in the column called `name`, `with_values` or without.
    pub fn is_erased(self, name: &str, with_values: bool) -> bool {
        let field = self.field(name).map(|field| field.erased);
        match field.or_else(|| self.family(name).map(|family| family.erased)) {
            Some(Erased::WithKey) => true,
            Some(Erased::WithValues) => with_values,
            Some(Erased::Never) | None => false,
        }
    }

    /// Whether every event has something in the column called `name`.
    pub fn requires(self, name: &str) -> bool {
        self.field(name).is_some_and(|field| field.is_required)
    }

    /// Whether the column called `name` holds keys of events.
    pub fn is_key(self, name: &str) -> bool {
        self.field(name).is_some_and(|field| field.rule == Rule::Key)
    }

    /// Whether rollups count the column called `name` or sum it up.
    pub fn is_rolled_up(self, name: &str) -> bool {
        match self.field(name) {
            Some(field) => field.is_rolled_up,
            None => self.family(name).is_some_and(|family| family.is_rolled_up),
        }
    }

    /// The member of a family that is kept as sketches, whose column has this name.
    pub fn sketched(self, name: &str) -> Option<&str> {
        self.families().iter().filter(|family| family.is_sketched).find_map(|family| family.member(name))
    }

    /// What its columns are called, for a message: `extra` ones, its fields and its families.
    pub fn columns_are_called(self, extra: &[&str]) -> String {
        self.called(self.fields().iter(), extra)
    }

    /// The same of events that are not taken back.
    pub fn lasting_are_called(self, extra: &[&str]) -> String {
        self.called(self.lasting_fields(), extra)
    }

    fn called(self, fields: impl Iterator<Item = &'static Field>, extra: &[&str]) -> String {
        let names = extra.iter().copied().chain(fields.map(|field| field.name));
        let names = names.collect::<Vec<_>>().join(", ");
        match self.families() {
            [] => names,
            [all @ .., last] => {
                let all = all.iter().map(|family| format!(", {}", family.columns_are_called()));
                format!("{names}{} and {}", all.collect::<String>(), last.columns_are_called())
            }
        }
    }

    /// What one event of the kind is called, with its article.
    pub fn one(self) -> &'static str {
        match self {
            Kind::Predictions => "a prediction",
            Kind::Outcomes => "an outcome",
            Kind::Metrics => "a metric",
            Kind::Releases => "a release event",
            Kind::Pending => "a pending outcome",
        }
    }

    /// The time at which the event became known in the world: when it was predicted, observed,
    /// measured, released.
    pub fn time_field(self) -> &'static str {
        match self {
            Kind::Predictions => "predicted_at",
            Kind::Outcomes | Kind::Pending => "observed_at",
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
