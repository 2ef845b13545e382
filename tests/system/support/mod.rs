//! Parts that the whole-system tests share: the real binary, and the services on a port of their own.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary uses its own part of this")]

mod answer;
pub(crate) mod s3;
pub(crate) mod schema;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use almanac::up;
use dynamodb::{DynamoConfig, DynamoTable};
use event::Clock;
use log::store::Store as Opened;
use serde_json::Value;
use table::{Table, sqlite::SqliteTable};
use tests::local::fresh_table;
use tokio::{net::TcpListener, sync::oneshot};

pub(crate) use self::answer::Answer;

/// The number of looks at a condition before a test gives up on it.
const MAX_LOOKS: usize = 1_200;
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Keeps the tests of a binary that ask for it from running side by side.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed has no part in the next one.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The location of a table, for the binary and for this process.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Sqlite(PathBuf),
    Dynamodb(DynamoConfig),
}

impl Store {
    pub(crate) async fn open(&self) -> Arc<dyn Table> {
        self.opened().await
    }

    async fn opened(&self) -> Arc<Opened> {
        let table: Arc<dyn Table> = match self {
            Store::Sqlite(folder) => Arc::new(
                SqliteTable::open(&folder.join("almanac.db"), Clock::system()).expect("the table opens"),
            ),
            Store::Dynamodb(config) => {
                Arc::new(DynamoTable::connect(config.clone()).await.expect("the table is there"))
            }
        };
        Opened::over(table)
    }

    fn args(&self) -> Vec<String> {
        match self {
            Store::Sqlite(folder) => vec!["--data".into(), folder.to_str().expect("text").into()],
            Store::Dynamodb(config) => [
                format!("--store=dynamodb:{}", config.table),
                format!("--region={}", config.region.as_deref().expect("a region")),
                format!("--endpoint={}", config.endpoint.as_deref().expect("an endpoint")),
            ]
            .into(),
        }
    }
}

/// A store of a test's own, gone with it.
pub(crate) struct Place {
    store: Store,
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { store: Store::Sqlite(folder.path().to_owned()), _folder: Some(folder) }
    }

    /// A new table on DynamoDB Local, made by the binary.
    pub(crate) fn dynamodb_local() -> Self {
        let place = Self { store: Store::Dynamodb(fresh_table(Clock::system())), _folder: None };
        run_ok(&place, &["admin", "table", "create"]);
        place
    }
}

/// Types that know where a table is.
pub(crate) trait Located {
    fn store(&self) -> Store;
}

impl Located for Place {
    fn store(&self) -> Store {
        self.store.clone()
    }
}

impl Located for Path {
    fn store(&self) -> Store {
        Store::Sqlite(self.to_owned())
    }
}

/// The real binary on the table at `place`; a path is the data folder of a SQLite file. `ALMANAC_BINARY` names
/// another one than what was built with the test, so that a long run goes on beside other builds.
pub(crate) fn almanac(place: &(impl Located + ?Sized), args: &[&str]) -> Command {
    let built = env!("CARGO_BIN_EXE_almanac");
    let mut command = Command::new(std::env::var("ALMANAC_BINARY").unwrap_or_else(|_| built.to_owned()));
    command.args(place.store().args()).args(args).stdin(Stdio::null());
    for name in ["DATA", "STORE", "REGION", "ENDPOINT", "LISTEN", "CONFIG", "LOG", "LOG_FORMAT"] {
        command.env_remove(format!("ALMANAC_{name}"));
    }
    command
}

/// Runs the real binary to its end.
pub(crate) fn run(place: &(impl Located + ?Sized), args: &[&str]) -> Output {
    almanac(place, args).output().expect("the binary starts")
}

/// Runs the real binary, which must succeed, and returns what it printed.
pub(crate) fn run_ok(place: &(impl Located + ?Sized), args: &[&str]) -> String {
    printed(run(place, args), args)
}

/// The output of a run, which must have succeeded.
fn printed(output: Output, args: &[&str]) -> String {
    assert!(output.status.success(), "almanac {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Makes a test on SQLite and one on DynamoDB Local of each of the named functions, which take a [`Place`].
macro_rules! on_both_engines {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::$name(&crate::support::Place::sqlite());
            })+
        }

        mod dynamodb_local {
            $(#[test]
            fn $name() {
                super::$name(&crate::support::Place::dynamodb_local());
            })+
        }
    };
}

pub(crate) use on_both_engines;

