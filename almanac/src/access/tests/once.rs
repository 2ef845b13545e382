//! Tokens for one append: used concurrently, interrupted at each step, and used for other requests.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ::access::{Access, Lifetime, Limits, NewToken, Token, Tokens, Use, check_role, http::guard};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::StatusCode,
};
use catalog::{Catalog, New, NewEntity, NewRun, Role};
use event::{Clock, ErrorKind, Kind, Right};
use futures::future::join_all;
use log::{
    key::{self, EntityId, Scope},
    store::Store,
};
use serde_json::{Value, json};
use table::Table;
use tests::{
    conformance::{TestClock, eventually},
    engine::{Engine, Fresh},
    hooked::{Asked, Hooked, Turn},
    on_both_engines,
};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::up::{Options, Services};

/// Number of writes of tokens that still pass; at first all do.
const ALL: usize = usize::MAX;

struct Scene {
    engine: Engine,
    clock: TestClock,
    catalog: Catalog,
    tokens: Tokens,
    ann: EntityId,
    workspace: Scope,
    router: Router,
    writes_left: Arc<AtomicUsize>,
    _fresh: Fresh,
    _stop: watch::Sender<bool>,
}

impl Scene {
    async fn on(engine: Engine) -> Self {
        // Appends compare the clock with that of the engine.
        let clock = TestClock::new(Clock::system().now());
        let fresh = engine.fresh(clock.clock()).await;
        let writes_left = Arc::new(AtomicUsize::new(ALL));
        let left = Arc::clone(&writes_left);
        let table: Arc<dyn Table> = Hooked::new(Arc::clone(&fresh.table), move |asked| match asked {
            Asked::Write(written) if written.pk.starts_with("token#") => {
                let take = |left: usize| if left == ALL { Some(left) } else { left.checked_sub(1) };
                match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
                    Ok(_) => Turn::Pass,
                    Err(_) => Turn::Fail(ErrorKind::Unavailable),
                }
            }
            _ => Turn::Pass,
        });
        let catalog = Catalog::new(Arc::clone(&table));
        let workspace = catalog.ensure_workspace("credit/prod", clock.now()).await.unwrap().entity.id;
        let workspace = Scope::Workspace(workspace);
        let ann = catalog.create(NewEntity::new("ann", New::User), clock.now()).await.unwrap().at();
        catalog.grant(&Scope::Server, &ann, Role::Admin, clock.now()).await.unwrap();
        let options = Options { mlflow: true, ..Options::new(clock.clock()) };
        let (stop, stopping) = watch::channel(false);
        let routes = Services::new(Store::over(Arc::clone(&table)), &options).routes(&options, stopping);
        let access = Access::new(Arc::clone(&table), clock.clock());
        let router = guard(routes, Arc::new(access)).into_router();
        let tokens = Tokens::new(table);
        Self {
            engine,
            clock,
            catalog,
            tokens,
            ann,
            workspace,
            router,
            writes_left,
            _fresh: fresh,
            _stop: stop,
        }
    }

    fn asked_for(&self) -> NewToken {
        let limits = Limits {
            scopes: Some(BTreeSet::from([self.workspace.clone()])),
            rights: Some(BTreeSet::from([Right::Append])),
            kinds: Some(vec![Kind::Metrics]),
            networks: None,
            quota: catalog::Quota::default(),
        };
        let expires_at = NewToken::expiry(Lifetime::Usual, true, self.clock.now());
        NewToken { name: "upload".into(), expires_at, limits, is_once: true }
    }

    /// A token for one append, whose use was noted, so that only the append writes it.
    async fn token(&self) -> Token {
        let (token, _) = self.tokens.create(&self.ann, self.asked_for(), self.clock.now()).await.unwrap();
        assert_eq!(self.send(&token, "GET", "/v1/whoami", "").await.0, StatusCode::FORBIDDEN);
        let (digest, now) = (token.digest(), Some(self.clock.now()));
        eventually(now, || async { Ok(self.tokens.find(&digest).await?.and_then(|found| found.used_at)) })
            .await
            .unwrap();
        token
    }

    async fn send(&self, token: &Token, method: &str, path: &str, body: &str) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("Authorization", format!("Bearer {}", token.text()))
            .header("Idempotency-Key", "of-the-client")
            .header("Content-Type", "application/x-ndjson");
        let answer = self.router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap());
        let answer = answer.await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Appends a metric of this name.
    async fn append(&self, token: &Token, name: &str) -> (StatusCode, Value) {
        let row = format!(r#"{{"name":"{name}","measured_at":"2026-06-01T04:30:00Z","value":1}}"#);
        self.send(token, "POST", "/v1/workspaces/credit/prod/metrics", &row).await
    }
}

