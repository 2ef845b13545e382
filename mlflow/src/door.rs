//! Routes of the MLflow-compatible API, and the translation of MLflow's requests and answers.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Path, Query, Request, State},
    http::{HeaderValue, Method, StatusCode, Uri, header},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use catalog::Workspace;
use ingest::{Ingest, http::read_whole};
use serde_json::{Map, Value, json};
use web::{RequiredPermission, Routes, is_json, named_in};

use crate::{
    answer::{Answer, Failure},
    asked::Asked,
    endpoint::{Does, ENDPOINTS, Endpoint},
    notes::Note,
};

/// Prefix of all paths of the API.
pub(crate) const PREFIX: &str = "/mlflow/";

/// Maximum bytes of a body: MLflow's clients send 1,000 metrics at once, which is a fifth of a megabyte.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// The dependencies of the endpoints.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) ingest: Arc<Ingest>,
    /// The routes by which events are appended: metrics go through them like all events.
    pub(crate) events: Router,
    /// The address under which clients put artifacts, if an experiment names none.
    pub(crate) artifacts: Option<String>,
}

/// Returns the routes of the API, and those of the links that clients print. `artifacts` is an
/// [`artifact_root`](crate::artifact_root), if there is one.
pub fn routes(ingest: Arc<Ingest>, artifacts: Option<String>) -> Routes {
    let events = ingest::http::routes(Arc::clone(&ingest)).into_router();
    let door = Arc::new(Door { ingest, events, artifacts });
    ENDPOINTS.iter().fold(add_links(Routes::new()), add).with_state(door)
}

fn add(routes: Routes<Arc<Door>>, endpoint: &Endpoint) -> Routes<Arc<Door>> {
    let path = format!("/mlflow/{{category}}/{{name}}/api/2.0/{}", endpoint.path);
    let does = endpoint.does;
    let handler = async move |State(door): State<Arc<Door>>,
                              Path(names): Path<Vec<(String, String)>>,
                              Query(query): Query<Vec<(String, String)>>,
                              request: Request| {
        match answer(&door, does, names, query, request).await {
            Ok(value) => Json(value).into_response(),
            Err(failure) => failure.into_response(),
        }
    };
    routes.serve(endpoint.method, &path, endpoint.demand(), handler)
}

async fn answer(
    door: &Door,
    does: Does,
    names: Vec<(String, String)>,
    query: Vec<(String, String)>,
    request: Request,
) -> Answer {
    let (head, body) = request.into_parts();
    // A page that sends a form or a text sends no JSON.
    if head.method != Method::GET && !query.is_empty() {
        return Err(Failure::invalid(
            "The URL has parameters, which are taken of GET alone: send them as JSON in the body.",
        ));
    }
    // The first two parameters of a path are those of the workspace; further ones are fields.
    let (of_workspace, of_fields) = names.split_at_checked(2).unwrap_or_default();
    let workspace: Vec<&str> = of_workspace.iter().map(|(_, name)| name.as_str()).collect();
    let workspace = door.ingest.workspace(&named_in(&workspace)).await?;
    let (body, mut pass) = read_whole(&door.ingest, workspace.id(), body, MAX_BODY_BYTES).await?;
    if !body.is_empty() && !is_json(&head.headers) {
        return Err(Failure::invalid("Bad Request. Content-Type must be one of ['application/json']."));
    }
    let mut fields = fields(query, &body)?;
    fields.extend(of_fields.iter().map(|(name, text)| (name.clone(), text.as_str().into())));
    let asked = Asked { fields, extensions: head.extensions };
    drop(body);
    // Metrics take a slot of their own. The bytes of the body, from which the fields are made, count until the answer.
    if let Some(pass) = &mut pass {
        pass.step_aside();
    }
    door.serve(does, &workspace, &asked).await
}

/// Merges the fields of a body and the parameters of a query. A repeated parameter becomes a list.
fn fields(query: Vec<(String, String)>, body: &[u8]) -> Answer<Map<String, Value>> {
    let mut fields = match body.trim_ascii() {
        [] => Map::new(),
        body => serde_json::from_slice(body)
            .map_err(|error| Failure { code: "MALFORMED_REQUEST", ..Failure::invalid(error.to_string()) })?,
    };
    for (name, text) in query {
        let text = Value::String(text);
        match fields.get_mut(&name) {
            None => _ = fields.insert(name, text),
            Some(Value::Array(texts)) => texts.push(text),
            Some(first) => *first = Value::Array(vec![first.take(), text]),
        }
    }
    Ok(fields)
}

