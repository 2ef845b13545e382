//! News of a workspace: who hears them, their topics and their cost.

use std::{sync::Arc, time::Duration};

use ::access::{Access, Limits, NewToken, Token, Tokens, http::guard};
use axum::{
    Router,
    body::{Body, BodyDataStream, to_bytes},
    http::{Request, StatusCode},
};
use catalog::{Catalog, New, NewEntity, Role};
use event::Clock;
use futures::StreamExt as _;
use log::{
    key::{EntityId, Scope},
    store::Store,
};
use serde_json::{Value, json};
use table::Table;
use tests::{
    conformance::TestClock,
    counted::Counted,
    engine::{Engine, Fresh},
    on_both_engines,
};
use tokio::{sync::watch, time::timeout};
use tower::ServiceExt;

use crate::up::{Options, Role as Does, Services};

const PROD: &str = "credit/prod";

/// Time that a test waits for an event that must come.
const PATIENCE: Duration = Duration::from_secs(30);

struct House {
    table: Arc<dyn Table>,
    counted: Arc<Counted>,
    clock: TestClock,
    catalog: Catalog,
    ann: EntityId,
    workspace: Scope,
    token: Token,
    preset: Token,
    stop: watch::Sender<bool>,
    _fresh: Fresh,
}

/// Events of a stream.
struct Heard(BodyDataStream);

impl Heard {
    /// Reads the next event, without heartbeats: its name and its data. `None`, if the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let text = timeout(PATIENCE, self.0.next()).await.expect("an event comes")?.unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            if text.starts_with(':') {
                continue;
            }
            let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
            return Some((
                name.to_owned(),
                serde_json::from_str(data.strip_suffix("\n\n").unwrap()).unwrap(),
            ));
        }
    }

    /// Topics of the next news.
    async fn topics(&mut self) -> Vec<String> {
        let (name, data) = self.next().await.unwrap();
        assert_eq!(name, "news");
        serde_json::from_value(data["topics"].clone()).unwrap()
    }
}

impl House {
    async fn on(engine: Engine) -> Self {
        let clock = TestClock::new(Clock::system().now());
        let fresh = engine.fresh(clock.clock()).await;
        let counted = Arc::new(Counted::new(Arc::clone(&fresh.table)));
        let table: Arc<dyn Table> = Arc::<Counted>::clone(&counted);
        let (catalog, now) = (Catalog::new(Arc::clone(&table)), clock.now());
        catalog.ensure_workspace("credit/other", now).await.unwrap();
        let workspace = catalog.ensure_workspace("credit/prod", now).await.unwrap();
        let workspace = Scope::Workspace(workspace.entity.id);
        let ann = catalog.create(NewEntity::new("ann", New::User), now).await.unwrap().at();
        catalog.grant(&workspace, &ann, Role::Reader, now).await.unwrap();
        let new =
            NewToken { name: "laptop".into(), expires_at: None, limits: Limits::default(), is_once: false };
        let (token, _) = Tokens::new(Arc::clone(&table)).create(&ann, new, now).await.unwrap();
        let (stop, _) = watch::channel(false);
        Self {
            table,
            counted,
            clock,
            catalog,
            ann,
            workspace,
            token,
            preset: Token::new(),
            stop,
            _fresh: fresh,
        }
    }

    fn service(&self, roles: &[Does]) -> (Router, Services) {
        let options = Options { roles: roles.to_vec(), ..Options::new(self.clock.clock()) };
        let services = Services::new(Store::over(Arc::clone(&self.table)), &options);
        let routes = services.routes(&options, self.stop.subscribe());
        let access =
            Access::new(Arc::clone(&self.table), self.clock.clock()).with_preset(Some(self.preset.digest()));
        (guard(routes, Arc::new(access)).into_router(), services)
    }

    async fn listen(&self, router: &Router, workspace: &str, query: &str) -> Result<Heard, StatusCode> {
        let request = Request::get(format!("/v1/workspaces/{workspace}/news{query}"));
        let request = request.header("Authorization", format!("Bearer {}", self.token.text()));
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        if answer.status() != StatusCode::OK {
            return Err(answer.status());
        }
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Ok(Heard(answer.into_body().into_data_stream()))
    }

    /// Raises an alert, as the administrator.
    async fn raise(&self, router: &Router, workspace: &str) {
        let body = r#"{"name":"drift","text":"Scores moved."}"#;
        self.post(router, &format!("{workspace}/alerts"), body.to_owned()).await;
    }

