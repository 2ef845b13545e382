//! Figures that people define for a model: an aggregate in SQL over its predictions and their outcomes, such as
//! `avg(case when outcome_label = label then 1 else 0 end)`.
//!
//! [`CustomFigure::parse`] reads the text once, checks names and types, and produces a [`Formula`] that a fold
//! computes row by row. So the result depends on the rows alone, and not on their order.

mod expression;
mod functions;
mod reader;
mod tokens;
mod types;

use std::{collections::BTreeMap, sync::Arc};

pub use expression::{Expression, Value};
pub use functions::{AggregateOf, aggregates, scalars};

use crate::{
    Error, Kind, Result,
    fields::{Erased, Family, FieldType, MAX_WORDS_BYTES, Rule},
    id::check_name,
};

/// Maximum number of custom figures of a model.
pub const MAX_CUSTOM_FIGURES: usize = 16;

/// Columns of evaluations that are custom figures.
pub static CUSTOM_FIGURES: Family = Family {
    noun: "figure",
    name: "figures",
    prefix: "custom.",
    placeholder: "NAME",
    kind: FieldType::Float,
    rule: Rule::Plain,
    name_rule: Rule::Name,
    about: "Figures that models define, by name.",
    max: MAX_CUSTOM_FIGURES,
    max_batch: MAX_CUSTOM_FIGURES,
    sums_to_one: false,
    is_telling: false,
    is_rolled_up: false,
    is_sketched: false,
    erased: Erased::Never,
};

/// Maximum number of bytes of the text of a custom figure.
pub const MAX_CUSTOM_BYTES: usize = 1_000;

/// Maximum number of aggregates of a model that keep all their values in memory.
pub const MAX_KEEPING: usize = 8;

/// Suffixes of the columns about a figure's certainty: its number of predictions, and the ends of its interval.
pub const INTERVAL_ENDS: [&str; 3] = ["_n", "_low", "_high"];

/// Separator of the figures of a text; `SAYS` separates the name of one from its expression.
const BETWEEN: char = '\n';
const SAYS: char = '=';

/// A figure that a model defines.
#[derive(Clone, Debug)]
pub struct CustomFigure {
    /// Name; that of its column is one of [`CUSTOM_FIGURES`].
    pub name: String,
    /// Expression as it was written.
    pub text: String,
    /// Parsed expression.
    pub formula: Arc<Formula>,
}

/// Formula of a custom figure: an expression of aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// Distinct columns that it needs.
    pub columns: Vec<JoinedColumn>,
    /// Aggregates, whose leaves are columns by their place.
    pub aggregates: Vec<Aggregate>,
    /// Value of the figure, whose leaves are aggregates by their place.
    pub value: Expression,
}

/// An aggregate of the rows of predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Operation on the values.
    pub of: AggregateOf,
    /// Value of a row; `None` to count all rows.
    pub argument: Option<Expression>,
    /// Condition on rows; all rows are used, when `None`.
    pub filter: Option<Expression>,
}

/// A column of predictions joined with outcomes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JoinedColumn {
    /// Kind of events that it comes from.
    pub of: Kind,
    /// Name of the field in these events.
    pub field: String,
    /// Type of its values.
    pub kind: FieldType,
}

/// Columns that an outcome adds to a prediction: the name of the column, and the field of the outcome.
pub const OUTCOME_COLUMNS: [(&str, &str, FieldType); 3] = [
    ("outcome_label", "label", FieldType::Text),
    ("outcome_value", "value", FieldType::Float),
    ("observed_at", "observed_at", FieldType::Time),
];

impl JoinedColumn {
    /// Returns the column of a name.
    pub fn named(name: &str) -> Option<Self> {
        if let Some((_, field, kind)) = OUTCOME_COLUMNS.iter().find(|(known, ..)| *known == name) {
            return Some(Self { of: Kind::Outcomes, field: (*field).to_owned(), kind: *kind });
        }
        let kind = Kind::Predictions.lasting_type(name)?;
        Some(Self { of: Kind::Predictions, field: name.to_owned(), kind })
    }
}

