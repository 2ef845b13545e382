//! The append service over HTTP.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::Deserialize;
use serde_json::json;
use store::{Kind, catalog::Task};
use web::Problem;

use crate::{
    append::{Receipt, Remember},
    batch::Refused,
    json::{read_json_array, read_ndjson},
    limits::MAX_BODY_BYTES,
    service::{Ingest, SubmitError},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The routes of the append service. A workspace is named by its id, or by its path as two
/// segments (`/v1/workspaces/credit/prod/...`).
pub fn router(ingest: Arc<Ingest>) -> Router {
    let mut router = Router::new()
        .route("/v1/workspaces", post(create_workspace))
        .route("/v1/workspaces/{w}/models", post(create_model))
        .route("/v1/workspaces/{w}/{name}/models", post(create_model_by_path));
    for kind in Kind::ALL {
        router = router
            .route(
                &format!("/v1/workspaces/{{w}}/{kind}"),
                post(move |ingest, Path(w): Path<String>, headers, body| {
                    append(kind, ingest, w, headers, body)
                }),
            )
            .route(
                &format!("/v1/workspaces/{{w}}/{{name}}/{kind}"),
                post(move |ingest, Path((c, w)): Path<(String, String)>, headers, body| {
                    append(kind, ingest, format!("{c}/{w}"), headers, body)
                }),
            );
    }
    router.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)).with_state(ingest)
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::Refused(refused) => refused.into(),
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooLarge(detail) => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail),
            Refused::Whole(detail) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail),
            Refused::Rows { errors, error_count } => {
                let detail = format!("nothing was stored: {error_count} of the rows are wrong");
                Problem::rows(detail, errors, error_count)
            }
        }
    }
}

/// The formats of a body.
enum Format {
    Ndjson,
    JsonArray,
}

fn format(headers: &HeaderMap) -> Result<Format, Problem> {
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        let detail = format!("the content encoding {encoding:?} is not known; send the body as it is");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(Format::Ndjson),
        "application/json" => Ok(Format::JsonArray),
        other => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "the content type `{other}` is not known; send application/x-ndjson (an object a line) \
                 or application/json (an array of objects)"
            ),
        )),
    }
}

async fn append(
    kind: Kind,
    State(ingest): State<Arc<Ingest>>,
    workspace: String,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let format = format(&headers)?;
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {} MiB; send several batches", MAX_BODY_BYTES >> 20),
        ),
        status => Problem::new(status, rejection.body_text()),
    })?;
    let idempotency_key = match headers.get(IDEMPOTENCY_KEY).map(HeaderValue::to_str) {
        None => None,
        Some(Ok(key)) => Some(key),
        Some(Err(_)) => return Err(Refused::Whole("the header Idempotency-Key is not ASCII".into()).into()),
    };
    let workspace = ingest.workspace(&workspace).await?;
    let now = ingest.clock().now();
    let read = tokio::task::spawn_blocking(move || match format {
        Format::Ndjson => read_ndjson(kind, &body, now),
        Format::JsonArray => read_json_array(kind, &body, now),
    });
    let batch = read
        .await
        .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "reading the body failed"))??;
    // The append goes on when the client hangs up: what was begun is ended.
    let key = idempotency_key.map(str::to_owned);
    let appending = tokio::spawn({
        let ingest = Arc::clone(&ingest);
        async move { ingest.submit(&workspace, batch, key.as_deref(), Remember::Week).await }
    });
    let receipt = appending
        .await
        .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the append failed"))??;
    Ok(created(&receipt))
}

fn created(receipt: &Receipt) -> Response {
    let days: serde_json::Map<_, _> =
        receipt.days.iter().map(|(day, rows)| (day.to_string(), json!(rows))).collect();
    let body = json!({
        "batch": receipt.batch,
        "kind": receipt.kind.name(),
        "rows": receipt.rows,
        "days": days,
    });
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    if receipt.replayed {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewWorkspace {
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewModel {
    name: String,
    task: String,
    positive_label: Option<String>,
}

fn parse<T: for<'de> Deserialize<'de>>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))
}

async fn create_workspace(State(ingest): State<Arc<Ingest>>, body: Bytes) -> Result<Response, Problem> {
    let new: NewWorkspace = parse(&body)?;
    let workspace = ingest.catalog().ensure_workspace(&new.path, ingest.clock().now()).await?;
    let body = json!({ "id": workspace.id().as_str(), "path": workspace.path });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

async fn create_model_by_path(
    ingest: State<Arc<Ingest>>,
    Path((category, name)): Path<(String, String)>,
    body: Bytes,
) -> Result<Response, Problem> {
    create_model(ingest, Path(format!("{category}/{name}")), body).await
}

async fn create_model(
    State(ingest): State<Arc<Ingest>>,
    Path(workspace): Path<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    let new: NewModel = parse(&body)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let task = Task::parse(&new.task, new.positive_label.as_deref())?;
    let now = ingest.clock().now();
    let model = ingest.catalog().ensure_model(workspace.id(), &new.name, &task, now).await?;
    let body = json!({
        "id": model.entity.id.as_str(),
        "name": model.entity.name,
        "task": model.task.name(),
        "positive_label": model.task.positive_label(),
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}
