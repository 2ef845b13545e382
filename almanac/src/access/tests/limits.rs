//! Tokens with limits: they apply everywhere, to the caller's own data too.

use std::{collections::BTreeSet, sync::Arc};

use ::access::{Access, Limits, NewToken, Token, Tokens, http::guard};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, StatusCode},
};
use catalog::{Alert, Catalog, New, NewEntity, NewRun, Role};
use event::{Kind, Right};
use log::{
    key::{EntityId, EntityKind, Followed, Scope},
    store::Store,
};
use tests::{
    conformance::TestClock,
    engine::{Engine, Fresh},
    on_both_engines,
};
use tokio::sync::watch;
use tower::ServiceExt;

use super::ground::Ground;
use crate::up::{Options, Services};

/// A service called by ann, a maintainer of `credit/prod`.
struct House {
    clock: TestClock,
    catalog: Catalog,
    tokens: Tokens,
    ann: EntityId,
    workspace: Scope,
    router: Router,
    _fresh: Fresh,
    _stop: watch::Sender<bool>,
}

impl House {
    async fn on(engine: Engine) -> Self {
        let Ground { clock, table, catalog, workspace, ann, fresh } = Ground::on(engine).await;
        catalog.grant(&workspace, &ann, Role::Maintainer, clock.now()).await.unwrap();
        catalog.create(NewEntity::new("bob", New::User), clock.now()).await.unwrap();
        let options = Options { mlflow: true, ..Options::new(clock.clock()) };
        let (stop, stopping) = watch::channel(false);
        let services = Services::new(Store::over(Arc::clone(&table)), &options);
        services.end_waiting();
        let access = Access::new(Arc::clone(&table), clock.clock());
        let router = guard(services.routes(&options, stopping), Arc::new(access)).into_router();
        let tokens = Tokens::new(table);
        Self { clock, catalog, tokens, ann, workspace, router, _fresh: fresh, _stop: stop }
    }

    async fn token(&self, name: &str, limits: Limits) -> Token {
        let new = NewToken { name: name.into(), expires_at: None, limits, is_once: false };
        self.tokens.create(&self.ann, new, self.clock.now()).await.unwrap().0
    }

    async fn send(
        &self,
        headers: &[(&str, String)],
        method: &str,
        path: &str,
    ) -> (StatusCode, HeaderMap, String) {
        self.send_with(headers, method, path, "").await
    }

