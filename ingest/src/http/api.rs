//! What the OpenAPI document says of the append service.

use axum::http::{HeaderName, StatusCode};
use serde_json::json;
use store::Kind;
use web::{
    Named, Operation, answer,
    openapi::{Header, RefOr, Schema, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use super::{IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, events};
use crate::{
    format::Encoding,
    limits::{MAX_BATCH_ROWS, MAX_BODY_BYTES, MAX_IDEMPOTENCY_KEY_BYTES},
};

pub(super) const JSON: &str = "application/json";

/// What any request may be answered, and those that write.
pub(super) const ALWAYS: [StatusCode; 3] =
    [StatusCode::BAD_REQUEST, StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
pub(super) const OF_BODY: [StatusCode; 3] =
    [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNSUPPORTED_MEDIA_TYPE, StatusCode::UNPROCESSABLE_ENTITY];

pub(super) fn append(kind: Kind, named: Named) -> Operation {
    let key = schema::string().pattern(Some("^[!-~]+$")).max_length(Some(MAX_IDEMPOTENCY_KEY_BYTES));
    let replayed = "Whether the batch was stored before, and this is the answer of then.";
    let receipt = answer("The events are durable.", JSON, schema::component("Receipt"))
        .header(text(&IDEMPOTENT_REPLAYED), header(schema::one_of(["true"]), replayed));
    let operation = named
        .operation(Operation::post, &format!("/{kind}"), &format!("append_{kind}"))
        .tag("append")
        .summary(format!("Append {kind}"))
        .description(format!(
            "The batch is stored whole or not at all; of one that is refused, the first bad rows are named. After a {}, a 5xx or a lost connection send it again: it is counted once. A batch has at most {MAX_BATCH_ROWS} rows and {} MiB.",
            StatusCode::TOO_MANY_REQUESTS.as_u16(),
            MAX_BODY_BYTES >> 20,
        ))
        .takes(
            parameter(ParameterIn::Header, &text(&IDEMPOTENCY_KEY), key, "Names the batch of this kind: the same key with the same events returns the first answer, with other events it is a conflict. Without it, the events themselves are the key.")
                .example(Some(json!("night-2026-06-01"))),
        );
    let encodings =
        ["identity", "gzip", "zstd"].into_iter().filter(|token| Encoding::from_token(token).is_some());
    operation
        .takes(parameter(
            ParameterIn::Header,
            "Content-Encoding",
            schema::one_of(encodings),
            "How the body is compressed.",
        ))
        .body("The events.", events::contents(kind))
        .answers(StatusCode::CREATED, receipt)
        .fails(&ALWAYS)
        .fails(&[StatusCode::NOT_FOUND, StatusCode::REQUEST_TIMEOUT, StatusCode::CONFLICT])
        .fails(&OF_BODY)
}

/// What the operations refer to.
pub(super) fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let rows = || -> RefOr<Schema> { schema::integer(1..=MAX_BATCH_ROWS).into() };
    let receipt = schema::object([
        (
            "batch",
            schema::string().description(Some("The key of the batch, or the digest of its events.")).into(),
        ),
        ("kind", schema::one_of(Kind::ALL.map(Kind::name)).into()),
        ("rows", rows()),
        (
            "days",
            schema::map(Some(schema::day()), rows())
                .min_properties(Some(1))
                .description(Some("How many rows went to each day."))
                .into(),
        ),
    ]);
    let mut schemas = vec![("Receipt".to_owned(), receipt.into())];
    schemas.extend(Kind::ALL.map(|kind| (events::event_name(kind), events::event(kind))));
    schemas
}

fn header(schema: ObjectBuilder, says: &str) -> Header {
    let mut header = Header::new(schema);
    header.description = Some(says.to_owned());
    header
}

/// A header as people write it.
fn text(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
    words.collect::<Vec<_>>().join("-")
}
