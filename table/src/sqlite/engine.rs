//! SQLite engine, as the program sees it: `sqlite:PATH`.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use event::{Error, Result};

use super::{SqliteTable, backup, manage, scan::Still};
use crate::{
    Page, Scan, Table,
    engine::{Engine, Lines, Surroundings, Tell, Whole},
};

/// Tables in SQLite files.
#[derive(Debug)]
pub struct Sqlite;

#[async_trait]
impl Engine for Sqlite {
    fn scheme(&self) -> &'static str {
        "sqlite"
    }

    fn place(&self) -> &'static str {
        "PATH"
    }

    fn check(&self, place: &str) -> Result<(), String> {
        match place {
            "" => Err("`sqlite:` names no file; it is written sqlite:PATH".into()),
            _ => Ok(()),
        }
    }

    fn file<'a>(&self, place: &'a OsStr) -> Option<&'a Path> {
        Some(Path::new(place))
    }

    fn name(&self, place: &OsStr) -> String {
        Path::new(place).file_name().unwrap_or(place).to_string_lossy().into_owned()
    }

    async fn open(&self, place: &OsStr, around: &Surroundings, may_create: bool) -> Result<Arc<dyn Table>> {
        let (path, clock) = (Path::new(place), around.clock.clone());
        Ok(match may_create {
            true => Arc::new(SqliteTable::open(path, clock)?),
            false => Arc::new(SqliteTable::open_existing(path, clock)?),
        })
    }

    async fn open_whole(&self, place: &OsStr, around: &Surroundings) -> Result<Box<dyn Whole>> {
        Ok(Box::new(SqliteTable::open_existing(Path::new(place), around.clock.clone())?))
    }

    async fn open_still(&self, place: &OsStr, around: &Surroundings) -> Result<Option<Box<dyn Whole>>> {
        Ok(Some(Box::new(Still::open(Path::new(place), around.clock.now())?)))
    }

    async fn backup(&self, place: &OsStr, to: &Path, tell: Tell) -> Result<()> {
        let (from, to) = (PathBuf::from(place), to.to_owned());
        let copied = tokio::task::spawn_blocking(move || backup::backup(&from, &to, tell)).await;
        copied.map_err(|error| Error::unavailable("the backup was broken off").because(error))?
    }

    async fn create(&self, place: &OsStr, around: &Surroundings) -> Result<()> {
        SqliteTable::open(Path::new(place), around.clock.clone()).map(drop)
    }

    async fn describe(&self, place: &OsStr, _: &Surroundings) -> Result<Lines> {
        let file = manage::describe(Path::new(place))?;
        let mut lines = vec![
            ("table", self.name(place)),
            ("engine", format!("SQLite, file version {}", file.version)),
            ("place", Path::new(place).display().to_string()),
            ("key", file.key),
        ];
        lines.extend(file.indexes.iter().map(|index| ("index", format!("{} ({})", index.name, index.key))));
        lines.extend([
            ("feed", format!("{} changes, kept for a day", file.changes)),
            ("expiry", format!("by {}", file.time_to_live)),
            ("items", file.items.to_string()),
            ("size", format!("{} bytes, and {} in the write-ahead log", file.bytes, file.log_bytes)),
        ]);
        Ok(lines)
    }

    async fn delete(&self, place: &OsStr, _: &Surroundings) -> Result<()> {
        manage::delete(Path::new(place))
    }
}

#[async_trait]
impl Whole for SqliteTable {
    async fn page(&self, scan: &Scan) -> Result<Page> {
        self.scan(scan).await
    }
}
