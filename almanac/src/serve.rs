//! Accepting connections: bounded in number, none of them may dawdle over its headers, and on the
//! way out every request that was begun is answered.

use std::{future::Future, net::IpAddr, sync::Arc, time::Duration};

use axum::Router;
use futures::TryFutureExt;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use meter::{InFlight, catalogue::HTTP_CONNECTIONS};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};
use web::Asker;

use crate::{harden::encrypted, patient::Patient, proxies::Proxies, tls::Tls, unread};

/// The most connections at one time; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

/// How long a connection may be idle, or take for the headers of a request, as a rule.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How long a client may take nothing of an answer, as a rule.
pub(crate) const WRITE_WITHIN: Duration = Duration::from_secs(30);

/// How long to wait before accepting again after that failed, as when files ran out.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How long requests that were begun may take after the service was asked to stop, as a rule.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

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
    /// How long a connection may be idle, or take for the headers of a request.
    pub(crate) keep_alive: Duration,
    /// How long requests that were begun may take after the service was asked to stop.
    pub(crate) drain: Duration,
    /// The certificate; without one, connections are not encrypted.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Who is believed to say for whom it calls.
    pub(crate) proxies: Proxies,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            write_within: WRITE_WITHIN,
            keep_alive: KEEP_ALIVE,
            drain: DRAIN,
            tls: None,
            proxies: Proxies::default(),
        }
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
    let (stop, stopping) = watch::channel(false);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(listening.keep_alive);
    http.max_headers(MAX_HEADERS).max_buf_size(MAX_HEADER_BYTES);
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
        let client = Client {
            router: router.clone(),
            listening: Arc::clone(&listening),
            peer: peer.ip(),
            stopping: stopping.clone(),
        };
        let (http, watcher) = (http.clone(), graceful.watcher());
        let counted = InFlight::begin(&open);
        tokio::spawn(async move {
            client.answer(stream, &http, watcher).await;
            drop((permit, counted));
        });
    }
    drop(listener);
    stop.send_replace(true);
    // What was accepted is durable or will be sent again; a client that stalls does not delay the stop.
    let drain = listening.drain;
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in {} s and are cut off", drain.as_secs());
    }
}

/// One who is connected.
struct Client {
    router: Router,
    listening: Arc<Listening>,
    peer: IpAddr,
    /// Whether the service was asked to stop.
    stopping: watch::Receiver<bool>,
}

