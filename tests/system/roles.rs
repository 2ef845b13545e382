//! One binary, several roles: what each answers, when each is ready, and what `almanac health` says of it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::support::{Place, Running, Service, ndjson, register, run};
use almanac::up::{Options, Role};
use event::{Clock, Error, Result};
use serde_json::Value;
use table::{Call, Layer, Table, sqlite::SqliteTable};

const NDJSON: &str = "application/x-ndjson";
const WORKSPACE: &str = "/v1/workspaces/credit/prod";
const PREDICTION: &str = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.9}"#;

/// Paths outside of the API that every process answers.
const COMMON: [&str; 4] = ["/healthz", "/metrics", "/openapi.json", "/readyz"];

fn as_role(role: Role) -> Options {
    Options { roles: vec![role], ..Options::new(Clock::system()) }
}

/// The operations of the API, such as `get /v1/workspaces`, as the document of a service has them.
fn described(service: &Service) -> BTreeSet<String> {
    let document = service.get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &Value)| {
        item.as_object().unwrap().keys().map(|method| format!("{method} {path}")).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

/// True if a service has an operation: for what it lacks it answers that there is no such path or no such method.
fn has(service: &Service, operation: &str) -> bool {
    let (method, path) = operation.split_once(' ').unwrap();
    let mut parts = path.split('{');
    let mut asked = parts.next().unwrap().to_owned();
    for part in parts {
        asked += "x";
        asked += part.split_once('}').unwrap().1;
    }
    // An answer to `head` says nothing, and who has one has the other.
    let answer = service.send(if method == "head" { "get" } else { method }, &asked, &[], None);
    answer.status != 405 && !(answer.status == 404 && answer.text().contains("there is nothing at this path"))
}

#[test]
fn roles_share_work_and_answer_only_their_own() {
    let place = Place::sqlite();
    let all = described(&Service::start(&place));
    let started = ["ingest", "projector", "query"].map(|role| Running::start(&place, &["--role", role], &[]));
    let [ingest, projector, query] = &started;
    for service in &started {
        assert_eq!(described(service), all, "one address may stand before all roles");
    }
    let operations = |service: &Service| -> BTreeSet<String> {
        all.iter().filter(|operation| has(service, operation)).cloned().collect()
    };
    let of = started.each_ref().map(|service| operations(service));
    assert!(of[1].is_empty(), "a projector answers none: {:?}", of[1]);
    for path in COMMON {
        assert!(started.iter().all(|service| has(service, &format!("get {path}"))), "{path}");
    }
    // A statement is posted, since it may be long.
    let is_read = |operation: &String| {
        operation.starts_with("get ")
            || operation.starts_with("head ")
            || operation.starts_with("post ") && operation.ends_with("/sql")
    };
    assert!(of[2].iter().all(is_read), "a query service changes nothing: {:?}", of[2]);
    let logs = |operation: &&String| operation.contains("/rollups") || operation.contains("/predictions");
    assert_eq!((&of[0] & &of[2]).iter().find(logs), None, "ingest answers nothing out of the logs");
    assert_eq!(&(&of[0] | &of[1]) | &of[2], all, "together they answer everything");

    register(ingest);
    let posted = ingest.post(&format!("{WORKSPACE}/predictions"), NDJSON, None, PREDICTION);
    assert_eq!(posted.status, 201, "{}", posted.text());
    let rollups = format!("{WORKSPACE}/rollups?from=2026-06-01&to=2026-06-01");
    query.get_until(&rollups, |answer| {
        ndjson(answer.text()).first().is_some_and(|row| row["predictions"] == 1)
    });
    // Paths of another role are not there.
    for (service, path) in
        [(ingest, &rollups), (projector, &rollups), (projector, &"/v1/workspaces".to_owned())]
    {
        assert_eq!(service.get(path).status, 404, "{path}");
    }
    for service in [projector, query] {
        let answer = service.post(&format!("{WORKSPACE}/predictions"), NDJSON, None, PREDICTION);
        assert!([404, 405].contains(&answer.status), "{}", answer.status);
    }
    for service in &started {
        assert_eq!(service.get("/healthz").text(), "ok\n");
        service.get_until("/readyz", |answer| answer.status == 200);
    }
}

#[test]
fn role_without_mlflow_warns_at_start() {
    let place = Place::sqlite();
    for (role, is_warned) in [("ingest", false), ("query", true)] {
        let log = Running::start(&place, &["--role", role, "--mlflow"], &[]).stop();
        let warning = |line: &String| line.contains("WARN") && line.contains("served by the role ingest");
        assert_eq!(log.iter().any(warning), is_warned, "{role}: {log:?}");
    }
}

/// A table on which writes, or reads, can be made to fail.
#[derive(Debug)]
struct Breakable {
    table: Arc<dyn Table>,
    no_reads: AtomicBool,
    no_rollups: AtomicBool,
}

impl Layer for Breakable {
    type Kept = ();
    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.table
    }

    async fn before(&self, call: Call<'_>) -> Result<()> {
        let is_broken = match call {
            Call::Get(_) | Call::Query(_) => self.no_reads.load(Ordering::SeqCst),
            Call::Put(item) => self.no_rollups.load(Ordering::SeqCst) && item.key.pk.contains("/rollup/"),
            _ => false,
        };
        if is_broken { Err(Error::unavailable("out of order")) } else { Ok(()) }
    }
}

