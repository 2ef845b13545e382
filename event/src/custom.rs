//! Metrics that people define for a model: an aggregate in SQL over its predictions and their outcomes, such as
//! `avg(case when outcome_label = label then 1 else 0 end)`.
//!
//! [`CustomMetric::parse`] reads the text once, checks names and types, and produces a [`Formula`] that a fold
//! computes row by row. So the result depends on the rows alone, and not on their order.

mod expression;
mod functions;
mod parser;

use std::{collections::BTreeMap, sync::Arc};

pub use expression::{Expression, Value};
pub use functions::AggregateOf;

use crate::{
    Error, Kind, Result,
    definition::unless_nothing,
    fields::{Erased, Family, FieldType, MAX_WORDS_BYTES, Rule},
    id::check_name,
};

/// Maximum number of custom metrics of a model.
pub const MAX_CUSTOM_METRICS: usize = 16;

/// Columns of evaluations that are custom metrics.
pub static CUSTOM_METRICS: Family = Family {
    noun: "metric",
    name: "custom_metrics",
    prefix: "custom.",
    placeholder: "NAME",
    kind: FieldType::Float,
    rule: Rule::Plain,
    name_rule: Rule::Name,
    about: "Metrics that models define, by name.",
    max: MAX_CUSTOM_METRICS,
    max_batch: MAX_CUSTOM_METRICS,
    sums_to_one: false,
    is_telling: false,
    is_rolled_up: false,
    is_sketched: false,
    erased: Erased::Never,
};

/// Maximum number of bytes of the text of a custom metric.
pub const MAX_CUSTOM_BYTES: usize = 1_000;

/// Maximum number of aggregates of a model that keep all their values in memory.
pub const MAX_KEEPING: usize = 8;

/// Suffixes of the columns about a metric's certainty: its number of predictions, and the ends of its interval.
pub const INTERVAL_ENDS: [&str; 3] = ["_n", "_low", "_high"];

/// A metric that a model defines.
#[derive(Clone, Debug)]
pub struct CustomMetric {
    /// Name; that of its column is one of [`CUSTOM_METRICS`].
    pub name: String,
    /// Expression as it was written.
    pub text: String,
    /// Parsed expression.
    pub formula: Arc<Formula>,
}

/// Formula of a custom metric: an expression of aggregates.
#[derive(Clone, Debug)]
pub struct Formula {
    /// Distinct columns that it needs.
    pub columns: Vec<JoinedColumn>,
    /// Aggregates, whose leaves are columns by their place.
    pub aggregates: Vec<Aggregate>,
    /// Value of the metric, whose leaves are aggregates by their place.
    pub value: Expression,
}

/// An aggregate of the rows of predictions.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Operation on the values.
    pub of: AggregateOf,
    /// Value of a row: a number, or null to leave the row out.
    pub argument: Expression,
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

impl CustomMetric {
    /// Reads a metric from its name and its expression.
    ///
    /// # Errors
    /// `Invalid`, with the reason.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        check_name(name)?;
        let text = text.trim();
        let wrong = |why: &str| Error::invalid(format!("the metric `{name}`: {why}"));
        if text.len() > MAX_CUSTOM_BYTES {
            return Err(wrong(&format!("it is longer than {MAX_CUSTOM_BYTES} bytes")));
        }
        if text.chars().any(char::is_control) {
            return Err(wrong("it is not one line of text"));
        }
        let formula = parser::parse(text).map_err(|why| wrong(&why))?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), formula: Arc::new(formula) })
    }

    /// Checks the name of a new metric: it must not end like the columns of an interval.
    ///
    /// # Errors
    /// `Invalid` if it does.
    pub fn check_new_name(name: &str) -> Result<()> {
        match INTERVAL_ENDS.iter().find(|end| name.ends_with(*end)) {
            Some(end) => Err(Error::invalid(format!(
                "the metric `{name}`: no name ends with {end}, as columns of intervals do"
            ))),
            None => Ok(()),
        }
    }

    /// Combines the metrics of one model, in the order of their names, which are distinct.
    ///
    /// # Errors
    /// `Invalid` if they are too many or too long together.
    pub fn together(mut custom_metrics: Vec<Self>) -> Result<Vec<Self>> {
        custom_metrics.sort_by(|one, other| one.name.cmp(&other.name));
        if custom_metrics.len() > MAX_CUSTOM_METRICS {
            return Err(Error::invalid(format!("these are more than {MAX_CUSTOM_METRICS} metrics")));
        }
        let aggregates = custom_metrics.iter().flat_map(|metric| &metric.formula.aggregates);
        if aggregates.filter(|aggregate| aggregate.of.keeps_values()).count() > MAX_KEEPING {
            return Err(Error::invalid(format!(
                "the metrics of a model have at most {MAX_KEEPING} quantiles, variances and deviations together"
            )));
        }
        if Self::text_of(Self::texts(&custom_metrics)).len() > MAX_WORDS_BYTES {
            return Err(Error::invalid(format!(
                "the metrics of a model have at most {MAX_WORDS_BYTES} bytes together"
            )));
        }
        Ok(custom_metrics)
    }

    /// Reads the text made by [`CustomMetric::text_of`]: metrics by name, `None` for [`NOTHING`](crate::definition::NOTHING).
    ///
    /// # Errors
    /// `Invalid` if a line is wrong, a name comes twice, or there are too many.
    pub fn parse_all(text: &str) -> Result<BTreeMap<String, Option<Self>>> {
        let mut all = BTreeMap::new();
        for line in text.split('\n') {
            let lacks = || Error::invalid(format!("the metric `{line}` is not of the form NAME=EXPRESSION"));
            let (name, text) = line.split_once('=').ok_or_else(lacks)?;
            let metric = unless_nothing(text.trim(), |text| Self::parse(name, text))?;
            if all.insert(name.to_owned(), metric).is_some() {
                return Err(Error::invalid(format!("the metric `{name}` comes twice")));
            }
        }
        Self::together(all.values().flatten().cloned().collect())?;
        Ok(all)
    }

    /// Returns expressions by name as text, one metric a line.
    pub fn text_of<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let lines = texts.into_iter().map(|(name, text)| format!("{name}={text}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the expressions by name.
    pub fn texts(custom_metrics: &[Self]) -> BTreeMap<&str, &str> {
        custom_metrics.iter().map(|metric| (metric.name.as_str(), metric.text.as_str())).collect()
    }

    /// Returns the name of its column.
    pub fn column(&self) -> String {
        CUSTOM_METRICS.column(&self.name)
    }
}

impl PartialEq for CustomMetric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.text == other.text
    }
}

#[cfg(test)]
mod tests;
