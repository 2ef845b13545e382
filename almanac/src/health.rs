//! Health and readiness of the services, and their metrics.
//!
//! A service is alive if it answers. It is ready if it can do its work now: the store answers in time and accepts writes, the
//! projector's lag is within its bound, and the process is not about to stop. Each role checks its own needs, so a projector that
//! lags takes no ingest service out of use.

use std::{future::Future, sync::Arc, time::Duration};

use axum::{http::header, response::IntoResponse};
use event::{Clock, Right};
use ingest::append::check_clock;
use log::{key, store::Store};
use projector::{Health, Projector};
use table::{Table, probe, probe_write};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, timeout},
};
use web::{RequiredPermission, Routes};

use crate::telemetry::Exposition;

/// Path of the liveness check.
pub(crate) const LIVE: &str = "/healthz";
/// Path of the readiness check.
pub(crate) const READY: &str = "/readyz";
/// Path of the metrics.
pub(crate) const METRICS: &str = "/metrics";
/// Paths that machines poll.
pub(crate) const PROBES: [&str; 3] = [LIVE, READY, METRICS];

/// Maximum lag of a ready projector: the wait of the oldest day that is not folded.
pub(crate) const READY_LAG: Duration = Duration::from_secs(60);

/// Maximum time since a ready projector last wrote its heartbeat.
const READY_HEARTBEAT: Duration = Duration::from_secs(30);

/// Maximum time since the feed of a ready projector last answered, with or without changes.
const READY_FEED: Duration = Duration::from_secs(60);

/// Maximum time of an answer of the store.
const STORE_WITHIN: Duration = Duration::from_secs(2);

/// Time for which an answer to a read, or an error, is cached.
const STORE_CACHED: Duration = Duration::from_secs(1);

/// Time for which a successful write is cached, unless a write fails meanwhile.
const WRITE_CACHED: Duration = Duration::from_secs(5);

/// Content type of the text format of Prometheus.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Inputs of readiness.
#[derive(Debug)]
pub(crate) struct Readiness {
    /// The store.
    pub(crate) store: Arc<Store>,
    /// True if the process reads or writes for clients, and so needs a store that answers.
    pub(crate) serves_clients: bool,
    /// The projector, in that role.
    pub(crate) projector: Option<Projector>,
    /// The bound of its lag.
    pub(crate) lag: Duration,
    /// True when the process was asked to stop.
    pub(crate) stopping: watch::Receiver<bool>,
    /// True if the process writes for clients, and so needs a store that accepts writes.
    pub(crate) writes: bool,
    /// Clock for the time of a probe.
    pub(crate) clock: Clock,
    /// Last answer of the store to a read.
    pub(crate) read: Asked,
    /// Last answer of the store to a write.
    pub(crate) written: Asked,
}

/// Last question, with its answer.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<Option<Answered>>);

/// Answer to a probe.
#[derive(Debug)]
struct Answered {
    at: Instant,
    /// Number of failed writes before the probe.
    failed: u64,
    /// Problem, if there was one.
    why: Option<String>,
}

impl Answered {
    /// Returns whether it still holds. A good answer holds for `cached`, while `failed` has not grown.
    fn holds(&self, cached: Duration, failed: u64) -> bool {
        let long = if self.why.is_none() { cached } else { STORE_CACHED };
        self.at.elapsed() < long && (self.why.is_some() || self.failed == failed)
    }
}

impl Asked {
    /// Returns the problem found by a `probe`, made a moment ago or now; a good answer holds for `cached`, or until `failed` has
    /// grown. Concurrent callers get one answer.
    async fn why_not(
        &self,
        what: &str,
        cached: Duration,
        failed: impl Fn() -> u64,
        probe: impl Future<Output = event::Result<()>>,
    ) -> Option<String> {
        let mut last = self.0.lock().await;
        let failed = failed();
        if let Some(answered) = last.as_ref().filter(|answered| answered.holds(cached, failed)) {
            return answered.why.clone();
        }
        let why = match timeout(STORE_WITHIN, probe).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("the store does not {what}: {}", web::told(&error))),
            Err(_) => Some(format!("the store does not {what} within {} s", STORE_WITHIN.as_secs())),
        };
        *last = Some(Answered { at: Instant::now(), failed, why: why.clone() });
        why
    }
}

impl Readiness {
    /// Returns the reason why the process is not ready.
    async fn why_not(&self) -> Option<String> {
        if *self.stopping.borrow() {
            return Some("the service is stopping".into());
        }
        if self.serves_clients
            && let Some(why) = self.why_no_store().await
        {
            return Some(why);
        }
        if let Some(why) = self.why_clock() {
            return Some(why);
        }
        if let Some(denied) = self.store.denials().lately() {
            return Some(denied);
        }
        let health = self.projector.as_ref()?.health();
        // Clients of the process's other roles are served as well as ever: then it is said, and no more.
        why_no_projector(&health, self.lag).or_else(|| unwritten(&health).filter(|_| !self.serves_clients))
    }

