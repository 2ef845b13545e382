//! Requests to an issuer of bearers and to webhooks, over HTTP and TLS.

use std::{sync::Arc, time::Duration};

use ::access::oidc::Fetch;
use axum::body::Bytes;
use event::Error;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response, Uri, body::Incoming, header, header::HeaderName};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

use crate::ssrf::{Names, address_of};

/// Maximum time of a whole answer.
const WITHIN: Duration = Duration::from_secs(5);

/// Maximum time in which a host takes a connection.
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);

/// Time of silence on a connection after which it is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Maximum bytes of an answer.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Status of a service that is asked too often.
pub(crate) const TOO_MANY: u16 = 429;

/// Client that follows no redirects, so it connects to named hosts only.
#[derive(Debug)]
pub(crate) struct Web {
    client: Client<HttpsConnector<HttpConnector<Names>>, Full<Bytes>>,
    names: Names,
}

impl Web {
    /// Makes a client that trusts the authorities of the machine; one for `http://` alone needs no certificates.
    ///
    /// # Errors
    /// If the machine has no certificates of authorities.
    pub(crate) fn new(has_tls: bool) -> anyhow::Result<Self> {
        Self::with(has_tls, Names::any(), true)
    }

    /// Makes a client for addresses that strangers name: it keeps no connection, and connects to public addresses alone unless
    /// `names` allows others.
    ///
    /// # Errors
    /// Errors of [`Web::new`].
    pub(crate) fn for_strangers(has_tls: bool, names: Names) -> anyhow::Result<Self> {
        Self::with(has_tls, names, false)
    }

    fn with(has_tls: bool, names: Names, keeps: bool) -> anyhow::Result<Self> {
        let mut connector = HttpConnector::new_with_resolver(names.clone());
        connector.set_connect_timeout(Some(CONNECTED_WITHIN));
        connector.set_keepalive(Some(KEEPALIVE));
        let connector = over(connector, has_tls)?;
        let mut client = Client::builder(TokioExecutor::new());
        if !keeps {
            client.pool_max_idle_per_host(0);
        }
        Ok(Self { client: client.build(connector), names })
    }

    /// Sends a request, and returns the head of the answer. The body is read only on demand.
    ///
    /// # Errors
    /// The reason for a missing answer.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        // The connector resolves names alone, so an address is checked here.
        let host = request.uri().host().unwrap_or_default();
        if let Some(address) = address_of(host) {
            self.names.check(address)?;
        }
        self.client.request(request).await.map_err(|error| root(&error))
    }

    async fn get(&self, url: &str) -> event::Result<Vec<u8>> {
        let failed =
            |why: &dyn std::fmt::Display| Error::unavailable(format!("{url} does not answer: {why}"));
        let uri: Uri = url.parse().map_err(|error| failed(&error))?;
        let answer = self.client.get(uri).await.map_err(|error| failed(&error).because(error))?;
        if !answer.status().is_success() {
            return Err(failed(&answer.status()));
        }
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
        Ok(body.map_err(|error| failed(&error))?.to_bytes().to_vec())
    }
}

/// Wraps a connector to speak TLS, with the trusted authorities of the machine.
///
/// # Errors
/// If TLS is required, and the machine has no certificates of authorities.
pub(crate) fn over<N>(
    mut connector: HttpConnector<N>,
    has_tls: bool,
) -> anyhow::Result<HttpsConnector<HttpConnector<N>>> {
    let provider = aws_lc_rs::default_provider();
    let builder = HttpsConnectorBuilder::new();
    let builder = if has_tls {
        builder.with_provider_and_native_roots(provider)?
    } else {
        let config = ClientConfig::builder_with_provider(Arc::new(provider));
        let config = config.with_safe_default_protocol_versions()?;
        builder.with_tls_config(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    };
    connector.enforce_http(false);
    Ok(builder.https_or_http().enable_http1().wrap_connector(connector))
}

/// Innermost reason of an error, usually the most precise.
pub(crate) fn root(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// Makes the request that posts a text of JSON.
///
/// # Errors
/// The problem of a header.
pub(crate) fn posted(
    to: &Uri,
    headers: impl IntoIterator<Item = (HeaderName, String)>,
    json: String,
) -> Result<Request<Full<Bytes>>, String> {
    let request = Request::post(to).header(header::CONTENT_TYPE, "application/json");
    let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    request.body(Full::from(json)).map_err(|error| error.to_string())
}

impl Fetch for Web {
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, event::Result<Vec<u8>>> {
        Box::pin(async move {
            let got = tokio::time::timeout(WITHIN, self.get(url)).await;
            got.unwrap_or_else(|_| {
                Err(Error::unavailable(format!("{url} does not answer within {WITHIN:?}")))
            })
        })
    }
}
