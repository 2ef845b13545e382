//! Backpressure over HTTP: slow bodies, too many requests, and a stop in the middle of one.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{Place, Running, Service, ndjson, run_ok};

const ROW: &str = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.5}"#;

/// Slots of all, and large requests of one workspace that may be without one (`ingest::gate::Bounds`).
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
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {address}\r\n\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
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
        run_ok(&place, &["model", "create", "m", "-w", workspace]);
        run_ok(&place, &["release", "create", "v1", "-w", workspace, "--model", "m"]);
    }
    place
}

#[test]
fn a_body_that_does_not_come_is_given_up() {
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
fn who_sends_too_much_at_once_is_told_so_and_the_others_go_on() {
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

/// Whether the service has said anything yet that was not read.
fn is_answered(slow: &Slow) -> bool {
    slow.stream.get_ref().set_nonblocking(true).unwrap();
    let is_answered = slow.stream.get_ref().peek(&mut [0]).is_ok();
    slow.stream.get_ref().set_nonblocking(false).unwrap();
    is_answered
}

#[test]
fn as_many_slow_uploads_as_there_are_slots_delay_no_other_one() {
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
fn bodies_of_mlflows_clients_come_through_the_same_gate() {
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
    let rows: Value = (0..5_780).map(row).collect();
    let appended = send(&admin, "predictions", "application/json", &rows.to_string());
    assert_eq!(appended.status, 201, "{}", appended.text());
    let ask = |token: &str, statement: &str| {
        send(token, "sql", "application/json", &json!({ "sql": statement }).to_string())
    };
    // Every row meets every row: the first needs nearly all memory there is, the second what one caller may have.
    let joined = |below: &str| {
        format!(
            "select count(*) as n from predictions p join predictions q on p.release = q.release \
             where p.day = '2026-06-01' and q.day = '2026-06-01' and p.key < '{below}' and q.key < '{below}'"
        )
    };
    let (all, most) = (joined("l"), joined("k4700"));
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
        assert!(answers.iter().all(|(status, said)| *status == 200 && said.contains("5780")), "{answers:?}");
    });
    assert_eq!(ask(&greedy, &all).status, 413, "more than one caller may have");
    assert_eq!(ask(&greedy, &most).status, 200);
}
