//! The append service over HTTP.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{DefaultBodyLimit, Request, State},
    http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use catalog::TokenQuota;
use event::{Error, Id, Kind, Right, Timestamp};
use log::{
    audit::{Author, by, current},
    key::EntityKind,
};
use meter::{
    Counter, Histogram,
    catalogue::{APPEND_BATCHES, APPEND_ROWS, APPEND_SECONDS},
};
use serde_json::json;
use tokio::time::Instant;
use tracing::Instrument;
use web::{InPath, Problem, RequestContext, Requester, RequiredPermission, Routes};

use crate::{
    admission::Busy,
    append::{Receipt, Remember},
    batch::Refused,
    quota::{Amounts, Charge, UsedUp},
    service::{Ingest, SubmitError},
};

pub use self::body::read_whole;

mod api;
mod approvals;
mod baselines;
mod body;
mod event_schema;
mod releases;
mod rematching;
mod reviews;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const ALMANAC_SOURCE: HeaderName = HeaderName::from_static("almanac-source");
const ALMANAC_KNOWN_AT: HeaderName = HeaderName::from_static("almanac-known-at");
const ALMANAC_REPEAT: HeaderName = HeaderName::from_static("almanac-repeat");

/// The value of [`ALMANAC_REPEAT`] that has a repeat stored.
const STORE: &str = "store";

/// The most bytes in the body of a change of releases.
const MAX_CHANGE_BYTES: usize = 64 * 1024;

/// The routes of the append service.
pub fn routes(ingest: Arc<Ingest>) -> Routes {
    operations().with_state(ingest)
}

/// The operations of [`routes`], as they describe themselves.
pub fn operations() -> Routes<Arc<Ingest>> {
    let mut routes = Routes::new();
    // Examples of the document register their release first, so releases come first.
    for kind in [Kind::Releases, Kind::Predictions, Kind::Outcomes, Kind::Metrics] {
        let meters = Arc::new(Meters::new(kind));
        let demand = RequiredPermission::workspace(right_to_append(kind)).of_kinds(&[kind]).appending();
        routes = routes.add(api::append(kind), demand, move |ingest, InPath(workspace), request| {
            append((kind, meters), ingest, workspace, request)
        });
    }
    let maintain = || RequiredPermission::workspace(Right::Maintain).of_kinds(&[Kind::Releases]);
    let changes = rematching::routes(reviews::routes(Routes::new()))
        .add(approvals::operation(), maintain(), approvals::approve)
        .add(baselines::set_operation(), maintain(), baselines::set)
        .add(releases::promote_operation(), maintain(), releases::promote)
        .add(releases::roll_back_operation(), maintain(), releases::roll_back)
        .add(releases::retire_operation(), maintain(), releases::retire)
        .add(releases::define_operation(), maintain(), releases::define);
    let creation = Routes::new()
        .add(
            catalog::http::create_release(),
            catalog::http::create_demand(EntityKind::Release),
            releases::create,
        )
        .map_router(|router| router.layer(DefaultBodyLimit::max(catalog::http::MAX_BODY_BYTES)));
    let routes = routes.merge(creation);
    let routes =
        routes.merge(changes.map_router(|router| router.layer(DefaultBodyLimit::max(MAX_CHANGE_BYTES))));
    api::schemas().into_iter().fold(routes, |routes, (name, schema)| routes.schema(name, schema))
}

/// Release events say what is live and how predictions are judged, so they take more than other events.
fn right_to_append(kind: Kind) -> Right {
    match kind {
        Kind::Releases => Right::Maintain,
        Kind::Predictions | Kind::Outcomes | Kind::Metrics | Kind::Unmatched => Right::Append,
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::Refused(refused) => refused.into(),
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooLarge(detail) => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail),
            Refused::Whole(detail) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail),
            Refused::NoRoom => busy(Busy::Service),
            Refused::Rows { errors, error_count } => {
                let are = if error_count == 1 { "is" } else { "are" };
                let detail = format!("nothing was stored: {error_count} of the rows {are} wrong");
                Problem::rows(detail, errors, error_count)
            }
        }
    }
}

