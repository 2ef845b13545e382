//! `almanac export`, `restore` and `backup`: a table leaves as files, comes back, or is copied as it stands.

mod backup;
mod export;
mod files;
mod manifest;
mod restore;

pub(crate) use backup::{BackupArgs, backup};
pub(crate) use export::{ExportArgs, export};
pub(crate) use restore::{RestoreArgs, restore};
