//! Append operations of the OpenAPI document.

use axum::http::{HeaderName, StatusCode};
use event::Kind;
use log::audit::{MAX_SOURCE_VALUE_BYTES, SOURCE_WORDS};
use serde_json::json;
use web::{
    Operation, answer,
    openapi::{Header, RefOr, Schema, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use super::{
    ALMANAC_KNOWN_AT, ALMANAC_REPEAT, ALMANAC_SOURCE, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, STORE,
    event_schema,
};
use crate::{
    format::Encoding,
    limits::{
        IDEMPOTENCY_SECONDS, MAX_BATCH_ROWS, MAX_BODY_BYTES, MAX_IDEMPOTENCY_KEY_BYTES, REPEAT_SECONDS,
    },
};

pub(super) const JSON: &str = "application/json";

pub(super) fn append(kind: Kind) -> Operation {
    let key = schema::string().pattern(Some("^[!-~]+$")).max_length(Some(MAX_IDEMPOTENCY_KEY_BYTES));
    let (days, minutes) = (IDEMPOTENCY_SECONDS / (24 * 60 * 60), REPEAT_SECONDS / 60);
    let replayed = "Whether all of the batch was stored before.";
    let receipt = answer("The events are durable.", JSON, schema::component("Receipt"))
        .header(text(&IDEMPOTENT_REPLAYED), header(schema::one_of(["true"]), replayed));
    let path = format!("/v1/workspaces/{{category}}/{{name}}/{kind}");
    let operation = Operation::post(path, &format!("append_{kind}"))
        .tag("append")
        .summary(format!("Append {kind}"))
        .description(format!(
            "The batch is stored whole or not at all; of one that is refused, the first bad rows are named. After a {}, a 5xx or a lost connection send it again with the same key: it is counted once. A batch has at most {MAX_BATCH_ROWS} rows and {} MiB.",
            StatusCode::TOO_MANY_REQUESTS.as_u16(),
            MAX_BODY_BYTES >> 20,
        ))
        .takes(
            parameter(ParameterIn::Header, &text(&IDEMPOTENCY_KEY), key, &format!("Names the batch of this kind for {days} days: the same key with the same events is counted once, with other events it is a conflict. Without it, the same events are counted once within {minutes} minutes, and stored again after that."))
                .example(Some(json!("night-2026-06-01"))),
        )
        .takes(parameter(
            ParameterIn::Header,
            &text(&ALMANAC_REPEAT),
            schema::one_of([STORE]),
            "Has a batch without a key stored as often as it comes.",
        ))
        .takes(
            parameter(
                ParameterIn::Header,
                &text(&ALMANAC_SOURCE),
                schema::string().pattern(Some(&source_pattern())),
                "Where the events come from, which the audit log shows.",
            )
            .example(Some(json!("system=airflow; job=nightly; run=17; dataset=loans"))),
        );
    let operation = match kind {
        Kind::Releases => operation,
        _ => operation.takes(parameter(
            ParameterIn::Header,
            &text(&ALMANAC_KNOWN_AT),
            schema::time(),
            "When the events were known, where a history is imported that another system saw. As of that time and later they are known, and answers say that it was stated. No later than now, and no earlier than the events; administrators of the workspace may state it.",
        )),
    };
    let encodings =
        ["identity", "gzip", "zstd"].into_iter().filter(|token| Encoding::from_token(token).is_some());
    operation
        .takes(parameter(
            ParameterIn::Header,
            "Content-Encoding",
            schema::one_of(encodings.chain([""])),
            "How the body is compressed; an empty one is `identity`.",
        ))
        .body("The events.", event_schema::contents(kind))
        .answers(StatusCode::CREATED, receipt)
}

/// Pattern of a source: pairs of the known words.
fn source_pattern() -> String {
    let pair = format!("({})=[!-:<-~]{{1,{MAX_SOURCE_VALUE_BYTES}}}", SOURCE_WORDS.join("|"));
    format!("^{pair}(; ?{pair})*$")
}

/// Schemas that the operations refer to.
pub(super) fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let rows = || -> RefOr<Schema> { schema::integer(1..=MAX_BATCH_ROWS).into() };
    let receipt = schema::object([
        (
            "batch",
            schema::string().description(Some("The key of the batch, or the digest of its events.")).into(),
        ),
        ("kind", schema::one_of(Kind::ALL.map(Kind::name)).into()),
        ("rows", schema::integer(0..=MAX_BATCH_ROWS).into()),
        (
            "appended",
            schema::integer(0..=MAX_BATCH_ROWS)
                .description(Some("How many of the rows this request stored; the rest was stored before."))
                .into(),
        ),
        (
            "days",
            schema::map(Some(schema::day()), rows())
                .description(Some("How many rows went to each day."))
                .into(),
        ),
    ]);
    let unmatched = schema::integer(1..=MAX_BATCH_ROWS).description(Some(
        "How many rows wait until it is found which predictions they judge; only there when some do.",
    ));
    let receipt = receipt.property("unmatched", unmatched);
    let replay_of = schema::string().description(Some(
        "The batch that had been stored before; only there when this request stored nothing.",
    ));
    let receipt = receipt.property("replay_of", replay_of);
    let warnings = schema::array(schema::string()).description(Some(
        "What should be looked at, though the events are stored: that of 20 labels of outcomes or more none is a positive label of the workspace, or that events count as known only later than was stated.",
    ));
    let receipt = receipt.property("warnings", warnings);
    let mut schemas = vec![("Receipt".to_owned(), receipt.into())];
    schemas.extend(Kind::ALL.map(|kind| (event_schema::event_name(kind), event_schema::event(kind))));
    schemas
}

fn header(schema: ObjectBuilder, says: &str) -> Header {
    let mut header = Header::new(schema);
    header.description = Some(says.to_owned());
    header
}

/// A header as people write it.
pub(super) fn text(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
    words.collect::<Vec<_>>().join("-")
}
