//! Kinds of events, their fields and families. An event is one immutable fact of a kind.
//!
//! The table (`event/src/fields/table.rs`) declares each field once: its name, type, rule and description, and its
//! other properties. Columns, checks, bounds, body formats, JSON Schemas and dataframes derive from it.

mod label;
mod rule;
mod table;

#[cfg(test)]
mod tests;

use std::fmt;

pub use self::{
    label::{plain_label, same_label},
    rule::{
        MAX_KEY_BYTES, MAX_NOTE_BYTES, MAX_REASON_BYTES, MAX_STEP, MAX_TEXT_BYTES, MAX_WORDS_BYTES, Rule,
    },
    table::{
        FEATURE_PREFIX, GROUP, JUDGES, KNOWN_AT, PREDICTED_SINCE, REASON, RETRACTED, SCORE_PREFIX,
        TAG_PREFIX, UNDATED,
    },
};

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Prediction of a release for a key.
    Predictions,
    /// Real result for a key, often much later.
    Outcomes,
    /// Observation of a named number.
    Metrics,
    /// Change of a release.
    Releases,
    /// Outcome that does not name the prediction that it labels. It waits in the logs of the day on which it came
    /// until that is found, and then becomes one of [`Kind::Outcomes`].
    Unmatched,
}

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldType {
    /// An instant, RFC 3339 in requests.
    Time,
    /// A double; finite, unless the rule allows others.
    Float,
    /// A string; requests may also have an integer or a boolean, which becomes its text.
    Text,
}

impl FieldType {
    /// Returns the name of its values in messages.
    pub fn plural(self) -> &'static str {
        match self {
            FieldType::Time => "times",
            FieldType::Float => "numbers",
            FieldType::Text => "strings",
        }
    }
}

/// A field of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in requests, segments and dataframes.
    pub name: &'static str,
    /// Type of its values.
    pub kind: FieldType,
    /// Rule for its values.
    pub rule: Rule,
    /// Description in a sentence.
    pub about: &'static str,
    /// True if every event must have it.
    pub is_required: bool,
    /// True if it carries content: if a kind has such fields, every event has at least one of them.
    pub is_telling: bool,
    /// Field that must not be less than it, if an event has both.
    pub at_most: Option<&'static str>,
    /// Fields of which an event with this one must have at least one, if there are any.
    pub needs: &'static [&'static str],
    /// True if rollups count it or sum it up.
    pub is_rolled_up: bool,
    /// True if only retractions have it, so that no event that counts does.
    pub is_of_retraction: bool,
    /// Condition for removing it with the key of an event.
    pub erased: Erased,
}

/// Condition for removing the value of a field when the key of its event is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// Never: metrics count the event by it.
    Never,
    /// Always: it is free text, or identifies an individual.
    WithKey,
    /// With the values: it is a number or a class that metrics are computed from.
    WithValues,
}

/// Columns of one type with names chosen by the client; an event may have several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Noun for a member: `tag`.
    pub noun: &'static str,
    /// Field that holds them as an object in JSON: `tags`.
    pub name: &'static str,
    /// Prefix of the column of a member: `tag.`.
    pub prefix: &'static str,
    /// Placeholder for the name of a member in documents: `NAME`.
    pub placeholder: &'static str,
    /// Type of their values.
    pub kind: FieldType,
    /// Rule for their values.
    pub rule: Rule,
    /// Rule for their names.
    pub name_rule: Rule,
    /// Description in a sentence.
    pub about: &'static str,
    /// Maximum number of members in an event.
    pub max: usize,
    /// Maximum number of different members in a batch: each is a column of its own.
    pub max_batch: usize,
    /// True if the numbers of an event must add up to 1, like the probabilities of classes.
    pub sums_to_one: bool,
    /// True if a member carries content, see [`Field::is_telling`].
    pub is_telling: bool,
    /// True if rollups count it or sum it up.
    pub is_rolled_up: bool,
    /// True if the numbers of a day are kept as sketches, by member and release.
    pub is_sketched: bool,
    /// Condition for removing members with the key of an event.
    pub erased: Erased,
}

impl Family {
    /// Returns the name of the column of a member.
    pub fn column(&self, member: &str) -> String {
        format!("{}{member}", self.prefix)
    }

    /// Returns the member whose column has this name.
    pub fn member<'a>(&self, column: &'a str) -> Option<&'a str> {
        column.strip_prefix(self.prefix).filter(|member| !member.is_empty())
    }

    /// Returns a regular expression for the names of its columns.
    pub fn pattern(&self) -> String {
        let member = if self.name_rule == Rule::Name { "[A-Za-z0-9][A-Za-z0-9._-]{0,127}$" } else { "." };
        format!("^{}{member}", self.prefix.replace('.', "\\."))
    }

    /// Returns the name of its columns in documents: `tag.NAME`.
    pub fn columns_are_called(&self) -> String {
        self.column(self.placeholder)
    }
}

impl Kind {
    /// All kinds that clients send and request.
    pub const ALL: [Kind; 4] = [Kind::Predictions, Kind::Outcomes, Kind::Metrics, Kind::Releases];

    /// All kinds that have logs.
    pub const STORED: [Kind; 5] =
        [Kind::Predictions, Kind::Outcomes, Kind::Metrics, Kind::Releases, Kind::Unmatched];

