//! Reading of the log for ingest, by a service of another room.

use std::fmt::Debug;

use catalog::{Measured, ToMeasure, Workspace};
use event::{Id, Result};
use futures::future::BoxFuture;

/// Service that reads the log, and metrics of it.
pub trait Reader: Debug + Send + Sync {
    /// Reads the metrics by which promotion gates judge a release.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    fn measure<'a>(&'a self, workspace: &'a Id, of: &'a ToMeasure) -> BoxFuture<'a, Result<Measured>>;

    /// Picks items of the pairs of releases that the arena of this name does not have yet.
    ///
    /// # Errors
    /// Fails when the predictions cannot be read, or another process does the same.
    fn pick_pairs<'a>(&'a self, workspace: &'a Workspace, arena: &'a str) -> BoxFuture<'a, Result<()>>;
}
