//! Calls of every route that changes data, once each: they must leave a record with its author.

mod exempt;

use std::{collections::BTreeSet, sync::Arc};

use ::access::{Access, Limits, NewToken, Tokens, http::guard};
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use catalog::{Catalog, New, NewEntity, Role};
use event::Clock;
use log::{
    audit::chain,
    key::{AuditLog, Scope},
    store::Store,
};
use serde_json::Value;
use table::Table;
use tests::{engine::Engine, on_both_engines};
use tokio::sync::watch;
use tower::ServiceExt;
use web::{Demands, Requester};

use self::exempt::{ELSEWHERE, EXEMPT};
use super::Refusals;
use crate::up::{Options, Services};

/// What changes something, in an order in which it can be done: the method, the path, and the body. A path stands for
/// its pattern.
const STEPS: [(&str, &str, &str); 70] = [
    ("POST", "/v1/users", r#"{"name":"bob"}"#),
    ("POST", "/v1/groups", r#"{"name":"risk"}"#),
    ("POST", "/v1/systems", r#"{"name":"nightly"}"#),
    ("PATCH", "/v1/users/bob", r#"{"attributes":{"team":"lending"}}"#),
    ("PATCH", "/v1/groups/risk", r#"{"attributes":{"team":"lending"}}"#),
    ("PATCH", "/v1/systems/nightly", r#"{"attributes":{"team":"lending"}}"#),
    ("PUT", "/v1/groups/risk/members/bob", ""),
    ("POST", "/v1/tokens/user:bob", r#"{"name":"laptop"}"#),
    ("DELETE", "/v1/tokens/user:bob/laptop", ""),
    ("POST", "/v1/session", ""),
    ("PUT", "/v1/grants/user:bob", r#"{"role":"reader"}"#),
    ("DELETE", "/v1/grants/user:bob", ""),
    ("POST", "/v1/categories", r#"{"name":"spare"}"#),
    ("PATCH", "/v1/categories/spare", r#"{"attributes":{"team":"lending"}}"#),
    ("PUT", "/v1/grants/user:bob?category=spare", r#"{"role":"reader"}"#),
    ("DELETE", "/v1/grants/user:bob?category=spare", ""),
    ("DELETE", "/v1/categories/spare", ""),
    ("POST", "/v1/workspaces", r#"{"path":"credit/prod"}"#),
    ("PATCH", "/v1/workspaces/credit/prod", r#"{"attributes":{"n":2}}"#),
    ("PUT", "/v1/grants/user:bob?workspace=credit/prod", r#"{"role":"reader"}"#),
    ("DELETE", "/v1/grants/user:bob?workspace=credit/prod", ""),
    (
        "POST",
        "/v1/models",
        r#"{"workspace":"credit/prod","name":"risk","task":"binary","positive_label":"1"}"#,
    ),
    ("POST", "/v1/models", r#"{"workspace":"credit/prod","name":"spare2","task":"regression"}"#),
    ("PATCH", "/v1/models/credit%2Fprod%2Frisk", r#"{"attributes":{"team":"lending"}}"#),
    ("POST", "/v1/configurations", r#"{"workspace":"credit/prod","name":"deep"}"#),
    ("PATCH", "/v1/configurations/credit%2Fprod%2Fdeep", r#"{"attributes":{"team":"lending"}}"#),
    (
        "POST",
        "/v1/snapshots",
        r#"{"workspace":"credit/prod","name":"june","from":"2026-06-01","to":"2026-06-30"}"#,
    ),
    ("PATCH", "/v1/snapshots/credit%2Fprod%2Fjune", r#"{"attributes":{"team":"lending"}}"#),
    ("POST", "/v1/releases", r#"{"workspace":"credit/prod","name":"v1","model":"risk"}"#),
    ("POST", "/v1/releases", r#"{"workspace":"credit/prod","name":"v2","model":"risk"}"#),
    ("PATCH", "/v1/releases/credit%2Fprod%2Frisk@v1", r#"{"attributes":{"team":"lending"}}"#),
    ("PUT", "/v1/users/bob/follows", r#"{"workspace":"credit/prod","following":true}"#),
    ("POST", "/v1/workspaces/credit/prod/alerts", r#"{"name":"drift2","text":"Scores moved."}"#),
    (
        "PUT",
        "/v1/workspaces/credit/prod/alert-rules",
        r#"{"rules":[{"name":"few2","count":"predictions","below":1}]}"#,
    ),
    ("DELETE", "/v1/workspaces/credit/prod/alert-rules?rule=few2", ""),
    ("PUT", "/v1/workspaces/credit/prod/consumers", r#"{"consumer":"billing2","kind":"predictions"}"#),
    ("DELETE", "/v1/workspaces/credit/prod/consumers?consumer=billing2", ""),
    ("PATCH", "/v1/workspaces/credit/prod/retention", r#"{"day":"2026-06-12","pinned":true}"#),
    ("PATCH", "/v1/workspaces/credit/prod/retention", r#"{"days":9992}"#),
    (
        "PATCH",
        "/v1/workspaces/credit/prod/settings",
        r#"{"primary_metric":"auc","leaderboard_days":2,"lanes":2}"#,
    ),
    ("PATCH", "/v1/workspaces/credit/prod/settings", r#"{"quota":{"rows_per_day":999992}}"#),
    ("POST", "/v1/workspaces/credit/prod/erasures", r#"{"keys":["gone"],"reason":"a letter"}"#),
    (
        "POST",
        "/v1/workspaces/credit/prod/definitions",
        r#"{"release":"v1","from":"2026-06-12","threshold":0.2}"#,
    ),
    (
        "PUT",
        "/v1/workspaces/credit/prod/promotion-gates",
        r#"{"model":"risk","environments":["live2"],"min_n":9}"#,
    ),
    ("POST", "/v1/workspaces/credit/prod/approvals", r#"{"release":"v1","environment":"live2"}"#),
    (
        "PUT",
        "/v1/workspaces/credit/prod/baselines",
        r#"{"release":"v1","name":"spring2","days":"2026-05-01..2026-05-31"}"#,
    ),
    ("PUT", "/v1/workspaces/credit/prod/baselines", r#"{"release":"v1","name":"spring2"}"#),
    ("POST", "/v1/workspaces/credit/prod/promotions", r#"{"release":"v1","environment":"test2"}"#),
    ("POST", "/v1/workspaces/credit/prod/promotions", r#"{"release":"v2","environment":"test2"}"#),
    ("POST", "/v1/workspaces/credit/prod/rollbacks", r#"{"environment":"test2"}"#),
    ("POST", "/v1/workspaces/credit/prod/retirements", r#"{"release":"v1","environment":"test2"}"#),
    (
        "POST",
        "/v1/workspaces/credit/prod/releases",
        r#"{"release":"v32","model":"risk","released_at":"2026-06-10T00:00:00Z","action":"register"}"#,
    ),
    (
        "POST",
        "/v1/workspaces/credit/prod/predictions",
        r#"{"release":"v1","key":"k","predicted_at":"2026-06-10T00:00:02Z","score":0.5}"#,
    ),
    (
        "POST",
        "/v1/workspaces/credit/prod/predictions",
        r#"{"release":"v2","key":"k","predicted_at":"2026-06-10T00:00:02Z","score":0.5}"#,
    ),
    (
        "POST",
        "/v1/workspaces/credit/prod/predictions",
        r#"{"release":"v1","key":"l","predicted_at":"2026-06-10T00:00:03Z","score":0.5}"#,
    ),
    (
        "POST",
        "/v1/workspaces/credit/prod/predictions",
        r#"{"release":"v2","key":"l","predicted_at":"2026-06-10T00:00:03Z","score":0.5}"#,
    ),
    (
        "POST",
        "/v1/workspaces/credit/prod/outcomes",
        r#"{"key":"k","predicted_at":"2026-06-10T00:00:02Z","observed_at":"2026-06-10T10:00:02Z","label":"1"}"#,
    ),
    (
        "POST",
        "/v1/workspaces/credit/prod/metrics",
        r#"{"release":"v1","name":"latency","measured_at":"2026-06-10T00:00:02Z","value":1.5}"#,
    ),
    (
        "POST",
        "/v1/workspaces/credit/prod/reviews",
        r#"{"name":"june2","from":"2026-06-10","to":"2026-06-10","with_outcomes":true}"#,
    ),
    (
        "POST",
        "/v1/workspaces/credit/prod/reviews",
        r#"{"name":"duel2","from":"2026-06-10","to":"2026-06-10","policy":"pairs","releases":["v1","v2"],"n":1}"#,
    ),
    ("POST", "/v1/workspaces/credit/prod/reviews/refresh", r#"{"review":"duel2"}"#),
    ("DELETE", "/v1/workspaces/credit/prod/reviews?review=june2", ""),
    (
        "POST",
        "/v1/runs",
        r#"{"workspace":"credit/prod","id":"2FBs0tD5Ihm2PVFzM3kZvMYdQX9","params":{"depth":"6"}}"#,
    ),
    ("PATCH", "/v1/runs/credit%2Fprod/2FBs0tD5Ihm2PVFzM3kZvMYdQX9", r#"{"status":"finished"}"#),
    ("DELETE", "/v1/models/credit%2Fprod%2Fspare2", ""),
    ("DELETE", "/v1/configurations/credit%2Fprod%2Fdeep", ""),
    ("DELETE", "/v1/snapshots/credit%2Fprod%2Fjune", ""),
    ("DELETE", "/v1/groups/risk/members/bob", ""),
    ("DELETE", "/v1/groups/risk", ""),
    ("DELETE", "/v1/systems/nightly", ""),
];

struct House {
    table: Arc<dyn Table>,
    router: Router,
    refusals: Arc<Refusals>,
    demands: Demands,
    token: String,
    _fresh: tests::engine::Fresh,
    _stop: watch::Sender<bool>,
}

/// An answer.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl House {
    async fn on(engine: Engine) -> Self {
        let fresh = engine.fresh(Clock::system()).await;
        let table = Arc::clone(&fresh.table);
        let (catalog, now) = (Catalog::new(Arc::clone(&table)), Clock::system().now());
        let ann = catalog.create(NewEntity::new("ann", New::User), now).await.unwrap().at();
        catalog.grant(&Scope::Server, &ann, Role::Admin, now).await.unwrap();
        let new =
            NewToken { name: "first".into(), expires_at: None, limits: Limits::default(), is_once: false };
        let (token, _) = Tokens::new(Arc::clone(&table)).create(&ann, new, now).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let routes = Services::new(Store::over(Arc::clone(&table)), &Options::new(Clock::system()))
            .routes(&Options::new(Clock::system()), stopping);
        let demands = routes.demands().clone();
        let access = Arc::new(Access::new(Arc::clone(&table), Clock::system()));
        let refusals = Refusals::new(Arc::clone(&table));
        let router = refusals.watch(guard(routes, access).into_router());
        Self { table, router, refusals, demands, token: token.text().to_owned(), _fresh: fresh, _stop: stop }
    }

    /// Calls as ann, by a request with this id.
    async fn call(&self, id: &str, (method, uri): (&str, &str), body: &str) -> Answer {
        let kind = match uri.rsplit('/').next() {
            Some("predictions" | "outcomes" | "metrics") => "application/x-ndjson",
            Some("releases") if uri.contains("/workspaces/") => "application/x-ndjson",
            _ => "application/json",
        };
        let requester = Requester {
            request_id: id.into(),
            address: Some("192.0.2.7".parse().unwrap()),
            ..Requester::default()
        };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", kind)
            .extension(requester)
            .body(Body::from(body.to_owned()))
            .unwrap();
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = String::from_utf8_lossy(&to_bytes(body, usize::MAX).await.unwrap()).into_owned();
        Answer { status: head.status, headers: head.headers, body }
    }

    /// All records of the server's audit log, and of the workspace's audit log if there is one.
    async fn audit_log(&self) -> Vec<Value> {
        let mut rows = Vec::new();
        for audit_log in ["", "&workspace=credit/prod"] {
            let path = format!("/v1/audit?from=2026-06-01{audit_log}");
            let answer = self.call("look", ("GET", &path), "").await;
            if answer.status == StatusCode::NOT_FOUND {
                continue;
            }
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
            assert!(!answer.headers.contains_key("almanac-next"), "one page");
            rows.extend(answer.body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        rows
    }
}

/// Returns whether a path matches a pattern.
fn is_of(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    let is_equal = |(pattern, part): (&&str, &&str)| pattern.starts_with('{') || pattern == part;
    pattern.len() == path.len() && pattern.iter().zip(&path).all(is_equal)
}

on_both_engines!(
    House::on:
    every_route_that_changes_something_leaves_a_record,
    an_audit_log_is_read_page_by_page,
    refused_attempts_are_recorded_once_per_caller_minute,
    a_deleted_workspace_keeps_its_audit_log,
);

async fn every_route_that_changes_something_leaves_a_record(house: House) {
    let mut called = BTreeSet::new();
    let mut known = house.audit_log().await.len();
    for (at, (method, path, body)) in STEPS.into_iter().enumerate() {
        let id = format!("request-{at}");
        let answer = house.call(&id, (method, path), body).await;
        assert!(answer.status.is_success(), "{method} {path}: {} {}", answer.status, answer.body);
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let patterns = house.demands.iter().filter(|(pattern, methods)| {
            // A pattern that names the segment goes before one with a parameter there.
            methods.contains_key(method) && is_of(pattern, path)
        });
        let pattern = patterns.map(|(pattern, _)| pattern).min_by_key(|pattern| pattern.matches('{').count());
        called.insert((method, pattern.unwrap_or_else(|| panic!("{method} {path}")).as_str()));
        let audit_log = house.audit_log().await;
        assert!(audit_log.len() > known, "{method} {path} left no record");
        known = audit_log.len();
        let own: Vec<&Value> = audit_log.iter().filter(|row| row["request"] == id).collect();
        assert!(!own.is_empty(), "{method} {path}: no record has its author");
        for row in own {
            assert_eq!(row["principal"], "user:ann", "{method} {path}: {row}");
            assert_eq!(row["address"], "192.0.2.7", "{method} {path}: {row}");
        }
    }
    let mut missing = Vec::new();
    for (path, methods) in &house.demands {
        for (method, demand) in methods {
            let is_known = called.contains(&(*method, path.as_str()))
                || EXEMPT.iter().any(|(known, of, _)| (known, of) == (method, &path.as_str()))
                || ELSEWHERE.contains(&(*method, path.as_str()));
            let is_read = path.ends_with("/sql") || path.ends_with("/alert-rules/test");
            if *method != "GET" && !demand.is_nothing() && !is_known && !is_read {
                missing.push(format!("{method} {path}"));
            }
        }
    }
    assert_eq!(missing, [""; 0], "give them a step");
    for audit_log in [AuditLog::Server, workspace(&house).await] {
        let checked = chain::verify(&*house.table, &audit_log, None).await.unwrap();
        assert_eq!(checked.broken, None);
        assert!(checked.records > 5, "{checked:?}");
    }
    let all = house.audit_log().await;
    let text = format!("{all:?}");
    assert!(!text.contains(&house.token) && !text.contains("digest"), "{text}");
    let unknown: Vec<&Value> = all.iter().filter(|row| row["principal"].is_null()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

async fn workspace(house: &House) -> AuditLog {
    let found = Catalog::new(Arc::clone(&house.table)).workspace("credit/prod").await.unwrap();
    AuditLog::Workspace(found.id().clone())
}

async fn an_audit_log_is_read_page_by_page(house: House) {
    house.call("w", ("POST", "/v1/workspaces"), r#"{"path":"credit/prod"}"#).await;
    for n in 2..8 {
        let body = format!(r#"{{"workspace":"credit/prod","name":"m{n}","task":"regression"}}"#);
        house.call(&format!("m{n}"), ("POST", "/v1/models"), &body).await;
        let body = format!(r#"{{"name":"latency","measured_at":"2026-06-10T00:00:0{n}Z","value":1}}"#);
        let append = ("POST", "/v1/workspaces/credit/prod/metrics");
        assert_eq!(house.call(&format!("e{n}"), append, &body).await.status, StatusCode::CREATED);
    }
    let uri = "/v1/audit?workspace=credit/prod&from=2026-06-01";
    let whole = house.call("look", ("GET", uri), "").await.body;
    let whole: Vec<&str> = whole.lines().collect();
    assert_eq!(whole.len(), 12, "{whole:#?}");
    for limit in [1, 5, 12] {
        let (mut rows, mut after) = (Vec::new(), String::new());
        loop {
            let answer = house.call("look", ("GET", &format!("{uri}&limit={limit}{after}")), "").await;
            let lines: Vec<String> = answer.body.lines().map(str::to_owned).collect();
            assert!(lines.len() <= limit, "{lines:?}");
            rows.extend(lines);
            match answer.headers.get("almanac-next") {
                Some(next) => after = format!("&after={}", next.to_str().unwrap()),
                None => break,
            }
        }
        assert_eq!(rows, whole, "in pages of {limit}");
    }
    let of = async |words: &str| {
        let answer = house.call("look", ("GET", &format!("{uri}&{words}")), "").await;
        answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    assert_eq!(of("action=model.create").await.len(), 6);
    assert_eq!(of("action=append&principal=user:ann").await.len(), 6);
    assert_eq!(of("principal=user:bob").await.len(), 0);
    assert_eq!(of("to=2026-06-09").await.len(), 0);
    let columns = house.call("look", ("GET", &format!("{uri}&format=csv&limit=1")), "").await.body;
    assert!(columns.starts_with("at,principal,action,object,name,day,rows,before,after,"), "{columns}");
}

async fn refused_attempts_are_recorded_once_per_caller_minute(mut house: House) {
    house.call("w", ("POST", "/v1/workspaces"), r#"{"path":"credit/prod"}"#).await;
    let (catalog, now) = (Catalog::new(Arc::clone(&house.table)), Clock::system().now());
    let bob = catalog.create(NewEntity::new("bob", New::User), now).await.unwrap().at();
    let new = NewToken { name: "first".into(), expires_at: None, limits: Limits::default(), is_once: false };
    let (token, _) = Tokens::new(Arc::clone(&house.table)).create(&bob, new, now).await.unwrap();
    let known = house.audit_log().await.len();
    let admin = std::mem::replace(&mut house.token, token.text().to_owned());
    for n in 0..7 {
        let hidden = house.call(&format!("h{n}"), ("GET", "/v1/workspaces/credit/prod"), "").await;
        assert_eq!(hidden.status, StatusCode::NOT_FOUND);
        let refused = house.call(&format!("r{n}"), ("POST", "/v1/users"), r#"{"name":"eve"}"#).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
    }
    house.token = "alm_nonsense".to_owned();
    for n in 0..5 {
        assert_eq!(
            house.call(&format!("u{n}"), ("GET", "/v1/whoami"), "").await.status,
            StatusCode::UNAUTHORIZED
        );
    }
    house.token = admin;
    assert_eq!(house.audit_log().await.len(), known, "nothing is written by a request");
    house.refusals.record().await.unwrap();
    house.refusals.record().await.unwrap();
    let audit_log = house.audit_log().await;
    let refused: Vec<[&str; 4]> = audit_log
        .iter()
        .filter(|row| row["action"] == "refused")
        .map(|row| ["principal", "object", "request", "after"].map(|name| row[name].as_str().unwrap()))
        .collect();
    let expected = [
        ["unknown", "401", "u0", r#"{"count":5,"operations":["GET /v1/whoami"]}"#],
        ["user:bob", "403", "r0", r#"{"count":7,"operations":["POST /v1/users"]}"#],
        ["user:bob", "404", "h0", r#"{"count":7,"operations":["GET /v1/workspaces/{category}/{name}"]}"#],
    ];
    assert_eq!(refused, expected);
    assert_eq!(audit_log.len(), known + expected.len());

    // Endless attempts do not make the audit log grow for ever.
    let admin = std::mem::replace(&mut house.token, "alm_nonsense".to_owned());
    for n in 0..100 {
        house.call(&format!("x{n}"), ("GET", "/v1/whoami"), "").await;
        house.refusals.record().await.unwrap();
    }
    house.token = admin;
    let refused = house.audit_log().await.into_iter().filter(|row| row["action"] == "refused").count();
    assert_eq!(refused, 20, "and the rest is gathered");
}

async fn a_deleted_workspace_keeps_its_audit_log(house: House) {
    let catalog = Catalog::new(Arc::clone(&house.table)).waiting(std::time::Duration::ZERO);
    let now = Clock::system().now();
    house.call("w", ("POST", "/v1/workspaces"), r#"{"path":"credit/prod"}"#).await;
    let model = r#"{"workspace":"credit/prod","name":"m","task":"regression"}"#;
    house.call("m", ("POST", "/v1/models"), model).await;
    let own = workspace(&house).await;
    let AuditLog::Workspace(id) = &own else { panic!("it is one") };
    let at = log::key::EntityId::Workspace(id.clone());
    catalog.change(&at, &catalog::Patch::archive(true), None, now).await.unwrap();
    catalog.delete(&at, None, now).await.unwrap();
    let actions = |records: &[log::audit::Record]| {
        records.iter().map(|record| record.action.clone()).collect::<Vec<String>>()
    };
    let kept = chain::records(&*house.table, &own, 1, 100).await.unwrap();
    assert_eq!(actions(&kept), ["model.create", "workspace.change", "workspace.change", "model.delete"]);
    let server = chain::records(&*house.table, &AuditLog::Server, 1, 100).await.unwrap();
    let last = server.last().unwrap();
    assert_eq!((last.action.as_str(), last.name.as_deref()), ("workspace.delete", Some("credit/prod")));
    assert_eq!(last.object, format!("w_{id}"));
    assert_eq!(chain::verify(&*house.table, &own, None).await.unwrap().broken, None);
}