impl Door {
    async fn serve(&self, does: Does, workspace: &Workspace, asked: &Asked) -> Answer {
        match does {
            Does::CreateExperiment => self.create_experiment(workspace, asked).await,
            Does::GetExperiment => self.experiment(workspace, asked.text("experiment_id")?).await,
            Does::GetExperimentByName => self.experiment_by_name(workspace, asked).await,
            Does::SearchExperiments => self.search_experiments(workspace, asked).await,
            Does::RenameExperiment => self.rename_experiment(workspace, asked).await,
            Does::DeleteExperiment => self.archive_experiment(workspace, asked, true).await,
            Does::RestoreExperiment => self.archive_experiment(workspace, asked, false).await,
            Does::TagExperiment => self.tag_experiment(workspace, asked, true).await,
            Does::UntagExperiment => self.tag_experiment(workspace, asked, false).await,
            Does::CreateRun => self.create_run(workspace, asked).await,
            Does::GetRun => self.get_run(workspace, asked).await,
            Does::UpdateRun => self.update_run(workspace, asked).await,
            Does::DeleteRun => self.archive_run(workspace, asked, true).await,
            Does::RestoreRun => self.archive_run(workspace, asked, false).await,
            Does::LogMetric => self.log_metric(workspace, asked).await,
            Does::LogParam => self.log_param(workspace, asked).await,
            Does::LogBatch => self.log_batch(workspace, asked).await,
            Does::LogInputs => self.log_inputs(workspace, asked).await,
            Does::TagRun => self.tag_run(workspace, asked, true).await,
            Does::UntagRun => self.tag_run(workspace, asked, false).await,
            Does::SearchRuns => self.search_runs(workspace, asked).await,
            Does::MetricHistory => self.metric_history(workspace, asked).await,
            Does::ListArtifacts => self.list_artifacts(workspace, asked).await,
            Does::NoArtifacts => Ok(json!({ "files": [] })),
            Does::CreateLoggedModel => self.create_logged_model(workspace, asked).await,
            Does::GetLoggedModel => self.get_logged_model(workspace, asked).await,
            Does::EndLoggedModel => self.end_logged_model(workspace, asked).await,
            Does::DeleteLoggedModel => self.delete_logged_model(workspace, asked).await,
            Does::TagLoggedModel => self.tag_logged_model(workspace, asked).await,
            Does::UntagLoggedModel => self.untag_logged_model(workspace, asked).await,
            Does::LogModelParams => self.log_model_params(workspace, asked).await,
            Does::SearchLoggedModels => self.search_logged_models(workspace, asked).await,
            Does::LogOutputs => self.log_outputs(workspace, asked).await,
            Does::CreateModel => self.create_model(workspace, asked).await,
            Does::GetModel => self.get_model(workspace, asked).await,
            Does::UpdateModel => self.note_model(workspace, asked, Note::description(asked)?).await,
            Does::DeleteModel => self.delete_model(workspace, asked).await,
            Does::TagModel => self.note_model(workspace, asked, Note::tag(asked, true)?).await,
            Does::UntagModel => self.note_model(workspace, asked, Note::tag(asked, false)?).await,
            Does::SearchModels => self.search_models(workspace, asked).await,
            Does::LatestVersions => self.latest_versions(workspace, asked).await,
            Does::SetAlias => self.set_alias(workspace, asked).await,
            Does::GetAlias => self.get_alias(workspace, asked).await,
            Does::DeleteAlias => self.delete_alias(workspace, asked).await,
            Does::CreateVersion => self.create_version(workspace, asked).await,
            Does::GetVersion => self.get_version(workspace, asked).await,
            Does::UpdateVersion => self.note_version(workspace, asked, Note::description(asked)?).await,
            Does::DeleteVersion => self.delete_version(workspace, asked).await,
            Does::TagVersion => self.note_version(workspace, asked, Note::tag(asked, true)?).await,
            Does::UntagVersion => self.note_version(workspace, asked, Note::tag(asked, false)?).await,
            Does::SetStage => self.set_stage(workspace, asked).await,
            Does::SearchVersions => self.search_versions(workspace, asked).await,
            Does::VersionUri => self.version_uri(workspace, asked).await,
        }
    }
}