impl CustomFigure {
    /// Reads a figure from its name and its expression.
    ///
    /// # Errors
    /// `Invalid`, with the reason.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        check_name(name)?;
        let text = text.trim();
        let wrong = |why: &str| Error::invalid(format!("the figure `{name}`: {why}"));
        if text.len() > MAX_CUSTOM_BYTES {
            return Err(wrong(&format!("it is longer than {MAX_CUSTOM_BYTES} bytes")));
        }
        if text.chars().any(char::is_control) {
            return Err(wrong("it is not one line of text"));
        }
        let formula = reader::read(text).map_err(|why| wrong(&why))?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), formula: Arc::new(formula) })
    }

    /// Checks the name of a new figure: it must not end like the columns of an interval.
    ///
    /// # Errors
    /// `Invalid` if it does.
    pub fn check_new_name(name: &str) -> Result<()> {
        match INTERVAL_ENDS.iter().find(|end| name.ends_with(*end)) {
            Some(end) => Err(Error::invalid(format!(
                "the figure `{name}`: no name ends with {end}, as columns of intervals do"
            ))),
            None => Ok(()),
        }
    }

    /// Combines the figures of one model, in the order of their names.
    ///
    /// # Errors
    /// `Invalid` if there are too many, or two have one name.
    pub fn together(mut figures: Vec<Self>) -> Result<Vec<Self>> {
        figures.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(twice) = figures.windows(2).find(|two| two[0].name == two[1].name) {
            return Err(Error::invalid(format!("the figure `{}` comes twice", twice[0].name)));
        }
        if figures.len() > MAX_CUSTOM_FIGURES {
            return Err(Error::invalid(format!("these are more than {MAX_CUSTOM_FIGURES} figures")));
        }
        let aggregates = figures.iter().flat_map(|figure| &figure.formula.aggregates);
        if aggregates.filter(|aggregate| aggregate.of.keeps_values()).count() > MAX_KEEPING {
            return Err(Error::invalid(format!(
                "the figures of a model have at most {MAX_KEEPING} quantiles, variances and deviations together"
            )));
        }
        if Self::text_of(&figures).len() > MAX_WORDS_BYTES {
            return Err(Error::invalid(format!(
                "the figures of a model have at most {MAX_WORDS_BYTES} bytes together"
            )));
        }
        Ok(figures)
    }

    /// Reads the text made by [`CustomFigure::text_of`].
    ///
    /// # Errors
    /// `Invalid` if one is wrong, or there are too many.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        let each = Self::lines(text)?.into_iter().map(|(name, text)| Self::parse(name, text));
        Self::together(each.collect::<Result<_>>()?)
    }

    /// Returns the names and expressions in a text, one figure a line.
    ///
    /// # Errors
    /// `Invalid` if a line is not of the form `NAME=EXPRESSION`.
    pub fn lines(text: &str) -> Result<Vec<(&str, &str)>> {
        let lacks =
            |line: &str| Error::invalid(format!("the figure `{line}` is not of the form NAME=EXPRESSION"));
        text.split(BETWEEN).map(|line| line.split_once(SAYS).ok_or_else(|| lacks(line))).collect()
    }

    /// Returns a name and an expression as a line of such a text.
    pub fn line(name: &str, text: &str) -> String {
        format!("{name}{SAYS}{text}")
    }

    /// Returns several figures as text, one a line.
    pub fn text_of(figures: &[Self]) -> String {
        let lines = figures.iter().map(|figure| Self::line(&figure.name, &figure.text));
        lines.collect::<Vec<_>>().join(&BETWEEN.to_string())
    }

    /// Returns the expressions by name.
    pub fn texts(figures: &[Self]) -> BTreeMap<&str, &str> {
        figures.iter().map(|figure| (figure.name.as_str(), figure.text.as_str())).collect()
    }

    /// Returns the name of its column.
    pub fn column(&self) -> String {
        CUSTOM_FIGURES.column(&self.name)
    }
}

impl PartialEq for CustomFigure {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.text == other.text
    }
}

#[cfg(test)]
mod tests;