/// Registers a workspace with a model and a release.
pub(crate) fn register(service: &Service) {
    let post = |path: &str, body: &str| {
        let answer = service.post(path, "application/json", None, body);
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    };
    let workspace = "/v1/workspaces/credit/prod";
    post("/v1/workspaces", r#"{"path":"credit/prod"}"#);
    post(
        "/v1/models",
        r#"{"workspace":"credit/prod","name":"risk","task":"binary","positive_label":"default"}"#,
    );
    post(
        &format!("{workspace}/releases"),
        r#"[{"release":"v1","model":"risk","action":"register","released_at":"2026-05-31T00:00:00Z"}]"#,
    );
}

/// The objects of NDJSON.
pub(crate) fn ndjson(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// Runs a future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

/// The services of a process of their own, of the real binary, whose log is kept.
pub(crate) struct Running {
    service: Service,
    pub(crate) process: Child,
    log: Option<std::thread::JoinHandle<Vec<String>>>,
}

impl Running {
    /// Starts `almanac up` with these arguments and variables on a free port.
    pub(crate) fn start(place: &(impl Located + ?Sized), args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = almanac(place, &["up", "--listen", "127.0.0.1:0"]);
        command.args(args).envs(variables.iter().copied()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the binary starts");
        let mut lines =
            BufReader::new(process.stderr.take().expect("a pipe")).lines().map(|line| line.expect("text"));
        let mut begun = Vec::new();
        let base = lines.find_map(|line| {
            let base = line.split_once("listening on ").and_then(|(_, rest)| rest.split(',').next());
            let base = base.map(str::to_owned);
            begun.push(line);
            base
        });
        let base = base.unwrap_or_else(|| panic!("it does not listen: {begun:?}"));
        // The pipe is emptied, so that nothing waits for it.
        let log = std::thread::spawn(move || begun.into_iter().chain(lines).collect());
        Self { service: Service { base, stop: None, thread: None }, process, log: Some(log) }
    }

    /// Starts `almanac up` with its log going to `log`, and waits until it listens.
    pub(crate) fn start_logging_to(
        place: &(impl Located + ?Sized),
        log: impl Into<Stdio>,
        variables: &[(&str, &str)],
    ) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        let mut command = almanac(place, &["up", "--listen", &address]);
        command.envs(variables.iter().copied()).stderr(log);
        let mut process = command.spawn().expect("the binary starts");
        for _ in 0..MAX_LOOKS {
            assert!(process.try_wait().expect("it can be asked").is_none(), "it ended");
            if std::net::TcpStream::connect(&address).is_ok() {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let service = Service { base: format!("http://{address}"), stop: None, thread: None };
        Self { service, process, log: None }
    }

    /// Asks it to stop, waits for its end, and returns the lines of its log.
    pub(crate) fn stop(mut self) -> Vec<String> {
        let kill = format!("kill -TERM {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh starts").success());
        assert!(self.process.wait().expect("it ends").success(), "it ends well");
        self.log.take().expect("it was not taken").join().expect("the log is text")
    }
}

impl std::ops::Deref for Running {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// All services, in this process, on a port of their own.
pub(crate) struct Service {
    base: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Service {
    /// Starts them on the table at `place`.
    pub(crate) fn start(place: &(impl Located + ?Sized)) -> Self {
        let store = place.store();
        Self::serve(async move || store.opened().await, up::Options::new(Clock::system()))
    }

    /// Starts some of them on a table that is open.
    pub(crate) fn start_on(table: Arc<dyn Table>, options: up::Options) -> Self {
        Self::serve(async move || Opened::over(table), options)
    }

    fn serve<F: Future<Output = Arc<Opened>>>(
        open: impl FnOnce() -> F + Send + 'static,
        options: up::Options,
    ) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                tell.send(listener.local_addr().expect("an address")).expect("the test waits");
                let shutdown = async move { _ = stopped.await };
                up::run_as(listener, open().await, options, shutdown).await.expect("the services run");
            });
        });
        let base = format!("http://{}", told.recv().expect("the services listen"));
        Self { base, stop: Some(stop), thread: Some(thread) }
    }

    /// The address at which they listen, as host and port.
    pub(crate) fn address(&self) -> String {
        self.base.split_once("://").expect("a URL").1.to_owned()
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

    /// Sends a request of any method; only one with a body is sent with one.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Answer {
        let request = ureq::http::Request::builder()
            .method(&*method.to_uppercase())
            .uri(format!("{}{path}", self.base));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = match body {
            Some(body) => agent().run(request.body(body.to_vec()).expect("a request")),
            None => agent().run(request.body(()).expect("a request")),
        };
        Answer::read(answer.expect("an answer"))
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
