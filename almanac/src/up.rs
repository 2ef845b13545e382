//! Ingest, projector and query on one listener: all of them, or the roles that are asked for.

use std::{future::Future, path::Path, sync::Arc};

use ::access::{Access, Tokens};
use anyhow::Context;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::Response,
};
use clap::Args;
use event::Clock;
use ingest::Ingest;
use log::{segment_cache::SegmentCache, store::Store};
use projector::Projector;
use query::Query;
use table::Table;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tower_http::catch_panic::CatchPanicLayer;
use web::Routes;

use crate::{
    access::{Asking, says},
    adapters::{ByIngest, ByQuery},
    audit::Refusals,
    author::in_the_name_of_callers,
    config::Config,
    harden::{one_host, panicked},
    health::{self, Asked, Readiness},
    host_check,
    listening::{ListenArgs, asked_to_stop, room_for_connections},
    mcp, open, openapi,
    serve::{Listening, serve},
    telemetry::{
        self, Exposition,
        models::ModelMetrics,
        report::{self, Reporter},
        requests::Requests,
    },
    webhook::WebhookArgs,
};

pub use self::options::{Options, Role};
pub use crate::{listening::Times, proxies::Proxies, tls::Tls};

mod options;

/// The folder beside a SQLite file where clients of MLflow put artifacts.
const ARTIFACTS: &str = "mlflow-artifacts";

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// A role to run; all roles when none is given. May be repeated.
    #[arg(long = "role", value_name = "ROLE", value_enum)]
    pub(crate) roles: Vec<Role>,
    /// Serve MLflow's clients as well, in the role ingest: MLFLOW_TRACKING_URI is http://.../mlflow/CATEGORY/WORKSPACE.
    #[arg(long, env = "ALMANAC_MLFLOW")]
    mlflow: bool,
    /// Under which address MLflow's clients put artifacts, where an experiment names none: s3://bucket/prefix, file:///shared/mlflow, or none. By
    /// default, where only this machine is served from a file, and no proxy is trusted, it is the folder mlflow-artifacts beside that.
    #[arg(long, value_name = "URI", env = "ALMANAC_MLFLOW_ARTIFACTS", value_parser = mlflow::artifact_root)]
    mlflow_artifacts: Option<String>,
    /// Add the metrics of live releases to /metrics, in the role query; their series name workspaces, models and releases.
    #[arg(long, env = "ALMANAC_MODEL_METRICS")]
    model_metrics: bool,
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    listening: ListenArgs,
    #[command(flatten)]
    webhooks: WebhookArgs,
}

impl UpArgs {
    /// Where MLflow's clients put artifacts.
    fn artifacts(&self, config: &Config) -> Option<String> {
        match &self.mlflow_artifacts {
            Some(root) => Some(root.clone()).filter(|root| root != mlflow::NO_ARTIFACTS),
            // Clients are on this machine, and write to its disk as the service does. Behind a proxy they may be anywhere.
            None if config.listen.value.ip().is_loopback() && !self.listening.has_proxies() => {
                let folder = config.store.value.file()?.parent()?.join(ARTIFACTS);
                mlflow::artifact_folder(&folder)
            }
            None => None,
        }
    }
}

