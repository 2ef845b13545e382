//! Slowdown as the store grows: of appending, and of reading a week.

use super::frames::{request, timed};
use crate::{
    context::{Context, Stored},
    line::{Figures, Line},
    rounds::{Side, interleave, reading},
    samples::Samples,
};

/// Days of the window.
const WEEK: (usize, usize) = (0, 6);

/// Returns the rows a second while the events of the days from `from` to before `to` were sent: a share of the
/// answers, since days are sent in order.
fn rate(stored: &Stored, days: usize, from: usize, to: usize) -> f64 {
    let done = &stored.load.done;
    let at = |day: usize| done.len() * day / days;
    let time = |index: usize| if index == 0 { 0.0 } else { done[index - 1].at };
    let rows: usize = done[at(from)..at(to)].iter().map(|done| done.rows).sum();
    rows as f64 / (time(at(to)) - time(at(from)))
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let stored = context.stored()?;
    // Number of first and of last days whose appends are compared.
    let (days, compared) = (context.data.days(), context.data.days().div_ceil(10));
    eprintln!("  sending the first week to an Almanac of its own");
    let week = context.store("week", WEEK.1 + 1)?;
    let (full, small) = (context.open(stored)?, context.open(&week)?);
    let of_days = |days| request(context, "predictions", days, None, None);
    let (request, last) = (of_days(WEEK)?, of_days((days - 7, days - 1))?);
    let (full, small, request, last) = (&full, &small, &request, &last);
    let found = interleave(
        context.rounds,
        vec![
            Side::new("all days stored", || Ok(reading("ms", timed(context, full, request)?.0))),
            Side::new("7 days stored", || Ok(reading("ms", timed(context, small, request)?.0))),
            Side::new("the last 7 days", || Ok(reading("ms", timed(context, full, last)?.0))),
        ],
    );
    let one = |value| Samples::new(vec![value]);
    let figures = Figures {
        almanac: one(rate(stored, days, days - compared, days)),
        peer: Some(one(rate(stored, days, 0, compared))),
    };
    let rate = Line {
        id: "growth/rate",
        work: format!("events appended, the last {compared} of {days} days of {} events", stored.events),
        unit: "rows/s",
        peer: Some(format!("Almanac: the first {compared} days")),
        figures: Ok(figures),
    };
    let work = format!("7 days to a frame, of {days} days stored");
    let window =
        Line::of("growth/window", work, ("ms", "ms"), &found[0], ("Almanac: of 7 days stored", &found[1]));
    let work = format!("the last 7 days to a frame, of {days} days stored");
    let last = Line::of(
        "growth/last",
        work,
        ("ms", "ms"),
        &found[2],
        ("Almanac: the first, of 7 stored", &found[1]),
    );
    Ok(vec![rate, window, last])
}
