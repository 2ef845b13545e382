//! Malformed requests of all kinds: tokens, headers, paths, statements and bodies, mutated from valid ones by a generator with a
//! fixed seed. No answer may be a fault of the service, and only the valid token may open it.
//!
//! `ALMANAC_FUZZ_RUNS` sets their number. Bodies of every format and bytes of segments are tested next to their readers, in
//! `ingest/src/format/tests.rs` and `segment/src/tests/hostile.rs`.

use std::sync::Arc;

use ::access::{Access, Token};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::StatusCode,
};
use catalog::Catalog;
use event::{Clock, Task};
use log::store::Store;
use table::{Table, sqlite::SqliteTable};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::up::{Options, Services};

/// Number of requests of each kind, unless the environment sets another.
const RUNS: usize = 400;

/// Words that are spliced into texts, besides bytes of the text itself.
const WORDS: [&[u8]; 24] = [
    b"",
    b"/",
    b"..",
    b"%",
    b"%2F",
    b"%00",
    b"%FF",
    b"\xff",
    b"\0",
    b"\"",
    b"'",
    b"`",
    b"{",
    b"[[[[[[[[",
    b"(",
    b"--",
    b"-1",
    b"99999999999999999999",
    b"1e999",
    b"NaN",
    b"\xf0\x9f\x92\xa9",
    b"Bearer ",
    b"alm_",
    b"select",
];

const PREDICTION: &str =
    r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.9,"tags":{"b":"c"}}"#;

const STATEMENTS: [&str; 6] = [
    "SELECT release, count(*) AS n FROM predictions WHERE day BETWEEN '2026-06-01' AND '2026-06-02' GROUP BY release",
    "SELECT p.key, o.label FROM predictions p JOIN outcomes o ON p.key = o.key WHERE p.day = '2026-06-01' AND o.day = '2026-06-01'",
    "WITH x AS (SELECT score FROM predictions WHERE day = '2026-06-01') SELECT avg(score) FROM x ORDER BY 1 LIMIT 3",
    "SELECT * FROM metrics WHERE day = '2026-06-01' AND name IN ('a', 'b') OR value > 1e3",
    "SELECT CASE WHEN score > 0.5 THEN 'x' ELSE substr(key, 1, 2) END FROM predictions WHERE day = '2026-06-01'",
    "SELECT 1",
];

/// Pseudorandom numbers from a fixed seed (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    /// The bytes, changed at up to four places.
    fn change(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(9)).min(bytes.len());
            match self.below(6) {
                0 => _ = bytes.splice(at..at, WORDS[self.below(WORDS.len())].iter().copied()),
                1 => _ = bytes.drain(at..end),
                2 => bytes.truncate(at),
                3 => {
                    let again = bytes[at..end].repeat(1 + self.below(20));
                    bytes.splice(at..at, again);
                }
                4 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
        bytes
    }

    fn text(&mut self, text: &str) -> String {
        String::from_utf8_lossy(&self.change(text.as_bytes())).into_owned()
    }
}

/// A service with a workspace, and the paths to ask.
struct House {
    router: Router,
    token: Token,
    paths: Vec<(&'static str, String)>,
    _folder: tempfile::TempDir,
    _stop: watch::Sender<bool>,
}

impl House {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let table: Arc<dyn Table> =
            Arc::new(SqliteTable::open(&folder.path().join("t.db"), clock.clone()).unwrap());
        let catalog = Catalog::new(Arc::clone(&table));
        let workspace = catalog.ensure_workspace("credit/prod", clock.now()).await.unwrap();
        let task = Task::Binary { positive_label: "yes".into() };
        catalog.ensure_model(workspace.id(), "risk", &task, clock.now()).await.unwrap();
        let token = Token::new();
        let access = Access::new(Arc::clone(&table), clock.clone()).with_preset(Some(token.digest()));
        let options = Options { access: Some(Arc::new(access)), ..Options::new(clock) };
        let services = Services::new(Store::over(table), &options);
        services.end_waiting();
        let (stop, stopping) = watch::channel(false);
        let routes = services.routes(&options, stopping.clone());
        let paths = routes.demands().iter().flat_map(|(path, methods)| {
            let filled = path.split('/').map(|part| if part.starts_with('{') { sample(part) } else { part });
            let filled = filled.collect::<Vec<_>>().join("/");
            methods.keys().map(move |method| (*method, filled.clone())).collect::<Vec<_>>()
        });
        let paths = paths.collect();
        let (router, _) = services.router(&options, stopping);
        Self { router, token, paths, _folder: folder, _stop: stop }
    }

