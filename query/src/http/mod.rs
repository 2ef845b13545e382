//! The query service over HTTP.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use event::{Error, Kind, Right, Timestamp, fields::AppliesTo};
use log::after::After;
use web::{
    InPath, Problem, QueryParams, RequestContext, RequiredPermission, Routes,
    openapi::{
        path::{ParameterBuilder, ParameterIn},
        schema::ObjectBuilder,
    },
    parameter, schema,
};

mod accept;
mod api;
mod audit;
mod body;
mod explained;
mod follow;
mod leaderboard;
mod lineage;
mod notifications;
mod parameters;
mod reviews;
mod said;
mod snapshots;
mod sql;
mod unmatched;

use self::body::{HeldBody, StreamBody};
pub use self::{
    said::{NEXT, OMITTED},
    snapshots::{creation, creations},
};
use crate::{
    Answer, Made, Query,
    output::{self, Format},
    request::{Dataset, Params, Request},
    unmatched::PLACE_PATTERN,
};
use explained::EXPLAIN;

/// The routes of the query service.
pub fn routes(query: Arc<Query>) -> Routes {
    operations().with_state(query)
}

/// The operations of [`routes`], as they describe themselves.
pub fn operations() -> Routes<Arc<Query>> {
    let mut routes = Routes::new();
    for what in Dataset::all() {
        // Drift is of what is stored of events of every kind.
        let kinds = if what.kinds().is_empty() { &Kind::ALL } else { what.kinds() };
        let demand = RequiredPermission::workspace(Right::Read).of_kinds(kinds);
        let handler = move |method, headers, query, InPath(workspace), parameters| {
            answer(what, (method, headers), query, workspace, parameters)
        };
        routes = routes.add(api::query(what), demand, handler);
    }
    // A place is by a metric of an evaluation, or by a logged metric.
    let kinds = [Kind::Predictions, Kind::Outcomes, Kind::Metrics];
    let demand = RequiredPermission::workspace(Right::Read).of_kinds(&kinds);
    let routes = routes.add(leaderboard::operation(), demand, leaderboard::leaderboard);
    // The kinds of events that a statement reads are known only once it is parsed.
    let demand = RequiredPermission::workspace(Right::Read).of_kinds(&Kind::ALL);
    let routes = routes.add(sql::operation(), demand, sql::answer);
    let routes = notifications::routes(lineage::routes(snapshots::verification(follow::routes(
        audit::routes(routes),
    ))));
    let routes = reviews::routes(unmatched::routes(routes));
    let routes = routes.map_router(|router| router.layer(DefaultBodyLimit::max(sql::MAX_BODY_BYTES)));
    api::schemas().into_iter().fold(routes, |routes, (name, schema)| routes.schema(name, schema))
}

/// The parameters of a request, by name.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Takes the parameters of a request.
    ///
    /// # Errors
    /// Errors of the check of each name; `Invalid`, for one that is given twice.
    fn of(check: impl Fn(&str) -> event::Result<()>, all: Vec<(String, String)>) -> event::Result<Self> {
        for (at, (name, _)) in all.iter().enumerate() {
            check(name)?;
            if all[..at].iter().any(|(before, _)| before == name) {
                return Err(Error::invalid(format!("{name}: it is given twice")));
            }
        }
        Ok(Self(all))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, text)| text.as_str())
    }

    /// Returns those of a query for which `is_one` holds.
    fn words(&self, is_one: impl Fn(&str) -> bool, now: Timestamp) -> event::Result<Params<'_>> {
        let named = self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        Params::of(named.filter(|(name, _)| is_one(name)), now)
    }
}

async fn answer(
    what: Dataset,
    request: (Method, HeaderMap),
    State(query): State<Arc<Query>>,
    workspace: String,
    parameters: Result<QueryParams<Vec<(String, String)>>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(what.name());
    let answer = async {
        let QueryParams(parameters) = parameters?;
        let parameters = Parameters::of(|name| what.check_takes(name), parameters)?;
        read_or_explain((what, request), &query, &workspace, &parameters, &mut context).await
    };
    let answer = answer.await;
    context.with(answer)
}

async fn read_or_explain(
    (what, (method, headers)): (Dataset, (Method, HeaderMap)),
    query: &Query,
    workspace: &str,
    parameters: &Parameters,
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let format = accept::format(parameters.get("format"), &headers)?;
    match parameters.get(EXPLAIN).unwrap_or("false") {
        "false" => read((what, &method), query, workspace, (parameters, format), context).await,
        "true" => {
            let (query, explaining) = query.explaining();
            let response = read((what, &method), &query, workspace, (parameters, format), context).await?;
            explained::explained(&explaining, response, &method, accept::is_text(format, &headers)).await
        }
        other => Err(Error::invalid(format!("{EXPLAIN}: `{other}` is neither true nor false")).into()),
    }
}