fn busy(busy: Busy) -> Problem {
    match busy {
        Busy::Workspace => Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "this workspace has too many requests under way; send fewer at one time",
        ),
        Busy::Service => Problem::busy("too many requests are under way; nothing was stored, try again"),
        Busy::Stopping => Problem::busy("the service is stopping; nothing was stored, try again"),
    }
}

async fn append(
    (kind, meters): (Kind, Arc<Meters>),
    State(ingest): State<Arc<Ingest>>,
    workspace: String,
    request: Request,
) -> Response {
    let mut context = RequestContext::kind(kind.name());
    let answer = store((kind, &meters), ingest, workspace, request, &mut context).await;
    if let Err(problem) = &answer {
        meters.not_stored(problem);
    }
    context.with(answer)
}

async fn store(
    (kind, meters): (Kind, &Meters),
    ingest: Arc<Ingest>,
    workspace: String,
    request: Request,
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let form = body::Form::of(&head.headers)?;
    let idempotency_key = once(&head.headers, &IDEMPOTENCY_KEY)?.map(str::to_owned);
    let remember = remember(&head.headers)?;
    let author = author(&head.headers, head.extensions.get())?;
    let workspace = ingest.workspace(&workspace).await?;
    workspace.check_open()?;
    context.workspace = Some(workspace.id().clone());
    // An `event_id` is part of an event, so it is not logged.
    context.batch.clone_from(&idempotency_key);
    let charge = charge(&ingest, workspace.id(), &head.extensions).await?;
    ingest.quotas.take(&charge, Amounts { requests: 1, ..Amounts::default() }).await?;
    let mut pass = match ingest.admission().enter(workspace.id(), form.size()) {
        Ok(pass) => pass,
        Err(reason) => return Ok(turned_away(reason)),
    };
    let batch = form.read((body, ingest.body_within()), kind, ingest.clock().now(), &mut pass).await;
    let rows = batch.as_ref().map_or(0, |batch| batch.rows() as u64);
    // A body that was refused has been sent all the same.
    let amounts = Amounts { requests: 0, rows, bytes: pass.bytes() as u64 };
    let counted = ingest.quotas.take(&charge, amounts).await;
    let batch = batch?;
    counted?;
    context.rows = Some(rows);
    let has_event_id = batch.event_id.is_some();
    let began = Instant::now();
    // The append goes on when the client hangs up: what was begun is ended. It is boxed, since it is large and would be copied several times.
    let appending = tokio::spawn(by(author, {
        let ingest = Arc::clone(&ingest);
        Box::pin(
            async move {
                let key = idempotency_key.as_deref();
                let warnings = ingest.warnings(&workspace, &batch).await;
                let receipt = ingest.submit(&workspace, batch, key, remember).await;
                drop(pass);
                receipt.map(|receipt| (receipt, warnings))
            }
            .in_current_span(),
        )
    }));
    let (receipt, warnings) = appending
        .await
        .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the append failed"))??;
    meters.durable(&receipt, began.elapsed());
    if !has_event_id {
        context.batch = Some(receipt.batch.clone());
    }
    Ok(created(&receipt, &warnings))
}

/// Returns the author of a batch: the caller, with the source that the request names, and the time at which the events were
/// known if an administrator states it.
fn author(headers: &HeaderMap, requester: Option<&Requester>) -> Result<Arc<Author>, Problem> {
    let mut author = current();
    if let Some(source) = once(headers, &ALMANAC_SOURCE)? {
        author = Arc::new(Author::clone(&author).from_source(source)?);
    }
    if let Some(known_at) = once(headers, &ALMANAC_KNOWN_AT)? {
        if !requester.is_none_or(Requester::may_administer) {
            let detail = "when events were known is stated by administrators of the workspace: leave out Almanac-Known-At";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        let known_at = Timestamp::parse_or_day(known_at)
            .map_err(|error| Refused::Whole(format!("the header Almanac-Known-At: {error}")))?;
        author = Arc::new(Author::clone(&author).stating(known_at));
    }
    Ok(author)
}

/// The value of a header, which may be given once.
fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refused> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refused::Whole(format!("the header {} is given twice", api::text(name))));
    }
    let value = value.to_str();
    value.map(Some).map_err(|_| Refused::Whole(format!("the header {} is not ASCII", api::text(name))))
}

