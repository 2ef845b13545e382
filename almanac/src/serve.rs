//! Accepts connections: bounded in number, in all and for each address, and in the time for their headers; a stop answers every
//! started request.

use std::{
    collections::{HashMap, hash_map::Entry},
    future::Future,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

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
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use web::Requester;

use crate::{drain_body, harden::encrypted, proxies::Proxies, tls::Tls, write_timeout::Patient};

/// Default maximum of connections at one time; further ones wait to be accepted.
pub(crate) const MAX_CONNECTIONS: usize = 4096;

/// Divisor of the connections: one address may have this share of them, and when fewer than this share are left, idle connections
/// last only [`KEEP_ALIVE_UNDER_PRESSURE`]. Trusted proxies stand for many clients, so neither rule applies to them.
const SHARES: usize = 4;

/// Maximum time of an idle connection, and of the headers of a request, when few connections are left.
const KEEP_ALIVE_UNDER_PRESSURE: Duration = Duration::from_secs(5);

/// Minimum interval between log lines on refused or waiting connections.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Default maximum time of an idle connection, and of the headers of a request.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Default maximum time without progress of an answer.
pub(crate) const WRITE_WITHIN: Duration = Duration::from_secs(30);

/// Time to wait before accepting again after a failure, as when files ran out.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Default maximum time of started requests after the service was asked to stop.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// Default maximum time of a TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Maximum headers of a request.
const MAX_HEADERS: usize = 100;

/// Approximate maximum bytes of all headers of a request.
const MAX_HEADER_BYTES: usize = 256 * 1024;

/// Options of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    /// Maximum time without progress of an answer; then its client is dropped.
    pub(crate) write_within: Duration,
    /// Maximum time of an idle connection, and of the headers of a request.
    pub(crate) keep_alive: Duration,
    /// Maximum time of started requests after the service was asked to stop.
    pub(crate) drain: Duration,
    /// Certificate; without one, connections are not encrypted.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Proxies trusted to name their clients.
    pub(crate) proxies: Proxies,
    /// Maximum connections at one time.
    pub(crate) connections: usize,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            write_within: WRITE_WITHIN,
            keep_alive: KEEP_ALIVE,
            drain: DRAIN,
            tls: None,
            proxies: Proxies::default(),
            connections: MAX_CONNECTIONS,
        }
    }
}

/// Open connections.
struct Connections {
    most: usize,
    free: Arc<Semaphore>,
    of_address: Mutex<HashMap<IpAddr, usize>>,
    /// Time of the last log line about them, and number of refusals since.
    told: Mutex<(Option<Instant>, u64)>,
}

