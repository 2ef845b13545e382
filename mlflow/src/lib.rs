//! MLflow's door: the part of MLflow's REST interface (2.0) that an unmodified MLflow client needs for experiments, runs,
//! metrics and the registry of models, under `/mlflow/<category>/<workspace>`.
//!
//! Experiments and runs are those of the catalog, metrics are metric events, registered models are models, their versions
//! releases, and aliases environments to which a release is promoted. Artifacts are not kept, but their addresses. All endpoints
//! are in one table ([`endpoint`]), with their demands on callers. Other endpoints are answered as MLflow answers unknown ones.
//! The links that clients print lead to the dashboard.

mod answer;
mod artifacts;
mod asked;
mod door;
pub mod endpoint;
mod experiments;
mod filter;
mod inputs;
mod logged;
mod logged_metrics;
mod logged_search;
mod metrics;
mod models;
mod notes;
mod registry;
mod runs;
mod search;

pub use artifacts::{NO_ARTIFACTS, artifact_folder, artifact_root};
pub use door::{as_mlflow, routes};
