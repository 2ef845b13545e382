//! Memory of the services while all events pass through them.

use crate::{context::Context, line::Line, samples::Samples};

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let stored = context.stored()?;
    let one = |value: f64| Ok(Samples::new(vec![value]));
    let events = stored.events as f64;
    let work =
        format!("memory of almanac up while {} predictions and their outcomes pass", context.data.rows());
    Ok(vec![
        Line::alone("memory", work, "MB", one(stored.peak_megabytes)),
        Line::alone(
            "memory/rate",
            "the same: events until all is projected",
            "rows/s",
            one(events / stored.projected_seconds),
        ),
        Line::alone(
            "memory/cpu",
            "the same: processor time of Almanac",
            "us/row",
            one(stored.server_cpu / events * 1e6),
        ),
        Line::alone(
            "memory/load",
            "the same: of the load generator, making the events included",
            "us/row",
            one(stored.load.own_cpu / events * 1e6),
        ),
    ])
}