/// An open connection, counted until it is dropped.
struct Connected {
    all: Arc<Connections>,
    /// Address that it counts for, if any.
    address: Option<IpAddr>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connections {
    fn new(most: usize) -> Arc<Self> {
        let (of_address, told) = (Mutex::default(), Mutex::default());
        Arc::new(Self { most, free: Arc::new(Semaphore::new(most)), of_address, told })
    }

    /// Waits for room for one more connection.
    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if self.free.available_permits() == 0 {
            self.tell(0, || format!("all {} connections are taken, so further ones wait", self.most));
        }
        // The semaphore is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// Returns whether few connections are left.
    fn are_scarce(&self) -> bool {
        self.free.available_permits() < self.most / SHARES
    }

    /// Counts a connection for an address; `None` if the address has its maximum.
    fn connected(
        self: &Arc<Self>,
        permit: Option<OwnedSemaphorePermit>,
        address: Option<IpAddr>,
    ) -> Option<Connected> {
        if let Some(address) = address {
            let mut of_address = self.of_address.lock().unwrap_or_else(PoisonError::into_inner);
            let own = of_address.entry(address).or_default();
            let most = (self.most / SHARES).max(1);
            if *own >= most {
                drop(of_address);
                self.tell(1, || {
                    format!(
                        "connections are refused: {address} has {most}, as many as one address may have; name it by --trusted-proxy if it is a \
                         proxy or load balancer"
                    )
                });
                return None;
            }
            *own += 1;
        }
        Some(Connected { all: Arc::clone(self), address, _permit: permit })
    }

    /// Warns in the log, at most once in [`TELL_EVERY`].
    fn tell(&self, refused: u64, says: impl FnOnce() -> String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.1 += refused;
        if told.0.is_none_or(|last| last.elapsed() >= TELL_EVERY) {
            tracing::warn!(refused = told.1, "{}", says());
            *told = (Some(Instant::now()), 0);
        }
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut of_address = self.all.of_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut own) = of_address.entry(address) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

/// Address that a connection counts for: for IPv6 the network, since one host has all its addresses.
fn counted_address(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

/// Answers requests by `router` until `shutdown`, and then the started ones.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    listening: Listening,
    shutdown: impl Future<Output = ()>,
) {
    let connections = Connections::new(listening.connections);
    let open = HTTP_CONNECTIONS.gauge([]);
    let graceful = GracefulShutdown::new();
    let (stop, stopping) = watch::channel(false);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).max_headers(MAX_HEADERS).max_buf_size(MAX_HEADER_BYTES);
    let listening = Arc::new(listening);
    tokio::pin!(shutdown);
    loop {
        let accept = async { (connections.permit().await, listener.accept().await) };
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
        let is_proxy = listening.proxies.is_trusted(peer.ip().to_canonical());
        let address = (!is_proxy).then(|| counted_address(peer.ip()));
        let Some(connected) = connections.connected(permit, address) else { continue };
        let is_scarce = connections.are_scarce() && !is_proxy;
        let most = if is_scarce { KEEP_ALIVE_UNDER_PRESSURE } else { Duration::MAX };
        // Answers are small and go out at once.
        _ = stream.set_nodelay(true);
        let client = Client {
            router: router.clone(),
            listening: Arc::clone(&listening),
            peer: peer.ip(),
            stopping: stopping.clone(),
            handshake_within: HANDSHAKE_WITHIN.min(most),
        };
        let (mut http, watcher) = (http.clone(), graceful.watcher());
        http.header_read_timeout(listening.keep_alive.min(most));
        let counted = InFlight::begin(&open);
        tokio::spawn(async move {
            client.answer(stream, &http, watcher).await;
            drop((connected, counted));
        });
    }
    drop(listener);
    stop.send_replace(true);
    // Accepted events are durable or will be sent again; a client that stalls does not delay the stop.
    let drain = listening.drain;
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in {} s and are cut off", drain.as_secs());
    }
}

/// A connected client.
struct Client {
    router: Router,
    listening: Arc<Listening>,
    peer: IpAddr,
    /// True after the service was asked to stop.
    stopping: watch::Receiver<bool>,
    /// Maximum time of a TLS handshake.
    handshake_within: Duration,
}