pub(crate) async fn command(config: &Config, args: &UpArgs) -> anyhow::Result<()> {
    telemetry::install();
    let has = |role| args.roles.is_empty() || args.roles.contains(&role);
    let writes = has(Role::Ingest);
    let store = open::to_serve(config, writes || has(Role::Projector)).await?;
    let table: Arc<dyn Table> = Arc::<Store>::clone(&store);
    let oidc = config.oidc.settings.as_ref();
    let access = args.asking.access(&table, config.listen.value.ip(), oidc, writes).await?;
    let (tls, proxies) = (args.listening.tls()?, args.listening.proxies()?);
    let listener = TcpListener::bind(config.listen.value).await.with_context(|| {
        format!("cannot listen on {}; --listen names another address", config.listen.value)
    })?;
    let file = config.store.value.file().map(Path::to_owned);
    let roles = if args.roles.is_empty() { Role::ALL.to_vec() } else { args.roles.clone() };
    let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    // Who reads the line may ask at once.
    let stop = asked_to_stop();
    tracing::info!(
        roles = names.join(","),
        "listening on {}://{}, data in {}; {}",
        if tls.is_some() { "https" } else { "http" },
        listener.local_addr()?,
        config.store.value,
        says(access.as_deref()),
    );
    let mut options = Options { roles, file, access, tls, proxies, ..Options::new(Clock::system()) };
    // Whom a proxy or a certificate names, nobody else can pass for.
    let is_named = options.tls.is_some() || args.listening.has_proxies();
    options.own_names = options.access.as_deref().is_some_and(Access::opens_at_first) && !is_named;
    options.queries.memory = config.query_memory.value.0;
    (options.features, options.segment_cache) =
        (config.feature_sample.value, config.segment_cache_memory.value.0);
    (options.compacts, options.rest) = (config.compact.value.0, config.store.value.rest());
    (options.mlflow, options.times) = (args.mlflow, args.listening.times());
    (options.connections, options.model_metrics) = (room_for_connections(), args.model_metrics);
    options.mlflow_artifacts = args.artifacts(config).filter(|_| args.mlflow);
    if args.mlflow && !writes {
        tracing::warn!("--mlflow serves nothing here: MLflow's door is served by the role ingest");
    } else if let Some(root) = &options.mlflow_artifacts {
        tracing::info!("clients of MLflow put artifacts under {root}");
    }
    options.sender = Some(args.webhooks.sender());
    run_as(listener, store, options, stop).await
}

/// Serves in all roles until `shutdown`, as [`run_as`] does.
///
/// # Errors
/// As [`run_as`].
pub async fn run(
    listener: TcpListener,
    store: Arc<Store>,
    clock: Clock,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    run_as(listener, store, Options::new(clock), shutdown).await
}

/// Serves until `shutdown`: requests that were begun are answered, then the projector stops.
///
/// # Errors
/// When the listener or the projector fails for good.
pub async fn run_as(
    listener: TcpListener,
    store: Arc<Store>,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    telemetry::install();
    let (stop, stopped) = watch::channel(false);
    let (finish, finished) = watch::channel(false);
    let denials = Arc::clone(store.denials());
    let services = Services::new(store, &options);
    let (router, requests) = services.router(&options, stopped.clone());
    let reporter = Reporter::new(requests.traffic(), services.projector.clone(), denials);
    let mut aides = JoinSet::new();
    aides.spawn(reporter.run(report::EVERY, until(finished.clone())));
    if let Some(tls) = options.tls.clone() {
        aides.spawn(tls.keep_up(until(finished.clone())));
    }
    if services.ingest.is_some() {
        aides.spawn(Arc::clone(&services.refusals).run(until(finished.clone())));
    }
    let models = services.models.clone();
    aides.spawn(async move {
        tokio::select! {
            () = telemetry::keep_up(models) => {}
            () = until(finished) => {}
        }
    });
    let (end, worker) = (until(stopped.clone()), services.projector.clone());
    let mut projector = tokio::spawn(async move {
        match worker {
            Some(worker) => worker.run(end).await,
            None => {
                end.await;
                Ok(())
            }
        }
    });
    let Options { times, write_within, tls, proxies, connections, .. } = options;
    let Times { keep_alive, drain, .. } = times;
    let listening = Listening { write_within, keep_alive, drain, tls, proxies, connections };
    let mut server = tokio::spawn(serve(listener, router, listening, until(stopped)));
    tokio::pin!(shutdown);
    // What ends before its time ends the process: none of them can be missed.
    let (mut projected, mut served, mut aided) = (None, None, None);
    tokio::select! {
        () = &mut shutdown => {}
        ended = &mut projector => projected = Some(ended),
        ended = &mut server => served = Some(ended),
        Some(ended) = aides.join_next() => aided = Some(ended),
    }
    services.close();
    stop.send_replace(true);
    let served = match served {
        Some(ended) => ended,
        None => server.await,
    };
    let projected = match projected {
        Some(ended) => ended,
        None => projector.await,
    };
    finish.send_replace(true);
    let mut aided: Vec<_> = aided.into_iter().collect();
    while let Some(ended) = aides.join_next().await {
        aided.push(ended);
    }
    served.context("the server failed")?;
    projected.context("the projector failed")??;
    aided.into_iter().collect::<Result<(), _>>().context("the report or the upkeep of metrics failed")
}

