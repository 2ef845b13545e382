//! MLflow-compatible API: the part of MLflow's REST interface (2.0) that an unmodified MLflow client needs for
//! experiments, runs, metrics and the model registry, under `/mlflow/<category>/<workspace>`.
//!
//! Experiments and runs are those of the catalog, metrics are logged metrics, registered models are models, their
//! versions releases, and aliases environments to which a release is promoted. Of artifacts only the addresses are
//! stored. All endpoints and the permissions that they require are in one table ([`endpoint`]). Other endpoints are
//! answered as MLflow answers unknown ones. Links that clients print lead to the dashboard.

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
