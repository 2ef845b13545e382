//! Breakdown of evaluations: by release or by model, by tags, by bins of features.

use event::{
    Error, Kind, Result,
    fields::{FEATURE_PREFIX, Family, TAG_PREFIX},
};
use fold::evaluation::{By, MAX_BY, Value, Wanted};

use crate::rollups::{NONE, OTHERS};

/// Default number of bins of a feature.
pub(crate) const BINS: usize = 10;

pub(crate) const MAX_BINS: usize = 100;

/// Edges of the bins of a feature.
#[derive(Clone, Debug, PartialEq)]
pub enum Bins {
    /// At quantiles of the window, so that each bin has about as many predictions.
    Quantiles(usize),
    /// At these numbers, and below the first of them.
    Edges(Vec<f64>),
}

/// Breakdown of evaluations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakdown {
    /// True if the releases of a model are evaluated together.
    pub by_model: bool,
    /// True if a breakdown by release is requested explicitly.
    pub by_release: bool,
    /// The columns of predictions by which rows are broken down, in their order.
    pub columns: Vec<String>,
    /// The bins of features; ten quantiles by default.
    pub bins: Option<Bins>,
}

/// Names of the breakdowns that are not columns of predictions.
pub(crate) const RELEASE: &str = "release";
pub(crate) const MODEL: &str = "model";

/// The families of columns that can break down predictions.
pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    let prefixes = [TAG_PREFIX, FEATURE_PREFIX];
    Kind::Predictions.families().iter().filter(move |family| prefixes.contains(&family.prefix))
}

impl Breakdown {
    /// Parses a breakdown, as names separated by commas, and the bins.
    ///
    /// # Errors
    /// `Invalid`, with the reason.
    pub(crate) fn parse(by: Option<&str>, bins: Option<&str>) -> Result<Self> {
        let mut this = Self::default();
        let mut names = Vec::new();
        for name in by.into_iter().flat_map(|by| by.split(',')).map(str::trim) {
            if names.contains(&name) {
                return Err(Error::invalid(format!("group-by: `{name}` is named twice")));
            }
            names.push(name);
            match name {
                RELEASE => this.by_release = true,
                MODEL => this.by_model = true,
                _ if families().any(|family| family.member(name).is_some()) => {
                    this.columns.push(name.to_owned());
                }
                _ => {
                    let families: Vec<String> = families().map(Family::columns_are_called).collect();
                    let families = families.join(", ");
                    return Err(Error::invalid(format!(
                        "group-by: `{name}` is none of release, model, {families}"
                    )));
                }
            }
        }
        if this.by_model && this.by_release {
            return Err(Error::invalid("group-by: a row is of a release or of a model, not of both"));
        }
        if this.columns.len() > MAX_BY {
            return Err(Error::invalid(format!("group-by: these are more than {MAX_BY} columns")));
        }
        this.bins =
            bins.map(bins_of).transpose().map_err(|error| Error::invalid(format!("bins: {error}")))?;
        match (&this.bins, this.features().count()) {
            (Some(_), 0) => Err(Error::invalid("bins: only features have bins; name one in `group-by`")),
            (Some(Bins::Edges(_)), 2..) => {
                Err(Error::invalid("bins: edges are of one feature; of several, say how many bins each has"))
            }
            _ => Ok(this),
        }
    }

    /// Breaks down by model unless a breakdown by release is requested explicitly.
    pub(crate) fn by_model_unless_said(self) -> Self {
        Self { by_model: !self.by_release, ..self }
    }

    fn features(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().filter(|column| column.starts_with(FEATURE_PREFIX))
    }

    /// Returns true if the breakdown is by release alone.
    pub(crate) fn is_by_release(&self) -> bool {
        !self.by_model && self.columns.is_empty()
    }

    /// Returns the values and bins that must be found in the window before its predictions are assigned to buckets.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let of_column = |column: &String| match (column.starts_with(FEATURE_PREFIX), &self.bins) {
            (false, _) => Some(Wanted::Texts(column.clone())),
            (true, None) => Some(Wanted::Bins(column.clone(), BINS)),
            (true, Some(Bins::Quantiles(bins))) => Some(Wanted::Bins(column.clone(), *bins)),
            (true, Some(Bins::Edges(_))) => None,
        };
        self.columns.iter().filter_map(of_column).collect()
    }

    /// Returns the buckets of each column, in their order; `found` are those determined from the window.
    pub(crate) fn by(&self, found: &[By]) -> Vec<By> {
        let of_column = |column: &String| match found.iter().find(|by| by.column() == column) {
            Some(by) => by.clone(),
            None => {
                let edges =
                    if let Some(Bins::Edges(edges)) = &self.bins { edges.clone() } else { Vec::new() };
                By::Bins { column: column.clone(), edges }
            }
        };
        self.columns.iter().map(of_column).collect()
    }
}

