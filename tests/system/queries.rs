//! Limits of queries: memory, turns, and the patience of the service with clients that take nothing. Each test has the process to
//! itself, since services of one process share their metrics.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::support::{Service, alone, block_on};
use almanac::up::Options;
use catalog::{Catalog, ReleaseSpec};
use event::{Clock, Column, Columns, Kind, Task, Values};
use log::{key::LogId, scan, segment_item::Segment, store::Store};
use query::Bounds;
use table::{Condition, Table, sqlite::SqliteTable};
use tests::hooked::{Asked, Hooked, Turn};
use tokio::{net::TcpSocket, time::Instant};

const SEGMENTS: u64 = 2;
const ROWS: usize = 10_000;
const LARGE: &str = "/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-01";
const SMALL: &str = "/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-01&columns=score";
const LONG: &str = "/v1/workspaces/credit/prod/predictions?from=2020-01-01&to=2021-12-31";
const PATIENCE: Duration = Duration::from_secs(60);

/// A table with a day of predictions that have long keys: about 6 MB of text.
fn filled(folder: &tempfile::TempDir) -> Arc<dyn Table> {
    let table: Arc<dyn Table> =
        Arc::new(SqliteTable::open(&folder.path().join("almanac.db"), Clock::system()).unwrap());
    block_on(async {
        let catalog = Catalog::new(Arc::clone(&table));
        let now = Clock::system().now();
        let workspace = catalog.ensure_workspace("credit/prod", now).await.unwrap();
        let task = Task::Binary { positive_label: "1".into() };
        catalog.ensure_model(workspace.id(), "m", &task, now).await.unwrap();
        let spec =
            ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
        catalog.ensure_release(workspace.id(), &spec, now).await.unwrap();
        let day: event::Day = "2026-06-01".parse().unwrap();
        for seq in 1..=SEGMENTS {
            let keys: Vec<String> = (0..ROWS).map(|row| format!("{seq}-{row}-{}", "x".repeat(300))).collect();
            let columns = vec![
                Column::new("key", Values::Text(keys.iter().map(String::as_str).collect())),
                Column::new("predicted_at", Values::Time(vec![day.start().micros(); ROWS])),
                Column::new("release", Values::Text(vec!["v1"; ROWS].into_iter().collect())),
                Column::new("score", Values::Float(vec![0.5; ROWS])),
            ];
            let log = LogId { workspace: workspace.id().clone(), day, kind: Kind::Predictions, lane: 0 };
            let columns = Columns { rows: ROWS, columns };
            let an_hour_ago = now.plus_seconds(-3_600);
            let segment = Segment::pack(log, seq, an_hour_ago, Vec::new(), &columns).unwrap();
            table.put(segment.to_item(), Condition::Absent).await.unwrap();
        }
    });
    table
}

/// The time for which a client may take nothing.
const WRITE_WITHIN: Duration = Duration::from_secs(15);

fn options(queries: Bounds) -> Options {
    Options { queries, write_within: WRITE_WITHIN, ..Options::new(Clock::system()) }
}

/// The most bytes that the system takes for a client that reads nothing: by itself it may take more than an answer.
const TAKEN_UNREAD: u32 = 64 * 1024;

/// Sends a request, and reads nothing.
fn send(service: &Service, path: &str) -> TcpStream {
    let mut client = block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(TAKEN_UNREAD).unwrap();
        socket.connect(service.address().parse().unwrap()).await.unwrap().into_std().unwrap()
    });
    client.set_nonblocking(false).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nHost: almanac\r\nConnection: close\r\n\r\n").unwrap();
    client
}

