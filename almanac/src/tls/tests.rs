//! Certificates that are replaced under a running service.

use std::io;

use axum::{Router, extract::Request, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Bytes,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ClientConfig, ClientConnection, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::{Instant, pause},
};
use tokio_rustls::TlsConnector;

use super::*;
use crate::serve::{Listening, serve};

struct Pair {
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
}

impl Pair {
    fn new() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Self { certificate: cert.pem(), key: signing_key.serialize_pem(), der: cert.der().clone() }
    }

    /// A client that trusts this certificate only.
    fn trusting(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }
}

/// A service whose certificate is in files of a folder.
struct House {
    folder: tempfile::TempDir,
    tls: Arc<Tls>,
    port: u16,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl House {
    async fn with(pair: &Pair) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::write(&certificate, &pair.certificate).unwrap();
        fs::write(&key, &pair.key).unwrap();
        let tls = Arc::new(Tls::load(certificate, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, mut stopped) = watch::channel(false);
        let end = async move { _ = stopped.wait_for(|stop| *stop).await };
        let listening = Listening { tls: Some(Arc::clone(&tls)), ..Listening::default() };
        let router = Router::new().route("/", get(async |_: Request| "hello"));
        let server = tokio::spawn(serve(listener, router, listening, end));
        Self { folder, tls, port, stop, server }
    }

    fn write(&self, certificate: &str, key: &str) {
        fs::write(self.folder.path().join("cert.pem"), certificate).unwrap();
        fs::write(self.folder.path().join("key.pem"), key).unwrap();
        self.tls.look_again();
    }

    /// Connects a client that trusts one certificate only.
    async fn connect(&self, trusted: &Pair) -> io::Result<SendRequest<Empty<Bytes>>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(trusted.trusting()).connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Ok(sender)
    }
}

async fn says(sender: &mut SendRequest<Empty<Bytes>>) -> String {
    let request = hyper::Request::get("/").header("Host", "localhost").body(Empty::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.headers()["strict-transport-security"], "max-age=31536000");
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn certificate_reload_keeps_open_connections() {
    let (old, new) = (Pair::new(), Pair::new());
    let house = House::with(&old).await;
    let mut before = house.connect(&old).await.unwrap();
    assert_eq!(says(&mut before).await, "hello");
    assert!(house.connect(&new).await.is_err());
    house.write(&new.certificate, &new.key);
    let mut after = house.connect(&new).await.unwrap();
    assert_eq!(says(&mut after).await, "hello");
    assert!(house.connect(&old).await.is_err());
    assert_eq!(says(&mut before).await, "hello", "the connection from before goes on");
    house.stop.send_replace(true);
}

#[tokio::test]
async fn bad_files_change_nothing() {
    let (old, new) = (Pair::new(), Pair::new());
    let house = House::with(&old).await;
    for (certificate, key) in [
        (new.certificate.as_str(), old.key.as_str()),
        ("", ""),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &old.key),
        (&old.certificate, &old.certificate),
        (&old.certificate[..old.certificate.len() / 2], &old.key),
    ] {
        house.write(certificate, key);
        assert_eq!(says(&mut house.connect(&old).await.unwrap()).await, "hello", "{certificate}");
    }
    fs::remove_file(house.folder.path().join("key.pem")).unwrap();
    house.tls.look_again();
    house.connect(&old).await.unwrap();
    house.write(&new.certificate, &new.key);
    house.connect(&new).await.unwrap();
    house.stop.send_replace(true);
}

#[tokio::test]
async fn non_tls_connection_is_closed_without_blocking_others() {
    let pair = Pair::new();
    let house = House::with(&pair).await;
    // A client that sends nothing, and one that speaks plain HTTP.
    let _silent = TcpStream::connect(("127.0.0.1", house.port)).await.unwrap();
    let mut plain = TcpStream::connect(("127.0.0.1", house.port)).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("hello"));
    assert_eq!(says(&mut house.connect(&pair).await.unwrap()).await, "hello");
    house.stop.send_replace(true);
}

#[tokio::test]
async fn unfinished_tls_handshake_does_not_delay_shutdown() {
    let pair = Pair::new();
    let house = House::with(&pair).await;
    let mut hello = Vec::new();
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(pair.trusting(), name).unwrap().write_tls(&mut hello).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", house.port)).await.unwrap();
    stream.write_all(&hello).await.unwrap();
    // The service has answered, and it is the client's turn.
    stream.read_u8().await.unwrap();
    // From here on time passes only when everything waits.
    pause();
    let asked = Instant::now();
    house.stop.send_replace(true);
    house.server.await.unwrap();
    assert_eq!(asked.elapsed(), Duration::ZERO, "it waited for the client");
}

#[tokio::test]
async fn mismatched_certificate_and_key_are_refused() {
    let (one, other) = (Pair::new(), Pair::new());
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    fs::write(&certificate, &one.certificate).unwrap();
    assert!(Tls::load(certificate.clone(), key.clone()).is_err(), "there is no key");
    fs::write(&key, &other.key).unwrap();
    let refused = format!("{:#}", Tls::load(certificate.clone(), key.clone()).unwrap_err());
    assert!(refused.contains("do not go together") && !refused.contains("PRIVATE"), "{refused}");
    fs::write(&key, &one.key).unwrap();
    let tls = Tls::load(certificate, key).unwrap();
    assert!(!format!("{tls:?}").contains("PRIVATE"));
}