/// Parses a number of bins or their edges.
fn bins_of(text: &str) -> Result<Bins> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    if let [count] = words[..] {
        let bins = count.parse::<usize>().ok().filter(|bins| (2..=MAX_BINS).contains(bins));
        let wrong = || {
            format!(
                "`{count}` is not how many bins there are, a whole number from 2 to {MAX_BINS}; edges are several numbers"
            )
        };
        return bins.map(Bins::Quantiles).ok_or_else(|| Error::invalid(wrong()));
    }
    let wrong = |word: &str| Error::invalid(format!("`{word}` is not a number"));
    let number =
        |word: &&str| word.parse().ok().filter(|edge: &f64| edge.is_finite()).ok_or_else(|| wrong(word));
    let edges: Vec<f64> = words.iter().map(number).collect::<Result<_>>()?;
    match edges.is_sorted_by(|a, b| a < b) && edges.len() <= MAX_BINS {
        true => Ok(Bins::Edges(edges)),
        false => Err(Error::invalid(format!(
            "several numbers are edges, each greater than the one before, at most {MAX_BINS}"
        ))),
    }
}

/// Returns the text of a bucket in its column.
pub(crate) fn text_of(by: &By, value: &Value) -> String {
    match (value, by) {
        (Value::Text(text), _) => text.clone(),
        (Value::Bin(bin), By::Bins { edges, .. }) => {
            match (bin.checked_sub(1).and_then(|at| edges.get(at)), edges.get(*bin)) {
                (None, None) => "(-inf, inf)".to_owned(),
                (None, Some(to)) => format!("(-inf, {to})"),
                (Some(from), None) => format!("[{from}, inf)"),
                (Some(from), Some(to)) => format!("[{from}, {to})"),
            }
        }
        (Value::Others, _) => OTHERS.to_owned(),
        (Value::Null | Value::Bin(_), _) => NONE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_words_are_named() {
        let fails = |by, bins| Breakdown::parse(Some(by), bins).unwrap_err().to_string();
        let lines = [
            fails("tag.", None),
            fails("score.a", None),
            fails("tag.a,tag.a", None),
            fails("model,release", None),
            fails("tag.a,tag.b,tag.c,tag.d,tag.e", None),
            fails("tag.a", Some("10")),
            fails("feature.a", Some("1")),
            fails("feature.a", Some("many")),
            fails("feature.a", Some("0.5")),
            fails("feature.a", Some("-1")),
            fails("feature.a", Some("1,1")),
            fails("feature.a", Some("0,inf")),
            fails("feature.a,feature.b", Some("0,1")),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        group-by: `tag.` is none of release, model, tag.NAME, feature.NAME
        group-by: `score.a` is none of release, model, tag.NAME, feature.NAME
        group-by: `tag.a` is named twice
        group-by: a row is of a release or of a model, not of both
        group-by: these are more than 4 columns
        bins: only features have bins; name one in `group-by`
        bins: `1` is not how many bins there are, a whole number from 2 to 100; edges are several numbers
        bins: `many` is not how many bins there are, a whole number from 2 to 100; edges are several numbers
        bins: `0.5` is not how many bins there are, a whole number from 2 to 100; edges are several numbers
        bins: `-1` is not how many bins there are, a whole number from 2 to 100; edges are several numbers
        bins: several numbers are edges, each greater than the one before, at most 100
        bins: `inf` is not a number
        bins: edges are of one feature; of several, say how many bins each has
        ");
    }

    #[test]
    fn bins_are_called_by_their_edges() {
        let by = By::Bins { column: "feature.a".into(), edges: vec![-1.5, 0.0, 100.0] };
        let names = [0, 1, 2, 3].map(|bin| text_of(&by, &Value::Bin(bin)));
        assert_eq!(names, ["(-inf, -1.5)", "[-1.5, 0)", "[0, 100)", "[100, inf)"]);
        let texts = [Value::Text("a".into()), Value::Others, Value::Null].map(|value| text_of(&by, &value));
        assert_eq!(texts, ["a", "(others)", "(none)"]);
    }
}