/// Returns the time for which a batch without a key is remembered.
fn remember(headers: &HeaderMap) -> Result<Remember, Refused> {
    match headers.get(ALMANAC_REPEAT).map(HeaderValue::as_bytes) {
        None => Ok(Remember::Week),
        Some(value) if value == STORE.as_bytes() => Ok(Remember::Never),
        Some(_) => Err(Refused::Whole(format!(
            "the header Almanac-Repeat can only be `{STORE}`; leave it out to have a repeat counted once"
        ))),
    }
}

/// Returns the quotas that a request counts against. Tokens tell callers apart; else their names or addresses do.
async fn charge(ingest: &Ingest, workspace: &Id, extensions: &Extensions) -> Result<Charge, Error> {
    let requester = extensions.get::<Requester>();
    let known =
        requester.and_then(|requester| requester.token.as_ref().or(requester.principal.as_ref())).cloned();
    let address = || requester.and_then(|requester| Some(requester.address?.to_string().into()));
    let caller = known.or_else(address).unwrap_or_default();
    ingest.quotas.charge(workspace, extensions.get::<Arc<TokenQuota>>().map(Arc::as_ref), caller).await
}

impl From<UsedUp> for Problem {
    fn from(used_up: UsedUp) -> Self {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, used_up.to_string()).retry_after(used_up.seconds)
    }
}

fn turned_away(reason: Busy) -> Response {
    let mut response = busy(reason).into_response();
    if reason == Busy::Stopping {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn created(receipt: &Receipt, warnings: &[String]) -> Response {
    let days: serde_json::Map<_, _> =
        receipt.days.iter().map(|(day, rows)| (day.to_string(), json!(rows))).collect();
    let mut body = json!({
        "batch": receipt.batch,
        "kind": receipt.kind.name(),
        "rows": receipt.rows,
        "appended": receipt.appended,
        "days": days,
    });
    if receipt.unmatched > 0 {
        body["unmatched"] = receipt.unmatched.into();
    }
    if receipt.replayed {
        body["replay_of"] = receipt.batch.as_str().into();
    }
    let warnings: Vec<String> = warnings.iter().cloned().chain(receipt.known_later()).collect();
    if !warnings.is_empty() {
        body["warnings"] = json!(warnings);
    }
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    if receipt.replayed {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Handles of the metrics of appends of one kind of events.
#[derive(Debug)]
struct Meters {
    seconds: Histogram,
    stored: Counters,
    replayed: Counters,
    refused: Counters,
    failed: Counter,
}

#[derive(Debug)]
struct Counters {
    batches: Counter,
    rows: Counter,
}

impl Counters {
    fn note(&self, rows: usize) {
        self.batches.increment(1);
        self.rows.increment(rows as u64);
    }
}

impl Meters {
    fn new(kind: Kind) -> Self {
        let batches = |outcome| APPEND_BATCHES.counter([kind.name(), outcome]);
        let outcome =
            |name| Counters { batches: batches(name), rows: APPEND_ROWS.counter([kind.name(), name]) };
        Self {
            seconds: APPEND_SECONDS.histogram([kind.name()]),
            stored: outcome("stored"),
            replayed: outcome("replayed"),
            refused: outcome("refused"),
            failed: batches("failed"),
        }
    }

    /// Records a durable batch, and the time that it took.
    fn durable(&self, receipt: &Receipt, took: Duration) {
        self.seconds.record(took);
        if receipt.replayed { &self.replayed } else { &self.stored }.note(receipt.rows);
    }

    /// Records a batch that is not stored.
    fn not_stored(&self, problem: &Problem) {
        if problem.status().is_server_error() {
            self.failed.increment(1);
        } else {
            self.refused.note(problem.error_count().unwrap_or(0));
        }
    }
}
