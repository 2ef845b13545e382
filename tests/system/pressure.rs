//! Backpressure over HTTP: slow bodies, too many requests, small bodies that become large, and a stop in the middle of one.
//!
//! The memory that a writer takes who tries everything is counted for some seconds; `ALMANAC_PRESSURE_SECONDS=60` makes that a minute.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use ingest::admission::Bounds;
use polars::prelude::{Column, DataFrame};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Place, Running, Service, ndjson, run_ok};

const ROW: &str = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.5}"#;

/// Slots of all, and large requests of one workspace that may be without one (`ingest::admission::Bounds`).
const SLOTS: usize = 8;
const READING_OF_WORKSPACE: usize = 256;

/// A request whose body comes piece by piece.
struct Slow {
    stream: BufReader<TcpStream>,
}

impl Slow {
    /// Sends the head of an append with a chunked body.
    fn begin(service: &Service, workspace: &str) -> Self {
        Self::post(service, &format!("/v1/workspaces/{workspace}/predictions"))
    }

    /// Sends the head of a request to a path.
    fn post(service: &Service, path: &str) -> Self {
        let address = service.address();
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let content_type = if path.contains("mlflow") { "application/json" } else { "application/x-ndjson" };
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {address}\r\n\
             Content-Type: {content_type}\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        )
        .unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Waits until the service asks for the body: from then on the request is under way.
    fn once_read(mut self) -> Self {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 100"), "{line}");
        self.stream.read_line(&mut line).unwrap();
        self
    }

    fn send(&mut self, text: &str) {
        write!(self.stream.get_mut(), "{:x}\r\n{text}\r\n", text.len()).unwrap();
    }

    fn end(&mut self) {
        self.stream.get_mut().write_all(b"0\r\n\r\n").unwrap();
    }

    /// The status, the head and the body of the answer.
    fn answer(mut self) -> (u16, String, String) {
        let (mut head, mut line) = (String::new(), String::new());
        while self.stream.read_line(&mut line).unwrap() > 2 {
            head += &line.to_ascii_lowercase();
            line.clear();
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, String::from_utf8(body).unwrap())
    }
}

fn place() -> Place {
    let place = Place::sqlite();
    for workspace in ["a/one", "a/two"] {
        run_ok(&place, &["workspace", "create", workspace]);
        run_ok(&place, &["model", "create", "--task", "binary", "m", "-w", workspace]);
        run_ok(&place, &["release", "create", "v1", "-w", workspace, "--model", "m"]);
    }
    place
}

#[test]
fn stalled_request_body_is_given_up() {
    let place = place();
    let service = Service::start(&place);
    let mut slow = Slow::begin(&service, "a/one").once_read();
    slow.send(ROW);
    let (status, _, body) = slow.answer();
    assert_eq!(status, 408, "{body}");
    assert!(body.contains("no pause may last 10 s"), "{body}");
    assert_eq!(stored(&place), 0);
}

#[test]
fn excess_uploads_are_refused_without_blocking_others() {
    let place = place();
    let service = Service::start(&place);
    let reading: Vec<Slow> =
        (0..READING_OF_WORKSPACE).map(|_| Slow::begin(&service, "a/one").once_read()).collect();
    let (status, head, body) = Slow::begin(&service, "a/one").answer();
    assert_eq!(status, 429, "{body}");
    assert!(head.contains("retry-after: 1"), "{head}");
    assert!(body.contains("this workspace has too many requests under way"), "{body}");
    // Another workspace is let through, and small requests are.
    let mut other = Slow::begin(&service, "a/two").once_read();
    other.send(ROW);
    other.end();
    assert_eq!(other.answer().0, 201);
    let small = service.post("/v1/workspaces/a/one/predictions", "application/x-ndjson", None, ROW);
    assert_eq!(small.status, 201, "{}", small.text());
    drop(reading);
}

/// True if the service has said anything yet that was not read.
fn is_answered(slow: &Slow) -> bool {
    slow.stream.get_ref().set_nonblocking(true).unwrap();
    let is_answered = slow.stream.get_ref().peek(&mut [0]).is_ok();
    slow.stream.get_ref().set_nonblocking(false).unwrap();
    is_answered
}

