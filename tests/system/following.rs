//! Following the log with the real binary and over HTTP: a killed program continues at its position.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    thread,
};

use log::read_version::ReadVersion;
use serde_json::{Value, json};

use crate::support::{Place, Running, almanac, ndjson, on_both_engines, register, run, run_ok};

on_both_engines!(killed_tail_resumes_without_losing_events, http_long_poll_answers_when_events_arrive,);

const EVENTS: &str = "/v1/workspaces/credit/prod/predictions";
const FOLLOW: &str = "/v1/workspaces/credit/prod/events/predictions";
const CONSUMERS: &str = "/v1/workspaces/credit/prod/consumers";
const WRITERS: usize = 2;
const ROUNDS: usize = 40;
const KEYS: usize = 6;
/// Number of times that the end of a tail is watched.
const ENDS: usize = 20;

/// Events that a writer posts in a round: some keys of its own, on days old and new.
fn batch(writer: usize, round: usize) -> String {
    let day = ["2026-06-03", "2026-06-01", "2026-05-20"][round % 3];
    (0..KEYS)
        .map(|key| {
            let event = json!({
                "key": format!("{writer}/{key}"), "release": "v1", "score": round as f64 / 100.0,
                "predicted_at": format!("{day}T01:00:00Z"),
            });
            format!("{event}\n")
        })
        .collect()
}

/// A named tail, whose lines are read one by one.
struct Tail {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Tail {
    fn start(place: &Place) -> Self {
        let args = ["tail", "-w", "credit/prod", "--kind", "predictions", "--consumer", "billing"];
        let mut command = almanac(place, &[&args[..], &["--limit", "20"]].concat());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    fn next(&mut self) -> Event {
        let line = self.lines.next().expect("it goes on").unwrap();
        event(&line).expect("a whole line")
    }

    /// Ends it as `kill -9` does, and returns the events printed by then; the last line may be incomplete.
    fn kill(mut self) -> Vec<Event> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.lines.map_while(|line| event(&line.unwrap())).collect()
    }
}

/// Key, day and score of an event.
type Event = (String, String, f64);

fn event(line: &str) -> Option<Event> {
    let event: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| event[name].as_str().unwrap().to_owned();
    Some((text("key"), text("day"), event["score"].as_f64().unwrap()))
}

fn killed_tail_resumes_without_losing_events(place: &Place) {
    let service = Running::start(place, &[], &[]);
    register(&service);
    run_ok(place, &["workspace", "settings", "credit/prod", "--lanes", "3"]);
    let mut seen = Vec::new();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let service = &service;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let taken = service.post(EVENTS, "application/x-ndjson", None, &batch(writer, round));
                    assert_eq!(taken.status, 201, "{}", taken.text());
                }
            });
        }
        // Killed again and again while events come, and once more in the middle of its output.
        for events in [1, 50, 90] {
            let mut tail = Tail::start(place);
            seen.extend((0..events).map(|_| tail.next()));
            seen.extend(tail.kill());
        }
    });
    let mut expected = BTreeMap::<(String, String), Vec<f64>>::new();
    for round in 0..ROUNDS {
        for event in (0..WRITERS).flat_map(|writer| ndjson(&batch(writer, round))) {
            let day = event["predicted_at"].as_str().unwrap()[..10].to_owned();
            let of_key = expected.entry((event["key"].as_str().unwrap().to_owned(), day)).or_default();
            of_key.push(event["score"].as_f64().unwrap());
        }
    }
    let all = WRITERS * ROUNDS * KEYS;
    let distinct = |seen: &[Event]| {
        let of = |(key, day, score): &Event| (key.clone(), day.clone(), score.to_bits());
        seen.iter().map(of).collect::<BTreeSet<_>>().len()
    };
    let mut tail = Tail::start(place);
    while distinct(&seen) < all {
        seen.push(tail.next());
    }
    seen.extend(tail.kill());
    // A killed tail repeats the answer that it had printed and not committed.
    let again = seen.len() - all;
    assert!(again < all / 2, "{again} of {all} came again: it did not go on where it was");
    let mut known = BTreeMap::<(String, String), Vec<f64>>::new();
    for (key, day, score) in seen {
        let of_key = known.entry((key, day)).or_default();
        if !of_key.contains(&score) {
            of_key.push(score);
        }
    }
    assert_eq!(known, expected, "all of it, each key in its order");
    // The last printed answer may not be committed yet; then there is nothing more.
    let once = ["tail", "-w", "credit/prod", "--kind", "predictions", "--consumer", "billing", "--once"];
    for _ in 0..ENDS {
        let ended = run(place, &once);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.success() && !said.contains("cannot be looked for"),
            "its own end is no failure: {said}"
        );
    }
    let args = ["workspace", "consumer", "show", "billing", "-w", "credit/prod", "--format", "json"];
    let shown: Value = serde_json::from_str(&run_ok(place, &args)).unwrap();
    assert_eq!((&shown["kind"], &shown["behind_segments"]), (&json!("predictions"), &json!(0)));
    assert!(run_ok(place, &["workspace", "consumer", "list", "-w", "credit/prod"]).contains("billing"));
    run_ok(place, &["workspace", "consumer", "delete", "billing", "-w", "credit/prod"]);
    assert!(!run_ok(place, &["workspace", "consumer", "list", "-w", "credit/prod"]).contains("billing"));
}

