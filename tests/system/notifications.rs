//! News of a workspace from the real binary: of all processes, and without holding up an end.

use std::{
    io::{BufRead, BufReader},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use crate::support::{Place, Running, on_both_engines, register};

on_both_engines!(news_listener_hears_all_processes_without_delaying_shutdown);

const PATH: &str = "/v1/workspaces/credit/prod";
/// The number of streams that are begun until one says what is waited for.
const MAX_STREAMS: usize = 30;

/// The lines of a stream of news.
struct Stream(Box<dyn Iterator<Item = String>>);

impl Stream {
    fn of(service: &Running, query: &str) -> Self {
        let url = format!("http://{}{PATH}/news{query}", service.address());
        let body = ureq::get(&url).call().expect("it is answered").into_body();
        Self(Box::new(BufReader::new(body.into_reader()).lines().map_while(Result::ok)))
    }

    /// The data of the next event of this name. `None`, when the stream ends before.
    fn next(&mut self, name: &str) -> Option<Value> {
        let wanted = format!("event: {name}");
        self.0.find(|line| *line == wanted)?;
        let data = self.0.next()?;
        Some(serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap())
    }
}

/// True if there is news of a topic, in one stream or the next.
fn hears(service: &Running, stream: &mut Stream, topic: &str) -> bool {
    for _ in 0..MAX_STREAMS {
        while let Some(news) = stream.next("news") {
            if news["topics"].as_array().unwrap().iter().any(|one| one == topic) {
                return true;
            }
        }
        *stream = Stream::of(service, "");
    }
    false
}

fn news_listener_hears_all_processes_without_delaying_shutdown(place: &Place) {
    let all = Running::start(place, &[], &[]);
    let writer = Running::start(place, &["--role", "ingest"], &[]);
    register(&writer);
    all.get_until("/readyz", |answer| answer.status == 200);
    let reads_feed = |service: &Running| {
        Stream::of(service, "?seconds=1").next("hello").unwrap()["reads_feed"].as_bool().unwrap()
    };
    assert!((0..MAX_STREAMS).any(|_| reads_feed(&all) || {
        std::thread::sleep(Duration::from_secs(1));
        false
    }));
    // Notifications of what another process appends, and of what is made of it.
    let mut stream = Stream::of(&all, "");
    assert!(stream.next("hello").is_some());
    let post = |kind: &str, events: &str| {
        let answer = writer.post(&format!("{PATH}/{kind}"), "application/json", None, events);
        assert_eq!(answer.status, 201, "{}", answer.text());
    };
    post("predictions", r#"[{"key":"a","predicted_at":"2026-06-01T02:00:00Z","release":"v1","score":0.9}]"#);
    assert!(hears(&all, &mut stream, "events"));
    post(
        "outcomes",
        r#"[{"key":"a","observed_at":"2026-06-02T02:00:00Z","predicted_on":"2026-06-01","label":"default"}]"#,
    );
    assert!(hears(&all, &mut stream, "evaluations"));

    // A process that only queries says that it hears of no other one.
    let reader = Running::start(place, &["--role", "query"], &[]);
    assert!(!reads_feed(&reader));
    // Nobody waits for who listens: the stream ends when the service is asked to stop, and not after its 30 s.
    let mut last = Stream::of(&reader, "");
    assert!(last.next("hello").is_some());
    let asked = Instant::now();
    reader.stop();
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    assert_eq!(last.next("renew"), None, "it was not asked to be renewed, it ended");
}
