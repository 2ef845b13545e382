//! `almanac health`: asks the service at the configured address for its health, as a container's health check.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use axum::body::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, Uri, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::{
    config::Config,
    health::{LIVE, READY},
};

/// Maximum time of an answer: longer than the service itself waits for the store, shorter than container engines wait for a
/// check.
const WITHIN: Duration = Duration::from_secs(4);

/// Maximum bytes that are read of an answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Prints the answer, and returns true if it is good.
pub(crate) async fn command(config: &Config, is_ready: bool, has_tls: bool) -> anyhow::Result<bool> {
    let address = within_reach(config.listen.value);
    let url = format!(
        "{}://{address}{}",
        if has_tls { "https" } else { "http" },
        if is_ready { READY } else { LIVE }
    );
    let Ok(answer) = tokio::time::timeout(WITHIN, ask(address, &url, has_tls)).await else {
        bail!("{url} does not answer within {WITHIN:?}")
    };
    let (is_good, text) = answer.with_context(|| format!("{url} does not answer"))?;
    println!("{}", text.trim_end());
    Ok(is_good)
}

/// Replaces the unspecified address by that of this machine.
fn within_reach(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn ask(address: SocketAddr, url: &str, has_tls: bool) -> anyhow::Result<(bool, String)> {
    let stream = TcpStream::connect(address).await?;
    if !has_tls {
        return speak(stream, address, url).await.map_err(with_hint);
    }
    let name = ServerName::from(address.ip());
    speak(TlsConnector::from(Arc::new(unchecked()?)).connect(name, stream).await?, address, url).await
}

/// Adds a hint to an error over plain HTTP, if the answer is not HTTP.
fn with_hint(error: anyhow::Error) -> anyhow::Error {
    let is_no_http = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
    if is_no_http { error.context("it may speak TLS: give --tls-cert") } else { error }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    address: SocketAddr,
    url: &str,
) -> anyhow::Result<(bool, String)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let path = url.parse::<Uri>()?.path().to_owned();
    let request = Request::get(path).header(header::HOST, address.to_string()).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let is_good = answer.status().is_success();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer breaks off: {error}"))?.to_bytes();
    connection.abort();
    Ok((is_good, String::from_utf8_lossy(&body).into_owned()))
}

/// Makes a client that accepts any certificate: it asks its own machine, by an address that no certificate names, and sends no
/// secret.
fn unchecked() -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let any = Arc::new(Any(Arc::clone(&provider)));
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.dangerous().with_custom_certificate_verifier(any).with_no_client_auth())
}

/// Accepts any certificate.
#[derive(Debug)]
struct Any(Arc<CryptoProvider>);

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_everywhere_is_asked_here() {
        for (listen, asked) in
            [("0.0.0.0:7171", "127.0.0.1:7171"), ("[::]:80", "[::1]:80"), ("10.0.0.7:7171", "10.0.0.7:7171")]
        {
            assert_eq!(within_reach(listen.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
