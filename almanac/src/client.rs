//! Requests of commands: to a service over HTTP, or to the same router in this process over the opened table.

use std::{pin::pin, sync::Arc, time::Duration};

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
    header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, LOCATION, ORIGIN},
};
use log::store::Store;
use query::http::{NEXT, OMITTED};
use serde_json::Value;
use tokio::time::timeout;
use tower::ServiceExt;
use web::{NO_PATH, Requester};

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

/// Time without an answer after which a command says that it waits.
const SILENT_FOR: Duration = Duration::from_secs(5);

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

    /// Returns true if its type is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.header("content-type").any(|media| media.starts_with("application/json"))
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// `Unavailable`, if it is none: another program answered, or a part is missing.
    pub(crate) fn json(&self) -> Result<Value, Error> {
        let refused = || Error::unavailable("the answer is not whole, or not of Almanac");
        match serde_json::from_slice(&self.body) {
            Ok(Value::Null) => Err(refused()),
            Ok(value) => Ok(value),
            Err(error) => Err(refused().because(error)),
        }
    }
}

/// After what the next page of rows begins, if there is one; `Err`, with the number of its bytes, if that is too long for a header.
pub(crate) fn next_page(headers: &HeaderMap) -> Option<Result<&str, &str>> {
    let next = headers.get(NEXT)?.to_str().ok()?;
    Some(next.strip_prefix(OMITTED).map_or(Ok(next), Err))
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
    /// The problem that the service answers, in its kind; `Unavailable`, if there is no answer, or one of another program.
    pub(crate) async fn open(&self, mut request: Request<Full<Bytes>>) -> anyhow::Result<Response<Body>> {
        let answer = match self {
            Self::Local { router, headers, requester } => {
                request.headers_mut().extend(headers.clone());
                request.extensions_mut().insert(requester.clone());
                router.clone().oneshot(request.map(Body::new)).await?
            }
            Self::Remote { web, base, token } => {
                *request.uri_mut() = format!("{base}{}", request.uri())
                    .parse::<Uri>()
                    .map_err(|error| Error::invalid(format!("--url {base} is no address: {error}")))?;
                if let Some(token) = token {
                    request.headers_mut().insert(AUTHORIZATION, token.clone());
                }
                let answer = waited_for(web.send(request), base).await?;
                check_origin(base, answer.status(), answer.headers())?;
                answer.map(Body::new)
            }
        };
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(broken_off)?.to_bytes();
        Err(self.in_own_words(head.status, problem(head.status, &body)).into())
    }

    /// A problem in the words of commands, if it speaks of how programs call a service.
    fn in_own_words(&self, status: StatusCode, problem: Error) -> Error {
        let Self::Remote { base, token, .. } = self else { return problem };
        match (status, token) {
            (StatusCode::UNAUTHORIZED, None) => {
                Error::invalid(format!("{base} asks who you are: put a token into {TOKEN}"))
            }
            (StatusCode::UNAUTHORIZED, Some(_)) => {
                Error::invalid(problem.to_string().replace("the header Authorization", TOKEN))
            }
            (StatusCode::NOT_FOUND, _) if problem.to_string().starts_with(NO_PATH) => {
                Error::not_found(format!("there is no Almanac at {base}, or it is of another version"))
            }
            _ => problem,
        }
    }
}

/// Waits for the answer of a service, and says so on standard error if it takes long.
async fn waited_for<T>(sending: impl Future<Output = Result<T, String>>, base: &str) -> Result<T, Error> {
    let mut sending = pin!(sending);
    let answer = match timeout(SILENT_FOR, &mut sending).await {
        Ok(answer) => answer,
        Err(_) => {
            eprintln!("waiting for {base}");
            sending.await
        }
    };
    answer.map_err(|why| {
        let why = match why.contains("InvalidContentType") {
            true => "it does not speak TLS; try http://".to_owned(),
            false => why,
        };
        Error::unavailable(format!("{base} does not answer: {why}"))
    })
}