    /// Posts to a workspace, as the administrator.
    async fn post(&self, router: &Router, path: &str, body: String) {
        let request = Request::post(format!("/v1/workspaces/{path}"))
            .header("Authorization", format!("Bearer {}", self.preset.text()))
            .header("Content-Type", "application/json")
            .body(Body::from(body));
        let answer = router.clone().oneshot(request.unwrap()).await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }
}

on_both_engines!(
    House::on:
    news_stream_reports_only_own_workspace_to_readers,
    news_stream_ends_by_timeout_and_on_shutdown,
    revoked_reader_gets_no_result_of_unmatched_wait,
);

async fn news_stream_reports_only_own_workspace_to_readers(house: House) {
    let (router, _services) = house.service(&Does::ALL);
    let mut heard = house.listen(&router, PROD, "").await.unwrap();
    // No projector runs in this test, so what other processes write is not heard.
    assert_eq!(heard.next().await, Some(("hello".into(), json!({ "reads_feed": false }))));
    house.raise(&router, "credit/other").await;
    house.counted.take_reads();
    assert!(
        timeout(Duration::from_millis(800), heard.next()).await.is_err(),
        "nothing moved in the workspace"
    );
    let reads = house.counted.take_reads();
    assert_eq!((reads.gets, reads.queries), (0, 0), "who listens reads nothing");
    house.raise(&router, PROD).await;
    assert!(heard.topics().await.contains(&"catalog".to_owned()));

    // The workspaces of others are as if they were not there, by name and by id.
    let id = house.catalog.workspace("credit/other").await.unwrap().id().to_string();
    for other in ["credit/other", &format!("-/{id}"), "credit/none"] {
        assert_eq!(house.listen(&router, other, "").await.err(), Some(StatusCode::NOT_FOUND), "{other}");
    }
    for wrong in ["?seconds=0", "?seconds=31", "?seconds=x", "?minutes=1"] {
        assert_eq!(house.listen(&router, PROD, wrong).await.err(), Some(StatusCode::BAD_REQUEST), "{wrong}");
    }
    // A caller that has lost its role is not let in again.
    house.catalog.revoke(&house.workspace, &house.ann).await.unwrap();
    house.clock.forward(5);
    assert_eq!(house.listen(&router, PROD, "").await.err(), Some(StatusCode::NOT_FOUND));
    house.stop.send_replace(true);
}

async fn news_stream_ends_by_timeout_and_on_shutdown(house: House) {
    let (router, services) = house.service(&[Does::Query]);
    let mut short = house.listen(&router, PROD, "?seconds=1").await.unwrap();
    assert_eq!(short.next().await.unwrap().0, "hello");
    assert_eq!(short.next().await, Some(("renew".into(), json!({}))));
    assert_eq!(short.next().await, None);
    let mut long = house.listen(&router, PROD, "?seconds=30").await.unwrap();
    assert_eq!(long.next().await.unwrap().0, "hello");
    services.end_waiting();
    let ended = timeout(Duration::from_secs(5), long.next()).await;
    assert_eq!(ended.expect("a service that stops ends all streams at once"), None);
    house.stop.send_replace(true);
}

async fn revoked_reader_gets_no_result_of_unmatched_wait(house: House) {
    let (router, _services) = house.service(&Does::ALL);
    let ask = async |wait: u32| {
        let request = Request::get(format!("/v1/workspaces/credit/prod/events/metrics?wait={wait}"));
        let request = request.header("Authorization", format!("Bearer {}", house.token.text()));
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        (head.status, to_bytes(body, usize::MAX).await.unwrap())
    };
    let append = async || {
        // The caller is known by now, so the first read is of the events it asks for.
        let begun = async {
            while house.counted.take_reads().queries == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(20), begun).await.expect("it reads before it waits");
        house.catalog.revoke(&house.workspace, &house.ann).await.unwrap();
        house.clock.forward(5);
        let at = house.clock.now();
        let body = format!(r#"[{{"name":"secret","measured_at":"{at}","value":1}}]"#);
        house.post(&router, "credit/prod/metrics", body).await;
    };
    assert_eq!(ask(0).await.0, StatusCode::OK);
    house.counted.take_reads();
    let ((status, body), ()) = tokio::join!(ask(25), append());
    let said = String::from_utf8_lossy(&body);
    assert_eq!(status, StatusCode::NOT_FOUND, "{said}");
    assert!(!said.contains("secret"), "{said}");
    house.stop.send_replace(true);
}