/// What the roles of `options` answer, without a listener, for tests that send requests themselves. Who waits for events is answered at once.
pub fn service(store: Arc<Store>, options: &Options) -> Router {
    let services = Services::new(store, options);
    services.end_waiting();
    let (_, stopping) = watch::channel(false);
    services.router(options, stopping).0
}

/// The services of the roles that a process has.
pub(crate) struct Services {
    store: Arc<Store>,
    catalog: Option<Arc<::catalog::Service>>,
    ingest: Option<Arc<Ingest>>,
    projector: Option<Projector>,
    query: Option<Arc<Query>>,
    /// What snapshots are made with: the same, or one of ingest alone.
    snapshots: Option<Arc<Query>>,
    refusals: Arc<Refusals>,
    models: Option<Arc<ModelMetrics>>,
}

impl Services {
    /// Those of the roles in `options`.
    pub(crate) fn new(store: Arc<Store>, options: &Options) -> Self {
        let table: Arc<dyn Table> = Arc::<Store>::clone(&store);
        let has = |role: Role| options.roles.contains(&role);
        let is_handed = has(Role::Ingest) && has(Role::Projector);
        let segment_cache = SegmentCache::of(if is_handed { options.segment_cache } else { 0 });
        let worker = |ingest: Option<&Arc<Ingest>>| {
            let alone = || ByIngest::new(Arc::clone(&table));
            let append = ingest.map_or_else(alone, |ingest| ByIngest(Arc::clone(ingest)));
            let own = projector::Options::new(Clock::system()).compacting(options.compacts);
            let own = own.resting(options.rest).posting_by(options.sender.clone());
            Projector::new(
                Arc::clone(&table),
                own.appending_by(Arc::new(append)).taking(segment_cache.clone()),
            )
        };
        let clock = || options.clock.clone();
        let reader = || {
            // Followers of a log and open pages are notified of the writes of this process.
            let query = Query::new(Arc::clone(&table), clock()).hearing(store.notifier().clone());
            Arc::new(query.telling(store.news().clone()).within(options.queries))
        };
        let query = has(Role::Query).then(reader);
        let snapshots = has(Role::Ingest).then(|| query.clone().unwrap_or_else(reader));
        let ingest = snapshots.clone().map(|reader| {
            let ingest = Ingest::new(Arc::clone(&table), clock());
            let ingest = ingest.reading_by(Arc::new(ByQuery(reader))).caching_segments(segment_cache.clone());
            Arc::new(ingest.sampling_features(options.features).taking_bodies_within(options.times.body))
        });
        Self {
            catalog: (has(Role::Ingest) || has(Role::Query))
                .then(|| Arc::new(::catalog::Service::new(Arc::clone(&table), clock()))),
            projector: has(Role::Projector).then(|| worker(ingest.as_ref())),
            ingest,
            snapshots,
            models: (query.is_some() && options.model_metrics)
                .then(|| Arc::new(ModelMetrics::new(Arc::clone(&table), clock()))),
            query,
            refusals: Refusals::new(table),
            store,
        }
    }

    /// Takes no more events, and lets nobody wait for them.
    fn close(&self) {
        if let Some(ingest) = &self.ingest {
            ingest.admission().close();
        }
        self.end_waiting();
    }

