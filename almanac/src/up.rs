//! Ingest, projector and query in one process, on one listener.

use std::{future::Future, sync::Arc};

use anyhow::Context;
use axum::{Router, extract::Request};
use ingest::Ingest;
use projector::{Options, Projector};
use query::Query;
use store::{Clock, Table};
use tokio::{net::TcpListener, sync::watch};
use tower_http::{catch_panic::CatchPanicLayer, trace::TraceLayer};
use web::Routes;

use crate::{config::Config, health, open, openapi, serve::serve};

pub(crate) async fn command(config: &Config) -> anyhow::Result<()> {
    let table = open::create(config).await?;
    let listener = TcpListener::bind(config.listen.value).await.with_context(|| {
        format!("cannot listen on {}; --listen names another address", config.listen.value)
    })?;
    tracing::info!("listening on http://{}, data in {}", listener.local_addr()?, config.store.value);
    run(listener, table, Clock::system(), asked_to_stop()).await
}

/// Serves until `shutdown`: requests that were begun are answered, then the projector stops.
///
/// # Errors
/// When the listener or the projector fails for good.
pub async fn run(
    listener: TcpListener,
    table: Arc<dyn Table>,
    clock: Clock,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let (stop, stopped) = watch::channel(false);
    let worker = Projector::new(Arc::clone(&table), Options::new(Clock::system()));
    let ingest = Arc::new(Ingest::new(Arc::clone(&table), clock.clone()));
    let gate = Arc::clone(ingest.gate());
    let catalog = Arc::new(::catalog::Service::new(Arc::clone(&table), clock.clone()));
    let router = router(table, catalog, ingest, worker.clone(), clock);
    let end = until(stopped.clone());
    let projector = tokio::spawn(async move { worker.run(end).await });
    let server = tokio::spawn(serve(listener, router, until(stopped)));
    tokio::pin!(shutdown);
    let mut projector = projector;
    let early = tokio::select! {
        () = &mut shutdown => None,
        ended = &mut projector => Some(ended),
    };
    gate.close();
    stop.send_replace(true);
    server.await.context("the server failed")?;
    match early {
        Some(ended) => ended.context("the projector failed")??,
        None => projector.await.context("the projector failed")??,
    }
    Ok(())
}

fn router(
    table: Arc<dyn Table>,
    catalog: Arc<::catalog::Service>,
    ingest: Arc<Ingest>,
    worker: Projector,
    clock: Clock,
) -> Router {
    let query = Arc::new(Query::new(table, clock));
    let span = |request: &Request| tracing::info_span!("request", method = %request.method(), path = request.uri().path());
    let routes = Routes::new()
        .merge(health::routes(worker))
        .merge(::catalog::http::routes(catalog))
        .merge(ingest::http::routes(ingest))
        .merge(query::http::routes(query));
    openapi::with_document(routes)
        .fallback(web::no_such_path)
        .method_not_allowed_fallback(web::no_such_method)
        .layer(CatchPanicLayer::new())
        .layer(TraceLayer::new_for_http().make_span_with(span))
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, and so is the reason to go on.
    _ = stopped.wait_for(|stop| *stop).await;
}

/// Returns when the process is asked to stop, by ctrl-c or SIGTERM.
pub(crate) async fn asked_to_stop() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            },
            Err(_) => _ = interrupt.await,
        }
    }
    #[cfg(not(unix))]
    {
        _ = interrupt.await;
    }
    tracing::info!("stopping");
}