    /// Returns the problem with the clock of this machine.
    fn why_clock(&self) -> Option<String> {
        check_clock(self.clock.now(), self.store.engine_time()?).err().map(|error| error.to_string())
    }

    /// Returns a problem of a process that is ready.
    fn remark(&self) -> Option<String> {
        unwritten(&self.projector.as_ref()?.health())
    }

    /// Why the store is no use.
    async fn why_no_store(&self) -> Option<String> {
        let nobody = key::probe();
        let why = self.read.why_not("answer", STORE_CACHED, || 0, probe(&*self.store, &nobody)).await;
        if why.is_some() || !self.writes {
            return why;
        }
        let probe = async { probe_write(&*self.store, key::write_probe(), self.clock.now()).await };
        self.written.why_not("take writes", WRITE_CACHED, || self.store.failed_writes(), probe).await
    }
}

/// `/healthz` (the process answers), `/readyz` (it can do its work), `/metrics`.
pub(crate) fn routes(readiness: Readiness, exposition: Exposition) -> Routes {
    let (readiness, exposition) = (Arc::new(readiness), Arc::new(exposition));
    let metrics = async move || ([(header::CONTENT_TYPE, EXPOSITION)], exposition.text());
    let ready = move || {
        let readiness = Arc::clone(&readiness);
        async move {
            match readiness.why_not().await {
                None => match readiness.remark() {
                    None => "ready\n".into_response(),
                    Some(remark) => format!("ready, but {remark}\n").into_response(),
                },
                Some(why) => web::not_ready(why).into_response(),
            }
        }
    };
    Routes::new()
        .serve("GET", LIVE, RequiredPermission::nothing(), async || "ok\n")
        .serve("GET", READY, RequiredPermission::nothing(), ready)
        .serve("GET", METRICS, RequiredPermission::server(Right::Read), metrics)
}

/// Returns the reason why a projector is not ready.
fn why_no_projector(health: &Health, bound: Duration) -> Option<String> {
    if !health.has_swept {
        return Some("the first sweep of the projector is not done".into());
    }
    if let Some(age) = health.heartbeat_age.filter(|age| *age > READY_HEARTBEAT) {
        return Some(format!("the projector could not write its heartbeat for {} s", age.as_secs()));
    }
    if health.feed_age > READY_FEED {
        return Some(format!("the feed of changes has not answered for {} s", health.feed_age.as_secs()));
    }
    (health.oldest > bound).then(|| {
        format!(
            "{} days wait to be folded, the oldest for {} s (at most {})",
            health.dirty_days,
            health.oldest.as_secs(),
            bound.as_secs()
        )
    })
}

