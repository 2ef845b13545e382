//! `almanac export`, `restore` and `backup`: writes a table or one of its workspaces to files, reads it back, or copies the file.

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