    /// Answers those who wait for events, and lets nobody wait from now on.
    pub(crate) fn end_waiting(&self) {
        if let Some(query) = &self.query {
            query.close();
        }
    }

    /// What the roles answer; other paths do not exist.
    pub(crate) fn router(
        &self,
        options: &Options,
        stopping: watch::Receiver<bool>,
    ) -> (Router, Arc<Requests>) {
        let all = self.all_routes(options, stopping.clone());
        let routes = openapi::with_document(self.routes(options, stopping), all);
        let requests = Requests::new(routes.demands());
        let router = requests.measure(self.layered(options, routes));
        // Outermost, since problems get their ids on their way out.
        (if options.mlflow { mlflow::as_mlflow(router) } else { router }, requests)
    }

    /// The routes behind all checks of requests and their callers.
    fn layered(&self, options: &Options, routes: Routes) -> Router {
        let routes = match &options.access {
            Some(access) => ::access::http::guard(routes, Arc::clone(access)),
            None => ::access::http::refuse_foreign_pages(routes),
        };
        let router = routes
            .into_router()
            .fallback(web::no_such_path)
            .method_not_allowed_fallback(web::no_such_method)
            .layer(CatchPanicLayer::custom(panicked));
        let router = match options.own_names {
            true => router.layer(from_fn_with_state(options.access.clone(), while_open)),
            false => router,
        };
        let router = router.layer(from_fn(one_host));
        // Who only queries writes nothing.
        if self.ingest.is_some() { self.refusals.watch(router) } else { router }
    }

    /// What all roles together answer: those of this process, and those that run elsewhere.
    fn all_routes(&self, options: &Options, stopping: watch::Receiver<bool>) -> Routes {
        let all = Options { roles: Role::ALL.to_vec(), ..options.clone() };
        match Role::ALL.iter().all(|role| options.roles.contains(role)) {
            true => self.routes(&all, stopping),
            false => Self::new(Arc::clone(&self.store), &all).routes(&all, stopping),
        }
    }

    /// What the roles answer, as they describe themselves.
    pub(crate) fn routes(&self, options: &Options, stopping: watch::Receiver<bool>) -> Routes {
        let table: Arc<dyn Table> = Arc::<Store>::clone(&self.store);
        let readiness = Readiness {
            store: Arc::clone(&self.store),
            serves_clients: self.ingest.is_some() || self.query.is_some(),
            projector: self.projector.clone(),
            lag: options.ready_lag,
            stopping,
            writes: self.ingest.is_some(),
            clock: options.clock.clone(),
            read: Asked::default(),
            written: Asked::default(),
        };
        let exposition = Exposition {
            projector: self.projector.clone(),
            gate: self.ingest.as_ref().map(|ingest| Arc::clone(ingest.admission())),
            file: options.file.clone(),
            models: self.models.clone(),
        };
        let mut routes = Routes::new().merge(health::routes(readiness, exposition));
        if let Some(catalog) = &self.catalog {
            let tokens = Tokens::new(Arc::clone(&table));
            // Who only queries changes nothing.
            routes = routes.merge(match self.ingest {
                Some(_) => ::catalog::http::routes(Arc::clone(catalog)),
                None => ::catalog::http::reads(Arc::clone(catalog)),
            });
            routes = routes.merge(match self.ingest {
                Some(_) => ::access::http::routes(Arc::clone(catalog), tokens),
                None => ::access::http::reads(Arc::clone(catalog), tokens),
            });
        }
        if let Some(ingest) = &self.ingest {
            routes = routes.merge(ingest::http::routes(Arc::clone(ingest)));
            if options.mlflow {
                routes = routes.merge(mlflow::routes(Arc::clone(ingest), options.mlflow_artifacts.clone()));
            }
        }
        if let Some(query) = &self.snapshots {
            routes = routes.merge(query::http::creation(Arc::clone(query)));
        }
        if let Some(query) = &self.query {
            routes = routes.merge(query::http::routes(Arc::clone(query))).merge(dashboard::http::routes());
            routes = routes.merge(crate::status::routes(table, options.clock.clone()));
        }
        let routes = in_the_name_of_callers(routes);
        match self.query {
            Some(_) => {
                let called = self.layered(options, routes.clone());
                routes.merge(mcp::http::routes(called))
            }
            None => routes,
        }
    }
}