    /// Sends a request with a body of JSON.
    async fn send_with(
        &self,
        headers: &[(&str, String)],
        method: &str,
        path: &str,
        body: &str,
    ) -> (StatusCode, HeaderMap, String) {
        let request = Request::builder().method(method).uri(path).header("Content-Type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        (head.status, head.headers, String::from_utf8_lossy(&body).into_owned())
    }
}

fn bearer_of(token: &Token) -> (&'static str, String) {
    ("Authorization", format!("Bearer {}", token.text()))
}

fn of_kind(kind: Kind) -> Limits {
    Limits { kinds: Some(vec![kind]), ..Limits::default() }
}

/// Limits to all kinds, and to all but one; the flag is true if no kind is left out.
fn of_all_kinds_and_of_some() -> impl Iterator<Item = (&'static str, Limits, bool)> {
    let of = |kinds| Limits { kinds: Some(kinds), ..Limits::default() };
    let all = [("whole", Limits::default(), true), ("kinds", of(Kind::ALL.to_vec()), true)];
    let without = Kind::ALL.map(|kind| {
        let others = Kind::ALL.into_iter().filter(|other| *other != kind).collect();
        (kind.name(), of(others), false)
    });
    all.into_iter().chain(without)
}

fn of_rights<const N: usize>(rights: [Right; N]) -> Limits {
    Limits { rights: Some(BTreeSet::from(rights)), ..Limits::default() }
}

on_both_engines!(
    House::on:
    token_limits_apply_to_its_users_own_data,
    token_for_other_kinds_cannot_read_run_metrics,
    token_for_other_kinds_cannot_append_release_events,
    token_without_a_kind_cannot_read_derived_data,
    a_token_follows_only_events_of_its_kinds,
    token_without_a_kind_cannot_read_alert_texts,
    token_without_a_kind_cannot_read_retracted_keys,
    a_limited_token_makes_none_that_may_more,
    renaming_requires_right_to_create_new_name,
    unreadable_workspaces_can_only_be_unfollowed,
    token_in_url_is_refused_in_any_encoding,
);

async fn token_limits_apply_to_its_users_own_data(house: House) {
    let of_workspace =
        Limits { scopes: Some(BTreeSet::from([house.workspace.clone()])), ..Limits::default() };
    let narrow = Limits { scopes: of_workspace.scopes.clone(), ..of_rights([Right::Read]) };
    // Tokens, with two flags: may administer, may read.
    let tokens = [
        (house.token("whole", Limits::default()).await, true, true),
        (house.token("kinds", of_kind(Kind::Metrics)).await, true, true),
        (house.token("admin", of_rights([Right::Admin])).await, true, false),
        (house.token("reads", of_rights([Right::Read])).await, false, true),
        (house.token("wide", of_workspace).await, false, false),
        (house.token("narrow", narrow).await, false, false),
    ];
    for (token, administers, reads) in &tokens {
        let bearer = bearer_of(token);
        // A session of a browser may do what its token may.
        let (_, headers, _) = house.send(std::slice::from_ref(&bearer), "POST", "/v1/session").await;
        let cookie = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let session = [("Cookie", cookie), ("Almanac-Dashboard", "yes".to_owned())];
        for by in [&[bearer][..], &session] {
            for (method, path, may, done) in [
                ("GET", "/v1/tokens/user:ann", *administers, StatusCode::OK),
                // Nobody has a token of this name.
                ("DELETE", "/v1/tokens/user:ann/spare", *administers, StatusCode::NOT_FOUND),
                ("GET", "/v1/users/ann", *reads, StatusCode::OK),
                ("GET", "/v1/counters/user/ann/spare", *reads, StatusCode::OK),
            ] {
                let (status, _, said) = house.send(by, method, path).await;
                let expected = if may { done } else { StatusCode::FORBIDDEN };
                assert_eq!(status, expected, "{method} {path} {:?}: {said}", by[0].0);
            }
        }
        let (status, _, said) = house.send(&[bearer_of(token)], "GET", "/v1/tokens/user:bob").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "what is another's is not there: {said}");
    }
    let (status, ..) = house.send(&[bearer_of(&tokens[3].0)], "DELETE", "/v1/tokens/user:ann/whole").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(house.tokens.list(&house.ann).await.unwrap().len(), tokens.len(), "none was revoked");
}

async fn token_for_other_kinds_cannot_read_run_metrics(house: House) {
    let workspace = house.workspace.entity().unwrap().id().clone();
    let run = house.catalog.create_run(&workspace, NewRun::default(), house.clock.now()).await.unwrap().id;
    let metrics = bearer_of(&house.token("metrics", of_kind(Kind::Metrics)).await);
    let outcomes = bearer_of(&house.token("outcomes", of_kind(Kind::Outcomes)).await);
    let door = "/mlflow/credit/prod/api/2.0/mlflow";
    for (method, path, has_metrics) in [
        ("GET", "/v1/runs?of=credit/prod".to_owned(), true),
        ("GET", format!("/v1/runs/credit%2Fprod/{run}"), true),
        ("GET", format!("/v1/runs/credit%2Fprod/{run}/metrics/loss"), true),
        ("GET", "/v1/experiments?of=credit/prod".to_owned(), false),
        ("GET", format!("{door}/runs/get?run_id={run}"), true),
        ("POST", format!("{door}/runs/search"), true),
        ("GET", format!("{door}/metrics/get-history?run_id={run}&metric_key=loss"), true),
        ("POST", format!("{door}/logged-models/search"), true),
        ("GET", format!("{door}/artifacts/list?run_id={run}"), false),
    ] {
        for (bearer, is_for_metrics) in [(&metrics, true), (&outcomes, false)] {
            let (status, _, said) = house.send(std::slice::from_ref(bearer), method, &path).await;
            let expected =
                if has_metrics && !is_for_metrics { StatusCode::FORBIDDEN } else { StatusCode::OK };
            assert_eq!(status, expected, "{method} {path}: {said}");
        }
    }
}