/// The bytes that come until the end, whether it was meant to end there or not.
fn rest(mut client: TcpStream) -> Vec<u8> {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut all = Vec::new();
    let mut some = [0; 65_536];
    // A connection that was dropped ends with an error.
    while let Ok(bytes) = client.read(&mut some) {
        if bytes == 0 {
            break;
        }
        all.extend_from_slice(&some[..bytes]);
    }
    all
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The bytes of memory that queries hold, as the service measures them.
fn held_bytes(service: &Service) -> f64 {
    let metrics = service.get("/metrics");
    let line = metrics.text().lines().find_map(|line| line.strip_prefix("almanac_query_held_bytes "));
    line.expect("the gauge of what queries hold").parse().unwrap()
}

#[test]
fn idle_readers_are_dropped_and_free_memory() {
    let _alone = alone();
    const MOST_CLIENTS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { memory: 64 << 20, wait: Duration::from_millis(200), ..Bounds::default() };
    let service = Service::start_on(filled(&folder), options(bounds));
    let whole = service.get(LARGE);
    assert_eq!((whole.status, whole.body.len() > 6_000_000), (200, true), "{}", whole.body.len());
    // Each is answered, reads how its answer begins and nothing more, until no memory is left for another.
    let mut clients = Vec::new();
    loop {
        let mut client = send(&service, LARGE);
        let mut status = [0; "HTTP/1.1 200".len()];
        client.read_exact(&mut status).unwrap();
        match &status {
            b"HTTP/1.1 200" => clients.push(client),
            other => break assert_eq!(other, b"HTTP/1.1 503"),
        }
        assert!(clients.len() < MOST_CLIENTS, "their answers take all memory");
    }
    assert!(!clients.is_empty());
    assert_eq!(service.get("/healthz").status, 200);
    // None of them takes a byte for as long as a client may: they are dropped, and others are answered.
    until("a service that holds nothing any more", || held_bytes(&service) == 0.0);
    assert_eq!(service.get(LARGE).status, 200);
    let taken: Vec<usize> = clients.into_iter().map(|client| rest(client).len()).collect();
    assert!(taken.iter().all(|bytes| *bytes < whole.body.len()), "{taken:?}");
}

#[test]
fn a_query_whose_client_has_gone_stops_reading() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let table = Hooked::new(filled(&folder), move |asked| {
        if matches!(asked, Asked::Query(query) if query.range.pk.ends_with("/day")) {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
        Turn::Pass
    });
    let service = Service::start_on(table, options(Bounds::default()));
    let client = send(&service, LONG);
    until("a query that reads", || reads.load(Ordering::Relaxed) > 10);
    drop(client);
    // It stands still when several looks, each as long as many reads, see the same.
    let (mut before, mut same) = (0, 0);
    until("an end of reading", || {
        std::thread::sleep(Duration::from_millis(100));
        let now = reads.load(Ordering::Relaxed);
        same = if now == before { same + 1 } else { 0 };
        before = now;
        same == 3
    });
    assert!(before < 700, "{before} of 731 days were read");
}

#[test]
fn oversized_query_is_refused_while_small_ones_run() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let table = filled(&folder);
    let bounds = Bounds { memory: 4 << 20, ..Bounds::default() };
    let service = Service::start_on(Arc::clone(&table), options(bounds));
    std::thread::scope(|scope| {
        let large = scope.spawn(|| (0..5).map(|_| service.get(LARGE)).collect::<Vec<_>>());
        for _ in 0..10 {
            let small = service.get(SMALL);
            // The large one may hold what is left for a moment.
            assert!([200, 503].contains(&small.status), "{}", small.text());
        }
        for refused in large.join().unwrap() {
            assert_eq!(refused.status, 413, "{}", refused.text());
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            for said in ["more than the 3.0 MiB", "it holds ", "fewer days", "--query-memory"] {
                assert!(detail.contains(said), "{detail}");
            }
        }
    });
    assert_eq!(service.get(SMALL).text().lines().count(), SEGMENTS as usize * ROWS);
}

#[test]
fn excess_concurrent_queries_are_turned_away() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let began = Arc::new(AtomicBool::new(false));
    let beginning = Arc::clone(&began);
    let table = Hooked::new(filled(&folder), move |asked| {
        // The read of the query; a projector reads from a segment on.
        let is_read = matches!(asked, Asked::Query(query) if query.range.from == "day#2026-06-01/p/");
        if is_read && hanging.load(Ordering::Relaxed) {
            beginning.store(true, Ordering::Relaxed);
            return Turn::Hang;
        }
        Turn::Pass
    });
    let bounds = Bounds { running: 1, waiting: 0, ..Bounds::default() };
    let service = Service::start_on(table, options(bounds));
    let hung = send(&service, SMALL);
    until("a query that hangs", || began.load(Ordering::Relaxed));
    hangs.store(false, Ordering::Relaxed);
    let refused = String::from_utf8(rest(send(&service, SMALL))).unwrap();
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 1"), "{refused}");
    drop(hung);
    until("a turn", || service.get(SMALL).status == 200);
}

