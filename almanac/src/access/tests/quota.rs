//! Quotas of workspaces and tokens, over HTTP.

use std::sync::Arc;

use ::access::{Access, Limits, NewToken, Token, Tokens, http::guard};
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use catalog::{Catalog, New, NewEntity, Quota, Role};
use event::{Clock, Right};
use log::{
    key::{EntityId, Scope},
    store::Store,
};
use tests::{engine::Engine, on_both_engines};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::up::{Options, Services};

struct House {
    tokens: Tokens,
    ann: EntityId,
    router: Router,
    _fresh: tests::engine::Fresh,
    _stop: watch::Sender<bool>,
}

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
        for workspace in ["credit/prod", "credit/other"] {
            catalog.ensure_workspace(workspace, now).await.unwrap();
        }
        let (stop, stopping) = watch::channel(false);
        let options = Options::new(Clock::system());
        let routes = Services::new(Store::over(Arc::clone(&table)), &options).routes(&options, stopping);
        let access = Arc::new(Access::new(Arc::clone(&table), Clock::system()));
        let router = guard(routes, access).into_router();
        Self { tokens: Tokens::new(table), ann, router, _fresh: fresh, _stop: stop }
    }

    async fn token(&self, name: &str, quota: Quota) -> Token {
        let limits = Limits { quota, ..Limits::default() };
        let new = NewToken { name: name.into(), expires_at: None, limits, is_once: false };
        self.tokens.create(&self.ann, new, Clock::system().now()).await.unwrap().0
    }

    /// A token for the rights of a role, and no others.
    async fn token_of(&self, role: Role) -> Token {
        let rights = Right::ALL.into_iter().filter(|right| role.rights().has(*right)).collect();
        let limits = Limits { rights: Some(rights), ..Limits::default() };
        let new = NewToken { name: role.name().into(), expires_at: None, limits, is_once: false };
        self.tokens.create(&self.ann, new, Clock::system().now()).await.unwrap().0
    }

    async fn call(&self, token: &Token, (method, path): (&str, &str), body: &str) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(format!("/v1/workspaces/credit/{path}"))
            .header("Authorization", format!("Bearer {}", token.text()))
            .header("Content-Type", "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = String::from_utf8_lossy(&to_bytes(body, usize::MAX).await.unwrap()).into_owned();
        Answer { status: head.status, headers: head.headers, body }
    }

    /// Appends three metrics.
    async fn append(&self, token: &Token, workspace: &str, n: u32) -> Answer {
        let row = |m| format!(r#"{{"name":"latency","measured_at":"2026-06-10T00:0{n}:0{m}Z","value":1}}"#);
        let rows = format!("[{},{},{}]", row(1), row(2), row(3));
        self.call(token, ("POST", &format!("{workspace}/metrics")), &rows).await
    }
}

on_both_engines!(
    House::on:
    exhausted_quota_names_itself_and_reset_time,
    token_quota_applies_across_workspaces,
    a_quota_that_cannot_be_is_refused,
    only_an_administrator_sets_a_quota,
);

async fn exhausted_quota_names_itself_and_reset_time(house: House) {
    let (token, other) =
        (house.token("one", Quota::default()).await, house.token("two", Quota::default()).await);
    let set = house.call(&token, ("PATCH", "prod/settings"), r#"{"quota":{"rows_per_day":2}}"#).await;
    assert_eq!(set.status, StatusCode::OK, "{}", set.body);
    let shown = house.call(&token, ("GET", "prod/settings"), "").await;
    assert_eq!(shown.body, set.body);
    assert_eq!(house.append(&token, "prod", 1).await.status, StatusCode::CREATED, "no request is too large");
    for token in [&token, &other] {
        let refused = house.append(token, "prod", 2).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{}", refused.body);
        let says = "the quota `rows_per_day` of this workspace, 2, is used up for this caller until ";
        assert!(refused.body.contains(says), "{}", refused.body);
        let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=24 * 60 * 60).contains(&wait), "{wait}");
    }
    assert_eq!(house.append(&token, "other", 2).await.status, StatusCode::CREATED, "it is not its quota");
}

async fn token_quota_applies_across_workspaces(house: House) {
    let mut quota = Quota::default();
    quota.set("requests_per_day", Some(2)).unwrap();
    let (narrow, wide) = (house.token("narrow", quota).await, house.token("wide", Quota::default()).await);
    assert_eq!(house.append(&narrow, "prod", 1).await.status, StatusCode::CREATED);
    assert_eq!(house.append(&narrow, "other", 1).await.status, StatusCode::CREATED);
    let refused = house.append(&narrow, "prod", 2).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.body.contains("the quota `requests_per_day` of this token, 2"), "{}", refused.body);
    assert_eq!(house.append(&wide, "prod", 2).await.status, StatusCode::CREATED);
}

async fn a_quota_that_cannot_be_is_refused(house: House) {
    let token = house.token("one", Quota::default()).await;
    for wrong in [r#"{"rows":2}"#, r#"{"rows_per_day":0}"#, r#"{"rows_per_day":1.5}"#] {
        let body = format!(r#"{{"quota":{wrong}}}"#);
        let refused = house.call(&token, ("PATCH", "prod/settings"), &body).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{wrong}: {}", refused.body);
    }
    let shown = house.call(&token, ("GET", "prod/settings"), "").await;
    assert!(shown.body.contains(r#""quota":{}"#), "{}", shown.body);
}

async fn only_an_administrator_sets_a_quota(house: House) {
    let quota = r#"{"quota":{"rows_per_day":2}}"#;
    for (role, of_lanes, of_quota) in [
        (Role::Writer, StatusCode::FORBIDDEN, StatusCode::FORBIDDEN),
        (Role::Maintainer, StatusCode::OK, StatusCode::FORBIDDEN),
        (Role::Admin, StatusCode::OK, StatusCode::OK),
    ] {
        let token = house.token_of(role).await;
        let set = house.call(&token, ("PATCH", "prod/settings"), r#"{"lanes":2}"#).await;
        assert_eq!(set.status, of_lanes, "{role:?}: {}", set.body);
        let set = house.call(&token, ("PATCH", "prod/settings"), quota).await;
        assert_eq!(set.status, of_quota, "{role:?}: {}", set.body);
    }
}