async fn token_for_other_kinds_cannot_append_release_events(house: House) {
    let metrics = bearer_of(&house.token("metrics", of_kind(Kind::Metrics)).await);
    let releases = bearer_of(&house.token("releases", of_kind(Kind::Releases)).await);
    let (own, door) = ("/v1/workspaces/credit/prod", "/mlflow/credit/prod/api/2.0/mlflow");
    let body = r#"{"workspace":"credit/prod","name":"v1","model":"risk"}"#;
    for (method, path) in [
        ("POST", "/v1/releases".to_owned()),
        ("POST", format!("{own}/releases")),
        ("POST", format!("{own}/approvals")),
        ("POST", format!("{own}/promotions")),
        ("POST", format!("{own}/rollbacks")),
        ("POST", format!("{own}/retirements")),
        ("POST", format!("{own}/definitions")),
        ("PUT", format!("{own}/baselines")),
        ("POST", format!("{door}/model-versions/create")),
        ("POST", format!("{door}/registered-models/alias")),
        ("DELETE", format!("{door}/registered-models/alias")),
    ] {
        for (bearer, is_for_releases) in [(&metrics, false), (&releases, true)] {
            let by = std::slice::from_ref(bearer);
            let (status, _, said) = house.send_with(by, method, &path, body).await;
            assert_eq!(status != StatusCode::FORBIDDEN, is_for_releases, "{method} {path}: {said}");
        }
    }
    let page = house.catalog.page(house.workspace.entity().unwrap().id()).await.unwrap();
    assert!(page.live.is_empty(), "nothing became live");
}

async fn token_without_a_kind_cannot_read_derived_data(house: House) {
    let paths = [
        ("leaderboard", vec![Kind::Predictions, Kind::Outcomes, Kind::Metrics]),
        ("reviews/answers", vec![Kind::Predictions, Kind::Outcomes, Kind::Metrics]),
        ("transitions", Kind::ALL.to_vec()),
        ("deliveries", Kind::ALL.to_vec()),
        ("reviews", vec![]),
    ];
    for kind in Kind::ALL {
        let others = Kind::ALL.into_iter().filter(|other| *other != kind).collect();
        let limits = Limits { kinds: Some(others), ..Limits::default() };
        let bearer = bearer_of(&house.token(kind.name(), limits).await);
        for (path, kinds) in &paths {
            let path = format!("/v1/workspaces/credit/prod/{path}");
            let (status, _, said) = house.send(std::slice::from_ref(&bearer), "GET", &path).await;
            let expected = if kinds.contains(&kind) { StatusCode::FORBIDDEN } else { StatusCode::OK };
            assert_eq!(status, expected, "{path} without {kind}: {said}");
        }
    }
}

async fn a_token_follows_only_events_of_its_kinds(house: House) {
    let bearer = bearer_of(&house.token("metrics", of_kind(Kind::Metrics)).await);
    let get = async |kind: &str| {
        let path = format!("/v1/workspaces/credit/prod/events/{kind}");
        house.send(std::slice::from_ref(&bearer), "GET", &path).await.0
    };
    for kind in Kind::ALL {
        let expected = if kind == Kind::Metrics { StatusCode::OK } else { StatusCode::FORBIDDEN };
        assert_eq!(get(kind.name()).await, expected, "{kind}");
    }
    assert_eq!(get("%70redictions").await, StatusCode::FORBIDDEN);
    assert_eq!(get("spare").await, StatusCode::NOT_FOUND);
}