/// Answers in a format, or with the read version alone.
async fn read(
    (what, method): (Dataset, &Method),
    query: &Query,
    workspace: &str,
    (parameters, format): (&Parameters, Option<Format>),
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let after = parameters.get("after").map(str::parse::<After>).transpose()?;
    let now = after.as_ref().and_then(After::asked_at).unwrap_or_else(|| query.now());
    let words = parameters.words(|_| true, now)?;
    let reference = query.reference_days(workspace, words.reference).await?;
    let words = Params { reference: reference.as_deref(), ..words };
    let snapshot = parameters.get("snapshot");
    if snapshot.is_some() && (words != Params::default() || after.is_some()) {
        let detail = "snapshot: it says all that is read; beside it only `format` may be named";
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let asked = snapshot.is_none().then(|| Request::parse(what, &words)).transpose()?;
    let workspace = query.catalog().workspace(workspace).await?;
    context.workspace = Some(workspace.id().clone());
    let request = match asked {
        Some(request) => request,
        None => query.snapshot(workspace.id(), what, snapshot.unwrap_or_default()).await?,
    };
    let content_type = [(
        header::CONTENT_TYPE,
        format.map_or(HeaderValue::from_static(said::READ_VERSION_TYPE), content_type),
    )];
    if *method == Method::HEAD {
        query.check(workspace.id(), &request).await?;
        // The length of a stream is not known, so none is claimed.
        return Ok((content_type, Body::from_stream(futures::stream::empty::<Result<Vec<u8>, Error>>()))
            .into_response());
    }
    let Some(format) = format else {
        let read_version = query.read_version(workspace.id(), &request).await?;
        return Ok((content_type, read_version.to_string()).into_response());
    };
    if let Some(after) = after {
        let (answer, next) = query.page(workspace.id(), &request, &after).await?;
        let next = next.map(|end| said::next(end.to_string()));
        let whole = whole(&request, answer, format, context).await?;
        return Ok((content_type, next.into_iter().collect::<HeaderMap>(), whole).into_response());
    }
    let answer = match query.answer_as(workspace.id(), &request, format).await? {
        Made::Whole(answer) => answer,
        Made::Streamed(streamed) => {
            let said = said::headers_of_stream(&request, &streamed);
            return Ok((content_type, said, Body::new(StreamBody::new(*streamed))).into_response());
        }
    };
    Ok((content_type, whole(&request, *answer, format, context).await?).into_response())
}

/// An answer that is made as a whole.
async fn whole(
    request: &Request,
    mut answer: Answer,
    format: Format,
    context: &mut RequestContext,
) -> Result<(HeaderMap, Body), Problem> {
    if format == Format::Table && request.columns.is_none() {
        output::shorten(&mut answer.frame, request.what);
    }
    context.rows = Some(answer.frame.height() as u64);
    let headers = said::headers_of(request, &answer);
    Ok((headers, Body::new(HeldBody(answer.write(format).await?))))
}

/// Rows that are made as a whole, in the format of a request; a table for people has the columns `main`.
async fn rows(
    answer: Answer,
    (format, headers): (Option<&str>, &HeaderMap),
    main: &[&str],
) -> Result<Response, Problem> {
    let format = accept::of_rows(format, headers)?;
    let answer = if format == Format::Table { answer.only(main)? } else { answer };
    let body = Body::new(HeldBody(answer.write(format).await?));
    Ok(([(header::CONTENT_TYPE, content_type(format))], body).into_response())
}

/// The schema of which predictions an outcome labels.
pub(crate) fn applies_to() -> ObjectBuilder {
    schema::one_of(AppliesTo::NAMES)
}

/// The schema of places of unmatched outcomes.
pub(crate) fn place_schema() -> ObjectBuilder {
    schema::string().pattern(Some(PLACE_PATTERN))
}

/// The parameter that names the format of rows.
fn format_parameter() -> ParameterBuilder {
    let formats = schema::one_of(Format::ALL.map(Format::name)).default(Some(Format::Ndjson.name().into()));
    let says = "The format of the answer; without it that of the header `Accept`.";
    parameter(ParameterIn::Query, "format", formats, says)
}

/// With `; charset=utf-8` where it is text.
fn content_type(format: Format) -> HeaderValue {
    let media = media_type(format);
    let text = media.starts_with("text/").then(|| HeaderValue::try_from(format!("{media}; charset=utf-8")));
    text.and_then(Result::ok).unwrap_or(HeaderValue::from_static(media))
}

fn media_type(format: Format) -> &'static str {
    match format {
        Format::Table => "text/plain",
        Format::Csv | Format::CsvSpreadsheet => "text/csv",
        Format::Ndjson => "application/x-ndjson",
        Format::Parquet => "application/vnd.apache.parquet",
        Format::Ipc => "application/vnd.apache.arrow.file",
        Format::IpcStream | Format::IpcStreamLz4 => "application/vnd.apache.arrow.stream",
    }
}
