//! What the whole-system tests share: the real binary, and the services on a port of their own.
#![allow(dead_code, reason = "every test binary uses its own part of this")]

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use store::{Clock, Table, table::sqlite::SqliteTable};
use tokio::{net::TcpListener, sync::oneshot};

/// How often a condition is looked at before a test gives up on it.
const MAX_LOOKS: usize = 1_200;
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The real binary on the data folder `data`.
pub(crate) fn almanac(data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almanac"));
    command.arg("--data").arg(data).args(args).stdin(Stdio::null()).env_remove("ALMANAC_DATA");
    command
}

/// Runs the real binary to its end.
pub(crate) fn run(data: &Path, args: &[&str]) -> Output {
    almanac(data, args).output().expect("the binary starts")
}

/// Runs the real binary, which must succeed, and returns what it printed.
pub(crate) fn run_ok(data: &Path, args: &[&str]) -> String {
    let output = run(data, args);
    assert!(output.status.success(), "almanac {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The objects of NDJSON.
pub(crate) fn ndjson(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// Opens the table of a data folder.
pub(crate) fn table(data: &Path) -> Arc<dyn Table> {
    Arc::new(SqliteTable::open(&data.join("almanac.db"), Clock::system()).expect("the table opens"))
}

/// All services, in this process, on a port of their own.
pub(crate) struct Service {
    base: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Service {
    /// Starts them on the data folder `data`.
    pub(crate) fn start(data: &Path) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let data = data.to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                tell.send(listener.local_addr().expect("an address")).expect("the test waits");
                let shutdown = async move { _ = stopped.await };
                almanac::up::run(listener, table(&data), Clock::system(), shutdown)
                    .await
                    .expect("the services run");
            });
        });
        let base = format!("http://{}", told.recv().expect("the services listen"));
        Self { base, stop: Some(stop), thread: Some(thread) }
    }

    /// Posts a body; returns status, headers of interest, and the answer.
    pub(crate) fn post(&self, path: &str, content_type: &str, key: Option<&str>, body: &str) -> Answer {
        let request = agent().post(format!("{}{path}", self.base)).header("Content-Type", content_type);
        let request = match key {
            Some(key) => request.header("Idempotency-Key", key),
            None => request,
        };
        Answer::read(request.send(body).expect("an answer"))
    }

    /// Gets a path.
    pub(crate) fn get(&self, path: &str) -> Answer {
        Answer::read(agent().get(format!("{}{path}", self.base)).call().expect("an answer"))
    }

    /// Gets a path until its answer is as wanted.
    pub(crate) fn get_until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        for _ in 0..MAX_LOOKS {
            let answer = self.get(path);
            if wanted(&answer) {
                return answer;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        panic!("{path} never became as wanted; now: {:?}", self.get(path));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        if let Some(Err(panic)) = self.thread.take().map(std::thread::JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) replayed: bool,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn read(mut response: ureq::http::Response<ureq::Body>) -> Self {
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        Self {
            status: response.status().as_u16(),
            content_type: header("content-type").unwrap_or_default(),
            replayed: header("idempotent-replayed").as_deref() == Some("true"),
            body: response.body_mut().read_to_vec().expect("a body"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("JSON, not {:?}", self.text()))
    }
}
