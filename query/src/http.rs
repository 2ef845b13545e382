//! The query service over HTTP.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State, rejection::QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{
    catalog::{Workspace, WorkspacePage},
    key::Counted,
};
use web::Problem;

use crate::{
    Query,
    output::Format,
    request::{Request, What, Words},
};

/// The routes of the query service. A workspace is named by its id, or by its path as two segments.
pub fn router(query: Arc<Query>) -> Router {
    let mut router = Router::new()
        .route("/v1/workspaces", get(list))
        .route("/v1/workspaces/{w}", get(show))
        .route("/v1/workspaces/{w}/{name}", get(show_by_path));
    for name in What::NAMES {
        router = router
            .route(
                &format!("/v1/workspaces/{{w}}/{name}"),
                get(move |query, Path(w): Path<String>, words| answer(name, query, w, words)),
            )
            .route(
                &format!("/v1/workspaces/{{w}}/{{name}}/{name}"),
                get(move |query, Path((c, w)): Path<(String, String)>, words| {
                    answer(name, query, format!("{c}/{w}"), words)
                }),
            );
    }
    router.with_state(query)
}

/// The parameters of a query, as in the command line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    from: String,
    to: String,
    release: Option<String>,
    columns: Option<String>,
    by: Option<String>,
    #[serde(rename = "as-of")]
    as_of: Option<String>,
    format: Option<String>,
}

type Asked = Result<axum::extract::Query<Parameters>, QueryRejection>;

async fn answer(
    name: &str,
    State(query): State<Arc<Query>>,
    workspace: String,
    parameters: Asked,
) -> Result<Response, Problem> {
    let axum::extract::Query(parameters) =
        parameters.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
    let format = Format::parse(parameters.format.as_deref().unwrap_or("ndjson"))?;
    let words = Words {
        from: &parameters.from,
        to: &parameters.to,
        release: parameters.release.as_deref(),
        columns: parameters.columns.as_deref(),
        by: parameters.by.as_deref(),
        as_of: parameters.as_of.as_deref(),
    };
    let request = Request::parse(What::parse(name)?, &words)?;
    let workspace = query.catalog().workspace(&workspace).await?;
    let mut frame = query.run(workspace.id(), &request).await?;
    let writing = tokio::task::spawn_blocking(move || {
        let mut body = Vec::new();
        format.write(&mut frame, &mut body).map(|()| body)
    });
    let body = writing
        .await
        .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "writing the answer failed"))??;
    Ok(([(header::CONTENT_TYPE, content_type(format))], body).into_response())
}

fn content_type(format: Format) -> &'static str {
    match format {
        Format::Table => "text/plain; charset=utf-8",
        Format::Csv => "text/csv; charset=utf-8",
        Format::Ndjson => "application/x-ndjson",
        Format::Parquet => "application/vnd.apache.parquet",
        Format::Ipc => "application/vnd.apache.arrow.file",
    }
}

async fn list(State(query): State<Arc<Query>>) -> Result<Response, Problem> {
    let workspaces = query.catalog().workspaces().await?;
    Ok(Json(json!({ "workspaces": workspaces.iter().map(workspace_json).collect::<Vec<_>>() }))
        .into_response())
}

async fn show_by_path(
    query: State<Arc<Query>>,
    Path((c, w)): Path<(String, String)>,
) -> Result<Response, Problem> {
    show(query, Path(format!("{c}/{w}"))).await
}

async fn show(State(query): State<Arc<Query>>, Path(workspace): Path<String>) -> Result<Response, Problem> {
    let workspace = query.catalog().workspace(&workspace).await?;
    Ok(Json(page_json(&query.catalog().page(workspace.id()).await?)).into_response())
}

fn workspace_json(workspace: &Workspace) -> Value {
    json!({
        "id": workspace.id().as_str(),
        "path": workspace.path,
        "created_at": workspace.entity.created_at.to_string(),
    })
}

fn page_json(page: &WorkspacePage) -> Value {
    let counts = |counted: &Counted| page.counts.get(counted).map_or(json!({}), |counts| json!(counts));
    let models = page.models.iter().map(|model| {
        json!({
            "name": model.entity.name,
            "task": model.task.name(),
            "positive_label": model.task.positive_label(),
            "counts": page.model_counts(&model.entity.name),
        })
    });
    let releases = page.releases.iter().map(|release| {
        json!({
            "name": release.entity.name,
            "model": release.model,
            "configuration": release.configuration,
            "environment": release.environment,
            "counts": counts(&Counted::Release(release.entity.name.clone())),
        })
    });
    let mut value = workspace_json(&page.workspace);
    value["models"] = models.collect();
    value["configurations"] = page
        .configurations
        .iter()
        .map(|configuration| json!({ "name": configuration.entity.name }))
        .collect();
    value["releases"] = releases.collect();
    value["counts"] = counts(&Counted::Workspace);
    value
}