#[test]
fn slow_uploads_in_all_slots_delay_no_other() {
    let place = place();
    let service = Service::start(&place);
    // More than what is read before a slot is asked for, in rows that are parsed as they come.
    let much = format!("{ROW}\n").repeat(10_000);
    let slow: Vec<Slow> = (0..SLOTS)
        .map(|number| {
            let mut slow = Slow::begin(&service, ["a/one", "a/two"][number % 2]).once_read();
            slow.send(&much);
            slow
        })
        .collect();
    let mut other = Slow::begin(&service, "a/two").once_read();
    other.send(&much);
    other.end();
    let (status, _, body) = other.answer();
    assert_eq!(status, 201, "{body}");
    assert!(!slow.iter().any(is_answered), "the slow ones are not given up yet");
    // A slow one is not lost: it is stored once the rest of it comes.
    for (number, mut slow) in slow.into_iter().enumerate() {
        slow.send(&format!("{}\n", ROW.replace("\"a\"", &format!("\"{number}\""))));
        slow.end();
        let (status, _, body) = slow.answer();
        assert_eq!(status, 201, "{body}");
    }
    assert_eq!(stored(&place), SLOTS / 2 * 10_001);
}

#[test]
fn mlflow_bodies_share_the_upload_limits() {
    let place = place();
    let service = Running::start(&place, &["--mlflow"], &[]);
    let door = |workspace: &str, does: &str| format!("/mlflow/{workspace}/api/2.0/mlflow/runs/{does}");
    let create = |workspace: &str| {
        let made = service.post(&door(workspace, "create"), "application/json", None, "{}");
        assert_eq!(made.status, 200, "{}", made.text());
        made.json()["run"]["info"]["run_id"].clone()
    };
    let full = door("a/one", "log-batch");
    let reading: Vec<Slow> =
        (0..READING_OF_WORKSPACE).map(|_| Slow::post(&service, &full).once_read()).collect();
    let (status, _, body) = Slow::post(&service, &full).answer();
    assert_eq!(status, 429, "{body}");
    assert!(body.contains("REQUEST_LIMIT_EXCEEDED"), "{body}");
    // Small requests are let through.
    create("a/one");
    // In another workspace are more large ones than there are slots: none keeps a slot that its own metrics need.
    let metric = |step: i64| json!({ "key": "loss", "value": 0.5, "timestamp": 1_780_000_000_000_i64 + step, "step": step });
    let metrics: Vec<Value> = (0..1_500).map(metric).collect();
    let batch = json!({ "run_id": create("a/two"), "metrics": metrics }).to_string();
    let open = door("a/two", "log-batch");
    let mut large: Vec<Slow> = (0..2 * SLOTS).map(|_| Slow::post(&service, &open).once_read()).collect();
    for slow in &mut large {
        slow.send(&batch);
        slow.end();
    }
    for slow in large {
        let (status, _, body) = slow.answer();
        assert_eq!(status, 200, "{body}");
    }
    drop(reading);
}

#[test]
fn what_was_begun_is_ended_before_the_stop() {
    let place = place();
    let service = Service::start(&place);
    let mut slow = Slow::begin(&service, "a/one").once_read();
    slow.send(ROW);
    let address = service.address();
    let stopping = std::thread::spawn(move || drop(service));
    // Nobody new is let in once the service stops.
    while TcpStream::connect(&address).is_ok() {
        std::thread::yield_now();
    }
    slow.end();
    let (status, _, body) = slow.answer();
    assert_eq!(status, 201, "{body}");
    stopping.join().unwrap();
    assert_eq!(stored(&place), 1);
}

fn stored(place: &Place) -> usize {
    let window = ["--from", "2026-06-01", "--to", "2026-06-01", "--format", "ndjson"];
    ndjson(&run_ok(place, &[&["query", "predictions", "-w", "a/one"], &window[..]].concat())).len()
}

