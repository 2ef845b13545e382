//! The query service over HTTP.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use event::{Error, Kind, Right, Timestamp};
use log::after::After;
use serde::Deserialize;
use web::{Demand, InPath, Problem, RequestContext, Routes};

mod api;
mod asked;
mod audit;
mod body;
mod compared;
mod explained;
mod follow;
mod history;
mod leaderboard;
mod lineage;
mod news;
mod reviews;
mod said;
mod snapshots;
mod sql;
mod unmatched;

use self::body::{HeldBody, StreamBody};
pub use self::snapshots::{creation, creations};
use crate::{
    Answer, Made, Query,
    output::{self, Format},
    request::{Last, Request, What, Words},
};
use asked::{Asked, asked};

/// The routes of the query service.
pub fn routes(query: Arc<Query>) -> Routes {
    operations().with_state(query)
}

/// The operations of [`routes`], as they describe themselves.
pub fn operations() -> Routes<Arc<Query>> {
    let mut routes = Routes::new();
    for what in What::all() {
        // Drift is of what is stored of events of every kind.
        let kinds = if what.kinds().is_empty() { &Kind::ALL } else { what.kinds() };
        let demand = Demand::workspace(Right::Read).of_kinds(kinds);
        let handler = move |method, query, InPath(workspace), parameters| {
            answer(what, method, query, workspace, parameters)
        };
        routes = routes.add(api::query(what), demand, handler);
    }
    // A place is by a metric of an evaluation, or by a logged metric.
    let kinds = [Kind::Predictions, Kind::Outcomes, Kind::Metrics];
    let demand = Demand::workspace(Right::Read).of_kinds(&kinds);
    let routes = routes.add(leaderboard::operation(), demand, leaderboard::leaderboard);
    // The kinds of events that a statement reads are known only once it is parsed.
    let demand = Demand::workspace(Right::Read).of_kinds(&Kind::ALL);
    let routes = routes.add(sql::operation(), demand, sql::answer);
    let routes =
        news::routes(lineage::routes(snapshots::verification(follow::routes(audit::routes(routes)))));
    let routes = reviews::routes(history::routes(unmatched::routes(routes)));
    let routes = routes.map_router(|router| router.layer(DefaultBodyLimit::max(sql::MAX_BODY_BYTES)));
    api::schemas().into_iter().fold(routes, |routes, (name, schema)| routes.schema(name, schema))
}

/// The parameters of a query, as in the command line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    from: Option<String>,
    to: Option<String>,
    last: Option<String>,
    release: Option<String>,
    columns: Option<String>,
    #[serde(rename = "where")]
    filter: Option<String>,
    tag: Option<String>,
    key: Option<String>,
    limit: Option<String>,
    sample: Option<String>,
    order: Option<String>,
    by: Option<String>,
    bins: Option<String>,
    #[serde(rename = "time-zone")]
    time_zone: Option<String>,
    environment: Option<String>,
    shadow: Option<bool>,
    #[serde(rename = "as-of")]
    as_of: Option<String>,
    read_version: Option<String>,
    snapshot: Option<String>,
    after: Option<String>,
    threshold: Option<String>,
    costs: Option<String>,
    #[serde(rename = "group-by")]
    group_by: Option<String>,
    #[serde(rename = "zero-division")]
    zero_division: Option<String>,
    interval: Option<bool>,
    mature: Option<String>,
    reference: Option<String>,
    column: Option<String>,
    exact: Option<bool>,
    #[serde(rename = "after-prediction")]
    after_prediction: Option<bool>,
    against: Option<String>,
    metric: Option<String>,
    pairs: Option<bool>,
    model: Option<String>,
    change: Option<String>,
    format: Option<String>,
    explain: Option<bool>,
}

