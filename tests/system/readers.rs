//! Many readers of everything, some of which stop reading: the service takes no more memory than it may, every answer
//! that ends is complete, and ingest goes on.
//!
//! It stores 600,000 events. The long form is `ALMANAC_READERS_ROWS=30000000 cargo test --release --workspace --test endurance --
//! --nocapture readers`: it stores so many, and prints how much memory the service took and how fast it took events in meanwhile.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::Arc,
    thread,
    time::Duration,
};

use catalog::Catalog;
use event::{Column, Columns, Day, Kind, Values};
use log::{key::LogId, segment_item::Segment};
use table::Condition;

use tokio::{net::TcpSocket, time::Instant};

use crate::support::{Located as _, Place, Running, alone, block_on, run_ok};

/// Clients that read all of the answer, and clients that stop.
const READERS: usize = 6;
const STALLED: usize = 3;

/// The addresses from which they call, each a caller of its own, whose answers leave places for the other's.
const READING: &str = "127.0.0.1:0";
const STALLING: &str = "127.0.0.2:0";

const DAYS: usize = 30;
const SEGMENT_ROWS: usize = 5_000;

/// The most memory that the service may take, in KiB, however many events there are: 500 MB. On an idle machine it takes two
/// thirds of that.
const MOST_KIB: u64 = 500_000_000 / 1024;

const PATIENCE: Duration = Duration::from_secs(600);

/// A workspace with about so many predictions on the days of June, and how many there are.
fn filled(place: &Place, rows: usize) -> usize {
    run_ok(place, &["workspace", "create", "credit/prod"]);
    run_ok(place, &["model", "create", "--task", "binary", "m", "-w", "credit/prod"]);
    run_ok(place, &["release", "create", "v1", "-w", "credit/prod", "--model", "m"]);
    let segments = rows.div_ceil(DAYS * SEGMENT_ROWS);
    block_on(async {
        let table = place.store().open().await;
        let workspace = Catalog::new(Arc::clone(&table)).workspace("credit/prod").await.unwrap();
        let first: Day = "2026-06-01".parse().unwrap();
        for day in std::iter::successors(Some(first), |day| day.next()).take(DAYS) {
            let keys: Vec<String> = (0..SEGMENT_ROWS).map(|row| format!("a-customer-{row:09}")).collect();
            let time = |row: usize| day.start().micros() + row as i64 * 1_000;
            let columns = vec![
                Column::new("key", Values::Text(keys.iter().map(String::as_str).collect())),
                Column::new("predicted_at", Values::Time((0..SEGMENT_ROWS).map(time).collect())),
                Column::new("release", Values::Text(vec!["v1"; SEGMENT_ROWS].into_iter().collect())),
                Column::new("score", Values::Float((0..SEGMENT_ROWS).map(|row| row as f64).collect())),
            ];
            let log = LogId { workspace: workspace.id().clone(), day, kind: Kind::Predictions, lane: 0 };
            let columns = Columns { rows: SEGMENT_ROWS, columns };
            let segment = Segment::pack(log, 1, day.start(), Vec::new(), &columns).unwrap();
            for seq in 1..=segments as u64 {
                let segment = Segment { seq, ..segment.clone() };
                table.put(segment.to_item(), Condition::Absent).await.unwrap();
            }
        }
    });
    DAYS * segments * SEGMENT_ROWS
}

const EVERYTHING: &str =
    "/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-30&format=ipc-stream";

/// Asks for everything, and waits for the answer to begin.
fn begin(address: &str, from: &str) -> BufReader<TcpStream> {
    let mut stream = block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(from.parse().unwrap()).unwrap();
        socket.connect(address.parse().unwrap()).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {EVERYTHING} HTTP/1.1\r\nHost: almanac\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n"
    )
    .unwrap();
    let mut answer = BufReader::new(stream);
    let head = lines(&mut answer);
    assert!(head[0].starts_with("HTTP/1.1 200"), "{head:?}");
    answer
}

/// Lines up to an empty one.
fn lines(from: &mut impl BufRead) -> Vec<String> {
    let lines = from.lines().map(Result::unwrap);
    lines.take_while(|line| !line.is_empty()).collect()
}

/// Reads an answer to its end: how many bytes it has, and how many rows it says it has.
fn read_all(mut answer: BufReader<TcpStream>) -> (u64, usize) {
    let mut bytes = 0;
    loop {
        let mut size = String::new();
        answer.read_line(&mut size).unwrap();
        let size = u64::from_str_radix(size.trim(), 16).expect("the size of a chunk");
        if size == 0 {
            break;
        }
        let with_end = size + 2;
        assert_eq!(std::io::copy(&mut (&mut answer).take(with_end), &mut std::io::sink()).unwrap(), with_end);
        bytes += size;
    }
    let trailers = lines(&mut answer);
    let rows = trailers.iter().find_map(|line| line.strip_prefix("almanac-rows: "));
    (bytes, rows.expect("a trailer").parse().unwrap())
}

/// The most memory that a process ever had, in KiB.
fn peak_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// The number of batches that come in before the readers, and at least beside them, and of events in each.
const BATCHES: usize = 50;
const BATCH_ROWS: usize = 200;

/// Appends batches until told to stop, and says how many events a second were taken.
fn appended(service: &Running, first: usize, is_enough: impl Fn(usize) -> bool) -> f64 {
    let began = Instant::now();
    let mut batches = 0;
    while !is_enough(batches) {
        let event = |row: usize| {
            let key = (first + batches) * BATCH_ROWS + row;
            format!(
                "{{\"key\":\"{key}\",\"predicted_at\":\"2026-07-01T04:30:00Z\",\"release\":\"v1\",\"score\":0.5}}\n"
            )
        };
        let body: String = (0..BATCH_ROWS).map(event).collect();
        let path = "/v1/workspaces/credit/prod/predictions";
        let taken = service.post(path, "application/x-ndjson", None, &body);
        assert_eq!(taken.status, 201, "{}", taken.text());
        batches += 1;
    }
    (batches * BATCH_ROWS) as f64 / began.elapsed().as_secs_f64()
}

#[test]
fn readers_of_everything_take_little_memory_despite_stalls() {
    let _alone = alone();
    let rows = std::env::var("ALMANAC_READERS_ROWS").map_or(600_000, |text| text.parse().expect("a number"));
    let place = Place::sqlite();
    let rows = filled(&place, rows);
    let service = Running::start(&place, &["--role", "ingest", "--role", "query"], &[]);
    let address = service.address();
    let alone = appended(&service, 0, |batches| batches == BATCHES);
    let stalled: Vec<_> = (0..STALLED).map(|_| begin(&address, STALLING)).collect();
    let (mut beside, began) = (0.0, Instant::now());
    let read = thread::scope(|scope| {
        let readers: Vec<_> =
            (0..READERS).map(|_| scope.spawn(|| read_all(begin(&address, READING)))).collect();
        // Events come in all the while.
        let have_ended =
            |batches| batches >= BATCHES && readers.iter().all(thread::ScopedJoinHandle::is_finished);
        beside = appended(&service, BATCHES, have_ended);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(read.iter().all(|answer| *answer == (read[0].0, rows)), "{read:?}");
    let peak = peak_kib(service.process.id());
    println!("{rows} rows, {} bytes an answer, at most {peak} KiB", read[0].0);
    println!("{beside:.0} events a second came in beside the readers, {alone:.0} without them");
    println!("the readers took {:.1} s", began.elapsed().as_secs_f64());
    assert!(peak < MOST_KIB, "{peak} KiB");
    drop(stalled);
}