/// Checks that an answer may be one of Almanac: no page of a proxy or of another program.
fn check_origin(base: &str, status: StatusCode, headers: &HeaderMap) -> Result<(), Error> {
    let of = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if status.is_redirection() {
        let to = of(LOCATION).unwrap_or("nowhere");
        return Err(Error::invalid(format!("{base} answers {status}: it sends callers on to {to}")));
    }
    let said = match of(CONTENT_TYPE) {
        Some(media) if media.starts_with("text/html") => media,
        None if status.is_success() && status != StatusCode::NO_CONTENT => "no content type",
        _ => return Ok(()),
    };
    let kind = if status.is_success() { ErrorKind::Unavailable } else { kind(status) };
    let text = format!("{base} answers {status}, but not as Almanac does ({said}); is it the right address?");
    Err(Error::new(kind, text))
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

#[cfg(test)]
mod tests {
    use axum::{
        response::IntoResponse,
        routing::{any, get},
    };

    use super::*;

    /// A client of another program, which answers each path in its own way.
    async fn elsewhere() -> Client {
        let body = |media: &'static str, body: &'static str| {
            get(async move || ([(CONTENT_TYPE, media)], body).into_response())
        };
        let problem = |status: StatusCode, detail: &str| {
            let body = serde_json::json!({ "detail": detail }).to_string();
            any(async move || (status, [(CONTENT_TYPE, "application/problem+json")], body))
        };
        let router = Router::new()
            .route("/page", body("text/html; charset=utf-8", "<html>"))
            .route("/cut", body("application/json", "{\"models\":["))
            .route("/null", body("application/json", "null"))
            .route("/whole", body("application/json", "{}"))
            .route("/empty", get(async || StatusCode::OK))
            .route("/done", get(async || StatusCode::NO_CONTENT))
            .route("/moved", get(async || (StatusCode::FOUND, [(LOCATION, "https://login.example.com/")])))
            .route("/lost", get(async || (StatusCode::BAD_GATEWAY, [(CONTENT_TYPE, "text/html")], "<html>")))
            .route("/nothing", problem(StatusCode::NOT_FOUND, "there is nothing at this path; /openapi.json"))
            .route(
                "/who",
                problem(StatusCode::UNAUTHORIZED, "the header Authorization holds no whole token"),
            );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Client::Remote { web: Box::new(Web::new(false).unwrap()), base, token: None }
    }

    /// The kind and the text of the error of a request, without the address.
    async fn refused(client: &Client, path: &str) -> (ErrorKind, String) {
        let sent = client.send(Request::get(path).body(Full::default()).unwrap()).await;
        let error = match sent {
            Ok(answer) => answer.json().unwrap_err(),
            Err(error) => error.downcast::<Error>().unwrap(),
        };
        let Client::Remote { base, .. } = client else { panic!("it is remote") };
        (error.kind(), error.to_string().replace(base, "URL"))
    }

    #[tokio::test]
    async fn answers_of_other_programs_are_refused() {
        use ErrorKind::{Invalid, NotFound, Unavailable};
        let client = elsewhere().await;
        let right = "is it the right address?";
        for (path, kind, text) in [
            (
                "/page",
                Unavailable,
                &*format!("URL answers 200 OK, but not as Almanac does (text/html; charset=utf-8); {right}"),
            ),
            (
                "/empty",
                Unavailable,
                &format!("URL answers 200 OK, but not as Almanac does (no content type); {right}"),
            ),
            (
                "/lost",
                Unavailable,
                &format!("URL answers 502 Bad Gateway, but not as Almanac does (text/html); {right}"),
            ),
            (
                "/cut",
                Unavailable,
                "the answer is not whole, or not of Almanac: EOF while parsing a list at line 1 column 11",
            ),
            ("/null", Unavailable, "the answer is not whole, or not of Almanac"),
            ("/moved", Invalid, "URL answers 302 Found: it sends callers on to https://login.example.com/"),
            ("/nothing", NotFound, "there is no Almanac at URL, or it is of another version"),
            ("/who", Invalid, "URL asks who you are: put a token into ALMANAC_TOKEN"),
        ] {
            assert_eq!(refused(&client, path).await, (kind, text.to_owned()), "{path}");
        }
        for path in ["/whole", "/done"] {
            client.send(Request::get(path).body(Full::default()).unwrap()).await.unwrap();
        }
        let Client::Remote { web, base, .. } = client else { panic!("it is remote") };
        let client = Client::Remote { web, base, token: Some(HeaderValue::from_static("Bearer x")) };
        let said = refused(&client, "/who").await;
        assert_eq!(said, (Invalid, "ALMANAC_TOKEN holds no whole token".to_owned()));
    }

    #[tokio::test]
    async fn service_without_tls_is_named_as_such() {
        let Client::Remote { base, .. } = elsewhere().await else { panic!("it is remote") };
        let base = base.replace("http://", "https://");
        let client = Client::Remote { web: Box::new(Web::new(true).unwrap()), base, token: None };
        let (_, text) = refused(&client, "/whole").await;
        assert_eq!(text, "URL does not answer: it does not speak TLS; try http://");
    }
}
