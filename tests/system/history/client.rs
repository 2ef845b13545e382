//! A client that writes and reads the events of a day of its own, and notes its observations.

use std::{thread, time::Duration};

use event::{Day, Timestamp, time::DAY_MICROS};
use log::segment_item::CLOSED_AFTER_SECONDS;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Append, AsOf, History, LATEST, Read, Row,
    faults::Span,
    world::{Dice, INGESTS, QUERIES, World, now},
};

/// Number of histories with their days in one workspace: so a projector that starts again compares these days, not those of all
/// histories.
const IN_ONE_WORKSPACE: usize = 100;
/// Minimum time until an instant is asked for again, in microseconds.
const LATE: i64 = 10_000_000;
/// Maximum time of one answer, and of all tries until an answer.
const ANSWER: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(180);

/// Workspaces for this number of histories.
pub(crate) fn workspaces(histories: usize) -> Vec<String> {
    (0..histories.div_ceil(IN_ONE_WORKSPACE)).map(workspace).collect()
}

fn workspace(number: usize) -> String {
    format!("sim/w{number}")
}

/// HTTP agent for this number of concurrent clients.
pub(crate) fn agent(clients: usize) -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER));
    let idle = clients * (INGESTS + QUERIES);
    config.max_idle_connections(idle).max_idle_connections_per_host(clients).build().into()
}

/// Answer over HTTP.
struct Said {
    status: u16,
    read_version: String,
    as_of: Option<i64>,
    warning: Option<String>,
    body: String,
}

/// Next step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vintage {
    /// Write and read.
    Live,
    /// Ask as of an instant within its writes.
    LookBack,
    /// Ask again for all answers that must not have changed.
    LookAgain,
}

/// One client, with a day of its own.
pub(crate) struct Client<'a> {
    world: &'a World,
    agent: ureq::Agent,
    dice: Dice,
    workspace: String,
    day: Day,
    vintage: Vintage,
    pub(crate) number: usize,
    pub(crate) writes: u64,
    pub(crate) history: History,
    /// Span of its writes and reads.
    pub(crate) lived: Span,
    /// Number of requests without an answer in time.
    pub(crate) unanswered: usize,
}

impl<'a> Client<'a> {
    pub(crate) fn new(world: &'a World, agent: ureq::Agent, number: usize) -> Self {
        let start: Day = "2000-01-01".parse().unwrap();
        let days = (number % IN_ONE_WORKSPACE) as i64;
        let day = Timestamp::from_micros(start.start().micros() + days * DAY_MICROS).unwrap().day();
        Self {
            world,
            agent,
            dice: Dice(number as u64 + 1),
            workspace: workspace(number / IN_ONE_WORKSPACE),
            day,
            vintage: Vintage::Live,
            number,
            writes: 0,
            history: History::default(),
            lived: Span::default(),
            unanswered: 0,
        }
    }

    /// Makes the next step, and returns the time of the following one; `None` at the end.
    pub(crate) fn go_on(&mut self) -> Option<i64> {
        match self.vintage {
            Vintage::Live => {
                let begun = now();
                self.live();
                self.lived = Span { begun, ended: now() };
                self.vintage = Vintage::LookBack;
                Some(self.lived.ended + look_back_after(self.number))
            }
            Vintage::LookBack => {
                self.look_back();
                self.vintage = Vintage::LookAgain;
                // Later, when all late events have come.
                Some(now() + LATE)
            }
            Vintage::LookAgain => {
                self.look_again();
                None
            }
        }
    }

