//! Rules that the days of a reference suggest, over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::{self, Query, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use event::Window;
use serde::Deserialize;
use serde_json::json;
use web::{
    InPath, Named, Operation, Problem, answer,
    openapi::{Required, path::ParameterIn},
    parameter, schema,
};

use super::{
    alert::id,
    alert_rule::new_rule,
    api::{ALWAYS, JSON},
};
use crate::{MAX_ALERT_RULES, MAX_REFERENCE_DAYS, Service, Suggested};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    reference: String,
    release: Option<String>,
}

pub(super) fn operation(named: Named) -> Operation {
    let days = schema::reference_days();
    let says = format!(
        "The days that were as they should be, 7 to {MAX_REFERENCE_DAYS}: the first and the last of them with two dots between, `snapshot:` and the name of a snapshot, or `release:` and that of a release for the days that it was trained on, with a slash and a name for those of its baseline."
    );
    let reference = parameter(ParameterIn::Query, "reference", days, &says);
    let reference = reference.required(Required::True).example(Some(json!("2026-06-01..2026-06-30")));
    let release = "Rules on this release; on all predictions of the workspace when it is not given.";
    let rules = schema::array(new_rule()).max_items(Some(MAX_ALERT_RULES));
    let found = schema::object([
        ("rules", rules.into()),
        ("left_out", schema::count().description(Some("How many more there would be.")).into()),
        (
            "days",
            schema::count().description(Some("How many days of the reference have predictions.")).into(),
        ),
    ]);
    named
        .operation(Operation::get, "/alert-rules/suggested", "suggest_alert_rules")
        .tag("catalog")
        .summary("Suggest alert rules with what is usual on the days of a reference as their limits")
        .description("They are not applied. With fewer than 7 days there are none.")
        .takes(reference)
        .takes(parameter(ParameterIn::Query, "release", schema::name(), release))
        .answers(StatusCode::OK, answer("The rules.", JSON, found))
        .fails(&ALWAYS)
        .fails(&[StatusCode::NOT_FOUND])
}

pub(super) async fn suggest(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(asked) =
        asked.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
    let workspace = id(&service, &workspace).await?;
    let reference: Window = service.catalog().reference_days(&workspace, &asked.reference).await?.parse()?;
    let suggested = service.catalog().suggest_alert_rules(&workspace, reference, asked.release.as_deref());
    let Suggested { rules, left_out, days } = suggested.await?;
    Ok(Json(json!({ "rules": rules, "left_out": left_out, "days": days })).into_response())
}
