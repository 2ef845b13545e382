//! Links that MLflow's clients print after each run: `.../mlflow/credit/prod/#/experiments/ID/runs/RUN`. A browser that opens one
//! requests the tracking URI, and is sent to the dashboard with its workspace. It keeps the part behind the `#`, by which the
//! dashboard finds the run.

use std::sync::Arc;

use axum::{
    http::{HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use web::{Operation, RequiredPermission, Routes, openapi::ResponseBuilder};

use crate::door::{Door, PREFIX};

/// The paths of a tracking URI: clients put a slash behind it, people may not.
const PATHS: [(&str, &str); 2] =
    [("/mlflow/{category}/{name}/", "opened_link"), ("/mlflow/{category}/{name}", "opened_tracking_uri")];

/// Adds the routes. They reveal nothing of the stored data, so they need no caller.
pub(crate) fn add(routes: Routes<Arc<Door>>) -> Routes<Arc<Door>> {
    PATHS.into_iter().fold(routes, |routes, (path, id)| {
        routes.add(operation(path, id), RequiredPermission::nothing(), opened)
    })
}

fn operation(path: &str, id: &str) -> Operation {
    Operation::get(path, id)
        .tag("mlflow")
        .summary("Go to the runs of the workspace on the dashboard")
        .answers(StatusCode::SEE_OTHER, ResponseBuilder::new().description("The dashboard has them."))
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
