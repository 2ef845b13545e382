//! What becomes slower as the store grows: appending, and reading a week.

use super::frames::{request, timed};
use crate::{
    context::{Context, Stored},
    data::DAYS,
    line::{Figures, Line},
    rounds::{Side, interleave, reading},
    samples::Samples,
};

/// The days whose appends are compared: the first and the last of them.
const COMPARED: usize = 3;
/// The days of the window.
const WEEK: (usize, usize) = (0, 6);

/// Rows a second while the events of the days from `from` to before `to` were sent: a share of the
/// answers that came, since days are sent in order.
fn rate(stored: &Stored, from: usize, to: usize) -> f64 {
    let done = &stored.load.done;
    let at = |day: usize| done.len() * day / DAYS;
    let time = |index: usize| if index == 0 { 0.0 } else { done[index - 1].at };
    let rows: usize = done[at(from)..at(to)].iter().map(|done| done.rows).sum();
    rows as f64 / (time(at(to)) - time(at(from)))
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let stored = context.stored()?;
    eprintln!("  sending the first week to an Almanac of its own");
    let week = context.store("week", WEEK.1 + 1)?;
    let (full, small) = (context.open(stored)?, context.open(&week)?);
    let request = request(context, "predictions", WEEK, None, None)?;
    let (full, small, request) = (&full, &small, &request);
    let found = interleave(
        context.rounds,
        vec![
            Side::new("30 days stored", || Ok(reading("ms", timed(context, full, request)?.0))),
            Side::new("7 days stored", || Ok(reading("ms", timed(context, small, request)?.0))),
        ],
    );
    let one = |value| Samples::new(vec![value]);
    let figures = Figures {
        almanac: one(rate(stored, DAYS - COMPARED, DAYS)),
        peer: Some(one(rate(stored, 0, COMPARED))),
    };
    let rate = Line {
        id: "growth/rate",
        work: format!("events appended, the last {COMPARED} of {DAYS} days of {} events", stored.events),
        unit: "rows/s",
        peer: Some(format!("Almanac: the first {COMPARED} days")),
        figures: Ok(figures),
    };
    let work = "7 days to a frame, of 30 days stored";
    let window =
        Line::of("growth/window", work, ("ms", "ms"), &found[0], ("Almanac: of 7 days stored", &found[1]));
    Ok(vec![rate, window])
}
