//! NDJSON until all is projected, beside a projector that reads the appended events itself.

use tokio::time::Instant;

use super::ndjson::MAX_ROWS;
use crate::{
    context::{CONNECTIONS, Context},
    line::Line,
    load::{self, Plan},
    rounds::{Readings, Side, interleave},
    service::Service,
    uploads::{self, Form},
};

/// Option that disables the hand-over.
const OFF: &[&str] = &["--segment-cache-memory", "0"];

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let rows = context.data.rows().min(MAX_ROWS);
    let requests = uploads::predictions(&context.data, Form::Lines, rows)?;
    let sides = vec![
        Side::new("handed over", || projected(context, &requests, &[])),
        Side::new("read", || projected(context, &requests, OFF)),
    ];
    let found = interleave(context.rounds, sides);
    let [handed, read] = &found[..] else { return Ok(Vec::new()) };
    let peer = ("Almanac: the projector reads", read);
    Ok(vec![
        Line::of(
            "segment_cache/rate",
            "NDJSON until all is projected",
            ("rows/s", "rows_per_s"),
            handed,
            peer,
        ),
        Line::of(
            "segment_cache/cpu",
            "the same: processor time of Almanac",
            ("us/row", "server_cpu_us"),
            handed,
            peer,
        ),
    ])
}

/// Sends requests to an Almanac on a new table, and waits until all is projected.
fn projected(context: &Context, requests: &[load::Request], options: &[&str]) -> anyhow::Result<Readings> {
    context.runtime.block_on(async {
        let service = Service::start_with(&context.place, "segment_cache", options).await?;
        let (idle, began) = (service.cpu_seconds(), Instant::now());
        let plan = Plan { address: service.address, connections: CONNECTIONS, every: None };
        let outcome = load::run(plan, load::ready(requests.to_vec())).await?;
        let (from, to) = (context.data.day(0).to_string(), context.data.last_day().to_string());
        service.projected((&from, &to), outcome.rows() as u64, 0).await?;
        let rows = outcome.rows() as f64;
        Ok(Readings::from([
            ("rows_per_s".to_owned(), rows / began.elapsed().as_secs_f64()),
            ("server_cpu_us".to_owned(), (service.cpu_seconds() - idle) / rows * 1e6),
        ]))
    })
}
