//! Histories: three ingests, two projectors and two queries, processes of their own on one table. They are
//! stopped, go on, are killed and started again; their clocks are wrong by up to ten seconds and jump; some of
//! their clients are silent. Clients append and read, as of now, as of instants and at cuts, each the events of a
//! day of its own. What they did and saw must be free of anomalies ([`history`]).
//!
//! `ALMANAC_HISTORIES=10000` asks for more of them than a test run does.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod history;
mod support;

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use history::{Anomaly, Append, AsOf, History, LATEST, Read, Row, anomalies};
use serde_json::{Value, json};
use store::{
    Clock, Day, Timestamp,
    catalog::{Catalog, ReleaseSpec, Task},
    log::CLOSED_AFTER_SECONDS,
    time::DAY_MICROS,
};
use support::{Located, Place, almanac, block_on, run_ok};
use tokio::time::Instant;

/// What runs, and in which role.
const ROLES: [&str; 7] = ["ingest", "ingest", "ingest", "query", "query", "projector", "projector"];
const INGESTS: usize = 3;
const QUERIES: usize = 2;
/// How many clients work through histories side by side.
const CLIENTS: usize = 8;
/// Into how many lanes events are dealt.
const LANES: u8 = 3;
/// How many histories there are, unless more are asked for. DynamoDB Local is slower.
const ON_SQLITE: usize = 100;
const ON_DYNAMODB_LOCAL: usize = 8;
/// By how much a clock may be wrong, in microseconds.
const WRONG_BY: i64 = 10_000_000;
/// The longest that a process stands still: less than what is left of the bound by two wrong clocks.
const STOPPED_MS: u64 = 3_000;
/// How long after an instant was asked for it is asked for again at least, in the end, in microseconds.
const LATE: i64 = 10_000_000;
/// How long one answer may take, and everything until it is answered at last.
const ANSWER: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(180);

fn now() -> i64 {
    Clock::system().now().micros()
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The library that makes clocks wrong.
fn clock_library(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/system/clock.c");
    let library = folder.join("clock.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"]).args([&library, &source]);
    assert!(compiler.status().expect("a C compiler, which linking needs anyway").success());
    library
}

/// A process that is done wrong to.
struct Process {
    role: &'static str,
    address: String,
    clock: PathBuf,
    child: Mutex<Child>,
}

struct World {
    place: Place,
    library: PathBuf,
    folder: tempfile::TempDir,
    processes: Vec<Process>,
    over: AtomicBool,
    done: Mutex<BTreeMap<&'static str, usize>>,
}