impl Client {
    /// Answers what comes over a connection, until it ends.
    async fn answer(self, stream: TcpStream, http: &http1::Builder, watcher: Watcher) {
        let stream = Patient::new(stream, self.listening.write_within);
        let Some(tls) = self.listening.tls.clone() else {
            return self.speak(stream, http, watcher).await;
        };
        let mut stopping = self.stopping.clone();
        let stopped = async { _ = stopping.wait_for(|stop| *stop).await };
        let begun = tokio::select! {
            // Nothing was asked over it yet.
            () = stopped => return,
            begun = tokio::time::timeout(HANDSHAKE_WITHIN, tls.acceptor().accept(stream)) => begun,
        };
        match begun {
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
        let Self { router, listening, peer, .. } = self;
        let service = service_fn(move |mut request: Request<Incoming>| {
            let address = Some(listening.proxies.client(peer, request.headers()));
            let is_encrypted =
                listening.tls.is_some() || listening.proxies.is_encrypted(peer, request.headers());
            request.extensions_mut().insert(Asker { address, is_encrypted, ..Asker::default() });
            let answer = unread::answered(router.clone(), request);
            answer.map_ok(move |answer| if is_encrypted { encrypted(answer) } else { answer })
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

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// What comes until `hello`, or the end of the connection.
    async fn answer(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        let mut bytes = [0; 1_024];
        while !text.ends_with("hello") {
            match stream.read(&mut bytes).await {
                Ok(0) | Err(_) => break,
                Ok(read) => text.push_str(&String::from_utf8_lossy(&bytes[..read])),
            }
        }
        text
    }

    #[tokio::test]
    async fn browsers_are_asked_for_tls_alone_behind_a_trusted_proxy_that_has_it() {
        let proxies = Proxies::new(vec!["127.0.0.0/8".parse().unwrap()]);
        for (proxies, said, expected) in
            [(proxies.clone(), "https", true), (proxies, "http", false), (Proxies::default(), "https", false)]
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let router = Router::new().route("/", get(async || "hello"));
            let listening = Listening { proxies, ..Listening::default() };
            let server = tokio::spawn(serve(listener, router, listening, std::future::pending()));
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: {said}\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let text = answer(&mut stream).await;
            assert_eq!(
                text.contains("strict-transport-security: max-age=31536000"),
                expected,
                "{said}: {text}"
            );
            server.abort();
        }
    }

    /// A connection over which a request was sent in parts, to a service that reads no body but of a PUT.
    async fn unread(parts: &[&str]) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let read = async |_: axum::body::Bytes| "hello";
        let router = Router::new().route("/", get(async || "hello").put(read));
        tokio::spawn(serve(listener, router, Listening::default(), std::future::pending()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        for part in parts {
            stream.write_all(part.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        stream
    }

    #[tokio::test]
    async fn a_body_that_nobody_needs_costs_the_next_request_nothing() {
        let head = "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n";
        let mut stream = unread(&[head, &"x".repeat(30_000), &"x".repeat(30_000)]).await;
        for _ in 0..2 {
            let text = answer(&mut stream).await;
            assert!(text.starts_with("HTTP/1.1 200") && !text.contains("connection: close"), "{text}");
            stream.write_all(REQUEST).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_body_in_chunks_that_was_asked_for_and_read_leaves_nothing() {
        let head = "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
        let mut stream = unread(&[head, "3\r\nabc\r\n", "0\r\n\r\n"]).await;
        let text = answer(&mut stream).await;
        assert!(text.contains("HTTP/1.1 200") && !text.contains("connection: close"), "{text}");
        stream.write_all(REQUEST).await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn a_connection_that_ends_for_what_is_left_says_so() {
        let long = "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n";
        let waits = "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n";
        let slow = "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";
        for parts in [&[long, &"x".repeat(66_000)][..], &[waits], &[slow]] {
            let text = answer(&mut unread(parts).await).await;
            assert!(text.starts_with("HTTP/1.1 200") && text.contains("connection: close"), "{text}");
        }
    }

    #[tokio::test]
    async fn an_idle_connection_is_kept_as_long_as_asked() {
        let listening = Listening { keep_alive: Duration::from_secs(1), ..Listening::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "hello"));
        tokio::spawn(serve(listener, router, listening, std::future::pending()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        for _ in 0..2 {
            stream.write_all(REQUEST).await.unwrap();
            assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let idle = tokio::time::Instant::now();
        assert_eq!(answer(&mut stream).await, "");
        assert!(idle.elapsed() < Duration::from_secs(10), "{:?}", idle.elapsed());
    }

    #[tokio::test]
    async fn what_was_begun_has_as_long_as_asked_when_the_service_stops() {
        for (drain, wanted) in [(Duration::from_secs(20), true), (Duration::from_millis(50), false)] {
            let listening = Listening { drain, ..Listening::default() };
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let end = async { _ = stopped.await };
            // On a runtime of its own, whose end is that of the process.
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let listener = listener.into_std().unwrap();
            let server = runtime.spawn(async move {
                let slow = async || {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    "hello"
                };
                let router = Router::new().route("/", get(slow));
                serve(TcpListener::from_std(listener).unwrap(), router, listening, end).await;
            });
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(REQUEST).await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            stop.send(()).unwrap();
            server.await.unwrap();
            runtime.shutdown_background();
            assert_eq!(answer(&mut stream).await.ends_with("hello"), wanted, "{drain:?}");
        }
    }
}
