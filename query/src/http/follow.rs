//! Following a log over HTTP.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderName, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use event::{Error, Kind, Right};
use serde_json::json;
use web::{
    Operation, Problem, QueryParams, RequestContext, RequiredPermission, Routes, in_path, named_in,
    openapi::{
        Header, RefOr, Schema,
        path::{ParameterBuilder, ParameterIn, ParameterStyle},
    },
    parameter, schema,
};

use super::{Parameters, accept, api, body::HeldBody, content_type, format_parameter, parameters, said};
use crate::{
    Query,
    follow::{DEFAULT_ROWS, Follow, FollowParams, MAX_ROWS, MAX_WAIT_SECONDS, NAME},
    request::Dataset,
};

/// How many segments come behind an answer.
const BEHIND: HeaderName = HeaderName::from_static("almanac-behind");

/// The parameters that it has from queries of events.
const OF_QUERIES: [&str; 6] = ["release", "columns", "where", "tag", "key", "sample"];

/// Its own parameters.
const OWN: [&str; 6] = ["from", "after", "consumer", "wait", "limit", "format"];

/// The route by which events of a type are followed.
pub(super) fn routes(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    let demand = RequiredPermission::workspace(Right::Read).of_kind_in_path("type").waiting();
    routes.add(operation(), demand, answer)
}

fn operation() -> Operation {
    let types = schema::one_of(Kind::ALL.map(Kind::name)).into();
    let operation = Operation::get("/v1/workspaces/{category}/{name}/events/{type}", "follow_events")
        .tag("query")
        .summary("Follow the events of a type: what is stored, then what comes")
        .description(
            "Each answer has some segments, whole, of days with their logs in order, and its header `Almanac-Read-Version` says up to where everything has been answered: asked again with that as `after`, it goes on there. Each event is answered at least once, late events and new days included.",
        )
        .takes(in_path("type", types, Kind::Predictions.name(), "The type of the events."));
    let of_queries = parameters::parameters(Dataset::Events(Kind::Predictions)).map(ParameterBuilder::build);
    let of_queries =
        of_queries.filter(|parameter| OF_QUERIES.contains(&&*parameter.name) && parameter.name != "columns");
    let columns = parameter(
        ParameterIn::Query,
        "columns",
        schema::array(schema::string().min_length(Some(1))).min_items(Some(1)).unique_items(true),
        "Only these columns, in this order, with commas between; a name with a comma stands in double quotes.",
    );
    let columns = columns.style(Some(ParameterStyle::Form)).explode(Some(false));
    let from = parameter(
        ParameterIn::Query,
        "from",
        schema::day(),
        "Only days from this one on; all days by default, or those of the read version.",
    );
    let operation = operation.takes(from.example(Some(json!("2026-06-01"))));
    let operation = of_queries.fold(operation.takes(columns), Operation::takes);
    let read_version = schema::string().pattern(Some("^[A-Za-z0-9_-]+$"));
    let wait = schema::integer(0..=MAX_WAIT_SECONDS as usize).default(Some(json!(0)));
    let limit = schema::integer(1..=MAX_ROWS).default(Some(json!(DEFAULT_ROWS)));
    let parameters: [(&str, RefOr<Schema>, &str); 4] = [
        (
            "after",
            read_version.into(),
            "Only what is not in this read version: what the header `Almanac-Read-Version` of the answer before said. A read version of a query of these events will do as well; then the days from its first one on are followed.",
        ),
        (
            "consumer",
            schema::name().into(),
            "Only what this consumer has not noted as read; everything, when it has noted nothing yet. It takes the place of `after`.",
        ),
        (
            "wait",
            wait.into(),
            "How many seconds to wait for events when there are none. An answer without rows says that none came.",
        ),
        (
            "limit",
            limit.into(),
            "About how many rows: the answer ends behind the segment with which it has so many.",
        ),
    ];
    let operation = parameters.into_iter().fold(operation, |operation, (name, schema, says)| {
        operation.takes(parameter(ParameterIn::Query, name, schema, says))
    });
    let operation = operation.takes(format_parameter());
    let row = Kind::ALL.map(|kind| schema::component(&api::row_name(Dataset::Events(kind))));
    let rows = api::rows_in(&schema::any_of(row))
        .header(said::READ_VERSION.as_str(), header("Up to where everything has been answered."))
        .header(BEHIND.as_str(), header("How many segments come behind it, as far as is known."))
        .header(said::WARNING.as_str(), header("What will not come any more. There may be several."));
    operation.answers(StatusCode::OK, rows.build())
}

fn header(says: &str) -> Header {
    let mut header = Header::new(schema::string());
    header.description = Some(says.to_owned());
    header
}

async fn answer(
    method: Method,
    headers: HeaderMap,
    State(query): State<Arc<Query>>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    parameters: Result<QueryParams<Vec<(String, String)>>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(NAME);
    let answer = async {
        let Path((category, name, kind)) =
            path.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
        let unknown = || Problem::new(StatusCode::NOT_FOUND, format!("`{kind}` is no type of events"));
        let kind = Kind::from_name(&kind).ok_or_else(unknown)?;
        let QueryParams(parameters) = parameters?;
        read(kind, (&method, &headers), &query, &named_in(&[&category, &name]), parameters, &mut context)
            .await
    };
    let answer = answer.await;
    context.with(answer)
}

async fn read(
    kind: Kind,
    (method, headers): (&Method, &HeaderMap),
    query: &Query,
    workspace: &str,
    parameters: Vec<(String, String)>,
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let what = Dataset::Events(kind);
    let takes = |name: &str| {
        let is_own = OWN.contains(&name) || OF_QUERIES.contains(&name) && what.takes(name);
        if is_own { Ok(()) } else { Err(Error::invalid(format!("{name}: following does not take it"))) }
    };
    let parameters = Parameters::of(takes, parameters)?;
    let format = accept::of_rows(parameters.get("format"), headers)?;
    let words = FollowParams {
        words: parameters.words(|name| OF_QUERIES.contains(&name), query.now())?,
        from: parameters.get("from"),
        after: parameters.get("after"),
        wait: parameters.get("wait"),
        limit: parameters.get("limit"),
    };
    let mut follow = Follow::parse(kind, &words)?;
    let consumer = parameters.get("consumer");
    if words.after.is_some() && consumer.is_some() {
        return Err(Error::invalid("consumer: it takes the place of `after`, so give one of them").into());
    }
    let workspace = query.catalog().workspace(workspace).await?;
    context.workspace = Some(workspace.id().clone());
    if let Some(name) = consumer {
        follow = query.of_consumer(workspace.id(), name, follow).await?;
    }
    let content_type = [(header::CONTENT_TYPE, content_type(format))];
    if *method == Method::HEAD {
        query.check_follow(workspace.id(), &follow).await?;
        return Ok((content_type, Body::from_stream(futures::stream::empty::<Result<Vec<u8>, Error>>()))
            .into_response());
    }
    let followed = query.follow(workspace.id(), &follow).await?;
    context.rows = Some(followed.answer.frame.height() as u64);
    let mut headers = said::headers_of_follow(&followed.answer)?;
    headers.insert(BEHIND, followed.behind.into());
    let body = HeldBody(followed.answer.write(format).await?);
    Ok((content_type, headers, Body::new(body)).into_response())
}