/// Wraps a router, so that MLflow's clients can authenticate in their way and get answers in their form, including
/// those of the auth layer and of unknown endpoints.
pub fn as_mlflow(router: Router) -> Router {
    router.layer(from_fn(turned))
}

async fn turned(mut request: Request, next: Next) -> Response {
    if !request.uri().path().starts_with(PREFIX) {
        return next.run(request).await;
    }
    let path = request.uri().path().to_owned();
    if let Some(bearer) = request.headers().get(header::AUTHORIZATION).and_then(bearer_of) {
        request.headers_mut().insert(header::AUTHORIZATION, bearer);
    }
    let answer = next.run(request).await;
    let media = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_problem = media.is_some_and(|media| media.starts_with("application/problem+json"));
    if answer.status().is_success() || !is_problem {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    let body = to_bytes(body, MAX_BODY_BYTES).await.unwrap_or_default();
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let detail = told["detail"].as_str().unwrap_or_default();
    let failure = match head.status {
        StatusCode::METHOD_NOT_ALLOWED => unserved(&path),
        StatusCode::NOT_FOUND if !is_served(&path) => unserved(&path),
        status => Failure::of(status, detail),
    };
    let (told, body) = failure.into_response().into_parts();
    head.status = told.status;
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.extend(told.headers);
    Response::from_parts(head, Body::new(body))
}

fn is_served(path: &str) -> bool {
    let path = path.split_once("/api/2.0/").map_or("", |(_, path)| path);
    ENDPOINTS.iter().any(|endpoint| endpoint.is_at(path))
}

fn unserved(path: &str) -> Failure {
    match path.contains("/mlflow-artifacts/") {
        true => Failure::unknown_endpoint(
            "Almanac keeps no artifacts: start it with --mlflow-artifacts, or create the experiment with an artifact_location, \
             and clients put them there themselves",
        ),
        false => Failure::unknown_endpoint(format!("Almanac does not serve {path}")),
    }
}

/// Returns the bearer sent as a password: MLflow's clients send one if `MLFLOW_TRACKING_PASSWORD` is set.
fn bearer_of(given: &HeaderValue) -> Option<HeaderValue> {
    let (scheme, encoded) = given.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    HeaderValue::try_from(format!("Bearer {}", pair.split_once(':')?.1)).ok()
}

/// The paths of a tracking URI, to which links such as `.../mlflow/credit/prod/#/experiments/ID/runs/RUN` lead: clients put a slash
/// behind it, people may not.
const PATHS: [&str; 2] = ["/mlflow/{category}/{name}/", "/mlflow/{category}/{name}"];

/// Adds the routes of the links that clients print after each run. A browser that opens one requests the tracking URI,
/// and is redirected to the dashboard with its workspace. It keeps the part after the `#`, by which the dashboard finds
/// the run. The routes reveal nothing of the stored data, so they need no authentication.
fn add_links(routes: Routes<Arc<Door>>) -> Routes<Arc<Door>> {
    PATHS
        .into_iter()
        .fold(routes, |routes, path| routes.serve("GET", path, RequiredPermission::nothing(), opened))
}

async fn opened(uri: Uri) -> Response {
    let place = HeaderValue::try_from(place_of(uri.path())).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response()
}

/// Returns the address of the dashboard for the path of a tracking URI, whose parts are percent-encoded.
fn place_of(path: &str) -> String {
    let workspace = path.strip_prefix(PREFIX).unwrap_or_default().trim_end_matches('/');
    format!("/?workspace={}", workspace.replace('&', "%26").replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_of_a_tracking_uri_goes_along() {
        assert_eq!(place_of("/mlflow/credit/prod/"), "/?workspace=credit/prod");
        assert_eq!(place_of("/mlflow/credit/prod"), "/?workspace=credit/prod");
        // It stays one parameter for any path.
        assert_eq!(place_of("/mlflow/a%2Fb/c&d=e+f/"), "/?workspace=a%2Fb/c%26d=e%2Bf");
        assert_eq!(place_of("/mlflow//evil.example/"), "/?workspace=/evil.example");
    }
}