impl Parameters {
    /// The words of a request that comes at `now`.
    ///
    /// # Errors
    /// `Invalid`, when it names an end of the window and does not say which: the words have no text where none was named.
    fn words(&self, now: Timestamp) -> event::Result<Words<'_>> {
        let end = |name, text: &Option<String>| match text {
            Some(text) if text.is_empty() => Err(Error::invalid(format!("{name} is empty; leave it out"))),
            _ => Ok(()),
        };
        end("from", &self.from)?;
        end("to", &self.to)?;
        Ok(Words {
            from: self.from.as_deref().unwrap_or_default(),
            to: self.to.as_deref().unwrap_or_default(),
            last: self.last.as_deref().map(|word| Last { word, now }),
            release: self.release.as_deref(),
            columns: self.columns.as_deref(),
            filter: self.filter.as_deref(),
            tag: self.tag.as_deref(),
            key: self.key.as_deref(),
            limit: self.limit.as_deref(),
            sample: self.sample.as_deref(),
            order: self.order.as_deref(),
            by: self.by.as_deref(),
            bins: self.bins.as_deref(),
            time_zone: self.time_zone.as_deref(),
            environment: self.environment.as_deref(),
            shadow: self.shadow.unwrap_or_default(),
            as_of: self.as_of.as_deref(),
            read_version: self.read_version.as_deref(),
            threshold: self.threshold.as_deref(),
            costs: self.costs.as_deref(),
            group_by: self.group_by.as_deref(),
            zero_division: self.zero_division.as_deref(),
            interval: self.interval.unwrap_or_default(),
            mature: self.mature.as_deref(),
            reference: self.reference.as_deref(),
            column: self.column.as_deref(),
            exact: self.exact.unwrap_or_default(),
            after_prediction: self.after_prediction.unwrap_or_default(),
            against: self.against.as_deref(),
            metric: self.metric.as_deref(),
            pairs: self.pairs.unwrap_or_default(),
            model: self.model.as_deref(),
            change: self.change.as_deref(),
        })
    }
}

async fn answer(
    what: What,
    method: Method,
    State(query): State<Arc<Query>>,
    workspace: String,
    parameters: Asked<Parameters>,
) -> Response {
    let mut context = RequestContext::kind(what.name());
    let answer = read_or_explain(what, method, &query, &workspace, parameters, &mut context).await;
    context.with(answer)
}

async fn read_or_explain(
    what: What,
    method: Method,
    query: &Query,
    workspace: &str,
    parameters: Asked<Parameters>,
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let parameters = asked(parameters)?;
    if parameters.explain != Some(true) {
        return read(what, &method, query, workspace, &parameters, context).await;
    }
    let (query, explaining) = query.explaining();
    let response = read(what, &method, &query, workspace, &parameters, context).await?;
    explained::explained(&explaining, response, (&method, parameters.format.as_deref())).await
}

async fn read(
    what: What,
    method: &Method,
    query: &Query,
    workspace: &str,
    parameters: &Parameters,
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let format = match parameters.format.as_deref() {
        Some(said::READ_VERSION_FORMAT) => None,
        format => Some(Format::parse(format.unwrap_or("ndjson"))?),
    };
    let after = parameters.after.as_deref().map(str::parse::<After>).transpose()?;
    let now = after.as_ref().and_then(After::asked_at).unwrap_or_else(|| query.now());
    let reference = query.reference_days(workspace, parameters.reference.as_deref()).await?;
    let words = Words { reference: reference.as_deref(), ..parameters.words(now)? };
    if parameters.snapshot.is_some() && (words != Words::default() || after.is_some()) {
        let detail = "snapshot: it says all that is read; beside it only `format` may be named";
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let asked = parameters.snapshot.is_none().then(|| Request::parse(what, &words)).transpose()?;
    let workspace = query.catalog().workspace(workspace).await?;
    context.workspace = Some(workspace.id().clone());
    let request = match asked {
        Some(request) => request,
        None => {
            query.snapshot(workspace.id(), what, parameters.snapshot.as_deref().unwrap_or_default()).await?
        }
    };
    let content_type = [(
        header::CONTENT_TYPE,
        format.map_or(HeaderValue::from_static(said::READ_VERSION_TYPE), content_type),
    )];
    if method == Method::HEAD {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_parameter_is_described() {
        let uri = "/?nonsense=1".parse().unwrap();
        let refused = axum::extract::Query::<Parameters>::try_from_uri(&uri).err().unwrap().body_text();
        let known = refused.split_once("expected one of ").unwrap().1;
        let known: BTreeSet<String> =
            known.split(", ").map(|name| name.trim_matches('`').to_owned()).collect();
        let names = What::all().flat_map(api::parameters).map(|parameter| parameter.build().name);
        assert_eq!(names.collect::<BTreeSet<_>>(), known);
    }
}