on_both_engines!(
    Scene::on:
    many_uses_at_one_time_give_one_success,
    interrupted_token_use_can_be_restarted,
    append_succeeds_when_token_use_cannot_be_ended,
    a_use_that_stored_nothing_is_given_back,
    a_spent_token_answers_its_append_again,
    a_token_for_one_append_needs_a_role,
    single_append_token_permits_nothing_else,
    single_append_token_cannot_change_runs_or_rematch,
);

async fn many_uses_at_one_time_give_one_success(scene: Scene) {
    let token = scene.token().await;
    // The emulator refuses requests that come too fast; a 503 is no success.
    let uses = match scene.engine {
        Engine::Sqlite => 1_000,
        Engine::DynamodbLocal => 30,
    };
    let names: Vec<String> = (0..uses).map(|n| format!("m{n}")).collect();
    let answers = join_all(names.iter().map(|name| scene.append(&token, name))).await;
    let count = |wanted: &[StatusCode]| answers.iter().filter(|(status, _)| wanted.contains(status)).count();
    assert_eq!(count(&[StatusCode::CREATED]), 1, "{answers:?}");
    let refused = [StatusCode::CONFLICT, StatusCode::FORBIDDEN, StatusCode::SERVICE_UNAVAILABLE];
    assert_eq!(count(&refused), uses - 1, "{answers:?}");
    assert_eq!(scene.append(&token, "late").await.0, StatusCode::FORBIDDEN);
    let listed = scene.tokens.list(&scene.ann).await.unwrap();
    assert!(listed[0].is_once && listed[0].spent_at.is_some());
}

async fn interrupted_token_use_can_be_restarted(scene: Scene) {
    let token = scene.token().await;
    let begun = scene.tokens.begin_use(&token.digest(), scene.clock.now()).await.unwrap();
    assert!(matches!(begun, Use::Begun(_)));
    assert_eq!(scene.append(&token, "a").await.0, StatusCode::CONFLICT, "it is being used");
    scene.clock.forward(59);
    assert_eq!(scene.append(&token, "a").await.0, StatusCode::CONFLICT);
    scene.clock.forward(1);
    match scene.engine {
        Engine::Sqlite => {
            assert_eq!(scene.append(&token, "a").await.0, StatusCode::CREATED);
            assert_eq!(scene.append(&token, "b").await.0, StatusCode::FORBIDDEN, "it was used");
            let (status, again) = scene.append(&token, "a").await;
            assert!(status.is_success() && again["appended"] == 0, "the same again is known: {again}");
        }
        // The clock of the emulator is not moved, so an append would be refused for that.
        Engine::DynamodbLocal => {
            let again = scene.tokens.begin_use(&token.digest(), scene.clock.now()).await.unwrap();
            assert!(matches!(again, Use::Begun(_)));
        }
    }
    // The first use was only slow, and can end nothing any more.
    let late = scene.clock.now().plus_seconds(-60);
    assert!(scene.tokens.end_use(&token.digest(), late, false, scene.clock.now()).await.is_err());
}

