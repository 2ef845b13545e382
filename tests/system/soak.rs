//! A soak: single events and batches from many clients, and imports, while the services are killed
//! (`kill -9`) every few seconds and started again. In the end every event that was acknowledged is
//! there once, every other one at most once, and log, rollups and counters agree.
//!
//! It takes a minute; `ALMANAC_SOAK_SECONDS=600` makes it ten.

use std::{
    collections::HashMap,
    fmt::Write as _,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::support::{Place, almanac, alone, block_on, run, run_ok};
use catalog::Catalog;
use log::{key::Counted, scan};

/// The number of services on the one table.
const SERVICES: usize = 2;
/// The numbers of clients that post single events, and that post batches.
const SINGLES: u64 = 4;
const BATCHES: u64 = 2;
/// The number of tries of a client before it gives up on an event that may or may not be there.
const TRIES: usize = 400;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(25);

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The knowledge of the clients: for each key of an event whether it was acknowledged.
type Known = Mutex<HashMap<String, bool>>;

struct World {
    place: Place,
    ports: Vec<u16>,
    /// The clients end what they do.
    over: AtomicBool,
    /// So do the services.
    ended: AtomicBool,
    known: Known,
    kills: AtomicUsize,
}

impl World {
    fn start(&self, service: usize) -> Child {
        let listen = format!("127.0.0.1:{}", self.ports[service]);
        let mut command = almanac(&self.place, &["up", "--listen", &listen]);
        command.env("RUST_LOG", "warn").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn know(&self, keys: &[String], acknowledged: bool) {
        let mut known = self.known.lock().unwrap();
        keys.iter().for_each(|key| _ = known.insert(key.clone(), acknowledged));
    }

    /// Kills a service again and again, until the time is over.
    fn kill_and_start(&self, service: usize) {
        let mut dice = Dice(service as u64 + 100);
        let mut child = self.start(service);
        while !self.ended.load(Ordering::Relaxed) {
            // The soak is about time: a service lives for one to four seconds.
            thread::sleep(Duration::from_millis(1_000 + dice.below(3_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            self.kills.fetch_add(1, Ordering::Relaxed);
            child = self.start(service);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Posts until it is acknowledged, each time to another service; whether it was.
    fn post(&self, agent: &ureq::Agent, kind: &str, body: &str, key: Option<&str>, tries: usize) -> bool {
        for attempt in 0..tries {
            let port = self.ports[attempt % SERVICES];
            let url = format!("http://127.0.0.1:{port}/v1/workspaces/soak/one/{kind}");
            let mut request = agent.post(&url).header("Content-Type", "application/x-ndjson");
            if let Some(key) = key {
                request = request.header("Idempotency-Key", key);
            }
            match request.send(body).map(|answer| answer.status().as_u16()) {
                Ok(201) => return true,
                Ok(429 | 500..) | Err(_) => thread::sleep(PAUSE),
                Ok(status) => panic!("{status} for {body}"),
            }
        }
        false
    }

    /// Posts events with `rows` rows at a time.
    fn client(&self, number: u64, rows: impl Fn(&mut Dice) -> u64) {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let agent: ureq::Agent = config.timeout_global(Some(Duration::from_secs(20))).build().into();
        let mut dice = Dice(number);
        let mut posted = 0;
        while !self.is_over() {
            let rows = rows(&mut dice);
            let keys: Vec<String> = (0..rows).map(|row| format!("c{number}-{posted}-{row}")).collect();
            posted += 1;
            // Written down before the first try: from then on it may be there.
            self.know(&keys, false);
            let idempotency_key = (dice.below(2) == 0).then(|| format!("key-{number}-{posted}"));
            let tries = if dice.below(10) == 0 { 1 } else { TRIES };
            let kind = if dice.below(3) == 0 { "outcomes" } else { "predictions" };
            if self.post(&agent, kind, &body(kind, &keys), idempotency_key.as_deref(), tries) {
                self.know(&keys, true);
            }
        }
    }

    /// Imports files, now and then killed and started again.
    fn import(&self, folder: PathBuf) {
        let mut dice = Dice(1_000);
        let mut imported = 0;
        while !self.is_over() {
            let keys: Vec<String> = (0..12_000).map(|row| format!("i{imported}-{row}")).collect();
            imported += 1;
            let file = folder.join(format!("{imported}.ndjson"));
            std::fs::write(&file, body("predictions", &keys)).unwrap();
            self.know(&keys, false);
            let args = ["import", file.to_str().unwrap(), "-w", "soak/one", "--kind", "predictions"];
            if dice.below(2) == 0 {
                let mut child =
                    almanac(&self.place, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                thread::sleep(Duration::from_millis(dice.below(200)));
                child.kill().unwrap();
                child.wait().unwrap();
            }
            let is_done = (0..20).any(|_| run(&self.place, &args).status.success());
            assert!(is_done, "an import failed again and again");
            self.know(&keys, true);
            std::fs::remove_file(file).unwrap();
        }
    }
}

/// Events with these keys, over three days.
fn body(kind: &str, keys: &[String]) -> String {
    keys.iter().enumerate().fold(String::new(), |mut body, (row, key)| {
        let day = 1 + row % 3;
        let time = format!("2026-06-0{day}T04:30:00Z");
        let release = 1 + row % 2;
        let event = match kind {
            "outcomes" => format!(
                r#"{{"key":"{key}","predicted_at":"{time}","observed_at":"2026-06-05T00:00:00Z","label":"1"}}"#
            ),
            _ => format!(r#"{{"key":"{key}","predicted_at":"{time}","release":"v{release}","score":0.5}}"#),
        };
        _ = writeln!(body, "{event}");
        body
    })
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The keys of all events of the log, and how often each of them is there.
fn stored(place: &Place) -> (HashMap<String, usize>, Counts) {
    use crate::support::Located as _;
    block_on(async {
        let table = place.store().open().await;
        let catalog = Catalog::new(Arc::clone(&table));
        let workspace = catalog.workspace("soak/one").await.unwrap();
        let mut keys = HashMap::<String, usize>::new();
        let mut counts = Counts::new();
        for head in scan::heads(&*table, workspace.id()).await.unwrap() {
            let segments = scan::segments(&*table, &head.log, 1, head.seq).await.unwrap();
            assert_eq!(segments.len() as u64, head.seq, "a hole in {}", head.log);
            for segment in segments {
                let Ok(columns) = segment.unpack(|name| name == "key") else { panic!("{}", head.log) };
                *counts.entry(head.log.kind.name().to_owned()).or_default() += columns.rows as i64;
                let Some(column) = columns.column("key") else { continue };
                (0..columns.rows)
                    .for_each(|row| *keys.entry(column.text(row).unwrap().to_owned()).or_default() += 1);
            }
        }
        let page = catalog.page_with_counts(workspace.id()).await.unwrap();
        assert_eq!(page.counts_of(&Counted::Workspace), Some(&counts), "the counters");
        (keys, counts)
    })
}

type Counts = std::collections::BTreeMap<String, i64>;

/// Starts a service once more, to catch up; then everything must agree.
fn assert_caught_up(world: &World) {
    let mut service = world.start(0);
    let is_right = (0..600).any(|_| {
        thread::sleep(PAUSE * 4);
        let output = run(&world.place, &["admin", "verify"]);
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("all as the log says")
    });
    service.kill().unwrap();
    service.wait().unwrap();
    assert!(is_right, "{}", String::from_utf8_lossy(&run(&world.place, &["admin", "verify"]).stdout));
}

#[test]
fn killed_services_lose_and_double_nothing() {
    let _alone = alone();
    let seconds =
        std::env::var("ALMANAC_SOAK_SECONDS").map_or(60, |text| text.parse().expect("a number of seconds"));
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "soak/one"]);
    run_ok(&place, &["workspace", "settings", "soak/one", "--lanes", "2"]);
    run_ok(&place, &["model", "create", "m", "-w", "soak/one", "--task", "binary"]);
    run_ok(&place, &["release", "create", "v1", "-w", "soak/one", "--model", "m"]);
    run_ok(&place, &["release", "create", "v2", "-w", "soak/one", "--model", "m"]);
    let world = World {
        place,
        ports: (0..SERVICES).map(|_| free_port()).collect(),
        over: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        known: Known::default(),
        kills: AtomicUsize::new(0),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut singles = 0;
    thread::scope(|scope| {
        let world = &world;
        let services: Vec<_> =
            (0..SERVICES).map(|service| scope.spawn(move || world.kill_and_start(service))).collect();
        let mut clients = Vec::new();
        for number in 0..SINGLES {
            clients.push(scope.spawn(move || world.client(number, |_| 1)));
        }
        for number in SINGLES..SINGLES + BATCHES {
            clients.push(scope.spawn(move || world.client(number, |dice| 1 + dice.below(3_000))));
        }
        let path = folder.path().to_owned();
        clients.push(scope.spawn(move || world.import(path)));
        thread::sleep(Duration::from_secs(seconds));
        // The clients end first, each with the answer to what it sent last.
        world.over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        world.ended.store(true, Ordering::Relaxed);
        services.into_iter().for_each(|service| service.join().unwrap());
    });

    assert_caught_up(&world);
    let (stored, counts) = stored(&world.place);
    let known = world.known.into_inner().unwrap();
    for (key, times) in &stored {
        assert_eq!(*times, 1, "{key} is there {times} times");
        assert!(known.contains_key(key) || !key.contains('-'), "{key} was never sent");
    }
    for (key, _) in known.iter().filter(|(_, acknowledged)| **acknowledged) {
        assert!(stored.contains_key(key), "{key} was acknowledged and is lost");
        singles += usize::from(key.starts_with("c0-"));
    }
    let kills = world.kills.into_inner();
    let acknowledged = known.values().filter(|acknowledged| **acknowledged).count();
    println!(
        "{seconds} s, {kills} kills: {} events sent, {acknowledged} acknowledged, {} stored {counts:?}",
        known.len(),
        stored.len()
    );
    assert!(kills >= 10 && acknowledged > 10_000 && singles > 100, "the soak was too tame");
}
