//! Time from the acknowledgement of an event until a follower has it: over HTTP, and by `almanac tail` in a process
//! of its own.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use event::{Kind, Timestamp};
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};

use super::readable::{HIGHEST_BATCHES, LOAD, batches, highest};
use crate::{
    context::{CONNECTIONS, Context},
    line::Line,
    load::{
        self, Plan,
        http::{self, Connection},
    },
    process::Server,
    samples::Samples,
    service::{NDJSON, PROBE_RELEASE, Service, WORKSPACE},
};

/// Number of events watched in each state, one after the other.
const WATCHED: usize = 300;
/// Pauses between two events: from none to longer than a poller waits.
const PAUSES_MS: [u64; 5] = [0, 20, 50, 130, 400];
/// Maximum time for an event.
const WITHIN: Duration = Duration::from_secs(60);

/// Keys of events as they arrive at a follower, each with its time of arrival.
type Came = mpsc::UnboundedReceiver<(String, Instant)>;

/// Follows the probes over HTTP, one long request after the other.
async fn follow(service: &Service) -> anyhow::Result<Came> {
    let mut connection = Connection::open(service.address).await?;
    let (tell, came) = mpsc::unbounded_channel();
    let words = format!("events/predictions?release={PROBE_RELEASE}&columns=key&limit=100000&wait=30");
    let ask = move |after: &str| http::get(&format!("{}{after}", Service::path(&words)));
    // After the first answer it follows.
    let mut answer = connection.ask(&ask("")).await;
    tokio::spawn(async move {
        while let Ok(answered) = &answer {
            let now = Instant::now();
            let Some(read_version) = answered.is_good().then_some(answered.read_version.as_ref()).flatten()
            else {
                break;
            };
            for row in answered.body.split(|byte| *byte == b'\n') {
                let row: Option<serde_json::Value> = serde_json::from_slice(row).ok();
                let key = row.and_then(|row| Some(row["key"].as_str()?.to_owned()));
                // The receiver is dropped once it has seen enough.
                if key.is_some_and(|key| tell.send((key, now)).is_err()) {
                    return;
                }
            }
            let request = ask(&format!("&after={read_version}"));
            answer = connection.ask(&request).await;
        }
    });
    Ok(came)
}

/// Follows the probes by the program, on the same file.
fn tail(context: &Context, service: &Service) -> anyhow::Result<(Server, Came)> {
    let mut command = Command::new(&context.place.almanac);
    command.arg("--data").arg(&service.folder).args(["tail", "-w", WORKSPACE, "--kind", "predictions"]);
    command.args(["--release", PROBE_RELEASE, "--columns", "key"]).stdout(Stdio::piped());
    let mut tail = Server::start(&mut command)?;
    let lines = BufReader::new(tail.output().context("a pipe")?).lines();
    let (tell, came) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let row: Option<serde_json::Value> = serde_json::from_str(&line).ok();
            let key = row.and_then(|row| Some(row["key"].as_str()?.to_owned()));
            if key.is_some_and(|key| tell.send((key, Instant::now())).is_err()) {
                return;
            }
        }
    });
    Ok((tail, came))
}

/// Repeatedly posts an event and waits until it arrives; returns the times in milliseconds.
async fn watch(context: &Context, service: &Service, name: &str, came: &mut Came) -> anyhow::Result<Samples> {
    let day = context.data.last_day();
    let mut connection = Connection::open(service.address).await?;
    let mut times = Vec::with_capacity(WATCHED);
    // The first one is not counted: it shows that the follower is ready.
    for count in 0..=WATCHED {
        let at = Timestamp::from_micros(day.start().micros() + count as i64 * 1_000).unwrap_or_default();
        let key = format!("{name}-{count}");
        let row =
            json!({ "key": key, "predicted_at": at.to_string(), "release": PROBE_RELEASE, "score": 0.5 });
        let request =
            http::post(&Service::path(Kind::Predictions.name()), NDJSON, row.to_string().as_bytes());
        let answer = connection.ask(&request).await?;
        ensure!(answer.is_good(), "a single event: {}", answer.told());
        let acknowledged = Instant::now();
        let until = async {
            while let Some((found, at)) = came.recv().await {
                if found == key {
                    return Some(at);
                }
            }
            None
        };
        let came = tokio::time::timeout(WITHIN, until).await.ok().flatten();
        let came = came.with_context(|| format!("{key} never came"))?;
        if count > 0 {
            times.push(came.saturating_duration_since(acknowledged).as_secs_f64() * 1e3);
        }
        tokio::time::sleep(Duration::from_millis(PAUSES_MS[count % PAUSES_MS.len()])).await;
    }
    Ok(Samples::new(times))
}

/// Returns the times alone, at load and by the program; and the load in rows a second.
async fn measure(context: &Context) -> anyhow::Result<([Samples; 3], f64)> {
    let service = Service::start(&context.place, "follow").await?;
    let mut came = follow(&service).await?;
    let alone = watch(context, &service, "alone", &mut came).await?;
    let (running, mut tailed) = tail(context, &service)?;
    let by_program = watch(context, &service, "tail", &mut tailed).await?;
    drop(running);
    let rate = highest(context.data.days(), &service).await? * LOAD;
    let stop = Arc::new(AtomicBool::new(false));
    let every = Some(Duration::from_secs_f64(1.0 / rate));
    let plan = Plan { address: service.address, connections: CONNECTIONS, every };
    let load =
        tokio::spawn(load::run(plan, batches(context.data.days(), HIGHEST_BATCHES, Arc::clone(&stop))));
    let loaded = watch(context, &service, "loaded", &mut came).await;
    stop.store(true, Ordering::Relaxed);
    let sent = load.await??;
    Ok(([alone, loaded?, by_program], sent.rate()))
}

const IDS: [[&str; 2]; 3] =
    [["follow/p50", "follow/p99"], ["follow-loaded/p50", "follow-loaded/p99"], ["tail/p50", "tail/p99"]];

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let measured = context.runtime.block_on(measure(context));
    let (samples, rate) = match measured {
        Ok((samples, rate)) => (samples.map(Ok), rate),
        Err(error) => ([(); 3].map(|()| Err(format!("{error:#}"))), 0.0),
    };
    let works = [
        "from acknowledged to delivered over HTTP, nothing else to do".to_owned(),
        format!("the same, at 20% load ({rate:.0} rows/s)"),
        "from acknowledged to printed by `almanac tail`, another process".to_owned(),
    ];
    let lines = IDS.into_iter().zip(works).zip(samples).flat_map(|((ids, work), samples)| {
        ids.into_iter().zip([0.5, 0.99]).map(move |(id, share)| {
            let work = format!("{work}: p{:.0} of {WATCHED}", share * 100.0);
            let samples = samples.as_ref().map_err(String::clone);
            Line::alone(id, work, "ms", samples.map(|all| Samples::new(vec![all.quantile(share)])))
        })
    });
    Ok(lines.collect())
}
