//! The targets.

mod bodies;
mod headers;
mod imports;
mod metadata;
mod metrics;
mod mlflow;
mod paths;
mod segments;
mod sql;
mod words;

use crate::Target;

/// All targets, the quickest first.
pub static TARGETS: [Target; 10] = [
    words::TARGET,
    metrics::TARGET,
    bodies::TARGET,
    metadata::TARGET,
    imports::TARGET,
    segments::TARGET,
    headers::TARGET,
    paths::TARGET,
    sql::TARGET,
    mlflow::TARGET,
];

/// Seeds that are texts.
fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}