/// Answers under the names of this machine alone, as long as nobody is asked who they are.
async fn while_open(State(access): State<Option<Arc<Access>>>, request: Request, next: Next) -> Response {
    let is_open = match &access {
        Some(access) => access.is_open().await.unwrap_or(true),
        None => true,
    };
    match is_open {
        true => host_check::only_of_this_machine(request, next).await,
        false => next.run(request).await,
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, and so is the reason to go on.
    _ = stopped.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use axum::{
        body::{Body, Bytes},
        http::Request,
    };
    use table::sqlite::SqliteTable;
    use tower::ServiceExt;

    use super::*;

    /// The services with all roles.
    fn services(folder: &Path) -> Routes {
        let table = SqliteTable::open(&folder.join("t.db"), Clock::system()).unwrap();
        let options = Options::new(Clock::system());
        let (_stop, stopping) = watch::channel(false);
        let routes = Services::new(Store::over(Arc::new(table)), &options).routes(&options, stopping);
        openapi::with_document(routes.clone(), routes)
    }

    /// Lists of the operations by the rights that they demand, and on what.
    fn demands(routes: &Routes) -> String {
        let mut lists = BTreeMap::<String, String>::new();
        for (path, methods) in routes.demands() {
            for (method, demand) in methods {
                let says = |need: &web::Need| format!("`{}` on {}", need.right, demand.says(need));
                let needs: Vec<String> = demand.needs().iter().map(says).collect();
                let title = if needs.is_empty() { "No right".to_owned() } else { needs.join(", ") };
                *lists.entry(title).or_default() += &format!("    {method} {path}\n");
            }
        }
        lists.iter().map(|(title, list)| format!("\n{title}:\n\n{list}")).collect()
    }

    /// docs/security.md says who may do what; with `INSTA_UPDATE=always` this test writes it again.
    #[tokio::test]
    async fn the_page_says_which_role_may_do_what() {
        let folder = tempfile::tempdir().unwrap();
        let lists = demands(&services(folder.path()));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once("<!-- demands -->\n").unwrap();
        let (found, after) = rest.split_once("<!-- end -->").unwrap();
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            let page = format!("{before}<!-- demands -->\n{lists}<!-- end -->{after}");
            std::fs::write(&path, page).unwrap();
        } else {
            assert_eq!(found, lists, "INSTA_UPDATE=always writes the lists again");
        }
    }

    #[tokio::test]
    async fn slow_request_body_times_out_as_configured() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
        let times = Times { body: Duration::from_secs(1), ..Times::default() };
        let router =
            service(Store::over(Arc::new(table)), &Options { times, ..Options::new(Clock::system()) });
        let post = |path: &str, media: &str, body: Body| {
            Request::post(path).header("content-type", media).body(body).unwrap()
        };
        let named = post("/v1/workspaces", "application/json", Body::from(r#"{"path":"credit/prod"}"#));
        assert_eq!(router.clone().oneshot(named).await.unwrap().status(), 201);
        let never = futures::stream::pending::<std::io::Result<Bytes>>();
        let path = "/v1/workspaces/credit/prod/predictions";
        let slow = post(path, "application/x-ndjson", Body::from_stream(never));
        let answer = router.oneshot(slow).await.unwrap();
        assert_eq!(answer.status(), 408);
        let text = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
        assert!(String::from_utf8_lossy(&text).contains("and the whole 1 s"), "{text:?}");
    }
}