impl World {
    fn new(place: Place) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let library = clock_library(folder.path());
        block_on(async {
            let catalog = Catalog::new(place.store().open().await);
            let now = Clock::system().now();
            let workspace = catalog.ensure_workspace("sim/one", now).await.unwrap();
            let task = Task::Binary { positive_label: "1".into() };
            catalog.ensure_model(workspace.id(), "m", &task, now).await.unwrap();
            let spec =
                ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
            catalog.ensure_release(workspace.id(), &spec, now).await.unwrap();
            catalog.set_lanes(workspace.id(), LANES).await.unwrap();
        });
        let mut world = Self {
            place,
            library,
            folder,
            processes: Vec::new(),
            over: AtomicBool::new(false),
            done: Mutex::default(),
        };
        let mut dice = Dice(7);
        for (at, role) in ROLES.into_iter().enumerate() {
            let clock = world.folder.path().join(format!("clock-{at}"));
            fs::write(&clock, wrong(&mut dice)).unwrap();
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap().to_string();
            drop(free);
            let child = Mutex::new(world.start(role, &address, &clock));
            world.processes.push(Process { role, address, clock, child });
        }
        Arc::new(world)
    }

    fn start(&self, role: &str, address: &str, clock: &Path) -> Child {
        let mut command = almanac(&self.place, &["up", "--listen", address, "--role", role]);
        command.env("LD_PRELOAD", &self.library).env("ALMANAC_TEST_CLOCK", clock).env("RUST_LOG", "error");
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn did(&self, what: &'static str) {
        *self.done.lock().unwrap().entry(what).or_default() += 1;
    }

    /// Does something wrong to one process after the other until it is over.
    fn nemesis(&self, seed: u64) {
        let mut dice = Dice(seed);
        while !self.is_over() {
            thread::sleep(Duration::from_millis(200 + dice.below(1_000)));
            let process = &self.processes[dice.below(self.processes.len() as u64) as usize];
            let mut child = process.child.lock().unwrap();
            match dice.below(4) {
                0 => {
                    signal(&child, "STOP");
                    thread::sleep(Duration::from_millis(dice.below(STOPPED_MS)));
                    signal(&child, "CONT");
                    self.did("stopped");
                }
                1 => {
                    // SIGKILL, whatever it is doing.
                    child.kill().unwrap();
                    child.wait().unwrap();
                    *child = self.start(process.role, &process.address, &process.clock);
                    self.did("killed");
                }
                _ => {
                    let file = fs::OpenOptions::new().write(true).open(&process.clock).unwrap();
                    file.write_all_at(&wrong(&mut dice), 0).unwrap();
                    self.did("clocks that jumped");
                }
            }
        }
    }

    /// A client that asks for much, or says that it will send something, and then is silent.
    fn silent(&self, seed: u64) {
        let mut dice = Dice(seed);
        let mut held = Vec::new();
        while !self.is_over() {
            let at = dice.below((INGESTS + QUERIES) as u64) as usize;
            let begun = if at < INGESTS {
                "POST /v1/workspaces/sim/one/predictions HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\nContent-Length: 10000000\r\n\r\n{\"key\":"
            } else {
                "GET /v1/workspaces/sim/one/predictions?from=2000-01-01&to=2000-01-31 HTTP/1.1\r\nHost: a\r\n\r\n"
            };
            if let Ok(mut stream) = TcpStream::connect(&self.processes[at].address)
                && stream.write_all(begun.as_bytes()).is_ok()
            {
                held.push(stream);
                self.did("silent clients");
            }
            if held.len() > 20 {
                held.remove(0);
            }
            thread::sleep(Duration::from_millis(800));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for process in &self.processes {
            let mut child = process.child.lock().unwrap();
            _ = child.kill();
            _ = child.wait();
        }
    }
}

fn wrong(dice: &mut Dice) -> [u8; 8] {
    (dice.below(2 * WRONG_BY as u64 + 1) as i64 - WRONG_BY).to_ne_bytes()
}

fn signal(child: &Child, name: &str) {
    let killed = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
}

/// An answer over HTTP.
struct Said {
    status: u16,
    cut: String,
    as_of: Option<i64>,
    warning: Option<String>,
    body: String,
}

/// One client, with a day of its own.
struct Client<'a> {
    world: &'a World,
    agent: ureq::Agent,
    dice: Dice,
    day: Day,
    number: usize,
    writes: u64,
    history: History,
}

impl<'a> Client<'a> {
    fn new(world: &'a World, number: usize) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER));
        let start: Day = "2000-01-01".parse().unwrap();
        let day = Timestamp::from_micros(start.start().micros() + number as i64 * DAY_MICROS).unwrap().day();
        let dice = Dice(number as u64 + 1);
        let history = History::default();
        Self { world, agent: config.build().into(), dice, day, number, writes: 0, history }
    }