/// Statements of one reader, each of which takes as much memory as it may, or more; and another reader meanwhile.
#[test]
fn one_readers_statements_leave_room_for_others() {
    let place = place();
    let admin = run_ok(&place, &["init"]).trim().to_owned();
    let [greedy, other] = ["greedy", "other"].map(|user| {
        let principal = format!("user:{user}");
        run_ok(&place, &["user", "create", user]);
        run_ok(&place, &["access", "grant", &principal, "reader", "-w", "a/one"]);
        run_ok(&place, &["token", "create", &principal, "--name", "own"]).trim().to_owned()
    });
    let service = Running::start(&place, &[], &[]);
    let send = |token: &str, path: &str, kind: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", kind)];
        service.send("post", &format!("/v1/workspaces/a/one/{path}"), &headers, Some(body.as_bytes()))
    };
    let row = |n: usize| json!({ "key": format!("k{n:04}"), "predicted_at": "2026-06-01T04:30:00Z", "release": "v1", "score": 0.5 });
    let rows: Value = (0..3_300).map(row).collect();
    let appended = send(&admin, "predictions", "application/json", &rows.to_string());
    assert_eq!(appended.status, 201, "{}", appended.text());
    let ask = |token: &str, statement: &str| {
        send(token, "sql", "application/json", &json!({ "sql": statement }).to_string())
    };
    // Every row meets every row, and takes 16 bytes in each of three columns: the first needs nearly all memory there is, the second
    // nearly what one caller may have.
    let joined = |below: &str| {
        format!(
            "select count(*) as n from predictions p join predictions q on p.release = q.release \
             where p.day = '2026-06-01' and q.day = '2026-06-01' and p.key < '{below}' and q.key < '{below}'"
        )
    };
    let (all, most) = (joined("k3300"), joined("k2850"));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for n in 0..40 {
            let (statement, is_over, ask, greedy) =
                (if n % 2 == 0 { &all } else { &most }, &is_over, &ask, &greedy);
            scope.spawn(move || {
                let mut statuses = BTreeSet::new();
                while !is_over.load(Ordering::Relaxed) {
                    statuses.insert(ask(greedy, statement).status);
                }
                assert!(statuses.is_subset(&[200, 413, 503].into()), "{statuses:?}");
            });
        }
        let answers: Vec<_> = (0..20)
            .map(|_| {
                let answer = ask(&other, "select count(*) as n from predictions where day = '2026-06-01'");
                (answer.status, answer.text().to_owned())
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(answers.iter().all(|(status, said)| *status == 200 && said.contains("3300")), "{answers:?}");
    });
    assert_eq!(ask(&greedy, &all).status, 413, "more than one caller may have");
    let answer = ask(&greedy, &most);
    assert_eq!((answer.status, answer.text().contains("8122500")), (200, true), "{}", answer.text());
}

/// Rows and features of a body that takes about the most memory that a batch may.
const ROWS: usize = 100_000;
const FEATURES: usize = 80;

/// The writers at one time.
const WRITERS: usize = 12;

/// The memory of a process besides that of bodies: pages that the allocator keeps, copies of one column, segments that are packed.
const BESIDES_MIB: usize = 64;

/// A table with columns of one value each, which is packed into some KiB.
fn packed(format: query::Format, rows: usize, release: &str, columns: &[(String, Value)]) -> Vec<u8> {
    let fields = [("key", "a"), ("predicted_at", "2026-06-01T04:30:00Z"), ("release", release)];
    let fields = fields.map(|(name, value)| (name.to_owned(), json!(value))).into_iter();
    let all = fields.chain([("score".to_owned(), json!(0.5))]).chain(columns.iter().cloned());
    let column = |(name, value): (String, Value)| match value.as_f64() {
        Some(number) => Column::new(name.into(), vec![number; rows]),
        None => Column::new(name.into(), vec![value.as_str().unwrap(); rows]),
    };
    let mut body = Vec::new();
    format.write(&mut DataFrame::new(rows, all.map(column).collect()).unwrap(), &mut body).unwrap();
    body
}

fn features(count: usize) -> Vec<(String, Value)> {
    (0..count).map(|number| (format!("feature.f{number}"), json!(0.25))).collect()
}

/// A body, by its content type and encoding.
struct Sent {
    content_type: &'static str,
    encoding: &'static str,
    body: Vec<u8>,
}

impl Sent {
    fn new(content_type: &'static str, body: Vec<u8>) -> Self {
        Self { content_type, encoding: "identity", body }
    }

    fn zstd(content_type: &'static str, body: &[u8]) -> Self {
        Self { content_type, encoding: "zstd", body: zstd::encode_all(body, 1).unwrap() }
    }
}

