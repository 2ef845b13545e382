//! What ingest asks of a service that reads the log, as this room does not.

use std::fmt::Debug;

use catalog::{Measured, ToMeasure, Workspace};
use event::{Id, Result};
use futures::future::BoxFuture;

/// A service that reads the log, and figures of it.
pub trait Reader: Debug + Send + Sync {
    /// Reads the figures by which promotion gates judge a release.
    ///
    /// # Errors
    /// When they cannot be read.
    fn measure<'a>(&'a self, workspace: &'a Id, of: &'a ToMeasure) -> BoxFuture<'a, Result<Measured>>;

    /// Picks items of the pairs of releases that the arena of this name does not have yet.
    ///
    /// # Errors
    /// When the predictions cannot be read, or somebody else does the same.
    fn pick_pairs<'a>(&'a self, workspace: &'a Workspace, arena: &'a str) -> BoxFuture<'a, Result<()>>;
}
