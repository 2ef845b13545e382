//! Figures that people define for a model: an aggregate in SQL over its predictions and what became of them, such as
//! `avg(case when outcome_label = label then 1 else 0 end)`.
//!
//! [`CustomFigure::parse`] reads the text once, checks names and types, and leaves a [`Formula`] that a fold computes row by row. So
//! what is computed depends on the rows alone, and not on their order.

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

/// The most custom figures of a model.
pub const MAX_CUSTOM_FIGURES: usize = 16;

/// The columns of evaluations that are custom figures.
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

/// The most bytes of the text of one.
pub const MAX_CUSTOM_BYTES: usize = 1_000;

/// The most aggregates of a model that keep all their values in memory.
pub const MAX_KEEPING: usize = 8;

/// How the columns end that say how sure a figure is: of how many predictions it is, and the ends of its interval.
pub const INTERVAL_ENDS: [&str; 3] = ["_n", "_low", "_high"];

/// Between the figures of a text, and between the name of one and its expression.
const BETWEEN: char = '\n';
const SAYS: char = '=';

/// A figure that a model defines.
#[derive(Clone, Debug)]
pub struct CustomFigure {
    /// Its name; that of its column is one of [`CUSTOM_FIGURES`].
    pub name: String,
    /// The expression as it was written.
    pub text: String,
    /// What it says.
    pub formula: Arc<Formula>,
}

/// What a custom figure says: the value of an expression of aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// The columns that it needs, each once.
    pub columns: Vec<JoinedColumn>,
    /// The aggregates, whose leaves are columns by their place.
    pub aggregates: Vec<Aggregate>,
    /// The figure, whose leaves are aggregates by their place.
    pub value: Expression,
}

/// An aggregate of the rows of predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// What it makes of the values.
    pub of: AggregateOf,
    /// The value of a row; all rows count, when it is `None`.
    pub argument: Option<Expression>,
    /// Only rows for which this holds.
    pub filter: Option<Expression>,
}

/// A column of predictions joined with outcomes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JoinedColumn {
    /// Of which events it is.
    pub of: Kind,
    /// The name that these events have for it.
    pub field: String,
    /// Its type.
    pub kind: FieldType,
}

/// What an outcome adds to a prediction: the name of the column, and the field of the outcome.
pub const OUTCOME_COLUMNS: [(&str, &str, FieldType); 3] = [
    ("outcome_label", "label", FieldType::Text),
    ("outcome_value", "value", FieldType::Float),
    ("observed_at", "observed_at", FieldType::Time),
];

impl JoinedColumn {
    /// The column of a name.
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
    /// `Invalid`, saying what is wrong.
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

    /// Checks the name of a figure that is said now: none may be called as a column of an interval is.
    ///
    /// # Errors
    /// `Invalid`, when it is.
    pub fn check_new_name(name: &str) -> Result<()> {
        match INTERVAL_ENDS.iter().find(|end| name.ends_with(*end)) {
            Some(end) => Err(Error::invalid(format!(
                "the figure `{name}`: no name ends with {end}, as columns of intervals do"
            ))),
            None => Ok(()),
        }
    }

    /// Several figures of one model, in the order of their names.
    ///
    /// # Errors
    /// `Invalid`, when they are too many, or two have one name.
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

    /// Reads the text that [`CustomFigure::text_of`] makes.
    ///
    /// # Errors
    /// `Invalid`, when one is wrong, or they are too many.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        let each = Self::lines(text)?.into_iter().map(|(name, text)| Self::parse(name, text));
        Self::together(each.collect::<Result<_>>()?)
    }

    /// The names and expressions that a text says, one figure a line.
    ///
    /// # Errors
    /// `Invalid`, when a line is not of the form `NAME=EXPRESSION`.
    pub fn lines(text: &str) -> Result<Vec<(&str, &str)>> {
        let lacks =
            |line: &str| Error::invalid(format!("the figure `{line}` is not of the form NAME=EXPRESSION"));
        text.split(BETWEEN).map(|line| line.split_once(SAYS).ok_or_else(|| lacks(line))).collect()
    }

    /// A name and an expression as a line of such a text.
    pub fn line(name: &str, text: &str) -> String {
        format!("{name}{SAYS}{text}")
    }

    /// Several as text, one a line.
    pub fn text_of(figures: &[Self]) -> String {
        let lines = figures.iter().map(|figure| Self::line(&figure.name, &figure.text));
        lines.collect::<Vec<_>>().join(&BETWEEN.to_string())
    }

    /// The expressions by name.
    pub fn texts(figures: &[Self]) -> BTreeMap<&str, &str> {
        figures.iter().map(|figure| (figure.name.as_str(), figure.text.as_str())).collect()
    }

    /// The name of its column.
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