/// The keys of the day alone take more than there is; they are read in partitions.
#[test]
fn day_exceeding_memory_is_evaluated_as_of_instant() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let table = filled(&folder);
    let as_of = Clock::system().now().plus_seconds(-600);
    let path = format!("/v1/workspaces/credit/prod/evaluations?from=2026-06-01&to=2026-06-01&as-of={as_of}");
    let with = |memory| {
        let bounds = Bounds { memory, ..Bounds::default() };
        let service = Service::start_on(Arc::clone(&table), options(bounds));
        let answer = service.get(&path);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let some = with(4 << 20);
    assert_eq!(some["predictions"], SEGMENTS * ROWS as u64);
    assert_eq!(some, with(Bounds::default().memory));
}

/// The table of [`filled`] with this number of lanes of the same events: far more than is read ahead of what a client takes.
fn filled_lanes(folder: &tempfile::TempDir, lanes: u8) -> Arc<dyn Table> {
    let engine = filled(folder);
    let table = Store::over(Arc::clone(&engine));
    block_on(async {
        let workspace = Catalog::new(Arc::clone(&engine)).workspace("credit/prod").await.unwrap();
        let log = scan::log_named(workspace.id(), "2026-06-01".parse().unwrap(), "p/00").unwrap();
        for segment in scan::segments(&*table, &log, 1, SEGMENTS).await.unwrap() {
            if segment.seq == 1 {
                // The first segment of lane 0 states how many lanes there are.
                let first = Segment { lanes: Some(lanes), ..segment.clone() };
                table.put(first.to_item(), Condition::Exists).await.unwrap();
            }
            for lane in 1..lanes {
                let copy = Segment { log: LogId { lane, ..log.clone() }, ..segment.clone() };
                table.put(copy.to_item(), Condition::Absent).await.unwrap();
            }
        }
    });
    engine
}

const LANES: u8 = 12;

/// Every answer of events is sent as it is made.
fn streamed() -> Options {
    options(Bounds { whole: 0, ..Bounds::default() })
}

/// An answer with the head, as it came, to a request that takes trailers.
fn raw(service: &Service, path: &str) -> String {
    let mut client = TcpStream::connect(service.address()).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nHost: almanac\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n")
        .unwrap();
    String::from_utf8(rest(client)).unwrap()
}

#[test]
fn large_answer_is_chunked_with_row_count_trailer() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start_on(filled(&folder), streamed());
    let answer = raw(&service, SMALL);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for header in ["transfer-encoding: chunked", "trailer: almanac-rows", "almanac-read-version: "] {
        assert!(head.contains(header), "{head}");
    }
    assert!(
        body.ends_with(&format!("\r\n0\r\nalmanac-rows: {}\r\n\r\n", SEGMENTS as usize * ROWS)),
        "the trailer"
    );
    // A client that takes no trailers has the same rows.
    assert_eq!(service.get(SMALL).text().lines().count(), SEGMENTS as usize * ROWS);
}

#[test]
fn failing_answer_is_broken_off() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let last = format!("day#2026-06-01/p/{:02}/", LANES - 1);
    let table = Hooked::new(filled_lanes(&folder, LANES), move |asked| match asked {
        // The read of the events, and not the one that counts them.
        Asked::Query(query) if query.range.from.starts_with(&last) && query.attributes.is_none() => {
            Turn::Fail(event::ErrorKind::Unavailable)
        }
        _ => Turn::Pass,
    });
    let service = Service::start_on(table, streamed());
    let client = send(&service, LARGE);
    let answer = String::from_utf8(rest(client)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{}", &answer[..100]);
    assert!(answer.len() > 10_000_000 && !answer.ends_with("0\r\n\r\n"), "it seems complete");
    until("a service that holds nothing any more", || held_bytes(&service) == 0.0);
}

#[test]
fn abandoned_or_stalled_stream_releases_its_memory() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start_on(filled_lanes(&folder, LANES), streamed());
    let begin = || {
        let mut client = send(&service, LARGE);
        client.read_exact(&mut [0; 65_536]).unwrap();
        client
    };
    let (goes, stops) = (begin(), begin());
    assert!(held_bytes(&service) > 0.0);
    drop(goes);
    // The other one is dropped when it has taken nothing for as long as a client may.
    until("a service that holds nothing any more", || held_bytes(&service) == 0.0);
    assert!(rest(stops).len() < 40_000_000);
}
