//! Requests of MLflow's clients: `POST mlflow/runs/search`, and a body of JSON on the next lines. `$RUN` and `$EXPERIMENT` stand for those that
//! there are.

use axum::{
    body::Body,
    http::{Method, Request, Uri, header},
};
use mlflow::endpoint::ENDPOINTS;

use crate::{
    Target,
    house::{TOKEN, in_house},
};

pub(super) const TARGET: Target = Target {
    name: "mlflow",
    about: "bodies and filters of MLflow's endpoints",
    seeds,
    words: &[
        "mlflow/runs/search",
        "mlflow/runs/log-batch",
        "$RUN",
        "$EXPERIMENT",
        "\"filter\":",
        "\"order_by\":[",
        "metrics.loss",
        "params.depth",
        "tags.`a b`",
        "attributes.start_time",
        " AND ",
        " = ",
        " != ",
        " LIKE ",
        " ILIKE '%",
        " IN ('a')",
        " IS NOT NULL",
        " DESC",
        "null",
        "\"max_results\":",
        "\"page_token\":",
        "\"run_view_type\":\"ALL\"",
        "NaN",
        "9223372036854775807",
        "%_%_",
    ],
    take,
};

/// A body that has the fields of all endpoints.
const BODY: &str = r#"{"experiment_id":"$EXPERIMENT","experiment_ids":["$EXPERIMENT"],"experiment_name":"trees","run_id":"$RUN","name":"risk","key":"loss","value":0.5,"timestamp":1780272000000,"step":1,"filter":"metrics.loss < 0.5 AND tags.a LIKE 'b%'","order_by":["metrics.loss DESC"],"max_results":5,"metrics":[{"key":"loss","value":0.25,"timestamp":1780272000000,"step":2}],"params":[{"key":"depth","value":"6"}],"tags":[{"key":"a","value":"b"}],"version":"1","alias":"champion","source":"models:/risk","metric_key":"loss"}"#;

/// Filters of runs, each tried by the search for them.
const FILTERS: [&str; 8] = [
    "tags.`a` LIKE '%a%_b%' AND tags.`a` ILIKE '_%É%' AND params.depth NOT IN ('', '6', \\\"7\\\")",
    "metrics.a>0 AND metrics.a>0 AND metrics.a>0 AND metrics.a>0 AND metrics.a>0 AND metrics.a>0",
    "params.depth = '6' AND metrics.`loss` >= 1e-3",
    "attributes.status IN ('RUNNING', 'FINISHED') AND tags.\\\"a b\\\" IS NULL",
    "tags.mlflow.runName ILIKE '%x_y%'",
    "start_time > 0 AND run_name != 'it''s'",
    "attributes.run_id NOT IN ('a')",
    "metrics.loss IS NOT NULL",
];

fn seeds() -> Vec<Vec<u8>> {
    let each = ENDPOINTS.iter().map(|endpoint| {
        let body = if endpoint.path.contains("runs/") {
            BODY
        } else {
            &BODY.replace("metrics.loss < 0.5 AND tags.a", "name")
        };
        format!("{} {}\n{body}", endpoint.method, endpoint.path)
    });
    let search = |filter: &&str| {
        format!(
            "POST mlflow/runs/search\n{{\"experiment_ids\":[\"$EXPERIMENT\"],\"filter\":\"{filter}\",\"order_by\":[\"attributes.start_time\"]}}"
        )
    };
    each.chain(FILTERS.iter().map(search)).map(String::into_bytes).collect()
}

fn take(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let (first, body) = text.split_once('\n').unwrap_or((text, ""));
    let Some((method, path)) = first.split_once(' ') else { return false };
    in_house(|house| {
        let named = |text: &str| text.replace("$RUN", &house.run).replace("$EXPERIMENT", &house.experiment);
        let uri = Uri::try_from(format!("/mlflow/credit/prod/api/2.0/{}", named(path)));
        let (Ok(method), Ok(uri)) = (Method::from_bytes(method.as_bytes()), uri) else { return false };
        let body = named(body);
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        house.ask(request.body(Body::from(body)).unwrap()).0.is_success()
    })
}
