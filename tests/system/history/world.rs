//! Processes on one table, and their faults while clients work: they are stopped, killed and started again, and their clocks are
//! wrong and jump.

use std::{
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use catalog::{Catalog, ReleaseSpec};
use event::{Clock, Task};

use super::faults::{Fault, Faults};
use crate::{
    clock,
    support::{Located, Place, almanac, block_on},
};

/// Roles of the processes.
const ROLES: [&str; 7] = ["ingest", "ingest", "ingest", "query", "query", "projector", "projector"];
pub(crate) const INGESTS: usize = 3;
pub(crate) const QUERIES: usize = 2;
/// Number of lanes.
const LANES: u8 = 3;
/// Maximum error of a clock, in microseconds.
const WRONG_BY: i64 = 10_000_000;
/// Maximum standstill of a process: less than the rest of the bound after two wrong clocks.
const STOPPED_MS: u64 = 3_000;

pub(crate) fn now() -> i64 {
    Clock::system().now().micros()
}

/// Pseudorandom numbers from a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A process that suffers faults.
struct Process {
    role: &'static str,
    address: String,
    clock: PathBuf,
    child: Mutex<Child>,
}

/// Processes, and their common table.
pub(crate) struct World {
    pub(crate) place: Place,
    /// Faults of the processes, with their times.
    pub(crate) faults: Faults,
    library: PathBuf,
    folder: tempfile::TempDir,
    processes: Vec<Process>,
    over: AtomicBool,
}

impl World {
    /// Starts the processes on a table with these workspaces.
    pub(crate) fn new(place: Place, workspaces: &[String]) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let library = clock::library(folder.path());
        block_on(async {
            let catalog = Catalog::new(place.store().open().await);
            for path in workspaces {
                register(&catalog, path).await;
            }
        });
        let mut world = Self {
            place,
            faults: Faults::default(),
            library,
            folder,
            processes: Vec::new(),
            over: AtomicBool::new(false),
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

    /// Address of the process `at`: first come the ingests, then the queries.
    pub(crate) fn address(&self, at: usize) -> &str {
        &self.processes[at].address
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends all faults.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Causes a fault in one process after the other until it is over.
    pub(crate) fn nemesis(&self, seed: u64) {
        let mut dice = Dice(seed);
        while !self.is_over() {
            thread::sleep(Duration::from_millis(200 + dice.below(1_000)));
            let process = &self.processes[dice.below(self.processes.len() as u64) as usize];
            let mut child = process.child.lock().unwrap();
            let begun = now();
            let fault = match dice.below(4) {
                0 => {
                    signal(&child, "STOP");
                    thread::sleep(Duration::from_millis(dice.below(STOPPED_MS)));
                    signal(&child, "CONT");
                    Fault::Stop
                }
                1 => {
                    // SIGKILL at any moment.
                    child.kill().unwrap();
                    child.wait().unwrap();
                    *child = self.start(process.role, &process.address, &process.clock);
                    Fault::Kill
                }
                _ => {
                    let file = fs::OpenOptions::new().write(true).open(&process.clock).unwrap();
                    file.write_all_at(&wrong(&mut dice), 0).unwrap();
                    Fault::Jump
                }
            };
            self.faults.note(fault, begun, now());
        }
    }

    /// A client that asks for much, or announces a body, and then is silent.
    pub(crate) fn silent(&self, seed: u64, workspace: &str) {
        let mut dice = Dice(seed);
        let mut held = Vec::new();
        while !self.is_over() {
            let at = dice.below((INGESTS + QUERIES) as u64) as usize;
            let begun = if at < INGESTS {
                format!(
                    "POST /v1/workspaces/{workspace}/predictions HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\nContent-Length: 10000000\r\n\r\n{{\"key\":"
                )
            } else {
                format!(
                    "GET /v1/workspaces/{workspace}/predictions?from=2000-01-01&to=2000-01-31 HTTP/1.1\r\nHost: a\r\n\r\n"
                )
            };
            if let Ok(mut stream) = TcpStream::connect(self.address(at))
                && stream.write_all(begun.as_bytes()).is_ok()
            {
                held.push(stream);
                self.faults.note(Fault::Silence, now(), now());
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

/// Makes a workspace with a model and a release.
async fn register(catalog: &Catalog, path: &str) {
    let now = Clock::system().now();
    let workspace = catalog.ensure_workspace(path, now).await.unwrap();
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(workspace.id(), "m", &task, now).await.unwrap();
    let spec = ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
    catalog.ensure_release(workspace.id(), &spec, now).await.unwrap();
    catalog.change_settings(workspace.id(), |settings| settings.lanes = Some(LANES)).await.unwrap();
}

fn wrong(dice: &mut Dice) -> [u8; 8] {
    (dice.below(2 * WRONG_BY as u64 + 1) as i64 - WRONG_BY).to_ne_bytes()
}

fn signal(child: &Child, name: &str) {
    let killed = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
}
