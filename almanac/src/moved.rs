//! `almanac export`, `restore` and `backup`: a table, or one of its workspaces, leaves as files, comes back, or is copied as it stands.

mod backup;
mod chain;
mod export;
mod files;
mod manifest;
mod part;
mod restore;
mod shelf;
mod workspace;

pub(crate) use backup::{BackupArgs, backup};
pub(crate) use export::{ExportArgs, export};
pub(crate) use manifest::hex;
pub(crate) use restore::{RestoreArgs, check_restored, restore};
pub(crate) use shelf::{failed, sha256};