fn http_long_poll_answers_when_events_arrive(place: &Place) {
    let service = Running::start(place, &[], &[]);
    register(&service);
    let read_version_of =
        |answer: &crate::support::Answer| answer.header("almanac-read-version").unwrap().to_owned();
    let nothing = service.get(FOLLOW);
    assert_eq!((nothing.status, nothing.text()), (200, ""));
    let mut read_version = read_version_of(&nothing);
    for round in 0..6 {
        let (mut rows, end) = thread::scope(|scope| {
            let follows = scope.spawn(|| {
                let mut read_version = read_version.clone();
                loop {
                    let answer =
                        service.get(&format!("{FOLLOW}?wait=30&columns=key,score&after={read_version}"));
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    read_version = read_version_of(&answer);
                    if !answer.text().is_empty() {
                        assert_eq!(answer.header("almanac-behind"), Some("0"));
                        return (ndjson(answer.text()), read_version);
                    }
                }
            });
            let taken = service.post(EVENTS, "application/x-ndjson", None, &batch(0, round));
            assert_eq!(taken.status, 201, "{}", taken.text());
            follows.join().unwrap()
        });
        rows.sort_by_key(|row| row["key"].to_string());
        let expected = (0..KEYS).map(|key| json!({"key": format!("0/{key}"), "score": round as f64 / 100.0}));
        assert_eq!(rows, expected.collect::<Vec<_>>(), "round {round}");
        read_version = end;
    }
    // Arrow gives the same events.
    let arrow = service.get(&format!("{FOLLOW}?format=ipc-stream"));
    assert_eq!((arrow.content_type.as_str(), arrow.status), ("application/vnd.apache.arrow.stream", 200));
    // A read version also holds the time up to which expired days were looked for, which may have advanced since.
    let heads = |read_version: &str| read_version.parse::<ReadVersion>().unwrap().heads;
    assert_eq!(heads(&read_version_of(&arrow)), heads(&read_version));

    // A consumer continues after its committed position, which no later commit takes back.
    let commit = |read_version: &str| {
        let body = json!({ "consumer": "billing", "read_version": read_version }).to_string();
        service.send("put", CONSUMERS, &[("Content-Type", "application/json")], Some(body.as_bytes()))
    };
    let first = read_version_of(&service.get(&format!("{FOLLOW}?consumer=billing&limit=1")));
    for read_version in [&first, &read_version, &first] {
        let committed = commit(read_version);
        assert_eq!(committed.status, 200, "{}", committed.text());
    }
    assert_eq!(service.get(&format!("{FOLLOW}?consumer=billing")).text(), "");
    let listed = service.get(&format!("{CONSUMERS}?consumer=billing")).json();
    assert_eq!(listed["consumers"][0]["behind_segments"], 0, "{listed}");
    let gone = service.send("delete", &format!("{CONSUMERS}?consumer=billing"), &[], None);
    assert_eq!(gone.status, 204);
    assert_eq!(service.get(CONSUMERS).json(), json!({ "consumers": [] }));
    for method in ["get", "delete"] {
        let missing = service.send(method, &format!("{CONSUMERS}?consumer=billing"), &[], None);
        assert_eq!(missing.status, 404, "{method}: {}", missing.text());
        assert!(missing.text().contains("there is no consumer `billing`"), "{}", missing.text());
    }
    let refused = service.get(&format!("{FOLLOW}?consumer=billing&after={read_version}"));
    assert_eq!(refused.status, 400, "{}", refused.text());
}