    /// Tries once to get an answer of the process `at`.
    fn try_once(&self, at: usize, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Option<Said> {
        let uri = format!("http://{}/v1/workspaces/{}/{path}", self.world.address(at), self.workspace);
        let request = ureq::http::Request::builder().uri(uri);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = match body {
            Some(body) => self.agent.run(request.method("POST").body(body.to_owned()).unwrap()),
            None => self.agent.run(request.method("GET").body(()).unwrap()),
        };
        let mut answer = answer.ok()?;
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let (read_version, warning) =
            (header("almanac-read-version").unwrap_or_default(), header("almanac-warning"));
        let as_of = header("almanac-as-of").map(|as_of| Timestamp::parse(&as_of).unwrap().micros());
        let status = answer.status().as_u16();
        let body = answer.body_mut().read_to_string().ok()?;
        Some(Said { status, read_version, as_of, warning, body })
    }

    /// Tries all processes of its kind, again and again, until there is an answer.
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
        self.unanswered += 1;
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
            AsOf::ReadVersion(read_version) => format!("&read-version={read_version}"),
        };
        let (begun, day) = (now(), self.day);
        let said = self.ask(&format!("{what}?from={day}&to={day}{when}"), &[], None)?;
        // The days of a history are long over, so an answer as of an instant before its appends warns that they came later.
        let later = said.warning.as_deref().filter(|text| text.contains("had been appended"));
        assert_eq!(said.warning.as_deref(), later, "history {}", self.number);
        assert!(later.is_none() || said.body.is_empty() || what == "evaluations", "history {}", self.number);
        let rows = said.body.lines().map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            (row["key"].as_str().unwrap().to_owned(), row["latency_ms"].as_f64().unwrap() as u64)
        });
        let rows = (what != "evaluations").then(|| rows.collect());
        let as_of = match (as_of, said.as_of) {
            (AsOf::Instant(_), Some(answered)) => AsOf::Instant(answered),
            (other, _) => other.clone(),
        };
        let read_version = AsOf::ReadVersion(said.read_version.clone());
        let bytes = said.body;
        self.history.reads.push(Read {
            what,
            as_of: as_of.clone(),
            begun,
            rows,
            bytes,
            read_version: said.read_version,
        });
        Some(if matches!(as_of, AsOf::Instant(_)) { as_of } else { read_version })
    }

    /// Writes and reads of a history.
    fn live(&mut self) {
        let mut read_versions = Vec::new();
        for step in 0..6 {
            let fresh = format!("e{step}");
            match self.dice.below(4) {
                // One key, again and again, each after the acknowledgement of the one before.
                0 | 1 => self.append(&["same"], true),
                2 => self.append(&[&fresh, "other", &format!("{fresh}-b")], true),
                _ => self.append(&[&fresh], false),
            }
            if self.dice.below(2) == 0 {
                let what = if self.dice.below(3) == 0 { LATEST } else { "predictions" };
                read_versions.extend(self.read(what, &AsOf::Now).map(|read_version| (what, read_version)));
            }
        }
        // As of now means as of the last closed instant, by a clock that may be ahead.
        self.read("predictions", &AsOf::Instant(now()));
        if let Some((what, read_version)) = read_versions.first() {
            self.read(what, read_version);
        }
    }

    /// Asks as of an instant within the writes, which counts as closed by some clocks only; and keeps the answer.
    fn look_back(&mut self) {
        let begun = self.history.appends.first().map_or(0, |append| append.begun);
        let ended = self.history.appends.last().map_or(0, |append| append.begun);
        let instant = begun + self.dice.below((ended - begun + 1_000_000) as u64) as i64;
        for what in ["predictions", "evaluations"] {
            self.read(what, &AsOf::Instant(instant));
            self.read(what, &AsOf::Instant(now()));
        }
    }

    /// Asks again for all answers that must not have changed, and for events that must be there.
    fn look_again(&mut self) {
        let before: Vec<(&'static str, AsOf, String)> = self
            .history
            .reads
            .iter()
            .map(|read| (read.what, read.as_of.clone(), read.read_version.clone()))
            .collect();
        for (what, as_of, read_version) in before {
            if let AsOf::Instant(_) = as_of {
                self.read(what, &as_of);
            }
            if !read_version.is_empty() {
                self.read(what, &AsOf::ReadVersion(read_version));
            }
        }
        self.read("predictions", &AsOf::Now);
        self.read(LATEST, &AsOf::Now);
    }
}

/// Time after the end of a history at which it is looked back on, in microseconds: around the instant of its closing, by clocks
/// that are wrong either way.
fn look_back_after(number: usize) -> i64 {
    (CLOSED_AFTER_SECONDS - 12 + (number % 16) as i64) * 1_000_000
}
