//! Load generator: some connections, each sending its next request when the last is answered (a closed loop). Its own
//! costs are part of its report, since it runs on the same cores.

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

/// Maximum number of retries of one request while the server is busy, before the run fails.
const MAX_RETRIES: usize = 100;
/// Time to wait if a busy server names none.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// A prepared request with its number of rows.
#[derive(Clone, Debug)]
pub struct Request {
    /// All its bytes.
    pub bytes: Arc<[u8]>,
    /// Number of rows in its body.
    pub rows: usize,
}

/// Returns the request of an index, from 0; `None` after the last. It may be prepared or made on the spot: that time
/// is not part of a latency.
pub type Requests = Arc<dyn Fn(usize) -> Option<Request> + Send + Sync>;

/// Wraps prepared requests.
pub fn ready(requests: Vec<Request>) -> Requests {
    Arc::new(move |at| requests.get(at).cloned())
}

/// Parameters of a load.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Address of the server.
    pub address: SocketAddr,
    /// Number of connections.
    pub connections: usize,
    /// Interval between the starts of requests, over all connections; `None` to start each as soon as the last is
    /// answered.
    pub every: Option<Duration>,
}

/// An answered request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// Time of the answer, in seconds since the load began.
    pub at: f64,
    /// Latency in seconds.
    pub latency: f64,
    /// Number of its rows.
    pub rows: usize,
}

/// Result of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All requests, in the order of their answers.
    pub done: Vec<Done>,
    /// Number of retries because the server was busy.
    pub retries: usize,
    /// Duration in seconds.
    pub seconds: f64,
    /// Processor time of the load generator, in seconds.
    pub own_cpu: f64,
}

impl Outcome {
    /// Returns the number of all rows.
    pub fn rows(&self) -> usize {
        self.done.iter().map(|done| done.rows).sum()
    }

    /// Returns the rows a second.
    pub fn rate(&self) -> f64 {
        self.rows() as f64 / self.seconds
    }

    /// Returns the quantile of the latencies at this share of the requests, in milliseconds.
    pub fn latency_ms(&self, share: f64) -> f64 {
        Samples::new(self.done.iter().map(|done| done.latency * 1e3).collect()).quantile(share)
    }
}

/// Sends all requests.
///
/// # Errors
/// Fails with the first answer that is neither a success nor asks to retry; or if a connection is lost.
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

/// Asks until the server is not busy; returns the answer, and the number of retries.
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
