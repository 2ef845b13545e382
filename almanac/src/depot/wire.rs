//! HTTP client for S3, on the stack that also calls webhooks.

use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, Error as Unsent, connect::HttpConnector},
    rt::TokioExecutor,
};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector as Connect, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
        HttpResponse, HttpResponseBody, HttpService,
    },
};
use tokio::time::timeout;

use super::fault::in_store;
use crate::fetch::over;

/// Maximum time to connect.
const CONNECT: Duration = Duration::from_secs(5);

/// Maximum time until an answer begins, with a part of a file to send, and between two pieces of it.
const WITHIN: Duration = Duration::from_secs(60);

/// Makes clients; over TLS when it has to.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) has_tls: bool,
}

impl Connect for Wire {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        let connector = over(connector, self.has_tls).map_err(|error| {
            in_store(event::Error::unavailable(format!("S3 cannot be called over TLS: {error:#}")))
        })?;
        Ok(HttpClient::new(Http(Client::builder(TokioExecutor::new()).build(connector))))
    }
}

#[derive(Debug)]
struct Http(Client<HttpsConnector<HttpConnector>, HttpRequestBody>);

#[async_trait]
impl HttpService for Http {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = timeout(WITHIN, self.0.request(request)).await.map_err(late)?.map_err(unsent)?;
        let (head, body) = answer.into_parts();
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(StreamBody::new(frames(body)))))
    }
}

/// Pieces of an answer; a late one is an error.
fn frames(body: Incoming) -> impl stream::Stream<Item = Result<Frame<Bytes>, HttpError>> + Send + Sync {
    stream::unfold(Some(body), async |body| {
        let mut body = body?;
        match timeout(WITHIN, body.frame()).await {
            Ok(Some(Ok(frame))) => Some((Ok(frame), Some(body))),
            Ok(Some(Err(error))) => Some((Err(HttpError::new(HttpErrorKind::Interrupted, error)), None)),
            Ok(None) => None,
            Err(error) => Some((Err(late(error)), None)),
        }
    })
}

fn late(error: tokio::time::error::Elapsed) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, error)
}

/// Converts the error of a request, which may have been sent if it was not answered. Its sender decides whether to send it again.
fn unsent(error: Unsent) -> HttpError {
    let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
    HttpError::new(kind, error)
}