    /// Returns the letter of the kind in keys.
    pub fn letter(self) -> &'static str {
        match self {
            Kind::Predictions => "p",
            Kind::Outcomes => "o",
            Kind::Metrics => "m",
            Kind::Releases => "r",
            Kind::Unmatched => "w",
        }
    }

    /// Returns the kind of a letter in a key.
    pub fn from_letter(letter: &str) -> Option<Self> {
        Self::STORED.into_iter().find(|kind| kind.letter() == letter)
    }

    /// Returns the kind that clients call by a plural such as `predictions`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns its plural, as in paths and commands.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Predictions => "predictions",
            Kind::Outcomes => "outcomes",
            Kind::Metrics => "metrics",
            Kind::Releases => "releases",
            Kind::Unmatched => "unmatched",
        }
    }

    /// Returns its fields, in storage order; the members of [families](Kind::families) come after them.
    pub fn fields(self) -> &'static [Field] {
        match self {
            Kind::Predictions => table::PREDICTIONS,
            Kind::Outcomes => table::OUTCOMES,
            Kind::Metrics => table::METRICS,
            Kind::Releases => table::RELEASES,
            Kind::Unmatched => table::UNMATCHED,
        }
    }

    /// Returns the fields that clients may send for the kind: its own, and those that no stored event has.
    pub fn sent_fields(self) -> &'static [Field] {
        match self {
            Kind::Outcomes => table::SENT_OUTCOMES,
            kind => kind.fields(),
        }
    }

    /// Returns the fields of events that are not retracted.
    pub fn lasting_fields(self) -> impl Iterator<Item = &'static Field> {
        self.fields().iter().filter(|field| !field.is_of_retraction)
    }

    /// Returns the field called `name`.
    pub fn field(self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| field.name == name)
    }

    /// Returns its families of columns, in storage order.
    pub fn families(self) -> &'static [Family] {
        match self {
            Kind::Predictions => table::PREDICTION_FAMILIES,
            Kind::Metrics => table::METRIC_FAMILIES,
            Kind::Outcomes | Kind::Releases | Kind::Unmatched => &[],
        }
    }

    /// Returns the family that has the column called `name` as a member.
    pub fn family(self, name: &str) -> Option<&'static Family> {
        self.families().iter().find(|family| family.member(name).is_some())
    }

    /// Returns the type of the column called `name`; `None` if events of the kind cannot have it.
    pub fn column_type(self, name: &str) -> Option<FieldType> {
        let field = self.field(name).map(|field| field.kind);
        field.or_else(|| self.family(name).map(|family| family.kind))
    }

    /// Returns the type of a column for events that are not retracted.
    pub fn lasting_type(self, name: &str) -> Option<FieldType> {
        let is_lasting = !self.field(name).is_some_and(|field| field.is_of_retraction);
        self.column_type(name).filter(|_| is_lasting)
    }

    /// Returns whether a column of this name may exist: a field, or a member of a family.
    pub fn may_have(self, column: &str) -> bool {
        self.column_type(column).is_some()
    }

    /// Returns whether erasing the key of an event removes the value of the column called `name`, `with_values` or
    /// without.
    pub fn is_erased(self, name: &str, with_values: bool) -> bool {
        let field = self.field(name).map(|field| field.erased);
        match field.or_else(|| self.family(name).map(|family| family.erased)) {
            Some(Erased::WithKey) => true,
            Some(Erased::WithValues) => with_values,
            Some(Erased::Never) | None => false,
        }
    }

    /// Returns whether every event has a value in the column called `name`.
    pub fn requires(self, name: &str) -> bool {
        self.field(name).is_some_and(|field| field.is_required)
    }

    /// Returns whether the column called `name` holds keys of events.
    pub fn is_key(self, name: &str) -> bool {
        self.field(name).is_some_and(|field| field.rule == Rule::Key)
    }

    /// Returns whether rollups count the column called `name` or sum it up.
    pub fn is_rolled_up(self, name: &str) -> bool {
        match self.field(name) {
            Some(field) => field.is_rolled_up,
            None => self.family(name).is_some_and(|family| family.is_rolled_up),
        }
    }

    /// Returns the member of a column, if its family is kept as sketches.
    pub fn sketched(self, name: &str) -> Option<&str> {
        self.families().iter().filter(|family| family.is_sketched).find_map(|family| family.member(name))
    }

    /// Lists the names of its columns for a message: `extra` ones, its fields and its families.
    pub fn columns_are_called(self, extra: &[&str]) -> String {
        self.called(self.fields().iter(), extra)
    }

    /// Lists the columns of events that are not retracted for a message.
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

    /// Returns the noun for one event of the kind, with its article.
    pub fn one(self) -> &'static str {
        match self {
            Kind::Predictions => "a prediction",
            Kind::Outcomes => "an outcome",
            Kind::Metrics => "a metric",
            Kind::Releases => "a release event",
            Kind::Unmatched => "an unmatched outcome",
        }
    }

    /// Returns the field of the time at which the event became known in the world: the prediction, observation,
    /// measurement or release.
    pub fn time_field(self) -> &'static str {
        match self {
            Kind::Predictions => "predicted_at",
            Kind::Outcomes | Kind::Unmatched => "observed_at",
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

/// Selection among the eligible predictions of its key that an unmatched outcome labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppliesTo {
    /// Latest prediction.
    #[default]
    Latest,
    /// All predictions.
    All,
}

impl AppliesTo {
    /// Names of both.
    pub const NAMES: [&'static str; 2] = [Self::Latest.name(), Self::All.name()];

    /// Returns its name in events.
    pub const fn name(self) -> &'static str {
        match self {
            AppliesTo::Latest => "latest",
            AppliesTo::All => "all",
        }
    }

    /// Returns the selection of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Latest, Self::All].into_iter().find(|applies_to| applies_to.name() == name)
    }
}