async fn append_succeeds_when_token_use_cannot_be_ended(scene: Scene) {
    let token = scene.token().await;
    // Its use is begun; the write that ends it fails.
    scene.writes_left.store(1, Ordering::SeqCst);
    let (status, first) = scene.append(&token, "a").await;
    assert_eq!(status, StatusCode::CREATED, "{first}");
    scene.writes_left.store(ALL, Ordering::SeqCst);
    assert_eq!(scene.append(&token, "a").await.0, StatusCode::CONFLICT, "it may still be under way");
    if matches!(scene.engine, Engine::Sqlite) {
        scene.clock.forward(60);
        let (status, other) = scene.append(&token, "b").await;
        assert_eq!(status, StatusCode::CONFLICT, "the key of the token is of another batch: {other}");
        let (status, again) = scene.append(&token, "a").await;
        assert!(status.is_success(), "{again}");
        assert_eq!((&again["batch"], &again["appended"]), (&first["batch"], &Value::from(0)), "{again}");
        assert_eq!(scene.append(&token, "b").await.0, StatusCode::FORBIDDEN, "now it is spent");
    }
}

async fn a_use_that_stored_nothing_is_given_back(scene: Scene) {
    let token = scene.token().await;
    let path = "/v1/workspaces/credit/prod/metrics";
    let (status, said) = scene.send(&token, "POST", path, "{\"name\":").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{said}");
    assert_eq!(scene.append(&token, "a").await.0, StatusCode::CREATED);
}

async fn a_spent_token_answers_its_append_again(scene: Scene) {
    let token = scene.token().await;
    let (status, first) = scene.append(&token, "a").await;
    assert_eq!(status, StatusCode::CREATED, "{first}");
    for _ in 0..2 {
        let (status, again) = scene.append(&token, "a").await;
        assert_eq!(status, StatusCode::CREATED, "the answer may have been lost: {again}");
        assert_eq!((&again["batch"], &again["appended"]), (&first["batch"], &Value::from(0)), "{again}");
    }
    for other in ["b", ""] {
        let (status, said) = scene.append(&token, other).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{said}");
        assert_eq!(said["detail"], "the token is good for one use, and was used for other events");
    }
}

async fn a_token_for_one_append_needs_a_role(scene: Scene) {
    let now = scene.clock.now();
    scene.catalog.create(NewEntity::new("nightly", New::System), now).await.unwrap();
    let nightly = scene.catalog.resolve(key::EntityKind::System, "nightly").await.unwrap();
    let asked = scene.asked_for();
    let refused = check_role(&scene.catalog, &nightly, &asked).await.unwrap_err();
    let says = "system:nightly may not append to credit/prod; give it a role there first, such as writer";
    assert_eq!((refused.kind(), refused.to_string().as_str()), (ErrorKind::Conflict, says));
    scene.catalog.grant(&scene.workspace, &nightly, Role::Reader, now).await.unwrap();
    assert!(check_role(&scene.catalog, &nightly, &asked).await.is_err(), "a reader appends nothing");
    let group = scene.catalog.create(NewEntity::new("loaders", New::Group), now).await.unwrap().at();
    scene.catalog.add_member(&group, &nightly, now).await.unwrap();
    scene.catalog.grant(&scene.workspace, &group, Role::Writer, now).await.unwrap();
    check_role(&scene.catalog, &nightly, &asked).await.unwrap();
    let (token, _) = scene.tokens.create(&nightly, asked, now).await.unwrap();
    assert_eq!(scene.append(&token, "a").await.0, StatusCode::CREATED, "by the role of its group");
    // Over HTTP it is refused alike.
    let asked = NewToken { is_once: false, limits: Limits::default(), ..scene.asked_for() };
    let (admin, _) = scene.tokens.create(&scene.ann, asked, now).await.unwrap();
    scene.catalog.create(NewEntity::new("idle", New::System), now).await.unwrap();
    let body = json!({ "name": "x", "once": true, "workspaces": ["credit/prod"], "rights": ["append"], "kinds": ["metrics"] });
    let request = Request::builder().method("POST").uri("/v1/tokens/system:idle");
    let request = request
        .header("Authorization", format!("Bearer {}", admin.text()))
        .header("Content-Type", "application/json")
        .body(Body::from(body.to_string()));
    let answer = scene.router.clone().oneshot(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CONFLICT);
}