/// The fact of an alert is in the history and in feeds; its text is only for callers that may read every kind.
async fn token_without_a_kind_cannot_read_alert_texts(house: House) {
    let (now, workspace) = (house.clock.now(), house.workspace.entity().unwrap().id().clone());
    let text = "the accuracy of v1 is 0.5";
    let alert = Alert { at: now, name: "worse".into(), model: None, text: text.into() };
    house.catalog.raise(&workspace, &alert).await.unwrap();
    house.catalog.follow(house.ann.id(), &Followed::Workspace(workspace), now).await.unwrap();
    for (name, limits, may_read) in of_all_kinds_and_of_some() {
        let bearer = bearer_of(&house.token(name, limits).await);
        for path in ["/v1/workspaces/credit/prod/history", "/v1/users/ann/feed"] {
            let (status, _, said) = house.send(std::slice::from_ref(&bearer), "GET", path).await;
            assert_eq!(status, StatusCode::OK, "{said}");
            assert!(
                said.contains("\"worse\"") && said.contains(text) == may_read,
                "{path} by {name}: {said}"
            );
        }
        let (status, _, said) = house.send(&[bearer], "GET", "/v1/digest?user=ann").await;
        assert_eq!(status != StatusCode::FORBIDDEN, may_read, "the digest by {name}: {said}");
    }
}

/// The fact of a retraction is in the audit log; its key and reason are only for callers that may read every kind.
async fn token_without_a_kind_cannot_read_retracted_keys(house: House) {
    let bearer = bearer_of(&house.token("sender", Limits::default()).await);
    let day = house.clock.now().day();
    let body = format!(
        r#"[{{"key":"loan-17","predicted_on":"{day}","observed_at":"{day}T00:00:00Z","retracted":true,"reason":"another customer"}}]"#
    );
    let outcomes = "/v1/workspaces/credit/prod/outcomes";
    let (status, _, said) = house.send_with(&[bearer], "POST", outcomes, &body).await;
    assert_eq!(status, StatusCode::CREATED, "{said}");
    for (name, limits, may_read) in of_all_kinds_and_of_some() {
        let bearer = bearer_of(&house.token(name, limits).await);
        let path = format!("/v1/audit?workspace=credit/prod&action=retract&from={day}");
        let (status, _, said) = house.send(&[bearer], "GET", &path).await;
        assert_eq!(status, StatusCode::OK, "{said}");
        assert!(said.contains("retract.outcomes"), "{said}");
        for text in ["loan-17", "another customer"] {
            assert_eq!(said.contains(text), may_read, "{text} by {name}: {said}");
        }
    }
}

