//! Cost of token checks.

use super::ndjson::send_to;
use crate::{
    context::{CONNECTIONS, Context},
    line::Line,
    load::{Request, http},
    rounds::{Readings, Side, interleave},
    service::Service,
    uploads::{self, Form},
};

/// Number of connections that post single events.
const SINGLE_CONNECTIONS: usize = 64;
/// Number of single events in a round.
const SINGLES: usize = 50_000;

/// Sends requests with a token to a service that requires one.
fn with_token(context: &Context, requests: &[Request], connections: usize) -> anyhow::Result<Readings> {
    let (service, token) = context.runtime.block_on(Service::start_asking(&context.place, "asking"))?;
    let named = requests.iter().cloned().map(|mut request| {
        request.bytes = http::with_token(&request.bytes, &token).into();
        request
    });
    send_to(context, service, &named.collect::<Vec<_>>(), connections)
}

/// Sends requests to a service without authentication, which was restarted on its table like the other one.
fn without(context: &Context, requests: &[Request], connections: usize) -> anyhow::Result<Readings> {
    let service = context.runtime.block_on(Service::start_again(&context.place, "ingest"))?;
    send_to(context, service, requests, connections)
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let rows = context.data.rows().min(super::ndjson::MAX_ROWS);
    let singles = uploads::singles(&context.data, (context.data.rows() / 10).clamp(1, SINGLES))?;
    let batches = uploads::predictions(&context.data, Form::Lines, rows)?;
    let mut lines = Vec::new();
    for (id, work, requests, connections) in [
        ("access/single", "single events with a token", &singles, SINGLE_CONNECTIONS),
        ("access/ndjson", "NDJSON with a token", &batches, CONNECTIONS),
    ] {
        let found = interleave(
            context.rounds,
            vec![
                Side::new("with a token", || with_token(context, requests, connections)),
                Side::new("without", || without(context, requests, connections)),
            ],
        );
        let [asked, open] = &found[..] else { continue };
        lines.push(Line::of(id, work, ("rows/s", "rows_per_s"), asked, ("a service that asks nobody", open)));
    }
    Ok(lines)
}
