//! Settling outcomes without a date again, over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Kind, MAX_WINDOW_DAYS, Right, Timestamp, fields::MAX_KEY_BYTES};
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, RequiredPermission, Routes, Whole, answer, content, json_object, schema,
};

use super::api::JSON;
use crate::{
    rematch::{Became, Rematched, Rematching},
    service::Ingest,
};

/// The routes.
pub(super) fn routes(routes: Routes<Arc<Ingest>>) -> Routes<Arc<Ingest>> {
    routes.add(operation(), RequiredPermission::workspace(Right::Append).of_kinds(&[Kind::Outcomes]), rematch)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    key: String,
    observed_at: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

fn operation() -> Operation {
    let key = schema::string().min_length(Some(1)).max_length(Some(MAX_KEY_BYTES));
    let observed = schema::nullable(schema::time())
        .description(Some("Only the outcome that was observed at this instant; all of the key by default."));
    let first = format!(
        "The first UTC day on which it came; the 100 days up to the last one by default, at most {MAX_WINDOW_DAYS}."
    );
    let day = |says: &str| schema::nullable(schema::day()).description(Some(says));
    let body = schema::object([("key", key.into())])
        .property("observed_at", observed)
        .property("from", day(&first))
        .property("to", day("The last UTC day on which it came; today by default."));
    let judged = schema::array(schema::time());
    let judged = judged.description(Some("The instants of the predictions from which it was taken back."));
    let one = schema::object([
        ("observed_at", schema::time().into()),
        ("became", schema::one_of(Became::NAMES).into()),
        ("judged", judged.into()),
    ]);
    let outcomes = schema::object([("outcomes", schema::array(one).into())]);
    Operation::post("/v1/workspaces/{category}/{name}/outcomes/rematch", "rematch_outcomes")
        .tag("ingest")
        .summary("Settle outcomes without a date again")
        .description("Of a key: what each was decided to judge is retracted, and it is appended again without a date and judges what is found now (`again`). One that waits already is left alone (`waiting`); one of which no prediction was found in time judges nothing and is to be posted again (`expired`), and so is one that would judge more predictions than one may (`refused`).")
        .body("Which outcomes.", [(JSON, content(body, Some(json!({ "key": "loan-0000017" }))))])
        .answers(StatusCode::OK, answer("What became of them, by when they were observed.", JSON, outcomes))
}

async fn rematch(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let asked: Asked = json_object(&headers, body)?;
    let of = (asked.key.as_str(), asked.observed_at.as_deref());
    let days = (asked.from.as_deref(), asked.to.as_deref());
    let rematching = Rematching::parse(of, days, ingest.clock().now())?;
    let workspace = ingest.workspace(&workspace).await?;
    workspace.check_open()?;
    let all = ingest.rematch_key(&workspace, &rematching).await?;
    let outcomes: Vec<Value> = all.iter().map(told).collect();
    Ok(Json(json!({ "outcomes": outcomes })).into_response())
}

fn told(Rematched { observed_at, became }: &Rematched) -> Value {
    let judged: Vec<String> = match became {
        Became::Again(judged) => judged.iter().map(Timestamp::to_string).collect(),
        Became::Waiting | Became::Expired | Became::Refused => Vec::new(),
    };
    json!({ "observed_at": observed_at.to_string(), "became": became.name(), "judged": judged })
}
