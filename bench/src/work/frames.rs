//! Queries in this process, timed: from the words of a request to a dataframe.

use anyhow::Context as _;
use polars::prelude::{ChunkAgg, DataFrame};
use query::{Dataset, Params, Request};
use tokio::time::Instant;

use crate::{
    context::{Context, Opened},
    samples::Samples,
};

/// Number of timed runs of a query in a round, after one untimed.
const TIMES: usize = 3;

/// Returns a request of the days from `first` to `last`, counted from 0.
pub(super) fn request(
    context: &Context,
    what: &str,
    (first, last): (usize, usize),
    columns: Option<&str>,
    as_of: Option<&str>,
) -> anyhow::Result<Request> {
    let (from, to) = (context.data.day(first).to_string(), context.data.day(last).to_string());
    let words = Params { from: &from, to: &to, columns, as_of, ..Params::default() };
    Ok(Request::parse(Dataset::parse(what)?, &words)?)
}

/// Returns all days.
pub(super) fn all_days(context: &Context) -> (usize, usize) {
    (0, context.data.days() - 1)
}

/// Returns the median time of a query in milliseconds, warm, and its frame.
pub(super) fn timed(
    context: &Context,
    opened: &Opened,
    request: &Request,
) -> anyhow::Result<(f64, DataFrame)> {
    let run =
        || context.runtime.block_on(opened.query.run(&opened.workspace, request)).map(|answer| answer.frame);
    let frame = run()?;
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let started = Instant::now();
        let frame = run()?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        drop(frame);
    }
    Ok((Samples::new(times).median(), frame))
}

/// Returns the mean of a column of numbers, which shows that two sides have done the same work.
pub(super) fn mean(frame: &DataFrame, column: &str) -> anyhow::Result<f64> {
    frame.column(column)?.f64()?.mean().with_context(|| format!("{column} has no number"))
}
