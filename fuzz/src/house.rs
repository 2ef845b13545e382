//! A service in this process, with something in it, that targets send requests to.

use std::{cell::RefCell, path::Path, sync::Arc};

use access::{
    Access, Limits, NewToken, Token, Tokens,
    oidc::{Fetch, Oidc, OidcSettings, Signing},
};
use almanac::up::{Options, service};
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{Request, StatusCode, header},
};
use catalog::{Catalog, New, NewEntity, Role};
use event::{Clock, Result, Task, Timestamp};
use futures::future::BoxFuture;
use log::{
    key::{EntityId, Scope},
    store::Store,
};
use table::{Table, sqlite::SqliteTable};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use crate::last_panic;

/// The token that may do everything. It is the same in each run, as inputs are.
pub(crate) const TOKEN: &str = "alm_0123456789ABCDEFGHIJKLMNOPQRSTUV1ggZdL";

/// After how many requests there is a new service, since some of them delete what others need.
const FRESH_AFTER: u32 = 2_000;

/// Where files are held in memory, if the machine has such a folder.
const IN_MEMORY: &str = "/dev/shm";

/// When it is in the service.
const NOW: &str = "2026-06-02T00:00:00Z";

/// The key of an issuer that signs nothing.
const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","use":"sig","alg":"EdDSA","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

const EVENTS: [(&str, &str); 3] = [
    (
        "predictions",
        r#"[{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.9,"tags":{"b":"c"},"features":{"age":7}},
           {"key":"b","predicted_at":"2026-06-01T05:30:00Z","release":"v1","score":0.2,"tags":{"b":"d"}}]"#,
    ),
    (
        "outcomes",
        r#"[{"key":"a","observed_at":"2026-06-01T06:30:00Z","predicted_on":"2026-06-01","label":"yes"}]"#,
    ),
    ("metrics", r#"[{"name":"loss","measured_at":"2026-06-01T05:30:00Z","value":0.25}]"#),
];

/// A service that is not listening anywhere.
pub(crate) struct House {
    runtime: Runtime,
    router: Router,
    reader: String,
    asked: u32,
    /// The id of a run.
    pub(crate) run: String,
    /// The id of its experiment.
    pub(crate) experiment: String,
    /// Ids of what the reader may not see.
    pub(crate) hidden: Vec<String>,
    _folder: TempDir,
}

thread_local! {
    static HOUSE: RefCell<Option<House>> = const { RefCell::new(None) };
}

/// What `work` makes of the service of this thread.
pub(crate) fn in_house<T>(work: impl FnOnce(&mut House) -> T) -> T {
    HOUSE.with_borrow_mut(|house| {
        if house.as_ref().is_some_and(|house| house.asked >= FRESH_AFTER) {
            *house = None;
        }
        work(house.get_or_insert_with(House::new))
    })
}

/// An issuer that gives its keys and nothing else.
#[derive(Debug)]
struct Issuer;

impl Fetch for Issuer {
    fn get<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async { Ok(KEYS.as_bytes().to_vec()) })
    }
}

fn issuer() -> Arc<Oidc> {
    let settings = OidcSettings {
        issuer: "https://login.example.com".into(),
        audiences: vec!["almanac".into()],
        jwks_url: Some("https://login.example.com/keys".into()),
        algorithms: Signing::usual(),
        principal_claim: "sub".into(),
        domain: None,
        system_claim: None,
        groups_claim: Some("groups".into()),
        admins: true,
        creates_users: false,
    };
    Arc::new(Oidc::new(settings, Arc::new(Issuer)).unwrap())
}

/// Two tenants, and the token of a reader of the first. Ids of what the reader may not see come with it.
async fn furnished(catalog: &Catalog, tokens: &Tokens, now: Timestamp) -> Result<(String, Vec<String>)> {
    let mut places = Vec::new();
    for path in ["credit/prod", "rivals/velvet"] {
        let workspace = catalog.ensure_workspace(path, now).await?;
        let task = Task::Binary { positive_label: "yes".into() };
        let model = catalog.ensure_model(workspace.id(), "risk", &task, now).await?;
        catalog.ensure_configuration(workspace.id(), "risk", now).await?;
        let release = New::Release {
            workspace: workspace.id().clone(),
            model: "risk".into(),
            configuration: None,
            environment: None,
            details: Box::default(),
        };
        catalog.create(NewEntity::new("v1", release), now).await?;
        places.push((EntityId::Workspace(workspace.id().clone()), model.entity.id));
    }
    let ann = catalog.create(NewEntity::new("ann", New::User), now).await?.at();
    let scope = Scope::of(&places[0].0).unwrap();
    catalog.grant(&scope, &ann, Role::Reader, now).await?;
    let new = NewToken { name: "first".into(), expires_at: None, limits: Limits::default(), is_once: false };
    let (token, _) = tokens.create(&ann, new, now).await?;
    let (other, model) = &places[1];
    Ok((token.text().to_owned(), vec![other.id().to_string(), model.to_string()]))
}

