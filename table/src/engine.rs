//! What an engine is to the program around it: how a configuration names its tables, and what an operator may do to one.

use std::{ffi::OsStr, fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use event::{Clock, Result};

use crate::{Page, Scan, Table};

/// What an engine is told beside which table it is.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Tells which items have expired.
    pub clock: Clock,
    /// The region of a cloud; when `None`, as the cloud's own tools find it.
    pub region: Option<String>,
    /// Another address than that of the region.
    pub endpoint: Option<String>,
}

/// What a description of a table says: a label and a value a line.
pub type Lines = Vec<(&'static str, String)>;

/// What hears how many of how many bytes are done.
pub type Tell = Box<dyn FnMut(u64, u64) + Send>;

/// An engine. Its tables are called `SCHEME:PLACE`.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync {
    /// What the names of its tables begin with, and what metrics call it.
    fn scheme(&self) -> &'static str;

    /// What stands behind the colon, as help and messages say it.
    fn place(&self) -> &'static str;

    /// Checks what stands behind the colon.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    fn check(&self, place: &str) -> Result<(), String>;

    /// The file that holds the table, when it is one.
    fn file<'a>(&self, place: &'a OsStr) -> Option<&'a Path>;

    /// The short name of a table, by which a person confirms that this one is meant.
    fn name(&self, place: &OsStr) -> String;

    /// Opens a table. A new one is made only if `may_create` and that costs nothing.
    ///
    /// # Errors
    /// When it is not there, is something else, or cannot be reached.
    async fn open(&self, place: &OsStr, around: &Surroundings, may_create: bool) -> Result<Arc<dyn Table>>;

    /// Opens a table to go through all of its items, as people do and services do not.
    ///
    /// # Errors
    /// As [`Engine::open`].
    async fn open_whole(&self, place: &OsStr, around: &Surroundings) -> Result<Box<dyn Whole>>;

    /// Opens a table to go through all of its items as they stand at one instant, whatever is written meanwhile; `None`,
    /// when the engine has no such reading.
    ///
    /// # Errors
    /// As [`Engine::open`].
    async fn open_still(&self, place: &OsStr, around: &Surroundings) -> Result<Option<Box<dyn Whole>>>;

    /// Copies a table, as it stands at one instant, into the new file `to`, from which the same engine can go on. `tell`
    /// hears how many of how many bytes are copied. What an interrupted copy left is taken away first.
    ///
    /// # Errors
    /// `Invalid`, when `to` is there already, or when the engine keeps its table in no file; those of reading and writing.
    async fn backup(&self, place: &OsStr, to: &Path, tell: Tell) -> Result<()>;

    /// Creates a table with its indexes, its change feed and its expiry; safe to repeat.
    ///
    /// # Errors
    /// When something else is there, or it cannot be made.
    async fn create(&self, place: &OsStr, around: &Surroundings) -> Result<()>;

    /// Says what a table is, where it is, and how large it is.
    ///
    /// # Errors
    /// As [`Engine::open`].
    async fn describe(&self, place: &OsStr, around: &Surroundings) -> Result<Lines>;

    /// Deletes a table with all that is in it.
    ///
    /// # Errors
    /// When it is no table of Almanac, is protected, or cannot be reached.
    async fn delete(&self, place: &OsStr, around: &Surroundings) -> Result<()>;
}

/// All items of a table.
#[async_trait]
pub trait Whole: Send + Sync {
    /// A page of them, in no order that means anything.
    ///
    /// # Errors
    /// `Invalid`, when the cursor is of something else; those of the table.
    async fn page(&self, scan: &Scan) -> Result<Page>;
}
