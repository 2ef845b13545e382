//! Accepting connections: bounded in number, none of them may dawdle over its headers, and on the
//! way out every request that was begun is answered.

use std::{future::Future, net::IpAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, middleware::map_response};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use meter::{InFlight, catalogue::HTTP_CONNECTIONS};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tower::ServiceExt;
use web::Asker;

use crate::{harden::encrypted, patient::Patient, proxies::Proxies, tls::Tls};

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

/// How long the beginning of an encrypted connection may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// The most headers of a request.
const MAX_HEADERS: usize = 100;

/// About how many bytes the headers of a request may have together.
const MAX_HEADER_BYTES: usize = 256 * 1024;

/// How it is listened.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    /// A client that takes nothing of its answer for so long is dropped.
    pub(crate) write_within: Duration,
    /// The certificate; without one, connections are not encrypted.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Who is believed to say for whom it calls.
    pub(crate) proxies: Proxies,
}

impl Default for Listening {
    fn default() -> Self {
        Self { write_within: WRITE_WITHIN, tls: None, proxies: Proxies::default() }
    }
}

/// Answers requests by `router` until `shutdown`, and then those that were begun.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    listening: Listening,
    shutdown: impl Future<Output = ()>,
) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let open = HTTP_CONNECTIONS.gauge([]);
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    http.max_headers(MAX_HEADERS).max_buf_size(MAX_HEADER_BYTES);
    let router = match listening.tls {
        Some(_) => router.layer(map_response(encrypted)),
        None => router,
    };
    let listening = Arc::new(listening);
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
        let client = Client { router: router.clone(), listening: Arc::clone(&listening), peer: peer.ip() };
        let (http, watcher) = (http.clone(), graceful.watcher());
        let counted = InFlight::begin(&open);
        tokio::spawn(async move {
            client.answer(stream, &http, watcher).await;
            drop((permit, counted));
        });
    }
    drop(listener);
    // What was accepted is durable or will be sent again; a client that stalls does not delay the stop.
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in {} s and are cut off", DRAIN.as_secs());
    }
}

/// One who is connected.
struct Client {
    router: Router,
    listening: Arc<Listening>,
    peer: IpAddr,
}

impl Client {
    /// Answers what comes over a connection, until it ends.
    async fn answer(self, stream: TcpStream, http: &http1::Builder, watcher: Watcher) {
        let stream = Patient::new(stream, self.listening.write_within);
        let Some(tls) = self.listening.tls.clone() else {
            return self.speak(stream, http, watcher).await;
        };
        match tokio::time::timeout(HANDSHAKE_WITHIN, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => self.speak(stream, http, watcher).await,
            Ok(Err(error)) => tracing::debug!(%error, "a connection is not encrypted as it should be"),
            Err(_) => tracing::debug!("a connection took too long to begin"),
        }
    }

    async fn speak(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        http: &http1::Builder,
        watcher: Watcher,
    ) {
        let Self { router, listening, peer } = self;
        let service = service_fn(move |mut request: Request<Incoming>| {
            let address = Some(listening.proxies.client(peer, request.headers()));
            request.extensions_mut().insert(Asker { address, ..Asker::default() });
            router.clone().oneshot(request.map(Body::new))
        });
        let connection = http.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(%error, "a connection ended badly");
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_request_of_too_many_or_too_long_headers_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "hello"));
        let server = tokio::spawn(serve(listener, router, Listening::default(), std::future::pending()));
        let status = async |path: &str, headers: String| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
            // The rest of what is too long may find nobody to read it.
            _ = stream.write_all(request.as_bytes()).await;
            let mut answer = vec![0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            String::from_utf8(answer[9..].to_vec()).unwrap()
        };
        let many = |count: usize| (0..count).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
        assert_eq!(status("/", many(MAX_HEADERS - 2)).await, "200");
        assert_eq!(status("/", many(MAX_HEADERS - 1)).await, "431");
        assert_eq!(status("/", format!("X: {}\r\n", "y".repeat(MAX_HEADER_BYTES / 2))).await, "200");
        assert_eq!(status("/", format!("X: {}\r\n", "y".repeat(4 * MAX_HEADER_BYTES))).await, "431");
        assert_eq!(status(&format!("/{}", "y".repeat(70_000)), String::new()).await, "414");
        server.abort();
    }
}