    /// Sends a request, if HTTP can express it, and checks its answer.
    async fn send(&self, request: Result<Request, axum::http::Error>) -> Option<StatusCode> {
        let request = request.ok()?;
        let said = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let is_fault = head.status.is_server_error() && head.status != StatusCode::SERVICE_UNAVAILABLE;
        assert!(!is_fault, "{said}: {} {}", head.status, String::from_utf8_lossy(&body));
        Some(head.status)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token.text())
    }
}

/// Sample value for a parameter of a path.
fn sample(parameter: &str) -> &'static str {
    match parameter {
        "{category}" => "credit",
        "{name}" => "prod",
        "{workspace}" => "credit%2Fprod",
        "{model}" | "{configuration}" | "{entity}" => "credit%2Fprod%2Frisk",
        "{release}" => "credit%2Fprod%2Frisk@v1",
        "{type}" => "model",
        "{principal}" => "user:ann",
        _ => "spare",
    }
}

fn runs() -> usize {
    std::env::var("ALMANAC_FUZZ_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS)
}

#[tokio::test]
async fn only_valid_authorization_header_grants_access() {
    let (house, mut chance) = (House::new().await, Chance(1));
    let good = house.bearer();
    let opens = async |header: &[u8]| {
        let request = Request::get("/v1/whoami").header("Authorization", header).body(Body::empty());
        house.send(request).await.is_some_and(|status| status.is_success())
    };
    assert!(opens(good.as_bytes()).await);
    let signed = "Bearer eyJhbGciOiJFZERTQSIsImtpZCI6IjEifQ.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl";
    for _ in 0..runs() {
        for from in [good.as_str(), signed, "Basic YTpi"] {
            let changed = chance.change(from.as_bytes());
            // Only the case of the scheme and the number of blanks after it may differ.
            let text = String::from_utf8_lossy(&changed).into_owned();
            let is_good = text.split_once(' ').is_some_and(|(scheme, token)| {
                scheme.eq_ignore_ascii_case("bearer") && token.trim() == house.token.text()
            });
            assert_eq!(opens(&changed).await, is_good, "{text:?}");
        }
    }
}

#[tokio::test]
async fn fuzzed_paths_and_headers_cause_no_server_error() {
    let (house, mut chance) = (House::new().await, Chance(2));
    let words = "from=2026-06-01&to=2026-06-02&format=json&limit=3&columns=a,b&group-by=tag.x&as_of=2026-06-01T00:00:00Z";
    for run in 0..runs() {
        let (method, path) = &house.paths[run % house.paths.len()];
        let uri = format!("{}?{}", chance.text(path), chance.text(words));
        let request = Request::builder()
            .method(*method)
            .uri(uri)
            .header("Authorization", house.bearer())
            .header("Content-Type", chance.text("application/json; charset=utf-8"))
            .header("Accept", chance.text("application/vnd.apache.arrow.stream, text/csv;q=0.5"))
            .header("If-Match", chance.text("\"1\""))
            .header("X-Request-Id", chance.text("abc-1"))
            .header("Idempotency-Key", chance.text("batch-1"));
        house.send(request.body(Body::from(chance.change(b"{\"name\":\"x\",\"path\":\"credit/x\"}")))).await;
    }
}

#[tokio::test]
async fn fuzzed_bodies_and_statements_cause_no_server_error() {
    let (house, mut chance) = (House::new().await, Chance(3));
    let post = |path: &str, media: &str, encoding: Option<&str>, body: Vec<u8>| {
        let request = Request::post(format!("/v1/workspaces/credit/prod/{path}"));
        let request = request.header("Authorization", house.bearer()).header("Content-Type", media);
        let request = match encoding {
            Some(encoding) => request.header("Content-Encoding", encoding),
            None => request,
        };
        request.body(Body::from(body))
    };
    for run in 0..runs() {
        let media =
            ["application/x-ndjson", "application/json", "text/csv", "application/vnd.apache.parquet"];
        let encoding = [None, None, None, Some("gzip"), Some("zstd")][run % 5];
        let body = chance.change(PREDICTION.as_bytes());
        house.send(post("predictions", media[run % media.len()], encoding, body)).await;
        let statement = chance.text(STATEMENTS[run % STATEMENTS.len()]);
        let body = serde_json::json!({ "sql": statement }).to_string().into_bytes();
        house.send(post("sql", "application/json", None, body)).await;
    }
}
