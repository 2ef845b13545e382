//! HTTP requests: every request has an id, is measured, and may have a line in the log.
//!
//! The id is the client's `X-Request-Id`, if that is valid, else a new one; it is in the answer, and in every line written during
//! the request. The line of the request itself follows the answer: at the level `debug`, as `warn` after a 503 and as `error`
//! after another 5xx. It contains no data of events: it has the pattern of the route, not the path.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use event::{Clock, Id};
use http_body_util::BodyExt;
use meter::{
    Counter, Gauge, Histogram, InFlight,
    catalogue::{HTTP_IN_FLIGHT, HTTP_REQUEST_BYTES, HTTP_RESPONSE_BYTES, HTTP_RESPONSES, HTTP_SECONDS},
};
use tokio::time::Instant;
use tracing::Instrument;
use web::{Busy, Demands, RequestContext, Requester};

use super::report::Traffic;
use crate::{harden::hardened, health::PROBES};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum bytes of an id of a request that is taken from a client.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// Methods that are counted apart; all other methods count as one.
const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "PUT", "DELETE"];
const OTHER: &str = "other";

/// Metrics of requests, by route: all existing ones, and one for unknown paths.
#[derive(Debug)]
pub(crate) struct Requests {
    routes: HashMap<String, Route>,
    nowhere: Route,
    responses: Vec<OnceLock<Counter>>,
    in_flight: Gauge,
    request_bytes: Counter,
    response_bytes: Counter,
    traffic: Arc<Traffic>,
    ids: Ids,
}

/// Metrics of a route: a histogram for each method and class of status that occurred.
#[derive(Debug)]
struct Route {
    pattern: String,
    is_probe: bool,
    seconds: [[OnceLock<Histogram>; CLASSES.len()]; METHODS.len() + 1],
}

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Route {
    fn new(pattern: &str) -> Self {
        let is_probe = PROBES.contains(&pattern);
        Self { pattern: pattern.to_owned(), is_probe, seconds: Default::default() }
    }

    fn note(&self, method: &Method, status: u16, took: Duration) {
        let at = METHODS.iter().position(|known| *known == method.as_str()).unwrap_or(METHODS.len());
        let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
        let name = METHODS.get(at).copied().unwrap_or(OTHER);
        let make = || HTTP_SECONDS.histogram([name, &self.pattern, CLASSES[class]]);
        self.seconds[at][class].get_or_init(make).record(took);
    }
}

/// Maker of request ids: some letters of the process, and a number.
#[derive(Debug)]
struct Ids {
    process: String,
    next: AtomicU64,
}

impl Ids {
    fn new() -> Self {
        // The end of an id is random.
        let id = Id::new(Clock::system().now()).to_string();
        Self { process: id[id.len() - 10..].to_owned(), next: AtomicU64::new(1) }
    }

    fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let is_sane = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:=+/@".contains(byte);
        let given = headers
            .get(REQUEST_ID)
            .filter(|id| (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && id.as_bytes().iter().all(is_sane));
        let new = || {
            let text = format!("{}-{}", self.process, self.next.fetch_add(1, Ordering::Relaxed));
            HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unknown"))
        };
        given.cloned().unwrap_or_else(new)
    }
}

impl Requests {
    /// Makes the metrics of these routes, by path.
    pub(crate) fn new(routes: &Demands) -> Arc<Self> {
        Arc::new(Self {
            routes: routes.keys().map(|path| (path.clone(), Route::new(path))).collect(),
            nowhere: Route::new("none"),
            responses: (0..1_000).map(|_| OnceLock::new()).collect(),
            in_flight: HTTP_IN_FLIGHT.gauge([]),
            request_bytes: HTTP_REQUEST_BYTES.counter([]),
            response_bytes: HTTP_RESPONSE_BYTES.counter([]),
            traffic: Arc::default(),
            ids: Ids::new(),
        })
    }

    /// Counts of answered requests.
    pub(crate) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Wraps the router to measure it.
    pub(crate) fn measure(self: &Arc<Self>, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::clone(self), measured))
    }

    fn route_of(&self, request: &Request) -> &Route {
        let matched = request.extensions().get::<MatchedPath>();
        matched.and_then(|path| self.routes.get(path.as_str())).unwrap_or(&self.nowhere)
    }
}

