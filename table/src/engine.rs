//! Engine, as the program sees it: the names of its tables in a configuration, and the operations of an operator on one.

use std::{ffi::OsStr, fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use event::{Clock, Result};

use crate::{Page, Scan, Table};

/// Environment of an engine beside the place of its table.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Clock by which items expire.
    pub clock: Clock,
    /// Region of a cloud; found as by the cloud's own tools, when `None`.
    pub region: Option<String>,
    /// Address in place of that of the region.
    pub endpoint: Option<String>,
}

/// Description of a table: a label and a value a line.
pub type Lines = Vec<(&'static str, String)>;

/// Listener to the progress of a copy: the bytes done, and all bytes.
pub type Tell = Box<dyn FnMut(u64, u64) + Send>;

/// Engine. Its tables are called `SCHEME:PLACE`.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync {
    /// Prefix of the names of its tables, and name in metrics.
    fn scheme(&self) -> &'static str;

    /// Placeholder for the text behind the colon, in help and messages.
    fn place(&self) -> &'static str;

    /// Checks the text behind the colon.
    ///
    /// # Errors
    /// Fault of the text, as a sentence.
    fn check(&self, place: &str) -> Result<(), String>;

    /// File that holds the table, when it is one.
    fn file<'a>(&self, place: &'a OsStr) -> Option<&'a Path>;

    /// Short name of a table, by which a person confirms that this one is meant.
    fn name(&self, place: &OsStr) -> String;

    /// Opens a table. A new one is created only if `may_create` and that costs nothing.
    ///
    /// # Errors
    /// Fails when it is missing, is something else, or cannot be reached.
    async fn open(&self, place: &OsStr, around: &Surroundings, may_create: bool) -> Result<Arc<dyn Table>>;

    /// Opens a table to read all of its items, as people do and services do not.
    ///
    /// # Errors
    /// As [`Engine::open`].
    async fn open_whole(&self, place: &OsStr, around: &Surroundings) -> Result<Box<dyn Whole>>;

    /// Opens a table to read all of its items in their state at one instant, also while others write; `None`, when the engine has
    /// no such reading.
    ///
    /// # Errors
    /// As [`Engine::open`].
    async fn open_still(&self, place: &OsStr, around: &Surroundings) -> Result<Option<Box<dyn Whole>>>;

    /// Copies a table, in its state at one instant, into the new file `to`, from which the same engine can go on. `tell` is
    /// called with the bytes copied and all bytes. The rest of an interrupted copy is deleted first.
    ///
    /// # Errors
    /// `Invalid`, when `to` is there already, or when the engine keeps its table in no file; those of reading and writing.
    async fn backup(&self, place: &OsStr, to: &Path, tell: Tell) -> Result<()>;

    /// Creates a table with its indexes, its change feed and its expiry; safe to repeat.
    ///
    /// # Errors
    /// Fails when something else is there, or it cannot be created.
    async fn create(&self, place: &OsStr, around: &Surroundings) -> Result<()>;

    /// Describes a table: its kind, its place, and its size.
    ///
    /// # Errors
    /// As [`Engine::open`].
    async fn describe(&self, place: &OsStr, around: &Surroundings) -> Result<Lines>;

    /// Deletes a table with all its items.
    ///
    /// # Errors
    /// Fails when it is no table of Almanac, is protected, or cannot be reached.
    async fn delete(&self, place: &OsStr, around: &Surroundings) -> Result<()>;
}

/// Reader of all items of a table.
#[async_trait]
pub trait Whole: Send + Sync {
    /// Reads a page of items, in an arbitrary order.
    ///
    /// # Errors
    /// `Invalid`, when the cursor is of something else; those of the table.
    async fn page(&self, scan: &Scan) -> Result<Page>;
}
