//! The line of figures that every service writes once a minute, for operators without Prometheus: filters
//! of a log service make metrics and alarms of it.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use projector::{Health, Projector};

/// How often the line is written.
pub(crate) const EVERY: Duration = Duration::from_secs(60);

/// Requests since the start, those for `/healthz`, `/readyz` and `/metrics` left out.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    requests: AtomicU64,
    errors: AtomicU64,
}

impl Traffic {
    /// Counts a request that was answered; an error is an answer of 500 or more.
    pub(super) fn note(&self, is_error: bool) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(is_error), Ordering::Relaxed);
    }
}

/// Writes the line.
#[derive(Debug)]
pub(crate) struct Reporter {
    traffic: Arc<Traffic>,
    projector: Option<Projector>,
    /// Requests and errors that earlier lines reported.
    told: (u64, u64),
}

impl Reporter {
    /// Tells of this traffic, and of how a projector is doing.
    pub(crate) fn new(traffic: Arc<Traffic>, projector: Option<Projector>) -> Self {
        Self { traffic, projector, told: (0, 0) }
    }

    /// Writes a line each time that `every` has passed, and a last one at `end`.
    pub(crate) async fn run(mut self, every: Duration, end: impl Future<Output = ()>) {
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = tokio::time::sleep(every) => self.line(),
                () = &mut end => return self.line(),
            }
        }
    }

    fn line(&mut self) {
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let now = (figure(&self.traffic.requests), figure(&self.traffic.errors));
        let (requests, errors) = (now.0 - self.told.0, now.1 - self.told.1);
        self.told = now;
        write(self.projector.as_ref().map(Projector::health).as_ref(), requests, errors);
    }
}

/// What is not known has no field.
fn write(health: Option<&Health>, requests: u64, errors: u64) {
    tracing::info!(
        lag_segments = health.map(|health| health.waiting),
        lag_seconds = health.map(|health| health.oldest.as_secs_f64()),
        dead_letters = health.map(|health| health.stopped),
        requests,
        errors,
        "telemetry"
    );
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Mutex, MutexGuard},
    };

    use serde_json::{Value, json};

    use super::*;

    /// Where the lines of a test go.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        fn text(&self) -> MutexGuard<'_, Vec<u8>> {
            self.0.lock().unwrap()
        }

        fn objects(&self) -> Vec<Value> {
            let text = self.text();
            text.split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect()
        }
    }

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.text().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(write: impl FnOnce()) -> Vec<Value> {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
        let subscriber = subscriber.json().flatten_event(true).with_span_list(false).finish();
        tracing::subscriber::with_default(subscriber, write);
        lines.objects()
    }

    #[test]
    fn a_line_has_numbers_beside_its_message() {
        let health =
            Health { waiting: 3, oldest: Duration::from_millis(1_500), stopped: 2, ..Health::default() };
        let lines = written(|| {
            write(Some(&health), 10, 1);
            write(None, 4, 0);
        });
        let figures = |line: &Value| {
            ["message", "level", "lag_segments", "lag_seconds", "dead_letters", "requests", "errors"]
                .map(|name| line[name].clone())
        };
        let info = json!("INFO");
        let telemetry = json!("telemetry");
        assert_eq!(
            figures(&lines[0]),
            [telemetry.clone(), info.clone(), json!(3), json!(1.5), json!(2), json!(10), json!(1)]
        );
        let none = Value::Null;
        assert_eq!(
            figures(&lines[1]),
            [telemetry, info, none.clone(), none.clone(), none, json!(4), json!(0)]
        );
        assert!(lines[1].get("lag_segments").is_none(), "what is not known has no field");
    }

    #[test]
    fn a_line_is_written_each_minute_and_tells_what_came_since_the_last() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let traffic = Arc::new(Traffic::default());
        let reporter = Reporter::new(Arc::clone(&traffic), None);
        let lines = written(|| {
            runtime.block_on(async {
                let end = async {
                    tokio::time::sleep(EVERY / 2).await;
                    (0..5).for_each(|at| traffic.note(at == 0));
                    tokio::time::sleep(EVERY * 2).await;
                    traffic.note(false);
                };
                reporter.run(EVERY, end).await;
            });
        });
        let told = |line: &Value| (line["requests"].as_u64().unwrap(), line["errors"].as_u64().unwrap());
        assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), [(5, 1), (0, 0), (1, 0)]);
    }
}