async fn measured(State(requests): State<Arc<Requests>>, request: Request, next: Next) -> Response {
    let _under_way = InFlight::begin(&requests.in_flight);
    let began = Instant::now();
    let id = requests.ids.of(request.headers());
    let route = requests.route_of(&request);
    let method = request.method().clone();
    let (mut request, received) = counted_request(request, &requests.request_bytes);
    let text: Arc<str> = id.to_str().unwrap_or_default().into();
    let requester = request.extensions_mut().get_or_insert_default::<Requester>();
    requester.request_id = Arc::clone(&text);
    let span = tracing::error_span!("request", request_id = &*text);
    let response = next.run(request).instrument(span).await;
    let is_busy = response.extensions().get::<Busy>().is_some();
    let took = began.elapsed();
    let (mut response, sent) = counted_response(hardened(response, &text), &requests.response_bytes);
    let status = response.status().as_u16();
    route.note(&method, status, took);
    let counter = || HTTP_RESPONSES.counter([response.status().as_str()]);
    if let Some(responses) = requests.responses.get(usize::from(status)) {
        responses.get_or_init(counter).increment(1);
    }
    if !route.is_probe {
        requests.traffic.note(status, is_busy);
    }
    let about = response.extensions_mut().remove::<RequestContext>().unwrap_or_default();
    let done = Done { id: &text, method: &method, route, status, took, received: received.bytes(), sent };
    done.log(&about);
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Number of bytes of a body: the declared length, or else the counted one.
enum Received {
    Declared(u64),
    Counted(Arc<AtomicU64>),
}

impl Received {
    fn bytes(&self) -> u64 {
        match self {
            Received::Declared(bytes) => *bytes,
            Received::Counted(bytes) => bytes.load(Ordering::Relaxed),
        }
    }
}

fn counted_request(request: Request, total: &Counter) -> (Request, Received) {
    if let Some(bytes) = request.body().size_hint().exact() {
        total.increment(bytes);
        return (request, Received::Declared(bytes));
    }
    let (bytes, total) = (Arc::new(AtomicU64::new(0)), total.clone());
    let counting = Arc::clone(&bytes);
    let count = move |more: u64| {
        total.increment(more);
        counting.fetch_add(more, Ordering::Relaxed);
    };
    (request.map(|body| counted(body, count)), Received::Counted(bytes))
}

/// Counts the response, and returns its length if known already.
fn counted_response(response: Response, total: &Counter) -> (Response, Option<u64>) {
    match response.body().size_hint().exact() {
        Some(bytes) => {
            total.increment(bytes);
            (response, Some(bytes))
        }
        None => {
            let total = total.clone();
            (response.map(|body| counted(body, move |more| total.increment(more))), None)
        }
    }
}

fn counted(body: Body, mut count: impl FnMut(u64) + Send + 'static) -> Body {
    Body::new(body.map_frame(move |frame| {
        count(frame.data_ref().map_or(0, Bytes::len) as u64);
        frame
    }))
}

/// An answered request.
struct Done<'a> {
    id: &'a str,
    method: &'a Method,
    route: &'a Route,
    status: u16,
    took: Duration,
    received: u64,
    sent: Option<u64>,
}

impl Done<'_> {
    fn log(&self, about: &RequestContext) {
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    request_id = self.id,
                    method = self.method.as_str(),
                    route = self.route.pattern,
                    status = self.status,
                    latency_ms = self.took.as_micros() as f64 / 1e3,
                    bytes = self.received,
                    response_bytes = self.sent,
                    workspace = about.workspace.as_ref().map(Id::as_str),
                    kind = about.kind,
                    rows = about.rows,
                    batch = about.batch.as_deref(),
                    "request"
                )
            };
        }
        match self.status {
            // Probes are polled all the time.
            _ if self.route.is_probe => line!(debug),
            // A refusal or a passing failure below: the client tries again.
            503 => line!(warn),
            500.. => line!(error),
            _ => line!(debug),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_request_id_is_adopted() {
        let ids = Ids::new();
        let of = |given: Option<&str>| {
            let headers = given.map(|id| (REQUEST_ID, HeaderValue::from_str(id).unwrap()));
            ids.of(&headers.into_iter().collect()).to_str().unwrap().to_owned()
        };
        for id in ["a", "Root=1-67891233-abcdef012345678912345678", "x/y+z@host:8:1_2.3", &"a".repeat(128)] {
            assert_eq!(of(Some(id)), id);
        }
        let made = [None, Some(""), Some("a b"), Some("\"}"), Some("é"), Some(&*"a".repeat(129))].map(of);
        let prefix = made[0].rsplit_once('-').unwrap().0.to_owned();
        for (at, id) in (1..).zip(&made) {
            assert_eq!(*id, format!("{prefix}-{at}"));
        }
    }
}