async fn single_append_token_permits_nothing_else(scene: Scene) {
    let token = scene.token().await;
    for (method, path) in [
        ("GET", "/v1/whoami"),
        ("GET", "/v1/workspaces/credit/prod"),
        ("POST", "/v1/counters/workspace/credit%2Fprod/spare"),
        ("POST", "/v1/workspaces/credit/prod/outcomes"),
        ("POST", "/v1/workspaces/credit/prod/sql"),
        ("POST", "/v1/workspaces/credit/prod/alert-rules/test"),
    ] {
        assert_eq!(scene.send(&token, method, path, "{}").await.0, StatusCode::FORBIDDEN, "{method} {path}");
    }
    assert_eq!(scene.append(&token, "a").await.0, StatusCode::CREATED, "none of it was the use");
    let good = scene.asked_for();
    let limited = |limits: Limits| NewToken { name: "other".into(), limits, ..good.clone() };
    let week = scene.clock.now().plus_seconds(7 * 24 * 60 * 60);
    for wrong in [
        limited(Limits::default()),
        limited(Limits { scopes: Some(BTreeSet::from([Scope::Server])), ..good.limits.clone() }),
        limited(Limits { kinds: Some(vec![Kind::Metrics, Kind::Outcomes]), ..good.limits.clone() }),
        limited(Limits { rights: Some(BTreeSet::from([Right::Append, Right::Read])), ..good.limits.clone() }),
        NewToken { expires_at: None, ..limited(good.limits.clone()) },
        NewToken { expires_at: Some(week.plus_seconds(1)), ..limited(good.limits.clone()) },
    ] {
        let made = scene.tokens.create(&scene.ann, wrong.clone(), scene.clock.now()).await;
        assert_eq!(made.unwrap_err().kind(), ErrorKind::Invalid, "{wrong:?}");
    }
    let revoked = scene.tokens.begin_use(&Token::new().digest(), scene.clock.now()).await;
    assert_eq!(revoked.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(key::token(&token.digest()).pk.split('#').next(), Some("token"));
}

async fn single_append_token_cannot_change_runs_or_rematch(scene: Scene) {
    let workspace = scene.workspace.entity().unwrap().id().clone();
    let run = scene.catalog.create_run(&workspace, NewRun::default(), scene.clock.now()).await.unwrap();
    let token = scene.token().await;
    let door = "/mlflow/credit/prod/api/2.0/mlflow/runs";
    let metric = json!({ "key": "loss", "value": 0.5, "timestamp": 1_780_000_000_000_i64 });
    let mut alone = metric.clone();
    alone["run_id"] = run.id.as_str().into();
    let batch = json!({ "run_id": run.id.as_str(), "metrics": [metric], "params": [{ "key": "depth", "value": "6" }] });
    for (path, body) in [("log-batch", &batch), ("log-metric", &alone)] {
        let (status, said) = scene.send(&token, "POST", &format!("{door}/{path}"), &body.to_string()).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {said}");
    }
    let known = scene.catalog.run(&workspace, &run.id).await.unwrap();
    assert_eq!(known, run, "nothing of it has changed");
    assert_eq!(scene.append(&token, "a").await.0, StatusCode::CREATED, "none of it was the use");

    let mut of_outcomes = scene.asked_for();
    (of_outcomes.name, of_outcomes.limits.kinds) = ("outcomes".into(), Some(vec![Kind::Outcomes]));
    let (token, _) = scene.tokens.create(&scene.ann, of_outcomes, scene.clock.now()).await.unwrap();
    let rematch = "/v1/workspaces/credit/prod/outcomes/rematch";
    let (status, said) = scene.send(&token, "POST", rematch, r#"{"key":"a"}"#).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{said}");
}