    /// One try to be answered by the process `at`.
    fn try_once(&self, at: usize, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Option<Said> {
        let uri = format!("http://{}/v1/workspaces/sim/one/{path}", self.world.processes[at].address);
        let request = ureq::http::Request::builder().uri(uri);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = match body {
            Some(body) => self.agent.run(request.method("POST").body(body.to_owned()).unwrap()),
            None => self.agent.run(request.method("GET").body(()).unwrap()),
        };
        let mut answer = answer.ok()?;
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let (cut, warning) = (header("almanac-cut").unwrap_or_default(), header("almanac-warning"));
        let as_of = header("almanac-as-of").map(|as_of| Timestamp::parse(&as_of).unwrap().micros());
        let status = answer.status().as_u16();
        let body = answer.body_mut().read_to_string().ok()?;
        Some(Said { status, cut, as_of, warning, body })
    }

    /// Tries until it is answered: by whichever process of its kind, again and again.
    fn ask(&mut self, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Option<Said> {
        let (first, count) = if body.is_some() { (0, INGESTS) } else { (INGESTS, QUERIES) };
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let at = first + self.dice.below(count as u64) as usize;
            match self.try_once(at, path, headers, body) {
                Some(said) if (200..300).contains(&said.status) => return Some(said),
                Some(said) if said.status < 500 && said.status != 429 => {
                    panic!("history {}: {path} is refused: {} {}", self.number, said.status, said.body)
                }
                _ => thread::sleep(Duration::from_millis(20)),
            }
        }
        None
    }

    /// Sends predictions of these keys until they are acknowledged.
    fn append(&mut self, keys: &[&str], is_keyed: bool) {
        let rows: Vec<Row> = keys
            .iter()
            .map(|key| {
                self.writes += 1;
                (format!("{}-{key}", self.number), self.writes)
            })
            .collect();
        let at = format!("{}T12:00:00Z", self.day);
        let line = |(key, write): &Row| {
            json!({"key": key, "predicted_at": at, "release": "v1", "score": 0.5, "latency_ms": *write})
                .to_string()
        };
        let body = rows.iter().map(line).collect::<Vec<_>>().join("\n");
        let name = format!("{}-{}", self.number, self.writes);
        let mut headers = vec![("Content-Type", "application/x-ndjson")];
        if is_keyed {
            headers.push(("Idempotency-Key", &name));
        }
        let begun = now();
        let acknowledged = self.ask("predictions", &headers, Some(&body)).map(|_| now());
        self.history.appends.push(Append { rows, begun, acknowledged });
    }

    fn read(&mut self, what: &'static str, as_of: &AsOf) -> Option<AsOf> {
        let when = match as_of {
            AsOf::Now => String::new(),
            AsOf::Instant(instant) => format!("&as-of={}", Timestamp::from_micros(*instant).unwrap()),
            AsOf::Cut(cut) => format!("&cut={cut}"),
        };
        let (begun, day) = (now(), self.day);
        let said = self.ask(&format!("{what}?from={day}&to={day}{when}"), &[], None)?;
        assert_eq!(said.warning, None, "history {}", self.number);
        let rows = said.body.lines().map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            (row["key"].as_str().unwrap().to_owned(), row["latency_ms"].as_f64().unwrap() as u64)
        });
        let rows = (what != "evaluations").then(|| rows.collect());
        let as_of = match (as_of, said.as_of) {
            (AsOf::Instant(_), Some(answered)) => AsOf::Instant(answered),
            (other, _) => other.clone(),
        };
        let cut = AsOf::Cut(said.cut.clone());
        let bytes = said.body;
        self.history.reads.push(Read { what, as_of: as_of.clone(), begun, rows, bytes, cut: said.cut });
        Some(if matches!(as_of, AsOf::Instant(_)) { as_of } else { cut })
    }

    /// Writes and reads of a history.
    fn live(&mut self) {
        let mut cuts = Vec::new();
        for step in 0..6 {
            let fresh = format!("e{step}");
            match self.dice.below(4) {
                // One key, again and again, each when the one before is acknowledged.
                0 | 1 => self.append(&["same"], true),
                2 => self.append(&[&fresh, "other", &format!("{fresh}-b")], true),
                _ => self.append(&[&fresh], false),
            }
            if self.dice.below(2) == 0 {
                let what = if self.dice.below(3) == 0 { LATEST } else { "predictions" };
                cuts.extend(self.read(what, &AsOf::Now).map(|cut| (what, cut)));
            }
        }
        // As of now: as of the last closed instant, by a clock that may be ahead.
        self.read("predictions", &AsOf::Instant(now()));
        if let Some((what, cut)) = cuts.first() {
            self.read(what, cut);
        }
    }

    /// Asks as of an instant in it, which some clocks take to be closed, some not; and keeps the answer.
    fn look_back(&mut self) {
        let begun = self.history.appends.first().map_or(0, |append| append.begun);
        let ended = self.history.appends.last().map_or(0, |append| append.begun);
        let instant = begun + self.dice.below((ended - begun + 1_000_000) as u64) as i64;
        for what in ["predictions", "evaluations"] {
            self.read(what, &AsOf::Instant(instant));
            self.read(what, &AsOf::Instant(now()));
        }
    }

    /// Asks again for everything that must not have changed, and for what must be there.
    fn look_again(&mut self) {
        let before: Vec<(&'static str, AsOf, String)> =
            self.history.reads.iter().map(|read| (read.what, read.as_of.clone(), read.cut.clone())).collect();
        for (what, as_of, cut) in before {
            if let AsOf::Instant(_) = as_of {
                self.read(what, &as_of);
            }
            if !cut.is_empty() {
                self.read(what, &AsOf::Cut(cut));
            }
        }
        self.read("predictions", &AsOf::Now);
        self.read(LATEST, &AsOf::Now);
    }
}

