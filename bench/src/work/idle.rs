//! An idle service on all events: its time to the first answer, and its cost afterwards.

use std::{thread, time::Duration};

use anyhow::ensure;
use tokio::time::Instant;

use crate::{
    context::Context,
    line::Line,
    load::http::{self, Connection},
    rounds::{Readings, Side, interleave},
    service::Service,
};

/// Time after a start to sweep, and to fold what the sweep finds.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// Time for which it is watched.
const WATCHED: Duration = Duration::from_secs(20);

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let folder = context.stored()?.folder.clone();
    let measure = || {
        let began = Instant::now();
        let service = Service::start_on(&context.place, &folder, &[])?;
        context.runtime.block_on(async {
            let mut connection = Connection::open(service.address).await?;
            let answer = connection.ask(&http::get("/healthz")).await?;
            ensure!(answer.is_good(), "{}", answer.told());
            Ok::<_, anyhow::Error>(())
        })?;
        let start = began.elapsed().as_secs_f64();
        thread::sleep(SETTLED_AFTER);
        let (used, since) = (service.cpu_seconds(), Instant::now());
        thread::sleep(WATCHED);
        let share = (service.cpu_seconds() - used) / since.elapsed().as_secs_f64();
        service.stop();
        Ok(Readings::from([("start_s".to_owned(), start), ("share".to_owned(), share * 100.0)]))
    };
    let found = interleave(context.rounds, vec![Side::new("Almanac", measure)]);
    let samples = |name| found[0].samples(name);
    let rows = context.data.rows();
    Ok(vec![
        Line::alone(
            "idle/start",
            format!("almanac up on {rows} stored predictions and their outcomes, until it answers"),
            "s",
            samples("start_s"),
        ),
        Line::alone("idle/cpu", "the same with nothing to do, of one core", "%", samples("share")),
    ])
}