#[test]
fn each_role_reports_readiness_for_own_work() {
    let folder = tempfile::tempdir().unwrap();
    let table = SqliteTable::open(&folder.path().join("almanac.db"), Clock::system()).unwrap();
    let table = Arc::new(Breakable {
        table: Arc::new(table),
        no_reads: AtomicBool::new(false),
        no_rollups: AtomicBool::new(false),
    });
    let start = |options| Service::start_on(Arc::clone(&table) as Arc<dyn Table>, options);
    let ingest = start(as_role(Role::Ingest));
    let query = start(as_role(Role::Query));
    // Any lag is too much.
    let projector = start(Options { ready_lag: Duration::ZERO, ..as_role(Role::Projector) });
    for service in [&ingest, &query, &projector] {
        assert_eq!(service.get_until("/readyz", |answer| answer.status == 200).text(), "ready\n");
    }

    // Predictions that cannot be folded make the projector lag, and nobody else.
    table.no_rollups.store(true, Ordering::SeqCst);
    register(&ingest);
    let posted = ingest.post(&format!("{WORKSPACE}/predictions"), NDJSON, None, PREDICTION);
    assert_eq!(posted.status, 201, "{}", posted.text());
    let late = projector.get_until("/readyz", |answer| answer.status == 503);
    assert_eq!(late.content_type, "application/problem+json");
    assert!(late.text().contains("days wait to be folded, the oldest for"), "{}", late.text());
    for service in [&ingest, &query] {
        assert_eq!(service.get("/readyz").status, 200, "a lag is the projector's");
    }
    assert_eq!(projector.get("/healthz").status, 200, "it is alive all the same");
    table.no_rollups.store(false, Ordering::SeqCst);
    projector.get_until("/readyz", |answer| answer.status == 200);

    // A store that does not answer makes those no use that ask it for clients.
    table.no_reads.store(true, Ordering::SeqCst);
    for service in [&ingest, &query] {
        let broken = service.get_until("/readyz", |answer| answer.status == 503);
        assert!(broken.text().contains("the store does not answer: out of order"), "{}", broken.text());
        assert_eq!(service.get("/healthz").status, 200);
        let address = service.address();
        let asked = |args: &[&str]| {
            let output = run(folder.path(), &[&["health", "--listen", &*address], args].concat());
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        };
        assert_eq!(asked(&[]), (Some(0), "ok\n".into()));
        let (code, text) = asked(&["--ready"]);
        assert_eq!((code, text.contains("out of order")), (Some(1), true), "{text}");
    }
    table.no_reads.store(false, Ordering::SeqCst);
    for service in [&ingest, &query, &projector] {
        service.get_until("/readyz", |answer| answer.status == 200);
    }
}

#[test]
fn health_command_reports_by_exit_code() {
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let address = service.address();
    let asked = |args: &[&str]| {
        let output = run(&place, &[&["health"], args].concat());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    assert_eq!(asked(&["--listen", &address]), (Some(0), "ok\n".into(), String::new()));
    // A service that listens on all addresses is asked on this machine's own.
    let everywhere = address.replace("127.0.0.1", "0.0.0.0");
    assert_eq!(asked(&["--listen", &everywhere, "--ready"]), (Some(0), "ready\n".into(), String::new()));
    service.stop();
    let (code, out, err) = asked(&["--listen", &address]);
    assert_eq!((code, &*out), (Some(1), ""));
    assert!(err.starts_with(&format!("almanac: http://{address}/healthz does not answer")), "{err}");
}

#[test]
fn a_role_that_does_not_exist_is_refused() {
    let place = Place::sqlite();
    let output = run(&place, &["up", "--role", "reader"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("possible values: ingest, projector, query"), "{error}");
}