/// Seconds after the end of a history at which it is looked back: around the instant at which it is closed,
/// by clocks that are wrong either way.
fn look_back_at(number: usize) -> i64 {
    (CLOSED_AFTER_SECONDS - 12 + (number % 16) as i64) * 1_000_000
}

fn wait_until(instant: i64) {
    while let left @ 1.. = instant - now() {
        thread::sleep(Duration::from_micros(left.min(100_000) as u64));
    }
}

/// Works through histories, some at a time, and returns their anomalies.
fn histories(place: Place, usual: usize) -> BTreeMap<usize, Vec<Anomaly>> {
    let asked = std::env::var("ALMANAC_HISTORIES").ok();
    let count = asked.map_or(usual, |count| count.parse().expect("ALMANAC_HISTORIES is a number"));
    let world = World::new(place);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let (events, reads) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for seed in 0..2 {
            let world = &world;
            scope.spawn(move || world.nemesis(seed));
            scope.spawn(move || world.silent(seed + 10));
        }
        let workers: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (world, next, found, events, reads) = (&world, &next, &found, &events, &reads);
                scope.spawn(move || {
                    let mut lived = std::collections::VecDeque::<(i64, Client<'_>)>::new();
                    let mut looked = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number < count {
                            let mut client = Client::new(world, number);
                            client.live();
                            lived.push_back((now() + look_back_at(number), client));
                        }
                        // Those that are due; in the end, all.
                        while let Some((due, mut client)) =
                            lived.pop_front_if(|(due, _)| *due <= now() || number >= count)
                        {
                            wait_until(due);
                            client.look_back();
                            looked.push(client);
                        }
                        // Later, when whatever was late has come.
                        if number >= count {
                            wait_until(now() + LATE);
                        }
                        let ripe = if number < count { looked.len() / 2 } else { looked.len() };
                        for mut client in looked.drain(..ripe) {
                            client.look_again();
                            events.fetch_add(client.writes as usize, Ordering::Relaxed);
                            reads.fetch_add(client.history.reads.len(), Ordering::Relaxed);
                            let wrong = anomalies(&client.history);
                            if !wrong.is_empty() {
                                let wrong = wrong.into_iter().collect();
                                found.lock().unwrap().insert(client.number, wrong);
                            }
                        }
                        if number >= count {
                            return;
                        }
                    }
                })
            })
            .collect();
        let failed = workers.into_iter().filter_map(|worker| worker.join().err()).next();
        world.over.store(true, Ordering::Relaxed);
        if let Some(panic) = failed {
            std::panic::resume_unwind(panic);
        }
    });
    println!("{count} histories, {events:?} events, {reads:?} reads; {:?}", world.done.lock().unwrap());
    catch_up(&world);
    found.into_inner().unwrap()
}

/// Waits until everything is folded, and compares it with the log.
fn catch_up(world: &World) {
    block_on(async {
        let table = world.place.store().open().await;
        let workspace = Catalog::new(Arc::clone(&table)).workspace("sim/one").await.unwrap();
        let begin = Instant::now();
        loop {
            let behind = projector::sweep::sweep(&*table, workspace.id()).await.unwrap();
            if behind.logs.is_empty() && behind.evaluations.is_empty() {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{} logs are behind", behind.logs.len());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let verified = run_ok(&world.place, &["verify"]);
    assert!(verified.contains("all as the log says"), "{verified}");
}

#[test]
fn histories_of_appends_and_reads_have_no_anomaly() {
    assert_eq!(histories(Place::sqlite(), ON_SQLITE), BTreeMap::new());
}

mod dynamodb_local {
    use super::{BTreeMap, ON_DYNAMODB_LOCAL, Place, histories};

    #[test]
    fn histories_of_appends_and_reads_have_no_anomaly() {
        assert_eq!(histories(Place::dynamodb_local(), ON_DYNAMODB_LOCAL), BTreeMap::new());
    }
}