impl House {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let in_memory = Path::new(IN_MEMORY).is_dir();
        let folder = if in_memory { tempfile::tempdir_in(IN_MEMORY) } else { tempfile::tempdir() }.unwrap();
        let now = Timestamp::parse(NOW).unwrap();
        let clock = Clock::from_fn(move || now);
        let table: Arc<dyn Table> =
            Arc::new(SqliteTable::open(&folder.path().join("almanac.db"), clock.clone()).unwrap());
        let (catalog, tokens) = (Catalog::new(Arc::clone(&table)), Tokens::new(Arc::clone(&table)));
        let (reader, hidden) = runtime.block_on(furnished(&catalog, &tokens, now)).unwrap();
        let access = Access::new(Arc::clone(&table), clock.clone());
        let access =
            access.with_preset(Token::parse(TOKEN).map(|token| token.digest())).with_oidc(Some(issuer()));
        let options = Options { access: Some(Arc::new(access)), mlflow: true, ..Options::new(clock) };
        let router = {
            let _entered = runtime.enter();
            service(Store::over(table), &options)
        };
        let (run, experiment) = (String::new(), String::new());
        let mut house = Self { runtime, router, reader, asked: 0, run, experiment, hidden, _folder: folder };
        house.fill();
        house
    }

    /// Sends events, and lets a training job run.
    fn fill(&mut self) {
        for (kind, body) in EVENTS {
            self.post(&format!("/v1/workspaces/credit/prod/{kind}"), body);
        }
        let door = "/mlflow/credit/prod/api/2.0/mlflow";
        let made = self.post(&format!("{door}/experiments/create"), r#"{"name":"trees"}"#);
        self.experiment = made["experiment_id"].as_str().unwrap().to_owned();
        let body = format!(
            r#"{{"experiment_id":"{}","run_name":"x_y","start_time":1780272000000}}"#,
            self.experiment
        );
        let made = self.post(&format!("{door}/runs/create"), &body);
        self.run = made["run"]["info"]["run_id"].as_str().unwrap().to_owned();
        let body = r#"{"run_id":"$RUN","metrics":[{"key":"loss","value":0.25,"timestamp":1780272000000,"step":1}],
            "params":[{"key":"depth","value":"6"}],"tags":[{"key":"a b","value":"bc"}]}"#;
        self.post(&format!("{door}/runs/log-batch"), &body.replace("$RUN", &self.run));
    }

    fn post(&mut self, path: &str, body: &str) -> serde_json::Value {
        let request = Request::post(path)
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
            .header(header::CONTENT_TYPE, "application/json");
        let (status, answer) = self.ask(request.body(Body::from(body.to_owned())).unwrap());
        assert!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&answer));
        serde_json::from_slice(&answer).unwrap()
    }

    /// The token of somebody who may only read, and only one of two workspaces.
    pub(crate) fn reader(&self) -> &str {
        &self.reader
    }

    /// The answer to a request, which may be anything but a mistake of the service.
    pub(crate) fn ask(&mut self, request: Request<Body>) -> (StatusCode, Bytes) {
        self.asked += 1;
        let said = format!("{} {}", request.method(), request.uri());
        let answered = async {
            let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
            (head.status, to_bytes(body, usize::MAX).await)
        };
        let (status, body) = self.runtime.block_on(answered);
        let body = body.unwrap_or_else(|error| panic!("{said}: {status}, and its body breaks off: {error}"));
        let is_mistake = status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE;
        let text = || String::from_utf8_lossy(&body).into_owned();
        assert!(!is_mistake, "{said}: {status} {}; the last panic: {}", text(), last_panic());
        (status, body)
    }
}
