//! Accepting connections: bounded in number, none of them may dawdle over its headers, and on the
//! way out every request that was begun is answered.

use std::{future::Future, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use meter::{InFlight, catalogue::HTTP_CONNECTIONS};
use tokio::{net::TcpListener, sync::Semaphore};
use tower::ServiceExt;
use web::Asker;

use crate::patient::Patient;

/// The most connections at one time; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

/// How long a connection may be idle, or take for the headers of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// How long a client may take nothing of an answer, as a rule.
pub(crate) const WRITE_WITHIN: Duration = Duration::from_secs(30);

/// How long to wait before accepting again after that failed, as when files ran out.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How long requests that were begun may take after the service was asked to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Answers requests by `router` until `shutdown`, and then those that were begun.
/// A client that takes nothing of its answer for `write_within` is dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    write_within: Duration,
    shutdown: impl Future<Output = ()>,
) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let open = HTTP_CONNECTIONS.gauge([]);
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    tokio::pin!(shutdown);
    loop {
        let accept = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&connections).acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        // Answers are small and go out at once.
        _ = stream.set_nodelay(true);
        let router = router.clone();
        let peer = peer.ip();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Asker { address: Some(peer), ..Asker::default() });
            router.clone().oneshot(request.map(Body::new))
        });
        let connection =
            graceful.watch(http.serve_connection(TokioIo::new(Patient::new(stream, write_within)), service));
        let counted = InFlight::begin(&open);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended badly");
            }
            drop((permit, counted));
        });
    }
    drop(listener);
    // What was accepted is durable or will be sent again; a client that stalls does not delay the stop.
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in {} s and are cut off", DRAIN.as_secs());
    }
}