impl Client {
    /// Answers the requests of a connection until it ends.
    async fn answer(self, stream: TcpStream, http: &http1::Builder, watcher: Watcher) {
        let stream = Patient::new(stream, self.listening.write_within);
        let Some(tls) = self.listening.tls.clone() else {
            return self.speak(stream, http, watcher).await;
        };
        let mut stopping = self.stopping.clone();
        let stopped = async { _ = stopping.wait_for(|stop| *stop).await };
        let begun = tokio::select! {
            // No request was sent over it yet.
            () = stopped => return,
            begun = tokio::time::timeout(self.handshake_within, tls.acceptor().accept(stream)) => begun,
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
            request.extensions_mut().insert(Requester { address, is_encrypted, ..Requester::default() });
            let answer = drain_body::answered(router.clone(), request);
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
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpSocket,
    };

    use super::*;

    #[tokio::test]
    async fn excessive_request_headers_are_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "hello"));
        let server = tokio::spawn(serve(listener, router, Listening::default(), std::future::pending()));
        let status = async |path: &str, headers: String| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
            // The service may close before it reads the rest of an oversized request.
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

    /// A service with few connections, and a client that connects to it from an address of this machine.
    async fn narrow(connections: usize, proxies: Proxies) -> impl AsyncFn(&str) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "hello"));
        let listening = Listening { connections, proxies, ..Listening::default() };
        tokio::spawn(serve(listener, router, listening, std::future::pending()));
        async move |from: &str| {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
            socket.connect(address).await.unwrap()
        }
    }

    /// Sends a request and returns the answer of the connection; empty if it was closed.
    async fn asked(mut stream: TcpStream) -> (String, TcpStream) {
        _ = stream.write_all(REQUEST).await;
        (answer(&mut stream).await, stream)
    }

    #[tokio::test]
    async fn one_address_leaves_connections_to_others() {
        let connect = narrow(16, Proxies::default()).await;
        let mut held = Vec::new();
        for _ in 0..4 {
            let (text, stream) = asked(connect("127.0.0.1").await).await;
            assert!(text.ends_with("hello"), "{text}");
            held.push(stream);
        }
        let (refused, _) = asked(connect("127.0.0.1").await).await;
        assert_eq!(refused, "", "it has its share");
        let (other, _) = asked(connect("127.0.0.2").await).await;
        assert!(other.ends_with("hello"), "{other}");
        // A freed connection can be used again.
        held.pop();
        while !asked(connect("127.0.0.1").await).await.0.ends_with("hello") {}
        // A trusted proxy stands for many clients.
        let connect = narrow(16, Proxies::new(vec!["127.0.0.0/8".parse().unwrap()])).await;
        let mut held = Vec::new();
        for _ in 0..12 {
            let (text, stream) = asked(connect("127.0.0.1").await).await;
            assert!(text.ends_with("hello"), "{text}");
            held.push(stream);
        }
    }

    #[tokio::test]
    async fn who_sends_nothing_is_dropped_sooner_under_pressure() {
        let connect = narrow(8, Proxies::default()).await;
        let mut held = Vec::new();
        for host in 1..=7 {
            held.push(asked(connect(&format!("127.0.0.{host}")).await).await.1);
        }
        let mut late = connect("127.0.0.8").await;
        // Other connections may be idle for half a minute.
        assert_eq!(answer(&mut late).await, "");
        let (text, _) = asked(held.remove(0)).await;
        assert!(text.ends_with("hello"), "{text}");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let counted = |text: &str| counted_address(text.parse().unwrap());
        assert_eq!(counted("2001:db8::1"), counted("2001:db8::ffff:2"));
        assert_ne!(counted("2001:db8::1"), counted("2001:db8:0:1::1"));
        assert_eq!(counted("::ffff:10.0.0.1"), counted("10.0.0.1"));
        assert_ne!(counted("10.0.0.1"), counted("10.0.0.2"));
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// Reads up to `hello`, or to the end of the connection.
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
    async fn strict_transport_security_requires_trusted_tls_proxy() {
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

    /// A connection over which a request was sent in parts, to a service that reads no body except of a PUT.
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
    async fn unread_body_does_not_break_the_next_request() {
        let head = "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n";
        let mut stream = unread(&[head, &"x".repeat(30_000), &"x".repeat(30_000)]).await;
        for _ in 0..2 {
            let text = answer(&mut stream).await;
            assert!(text.starts_with("HTTP/1.1 200") && !text.contains("connection: close"), "{text}");
            stream.write_all(REQUEST).await.unwrap();
        }
    }

    #[tokio::test]
    async fn chunked_body_keeps_connection_alive() {
        let head = "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
        let mut stream = unread(&[head, "3\r\nabc\r\n", "0\r\n\r\n"]).await;
        let text = answer(&mut stream).await;
        assert!(text.contains("HTTP/1.1 200") && !text.contains("connection: close"), "{text}");
        stream.write_all(REQUEST).await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn unread_rest_closes_connection_with_notice() {
        let long = "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n";
        let waits = "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n";
        let slow = "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";
        for parts in [&[long, &"x".repeat(66_000)][..], &[waits], &[slow]] {
            let text = answer(&mut unread(parts).await).await;
            assert!(text.starts_with("HTTP/1.1 200") && text.contains("connection: close"), "{text}");
        }
    }

    #[tokio::test]
    async fn idle_connection_is_kept_for_keep_alive_time() {
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
    async fn requests_in_progress_may_finish_within_drain_time() {
        for (drain, wanted) in [(Duration::from_secs(20), true), (Duration::from_millis(50), false)] {
            let listening = Listening { drain, ..Listening::default() };
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let end = async { _ = stopped.await };
            // A runtime of its own, whose end stands for the end of the process.
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
