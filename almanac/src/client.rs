//! Requests of commands: to a service over HTTP, or to the same router in this process over the opened table.

use std::sync::Arc;

use anyhow::Context;
use axum::{
    Router,
    body::{Body, Bytes},
    http::request::Parts,
};
use event::{Clock, Error, ErrorKind};
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Request, Response, StatusCode, Uri,
    header::{AUTHORIZATION, COOKIE, HOST, HeaderName, HeaderValue, ORIGIN},
};
use log::store::Store;
use serde_json::Value;
use tower::ServiceExt;
use web::Requester;

use crate::{
    author,
    config::{Config, Origin},
    http_client::Web,
    open,
    up::{self, Options, Role},
};

/// Variable that holds the token for requests. It is no flag, since other users of a machine can read the flags of a process.
const TOKEN: &str = "ALMANAC_TOKEN";

/// Headers by which services know who calls, and from which page.
const OF_CALLERS: [HeaderName; 5] =
    [AUTHORIZATION, COOKIE, HOST, ORIGIN, HeaderName::from_static("sec-fetch-site")];

/// Way of a command to the operations of the API.
pub(crate) enum Client {
    /// Services in this process, with the headers and the context by which they know their caller.
    Local { router: Router, headers: HeaderMap, requester: Requester },
    /// A service at a base address, with the header by which it knows its caller.
    Remote { web: Box<Web>, base: String, token: Option<HeaderValue> },
}

/// Answer to a request that succeeded.
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The values of a header.
    pub(crate) fn header(&self, name: &'static str) -> impl Iterator<Item = &str> {
        self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    /// The body, if it is JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        let is_json = self.header("content-type").any(|media| media.starts_with("application/json"));
        is_json.then(|| serde_json::from_slice(&self.body).ok()).flatten()
    }
}

impl Client {
    /// Connects to the service at `--url`, or opens the table of the configuration. One that `may_create` makes a table that is
    /// not there, if the configuration says where: not in a folder that happens to be the present one.
    ///
    /// # Errors
    /// `Invalid`, for a token that cannot be sent; errors of opening the table.
    pub(crate) async fn new(config: &Config, may_create: bool) -> anyhow::Result<Self> {
        let is_named = config.store.origin != Origin::Default || config.data.origin != Origin::Default;
        match &config.url.value {
            Some(url) => Self::remote(url),
            None => {
                let store = match may_create && is_named {
                    true => open::to_serve(config, true).await?,
                    false => open::store(config).await?,
                };
                Ok(Self::local(store, config.query_memory.value.0))
            }
        }
    }

    fn remote(url: &str) -> anyhow::Result<Self> {
        let web = Web::new(url.starts_with("https://"))
            .context("no certificates of authorities to know the service by")?;
        let bearer = |token: String| {
            let header = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
            header.map_err(|_| Error::invalid(format!("{TOKEN} holds characters that no token has")))
        };
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty()).map(bearer).transpose()?;
        Ok(Self::Remote { web: Box::new(web), base: url.trim_end_matches('/').to_owned(), token })
    }

    /// Services on an open table.
    pub(crate) fn local(store: Arc<Store>, query_memory: u64) -> Self {
        let mut options = Options::new(Clock::system());
        options.roles = vec![Role::Ingest, Role::Query];
        // One caller may hold three quarters of the memory, and a command is the only one.
        options.queries.memory = query_memory.saturating_add(query_memory.div_ceil(3));
        // Draws of intervals may take long on a machine of one's own.
        options.queries.drawn = u64::MAX;
        let principal = Arc::from(author::local().principal.as_str());
        Self::Local {
            router: up::service(store, &options),
            headers: HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]),
            requester: Requester { principal: Some(principal), is_admin: true, ..Requester::default() },
        }
    }

    /// Services in this process, which the sender of a request to one of them calls.
    pub(crate) fn of_caller(router: Router, head: &Parts) -> Self {
        let named = head.headers.iter().filter(|(name, _)| OF_CALLERS.contains(name));
        let headers = named.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self::Local { router, headers, requester: head.extensions.get().cloned().unwrap_or_default() }
    }

    /// Sends a request whose address is a path, and returns its whole answer.
    ///
    /// # Errors
    /// Errors of [`Client::open`], and of an answer that breaks off.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let (head, body) = self.open(request).await?.into_parts();
        let body = body.collect().await.map_err(broken_off)?.to_bytes();
        Ok(Answer { headers: head.headers, body })
    }

    /// Sends a request whose address is a path, and returns its answer as it comes.
    ///
    /// # Errors
    /// The problem that the service answers, in its kind; `Unavailable`, if there is no answer.
    pub(crate) async fn open(&self, mut request: Request<Full<Bytes>>) -> anyhow::Result<Response<Body>> {
        let answer = match self {
            Self::Local { router, headers, requester } => {
                request.headers_mut().extend(headers.clone());
                request.extensions_mut().insert(requester.clone());
                router.clone().oneshot(request.map(Body::new)).await?
            }
            Self::Remote { web, base, token } => {
                let lost = |why: String| Error::unavailable(format!("{base} does not answer: {why}"));
                *request.uri_mut() = format!("{base}{}", request.uri())
                    .parse::<Uri>()
                    .map_err(|error| Error::invalid(format!("--url {base} is no address: {error}")))?;
                if let Some(token) = token {
                    request.headers_mut().insert(AUTHORIZATION, token.clone());
                }
                web.send(request).await.map_err(lost)?.map(Body::new)
            }
        };
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(broken_off)?.to_bytes();
        Err(problem(head.status, &body).into())
    }
}

/// Error with which an answer ends before all of it has come.
pub(crate) fn broken_off(error: axum::Error) -> Error {
    let unknown = |error| Error::unavailable(format!("the answer broke off: {error}"));
    error.into_inner().downcast::<Error>().map_or_else(unknown, |error| *error)
}

/// Error that a problem document describes.
fn problem(status: StatusCode, body: &[u8]) -> Error {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let detail = match said["detail"].as_str() {
        Some(detail) => detail.to_owned(),
        None => format!("the service answers {status}: {}", String::from_utf8_lossy(body).trim()),
    };
    let rows = said["errors"].as_array().into_iter().flatten().filter_map(|row| {
        let message = row["message"].as_str()?;
        Some(match row["field"].as_str() {
            Some(field) => format!("; row {}: `{field}`: {message}", row["row"]),
            None => format!("; row {}: {message}", row["row"]),
        })
    });
    let text = detail + &rows.collect::<String>();
    Error::new(kind(status), text)
}

fn kind(status: StatusCode) -> ErrorKind {
    match status {
        StatusCode::NOT_FOUND => ErrorKind::NotFound,
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => ErrorKind::Conflict,
        status if status.is_server_error() => ErrorKind::Unavailable,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    }
}
