//! The load generator: some connections, each sending its next request when the last is answered
//! (a closed loop). What it costs itself is part of what it reports, since it runs on the same cores.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{task::JoinSet, time::Instant};

use crate::{process, samples::Samples};

pub mod http;

use http::{Answer, Connection};

/// How often one request is sent again when the server is busy, before the run fails.
const MAX_RETRIES: usize = 100;
/// How long to wait when a busy server does not say.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// A request that is ready to be sent, and how many rows it carries.
#[derive(Clone, Debug)]
pub struct Request {
    /// All its bytes.
    pub bytes: Arc<[u8]>,
    /// The rows in its body.
    pub rows: usize,
}

/// The request of an index, from 0; `None` after the last. It may be ready or be made on the spot:
/// the time that takes is not part of a latency.
pub type Requests = Arc<dyn Fn(usize) -> Option<Request> + Send + Sync>;

/// Requests that are ready.
pub fn ready(requests: Vec<Request>) -> Requests {
    Arc::new(move |at| requests.get(at).cloned())
}

/// How a load is put on a server.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The server.
    pub address: SocketAddr,
    /// How many connections.
    pub connections: usize,
    /// How often a request may begin, over all connections; `None` for as soon as the last is answered.
    pub every: Option<Duration>,
}

/// An answered request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// When it was answered, in seconds since the load began.
    pub at: f64,
    /// How long it took, in seconds.
    pub latency: f64,
    /// Its rows.
    pub rows: usize,
}

/// What became of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All requests, in the order of their answers.
    pub done: Vec<Done>,
    /// How often the server was busy and a request was sent again.
    pub retries: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What the load generator used of the processor, in seconds.
    pub own_cpu: f64,
}

impl Outcome {
    /// All rows.
    pub fn rows(&self) -> usize {
        self.done.iter().map(|done| done.rows).sum()
    }

    /// Rows a second.
    pub fn rate(&self) -> f64 {
        self.rows() as f64 / self.seconds
    }

    /// The latency below which this share of the requests stayed, in milliseconds.
    pub fn latency_ms(&self, share: f64) -> f64 {
        Samples::new(self.done.iter().map(|done| done.latency * 1e3).collect()).quantile(share)
    }
}

/// Sends all requests.
///
/// # Errors
/// The first answer that is neither good nor asks to try again; a lost connection.
pub async fn run(plan: Plan, requests: Requests) -> anyhow::Result<Outcome> {
    let next = Arc::new(AtomicUsize::new(0));
    let cpu = process::cpu_seconds(None);
    let started = Instant::now();
    let mut connections = JoinSet::new();
    for _ in 0..plan.connections {
        connections.spawn(connection(plan, started, Arc::clone(&next), Arc::clone(&requests)));
    }
    let mut outcome = Outcome::default();
    while let Some(ended) = connections.join_next().await {
        let (done, retries) = ended.context("a connection of the load generator panicked")??;
        outcome.done.extend(done);
        outcome.retries += retries;
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome.own_cpu = process::cpu_seconds(None) - cpu;
    outcome.done.sort_by(|a, b| a.at.total_cmp(&b.at));
    Ok(outcome)
}

async fn connection(
    plan: Plan,
    started: Instant,
    next: Arc<AtomicUsize>,
    requests: Requests,
) -> anyhow::Result<(Vec<Done>, usize)> {
    let mut connection = Connection::open(plan.address).await?;
    let (mut done, mut retries) = (Vec::new(), 0);
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(request) = requests(at) else { return Ok((done, retries)) };
        if let Some(every) = plan.every {
            tokio::time::sleep_until(started + every * at as u32).await;
        }
        let sent = Instant::now();
        retries += ask(&mut connection, &request.bytes).await?.1;
        let latency = sent.elapsed().as_secs_f64();
        done.push(Done { at: started.elapsed().as_secs_f64(), latency, rows: request.rows });
    }
}

/// Asks until the server is not busy; the answer, and how often it was.
async fn ask(connection: &mut Connection, request: &[u8]) -> anyhow::Result<(Answer, usize)> {
    for retries in 0..=MAX_RETRIES {
        let answer = connection.ask(request).await?;
        if answer.is_good() {
            return Ok((answer, retries));
        }
        if !answer.is_busy() {
            bail!("the server answers {}", answer.told());
        }
        tokio::time::sleep(answer.retry_after.map_or(RETRY_AFTER, Duration::from_secs)).await;
    }
    bail!("the server was busy {MAX_RETRIES} times")
}