async fn a_limited_token_makes_none_that_may_more(house: House) {
    house.catalog.grant(&Scope::Server, &house.ann, Role::Admin, house.clock.now()).await.unwrap();
    let limits =
        Limits { kinds: Some(vec![Kind::Metrics]), ..of_rights([Right::Read, Right::Append, Right::Admin]) };
    let until = house.clock.now().plus_seconds(36 * 60 * 60);
    let new =
        NewToken { name: "own".into(), expires_at: Some(until), limits: limits.clone(), is_once: false };
    let (token, _) = house.tokens.create(&house.ann, new, house.clock.now()).await.unwrap();
    let (_, headers, _) = house.send(&[bearer_of(&token)], "POST", "/v1/session").await;
    let cookie = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let session = [("Cookie", cookie), ("Almanac-Dashboard", "yes".to_owned())];
    for (by, name) in [(&[bearer_of(&token)][..], "by-token"), (&session[..], "by-session")] {
        let make = async |said: &str| {
            let body = format!(r#"{{"name":"{name}"{said}}}"#);
            let (status, _, said) = house.send_with(by, "POST", "/v1/tokens/user:bob", &body).await;
            (status, said)
        };
        for (beyond, limit) in [
            (r#","rights":["read","maintain"]"#, "rights: "),
            (r#","kinds":["metrics","releases"]"#, "kinds: "),
            (r#","expires_in_days":2"#, "expires_in_days: "),
        ] {
            let (status, said) = make(beyond).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{beyond}: {said}");
            assert!(said.contains(limit), "{said}");
        }
        let (status, said) = make(r#","rights":["read"]"#).await;
        assert_eq!(status, StatusCode::CREATED, "{said}");
    }
    let bob = house.catalog.resolve(EntityKind::User, "bob").await.unwrap();
    let made = house.tokens.list(&bob).await.unwrap();
    assert_eq!(made.len(), 2);
    for record in made {
        assert_eq!(record.limits, Limits { rights: of_rights([Right::Read]).rights, ..limits.clone() });
        assert_eq!(record.expires_at, Some(until), "not the end of the session, which comes sooner");
    }
}

async fn renaming_requires_right_to_create_new_name(house: House) {
    let now = house.clock.now();
    let hidden = house.catalog.ensure_workspace("credit/hidden", now).await.unwrap();
    house.catalog.ensure_workspace("rivals/velvet", now).await.unwrap();
    let bearer = [bearer_of(&house.token("laptop", Limits::default()).await)];
    let change = async |path: &str, body: &str| {
        let (status, _, said) = house.send_with(&bearer, "PATCH", path, body).await;
        (status, said)
    };
    let (own, by_id) = ("/v1/workspaces/credit/prod", house.workspace.entity().unwrap().to_string());
    for path in [own, &format!("/v1/workspaces/-/{by_id}")] {
        let taken = change(path, r#"{"name":"hidden"}"#).await;
        assert_eq!(taken.0, StatusCode::FORBIDDEN, "{}", taken.1);
        assert_eq!(change(path, r#"{"name":"free"}"#).await, taken, "a name that is free");
        let (status, said) = change(path, r#"{"attributes":{"owner":"ann"}}"#).await;
        assert_eq!(status, StatusCode::OK, "{said}");
    }
    house.catalog.grant(&Scope::Category(hidden.category), &house.ann, Role::Admin, now).await.unwrap();
    house.clock.forward(5);
    let (status, said) = change(own, r#"{"name":"hidden"}"#).await;
    assert_eq!(status, StatusCode::CONFLICT, "{said}");
    let (status, said) = change("/v1/categories/credit", r#"{"name":"rivals"}"#).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{said}");
    let (status, said) = change(own, r#"{"name":"free"}"#).await;
    assert_eq!(status, StatusCode::OK, "{said}");
}

async fn token_in_url_is_refused_in_any_encoding(house: House) {
    let token = house.token("laptop", Limits::default()).await;
    let rest = token.text().strip_prefix('a').unwrap();
    for path in [
        format!("/v1/workspaces?of=a{rest}"),
        format!("/v1/workspaces?of=%61{rest}"),
        format!("/v1/workspaces?%61{rest}=x"),
        format!("/v1/workspaces/-/%61{rest}"),
        format!("/v1/workspaces/credit/%61{rest}"),
        format!("/v1/tokens/user:%61{rest}"),
        "/v1/whoami?%61ccess_token=x".to_owned(),
    ] {
        let (status, _, said) = house.send(&[bearer_of(&token)], "GET", &path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {said}");
        assert!(!said.contains(rest), "{path}: {said}");
    }
}

async fn unreadable_workspaces_can_only_be_unfollowed(house: House) {
    let now = house.clock.now();
    let rival = house.catalog.ensure_workspace("rivals/velvet", now).await.unwrap();
    house.catalog.ensure_workspace("rivals/other", now).await.unwrap();
    house.catalog.follow(house.ann.id(), &Followed::Workspace(rival.id().clone()), now).await.unwrap();
    let bearer = [bearer_of(&house.token("laptop", Limits::default()).await)];
    let follow = async |workspace: &str, following: bool| {
        let body = format!(r#"{{"workspace":"{workspace}","following":{following}}}"#);
        let (status, _, said) = house.send_with(&bearer, "PUT", "/v1/users/ann/follows", &body).await;
        (status, said)
    };
    assert_eq!(follow("rivals/velvet", true).await.0, StatusCode::NOT_FOUND);
    let (status, said) = follow("rivals/velvet", false).await;
    assert_eq!((status, said.as_str()), (StatusCode::OK, r#"{"changed":true}"#));
    assert!(house.catalog.follows(house.ann.id()).await.unwrap().is_empty());
    let absent = follow("rivals/absent", false).await;
    assert_eq!(absent.0, StatusCode::NOT_FOUND);
    for there in ["rivals/velvet", "rivals/other"] {
        let (status, said) = follow(there, false).await;
        assert_eq!((status, said.replace(there, "rivals/absent")), absent, "{there} is not there for ann");
    }
    let (status, said) = follow("credit/prod", true).await;
    assert_eq!((status, said.as_str()), (StatusCode::OK, r#"{"changed":true,"followers":1}"#));
}