/// Describes the projections that cannot be written, so old ones are served.
fn unwritten(health: &Health) -> Option<String> {
    let example = health.unwritten_example.as_ref()?;
    let count = health.unwritten;
    Some(format!(
        "{count} projections cannot be written, such as {example}; `almanac admin dead-letters list` names them"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use event::Timestamp;
    use table::sqlite::SqliteTable;

    use super::*;

    fn readiness(table: SqliteTable, stopping: watch::Receiver<bool>) -> Readiness {
        Readiness {
            store: Store::over(Arc::new(table)),
            serves_clients: true,
            projector: None,
            lag: READY_LAG,
            stopping,
            writes: true,
            clock: Clock::system(),
            read: Asked::default(),
            written: Asked::default(),
        }
    }

    #[tokio::test]
    async fn store_refusing_writes_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("almanac.db");
        drop(SqliteTable::open(&path, Clock::system()).unwrap());
        // The writer thread panics at each commit; reads do not pass through it, and succeed.
        let clock = Clock::from_fn(|| match std::thread::current().name() {
            Some("sqlite-writer") => panic!("the writer is broken"),
            _ => Timestamp::default(),
        });
        let table = SqliteTable::open(&path, clock).unwrap();
        let (_stop, stopping) = watch::channel(false);
        let clock = Clock::from_fn(Timestamp::default);
        let readiness = Readiness { clock, ..readiness(table, stopping) };
        let why = readiness.why_not().await.unwrap();
        assert!(why.starts_with("the store does not take writes: "), "{why}");
        let reads_only = Readiness { writes: false, written: Asked::default(), ..readiness };
        assert_eq!(reads_only.why_not().await, None);
    }

    #[tokio::test]
    async fn clock_far_from_table_clock_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let table =
            SqliteTable::open(&folder.path().join("almanac.db"), Clock::from_fn(Timestamp::default)).unwrap();
        let (_stop, stopping) = watch::channel(false);
        let mut readiness = readiness(table, stopping);
        for (seconds, says) in [(10, None), (11, Some("11 s ahead")), (-3600, Some("3600 s behind"))] {
            readiness.clock = Clock::from_fn(move || Timestamp::default().plus_seconds(seconds));
            let why = readiness.why_not().await;
            let is_said = |says| why.as_ref().is_some_and(|why| why.contains(says));
            assert!(says.map_or(why.is_none(), is_said), "{seconds}: {why:?}");
        }
    }

    #[tokio::test]
    async fn failed_write_probe_overrides_earlier_success() {
        let folder = tempfile::tempdir().unwrap();
        let is_broken = Arc::new(AtomicBool::new(false));
        let clock = Clock::from_fn({
            let is_broken = Arc::clone(&is_broken);
            move || match std::thread::current().name() {
                Some("sqlite-writer") if is_broken.load(Ordering::SeqCst) => panic!("the writer is broken"),
                _ => Timestamp::default(),
            }
        });
        let table = SqliteTable::open(&folder.path().join("almanac.db"), clock).unwrap();
        let (_stop, stopping) = watch::channel(false);
        let clock = Clock::from_fn(Timestamp::default);
        let readiness = Readiness { clock, ..readiness(table, stopping) };
        assert_eq!(readiness.why_not().await, None);
        is_broken.store(true, Ordering::SeqCst);
        probe_write(&*readiness.store, key::write_probe(), Timestamp::default()).await.unwrap_err();
        let why = readiness.why_not().await.unwrap();
        assert!(why.starts_with("the store does not take writes: "), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_a_while() {
        let answered =
            |why: Option<&str>| Answered { at: Instant::now(), failed: 2, why: why.map(str::to_owned) };
        let (good, bad) = (answered(None), answered(Some("no")));
        assert!(good.holds(WRITE_CACHED, 2) && bad.holds(WRITE_CACHED, 2));
        assert!(!good.holds(WRITE_CACHED, 3) && bad.holds(WRITE_CACHED, 3));
        tokio::time::advance(STORE_CACHED).await;
        assert!(good.holds(WRITE_CACHED, 2) && !bad.holds(WRITE_CACHED, 2));
        tokio::time::advance(WRITE_CACHED).await;
        assert!(!good.holds(WRITE_CACHED, 2));
    }

    #[tokio::test]
    async fn who_is_about_to_stop_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("almanac.db"), Clock::system()).unwrap();
        let (stop, stopping) = watch::channel(false);
        let readiness = readiness(table, stopping);
        assert_eq!(readiness.why_not().await, None);
        stop.send_replace(true);
        assert_eq!(readiness.why_not().await.as_deref(), Some("the service is stopping"));
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        assert_eq!(unwritten(&Health::default()), None);
        let example = Some("the evaluation of w 2013-06-01: too large".to_owned());
        let health = Health { unwritten: 2, unwritten_example: example, ..Health::default() };
        assert_eq!(
            unwritten(&health).as_deref(),
            Some(
                "2 projections cannot be written, such as the evaluation of w 2013-06-01: too large; \
                 `almanac admin dead-letters list` names them"
            )
        );
    }

    #[test]
    fn projector_is_ready_after_sweep_with_small_lag() {
        let why_not = |health: &Health| why_no_projector(health, READY_LAG);
        let fresh = Health::default();
        assert!(why_not(&fresh).is_some_and(|why| why.contains("first sweep")));
        let swept = Health { has_swept: true, oldest: READY_LAG, dirty_days: 3, ..fresh };
        assert_eq!(why_not(&swept), None);
        let late = Health { oldest: READY_LAG + Duration::from_secs(5), ..swept.clone() };
        assert_eq!(
            why_not(&late).as_deref(),
            Some("3 days wait to be folded, the oldest for 65 s (at most 60)")
        );
        let beating = Health { heartbeat_age: Some(READY_HEARTBEAT), ..swept };
        assert_eq!(why_not(&beating), None);
        let blind = Health { feed_age: READY_FEED + Duration::from_secs(1), ..beating.clone() };
        assert_eq!(why_not(&blind).as_deref(), Some("the feed of changes has not answered for 61 s"));
        let silent = Health { heartbeat_age: Some(READY_HEARTBEAT * 2), ..beating };
        assert!(why_not(&silent).is_some_and(|why| why.contains("heartbeat for 60 s")));
    }
}
