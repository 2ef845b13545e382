//! What an answer took, in the place of its rows.

use axum::{
    body::Body,
    http::{HeaderValue, Method, header},
    response::Response,
};
use event::Error;
use futures::TryStreamExt;
use serde_json::json;
use web::{
    Problem, content,
    openapi::{RefOr, Schema, Type, response::ResponseBuilder, schema::ObjectBuilder},
    schema,
};

use super::content_type;
use crate::{
    explain::{Explaining, REASONS, Step},
    output::Format,
};

/// The word that asks for it, and the name of its schema.
pub(super) const EXPLAIN: &str = "explain";
const SCHEMA: &str = "Explanation";

/// Description of that word.
pub(super) const SAYS: &str = "Answer what was read, and how long each step took, in the place of the rows: as JSON, or as text for a table or who accepts `text/plain` alone. The rows are made and written in the format all the same.";

/// A flag that asks for it.
pub(super) fn flag() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean).default(Some(json!(false)))
}

/// A response that may be an explanation instead.
pub(super) fn or_explained(response: ResponseBuilder) -> ResponseBuilder {
    response.content("application/json", content(schema::component(SCHEMA), None))
}

/// The schema of an explanation.
pub(super) fn schemas() -> [(String, RefOr<Schema>); 1] {
    let count = |says: &str| -> RefOr<Schema> { schema::count().description(Some(says)).into() };
    let seconds =
        |says: &str| ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).description(Some(says));
    let table = schema::object([
        ("queries", count("Pages of items that were asked for.")),
        ("gets", count("Single items that were asked for.")),
        ("items", count("Items that came.")),
        ("bytes", count("Their bytes.")),
        (
            "read_units",
            seconds("What DynamoDB says that it took; null of a file.")
                .schema_type(schema::types(&[Type::Number], true))
                .into(),
        ),
    ]);
    let days = schema::object([
        ("read", count("Those that were read.")),
        ("skipped", count("Those of which the conditions want no row.")),
        ("expired", count("Those whose events have expired.")),
    ]);
    let skipped =
        schema::object(REASONS.map(|(name, says)| (name, count(&format!("How many because {says}.")))));
    let segments = schema::object([
        ("found", count("All of the days that were read.")),
        ("unpacked", count("Those that were unpacked.")),
        ("rows", count("The events in those, before conditions on single events.")),
        ("bytes", count("Their packed bytes.")),
        ("skipped", skipped.into()),
    ]);
    let names = schema::array(schema::string()).schema_type(schema::types(&[Type::Array], true));
    let columns = schema::map(None, names).description(Some(
        "Of each kind of events the columns that were unpacked; null, when these are all.",
    ));
    let steps = schema::object(Step::ALL.map(|(_, name)| (name, seconds("In seconds.").into())));
    let steps =
        steps.description(Some("How long each step took. Steps of several segments go on side by side."));
    let all = schema::object([
        ("rows", count("How many rows the answer has.")),
        ("seconds", seconds("How long it took, until its last row was written.").into()),
        ("table", table.into()),
        ("days", days.description(Some("Days, each counted for each kind of events.")).into()),
        ("segments", segments.into()),
        ("columns", columns.into()),
        ("steps", steps.into()),
    ]);
    [(SCHEMA.to_owned(), all.into())]
}

/// What counted says of a response, once all of its body was made. What says of an answer what its rows do not stays.
pub(super) async fn explained(
    explaining: &Explaining,
    response: Response,
    method: &Method,
    is_text: bool,
) -> Result<Response, Problem> {
    let media = match is_text {
        true => content_type(Format::Table),
        false => HeaderValue::from_static("application/json"),
    };
    let (mut parts, body) = response.into_parts();
    for name in [header::CONTENT_LENGTH, header::TRAILER] {
        parts.headers.remove(name);
    }
    parts.headers.insert(header::CONTENT_TYPE, media);
    if method == Method::HEAD {
        return Ok(Response::from_parts(parts, body));
    }
    let drained = body.into_data_stream().try_for_each(|_| std::future::ready(Ok(()))).await;
    if let Err(error) = drained {
        let broken = |error| Error::unavailable(format!("the answer was not made: {error}"));
        return Err(error.into_inner().downcast::<Error>().map_or_else(broken, |error| *error).into());
    }
    let explanation = explaining.explanation();
    let body = match is_text {
        true => Body::from(explanation.to_string()),
        false => Body::from(serde_json::to_vec(&explanation).unwrap_or_default()),
    };
    Ok(Response::from_parts(parts, body))
}