/// Small bodies that become large, each in its own way: the first is good, later ones have up to `rows` rows.
fn small_and_large(rows: usize) -> Vec<Sent> {
    let (parquet, arrow) = ("application/vnd.apache.parquet", "application/vnd.apache.arrow.stream");
    let tags: Vec<_> = (0..60).map(|tag| (format!("tag.t{tag}"), json!("x".repeat(128)))).collect();
    // A row of many columns, behind many that have none: a late value fills its column up to it.
    let members: String = (0..250).map(|number| format!("\"f{number}\":1,")).collect();
    let late = format!("{}{{\"features\":{{{}}}}}\n", "{}\n".repeat(20_000), members.trim_end_matches(','));
    let header: String = (0..80).map(|number| format!(",feature.f{number}")).collect();
    let csv = format!("a,2026-06-01T04:30:00Z,v1,0.5{}\n", ",1".repeat(80)).repeat(rows / 2);
    let column = |value: &str| format!("[{}]", vec![value; rows / 20].join(","));
    let columns: String = (0..250).map(|at| format!(",\"feature.f{at}\":{}", column("1"))).collect();
    let columns = format!("{{\"key\":{}{columns}}}", column("\"a\""));
    let many = packed(query::Format::Parquet, ROWS, "no release", &features(FEATURES));
    vec![
        Sent::new(parquet, packed(query::Format::Parquet, rows / 2, "v1", &features(8))),
        Sent::new(parquet, many.clone()),
        Sent::new(parquet, many.clone()),
        Sent::zstd(parquet, &many),
        Sent::new(parquet, packed(query::Format::Parquet, rows, "v1", &tags)),
        Sent::new(arrow, packed(query::Format::IpcStreamLz4, rows, "no release", &features(FEATURES))),
        Sent::zstd(arrow, &packed(query::Format::IpcStream, rows, "no release", &features(FEATURES))),
        Sent::zstd("application/x-ndjson", format!("{ROW}\n").repeat(rows).as_bytes()),
        Sent::new("application/x-ndjson", late.into_bytes()),
        Sent::zstd("text/csv", format!("key,predicted_at,release,score{header}\n{csv}").as_bytes()),
        Sent::zstd("application/json", columns.as_bytes()),
        Sent::zstd("application/json", " ".repeat(60 << 20).as_bytes()),
    ]
}

/// The most memory that a process had resident since it was last asked to forget it.
fn peak_mib(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() / 1_024
}

#[test]
fn small_bodies_that_become_large_take_bounded_memory() {
    let seconds = std::env::var("ALMANAC_PRESSURE_SECONDS").ok().map(|text| text.parse().unwrap());
    let (place, bodies) = (place(), small_and_large(if seconds.is_some() { ROWS } else { ROWS / 10 }));
    let service = Running::start(&place, &["--role", "ingest"], &[]);
    let send = |sent: &Sent| {
        let headers = [("Content-Type", sent.content_type), ("Content-Encoding", sent.encoding)];
        service.send("POST", "/v1/workspaces/a/one/predictions", &headers, Some(&sent.body))
    };
    let small = || service.post("/v1/workspaces/a/one/predictions", "application/x-ndjson", None, ROW).status;
    assert_eq!(small(), 201);
    let before = peak_mib(service.process.id());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (is_over, next, probes) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let slowest = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let turn = next.fetch_add(1, Ordering::Relaxed);
                        if until.map_or(turn >= bodies.len(), |until| Instant::now() >= until) {
                            return;
                        }
                        let sent = &bodies[turn % bodies.len()];
                        let answer = send(sent);
                        assert!(
                            matches!(answer.status, 201 | 413 | 422 | 503),
                            "{} for body {}: {}",
                            answer.status,
                            turn % bodies.len(),
                            answer.text()
                        );
                    }
                })
            })
            .collect();
        let probe = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                assert_eq!(service.get("/healthz").status, 200);
                probes.fetch_add(1, Ordering::Relaxed);
                slowest = slowest.max(began.elapsed());
            }
            slowest
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        probe.join().unwrap()
    });
    let (taken, sent) = (peak_mib(service.process.id()) - before, next.load(Ordering::Relaxed) - WRITERS);
    let probes = probes.into_inner();
    println!("{sent} bodies took {taken} MiB; the slowest of {probes} answers of /healthz took {slowest:?}");
    let most = Bounds::default().bytes >> 20;
    assert!(taken <= most + BESIDES_MIB, "{taken} MiB were taken, where uploads have {most}");
    // Nothing of them is worked on by the threads that answer: they go on while bodies are read.
    assert!(probes > sent, "{probes} answers of /healthz while {sent} bodies came");
    assert!(seconds.is_none() || slowest < Duration::from_millis(500), "/healthz took {slowest:?}");
    // A good body is taken when it comes alone, and nothing is held any more.
    assert_eq!(send(&bodies[0]).status, 201);
    assert_eq!(small(), 201);
}
