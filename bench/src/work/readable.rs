//! Time from the acknowledgement of an event until the rollup of its day counts it, over HTTP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::ensure;
use event::{Kind, Timestamp};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    context::{CONNECTIONS, Context},
    data::{BATCH_ROWS, Data},
    line::Line,
    load::{
        self, Plan, Request, Requests,
        http::{self, Connection},
    },
    samples::Samples,
    service::{NDJSON, PROBE_RELEASE, Service},
    uploads::Form,
};

/// Number of events watched in each state, one after the other.
const WATCHED: usize = 300;
/// Share of the highest rate that counts as load.
pub(super) const LOAD: f64 = 0.2;
/// Number of batches that determine the highest rate.
pub(super) const HIGHEST_BATCHES: usize = 50;
/// Number of batches of the day: more than are sent, and few enough that no two predictions of a key have the same
/// millisecond.
const MOST_BATCHES: usize = 4_000;
/// Pause between two events, so that the watching itself is no load.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum time for an event to be counted.
const COUNTED_WITHIN: Duration = Duration::from_secs(60);

/// Returns the predictions of the last of `days` days in batches, on request, until `stop` is set.
pub(super) fn batches(days: usize, from: usize, stop: Arc<AtomicBool>) -> Requests {
    let data = Data::over(days, days * BATCH_ROWS * MOST_BATCHES);
    Arc::new(move |at| {
        let is_over = stop.load(Ordering::Relaxed) || from + at >= MOST_BATCHES;
        let batch = (!is_over).then(|| data.predictions(days - 1, from + at))?;
        Form::Lines.request(&batch).ok()
    })
}

/// Repeatedly posts an event and waits until it is counted; returns the times in milliseconds.
async fn watch(context: &Context, service: &Service, from: usize) -> anyhow::Result<Samples> {
    let day = context.data.last_day();
    let words = format!("rollups?from={day}&to={day}&release={PROBE_RELEASE}&columns=predictions");
    let mut connection = Connection::open(service.address).await?;
    let mut times = Vec::with_capacity(WATCHED);
    for count in from + 1..=from + WATCHED {
        let at = Timestamp::from_micros(day.start().micros() + count as i64 * 1_000).unwrap_or_default();
        let row = json!({ "key": format!("probe-{count}"), "predicted_at": at.to_string(), "release": PROBE_RELEASE, "score": 0.5 });
        let request =
            http::post(&Service::path(Kind::Predictions.name()), NDJSON, row.to_string().as_bytes());
        let answer = connection.ask(&request).await?;
        ensure!(answer.is_good(), "a single event: {}", answer.told());
        let acknowledged = Instant::now();
        loop {
            let rows = service.rows(&mut connection, &words).await?;
            if rows.iter().any(|row| row["predictions"].as_u64() == Some(count as u64)) {
                break;
            }
            ensure!(acknowledged.elapsed() < COUNTED_WITHIN, "event {count} is not counted: {rows:?}");
        }
        times.push(acknowledged.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Samples::new(times))
}

/// Returns the rate at which batches of the last day are accepted, in batches a second.
pub(super) async fn highest(days: usize, service: &Service) -> anyhow::Result<f64> {
    let requests = batches(days, 0, Arc::default());
    let ready: Vec<Request> = (0..HIGHEST_BATCHES).map_while(|at| requests(at)).collect();
    let plan = Plan { address: service.address, connections: CONNECTIONS, every: None };
    Ok(load::run(plan, load::ready(ready)).await?.rate() / BATCH_ROWS as f64)
}

async fn measure(context: &Context) -> anyhow::Result<(Samples, Samples, f64)> {
    let service = Service::start(&context.place, "readable").await?;
    let idle = watch(context, &service, 0).await?;
    let rate = highest(context.data.days(), &service).await? * LOAD;
    // The events of the highest rate are projected before the load begins.
    let day = context.data.last_day().to_string();
    service.projected((&day, &day), (WATCHED + HIGHEST_BATCHES * BATCH_ROWS) as u64, 0).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let plan = Plan {
        address: service.address,
        connections: CONNECTIONS,
        every: Some(Duration::from_secs_f64(1.0 / rate)),
    };
    let load =
        tokio::spawn(load::run(plan, batches(context.data.days(), HIGHEST_BATCHES, Arc::clone(&stop))));
    let loaded = watch(context, &service, WATCHED).await;
    stop.store(true, Ordering::Relaxed);
    let sent = load.await??;
    ensure!(
        sent.done.len() < MOST_BATCHES - HIGHEST_BATCHES,
        "the load ended before all events were watched"
    );
    Ok((idle, loaded?, sent.rate()))
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let measured = context.runtime.block_on(measure(context));
    let (idle, loaded, rate) = match measured {
        Ok(measured) => measured,
        Err(error) => {
            let why = format!("{error:#}");
            let work = "from acknowledged to readable, at 20% load";
            return Ok(["readable-loaded/p50", "readable-loaded/p99"]
                .map(|id| Line::alone(id, work, "ms", Err(why.clone())))
                .into());
        }
    };
    let one = |samples: &Samples, share| Ok(Samples::new(vec![samples.quantile(share)]));
    let load = format!("from acknowledged to readable, at 20% load ({:.0} rows/s)", rate);
    let line = |id, work: &str, share: f64, samples| {
        Line::alone(id, format!("{work}: p{:.0} of {WATCHED}", share * 100.0), "ms", one(samples, share))
    };
    let alone = "from acknowledged to readable, nothing else to do";
    Ok(vec![
        line("readable/p50", alone, 0.5, &idle),
        line("readable/p99", alone, 0.99, &idle),
        line("readable-loaded/p50", &load, 0.5, &loaded),
        line("readable-loaded/p99", &load, 0.99, &loaded),
    ])
}
