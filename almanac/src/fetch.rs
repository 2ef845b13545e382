//! What is got from an issuer of bearers and posted to a catalog of data, over HTTP and TLS.

use std::{sync::Arc, time::Duration};

use ::access::oidc::Fetch;
use axum::body::Bytes;
use event::{Error, Result};
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response, Uri, body::Incoming, header};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

/// How long an answer may take, to its end.
const WITHIN: Duration = Duration::from_secs(5);

/// The longest answer that is read.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// The status of who is asked too often.
const TOO_MANY: u16 = 429;

/// How many letters of a refusal are shown.
const MAX_SAID: usize = 300;

/// A client that follows no redirects, so it asks nobody but the one that was named.
#[derive(Debug)]
pub(crate) struct Web {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Web {
    /// A client that trusts whom the machine trusts; one for `http://` alone needs no certificates.
    ///
    /// # Errors
    /// When the machine has no certificates of authorities.
    pub(crate) fn new(has_tls: bool) -> anyhow::Result<Self> {
        let provider = aws_lc_rs::default_provider();
        let builder = HttpsConnectorBuilder::new();
        let builder = if has_tls {
            builder.with_provider_and_native_roots(provider)?
        } else {
            let config = ClientConfig::builder_with_provider(Arc::new(provider));
            let config = config.with_safe_default_protocol_versions()?;
            builder
                .with_tls_config(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        };
        let connector = builder.https_or_http().enable_http1().build();
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector) })
    }

    async fn get(&self, url: &str) -> Result<Vec<u8>> {
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

/// What became of something that was posted.
#[derive(Debug)]
pub(crate) enum Posted {
    /// It was taken.
    Taken,
    /// It was not, and would not be the next time; with what was said.
    Refused(String),
    /// It may be taken the next time.
    Failed(String),
}

impl Web {
    /// Posts a text of JSON.
    pub(crate) async fn post(&self, to: &Uri, bearer: Option<&str>, json: &str) -> Posted {
        let mut request = Request::post(to).header(header::CONTENT_TYPE, "application/json");
        if let Some(bearer) = bearer {
            request = request.header(header::AUTHORIZATION, format!("Bearer {bearer}"));
        }
        let request = match request.body(Full::from(json.to_owned())) {
            Ok(request) => request,
            Err(error) => return Posted::Refused(error.to_string()),
        };
        match tokio::time::timeout(WITHIN, self.answered(request)).await {
            Ok(posted) => posted,
            Err(_) => Posted::Failed(format!("no answer within {WITHIN:?}")),
        }
    }

    async fn answered(&self, request: Request<Full<Bytes>>) -> Posted {
        let answer: Response<Incoming> = match self.client.request(request).await {
            Ok(answer) => answer,
            Err(error) => return Posted::Failed(error.to_string()),
        };
        let status = answer.status();
        if status.is_success() {
            return Posted::Taken;
        }
        let said = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
        let said = said.map(|said| said.to_bytes()).unwrap_or_default();
        let said: String = String::from_utf8_lossy(&said).chars().take(MAX_SAID).collect();
        let why = format!("{status} {said}");
        let is_for_now = status.is_server_error() || status.as_u16() == TOO_MANY;
        if is_for_now { Posted::Failed(why) } else { Posted::Refused(why) }
    }
}

impl Fetch for Web {
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move {
            let got = tokio::time::timeout(WITHIN, self.get(url)).await;
            got.unwrap_or_else(|_| {
                Err(Error::unavailable(format!("{url} does not answer within {WITHIN:?}")))
            })
        })
    }
}
