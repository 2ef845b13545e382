//! Dataframes from columns: many pieces, one frame, the requested columns.

use evaluate::caught;
use event::{Error, Result};
use polars::prelude::{
    Column as Series, DataFrame, Expr, Float64Chunked, Int32Chunked, Int64Chunked, IntoColumn, IntoLazy,
    NewChunkedArray, PolarsError, StringChunked, TimeUnit, TimeZone,
};

/// Maps an error of polars on data from the store.
pub(crate) fn failed(error: PolarsError) -> Error {
    Error::corrupt("the dataframe cannot be built").because(error)
}

/// Builds a frame of columns of equal height.
pub(crate) fn frame(height: usize, columns: Vec<Series>) -> Result<DataFrame> {
    DataFrame::new(height, columns).map_err(failed)
}

/// Returns the rows for which a predicate holds. The predicate comes from a client, so its errors are the client's.
pub(crate) fn filtered(frame: DataFrame, predicate: Expr) -> Result<DataFrame> {
    let filtering = || Ok::<_, Error>(frame.lazy().filter(predicate).collect().map_err(refused));
    // Polars panics on some conditions.
    caught(filtering).unwrap_or_else(|(reason, _)| {
        Err(Error::invalid(format!("where: this condition cannot be computed: polars {reason}")))
    })
}

/// Prefixes of messages of polars that show the syntax tree of an unsupported part of a statement.
const OF_TREES: [&str; 2] = ["expression ", "join type "];

/// Maps an error of polars on a client's statement.
pub(crate) fn refused(error: PolarsError) -> Error {
    Error::invalid(reason(error))
}

/// Returns the line of an error of polars that says what is wrong: the first one, and of a regular expression, which is repeated
/// before, the last one.
pub(crate) fn reason(error: PolarsError) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    match line.strip_suffix(" regex parse error:") {
        Some(what) => {
            let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            format!("{what} {}", last.trim_start_matches("error: "))
        }
        // A value that is computed while polars plans has no column.
        None => in_short(&line.replace(" in column 'scalar'", "")),
    }
}

/// Removes the syntax tree from a line.
fn in_short(line: &str) -> String {
    let tree = line.find(['(', '{']).filter(|_| OF_TREES.iter().any(|begin| line.starts_with(begin)));
    let parts = tree.map(|at| line.split_at(at)).and_then(|(what, rest)| {
        let (_, why) = rest.rsplit_once([')', '}'])?;
        Some((what.trim_end(), why.trim_start_matches('\'').trim_start()))
    });
    parts.map_or_else(|| line.to_owned(), |(what, why)| format!("{} {why}", what.replace('\'', "")))
}

/// Builds a column of counts.
pub(crate) fn ints(name: &str, values: impl Iterator<Item = Option<u64>>) -> Series {
    Int64Chunked::from_iter_options(name.into(), values.map(|count| count.map(|count| count as i64)))
        .into_column()
}

/// Builds a column of numbers.
pub(crate) fn floats(name: &str, values: impl Iterator<Item = Option<f64>>) -> Series {
    Float64Chunked::from_iter_options(name.into(), values).into_column()
}

/// Builds a column of strings.
pub(crate) fn texts<'a>(name: &str, values: impl Iterator<Item = Option<&'a str>>) -> Series {
    StringChunked::from_iter_options(name.into(), values).into_column()
}

/// Builds a column of days, as numbers since 1970-01-01.
pub(crate) fn days(name: &str, values: Vec<i32>) -> Series {
    Int32Chunked::from_vec(name.into(), values).into_date().into_column()
}

/// Builds a column of instants in microseconds.
pub(crate) fn times(name: &str, values: impl Iterator<Item = Option<i64>>) -> Series {
    let values = Int64Chunked::from_iter_options(name.into(), values);
    values.into_datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)).into_column()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_says_what_is_wrong_is_kept() {
        for (text, kept) in [
            (
                "regex error: regex parse error:\n    ((((\n       ^\nerror: unclosed group\n",
                "regex error: unclosed group",
            ),
            (
                "conversion from `str` to `i64` failed in column 'scalar' for 1 out of 1 values: [\"x\"]\n\nResolved plan until failure:\n\n\t---> FAILED",
                "conversion from `str` to `i64` failed for 1 out of 1 values: [\"x\"]",
            ),
        ] {
            assert_eq!(reason(PolarsError::ComputeError(text.into())), kept);
        }
    }

    #[test]
    fn a_syntax_tree_is_not_shown() {
        for (line, shown) in [
            (
                "expression Tuple([Identifier(Ident { value: \"key\" })]) is not currently supported",
                "expression Tuple is not currently supported",
            ),
            (
                "join type 'LeftSemi(On(BinaryOp { left: 1 }))' not supported",
                "join type LeftSemi not supported",
            ),
            (
                "unable to find column \"sum(auc)\"; valid columns: [\"max(score)\"]",
                "unable to find column \"sum(auc)\"; valid columns: [\"max(score)\"]",
            ),
            ("expression of nothing", "expression of nothing"),
        ] {
            assert_eq!(in_short(line), shown);
        }
    }
}
