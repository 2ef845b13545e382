//! The engine for the program: `dynamodb:TABLE`.

use std::{ffi::OsStr, path::Path, sync::Arc};

use async_trait::async_trait;
use event::{Error, Result};
use table::{
    Page, Scan, Table,
    engine::{Engine, Lines, Surroundings, Tell, Whole},
};

use super::{DynamoConfig, DynamoTable, TableDescription, manage};

/// Allowed length of the name of a table.
const NAME_LENGTH: std::ops::RangeInclusive<usize> = 3..=255;

/// Engine of tables in DynamoDB.
#[derive(Debug)]
pub struct DynamoDb;

fn config(place: &OsStr, around: &Surroundings) -> DynamoConfig {
    DynamoConfig {
        table: place.to_string_lossy().into_owned(),
        region: around.region.clone(),
        endpoint: around.endpoint.clone(),
        clock: around.clock.clone(),
    }
}

#[async_trait]
impl Engine for DynamoDb {
    fn scheme(&self) -> &'static str {
        "dynamodb"
    }

    fn place(&self) -> &'static str {
        "TABLE"
    }

    fn check(&self, place: &str) -> Result<(), String> {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&letter);
        if NAME_LENGTH.contains(&place.len()) && place.chars().all(is_allowed) {
            return Ok(());
        }
        Err(format!(
            "`dynamodb:{place}`: DynamoDB does not allow the table name `{place}` ({} to {} of a-z, A-Z, 0-9, `_`, `-` \
             and `.`)",
            NAME_LENGTH.start(),
            NAME_LENGTH.end()
        ))
    }

    fn file<'a>(&self, _: &'a OsStr) -> Option<&'a Path> {
        None
    }

    fn name(&self, place: &OsStr) -> String {
        place.to_string_lossy().into_owned()
    }

    /// Opens an existing table: creating one costs money and needs permissions that a service should not have.
    async fn open(&self, place: &OsStr, around: &Surroundings, _: bool) -> Result<Arc<dyn Table>> {
        Ok(Arc::new(DynamoTable::connect(config(place, around)).await?))
    }

    async fn open_whole(&self, place: &OsStr, around: &Surroundings) -> Result<Box<dyn Whole>> {
        Ok(Box::new(DynamoTable::connect(config(place, around)).await?))
    }

    /// Returns `None`: DynamoDB reads page by page, and each shows the latest writes.
    async fn open_still(&self, _: &OsStr, _: &Surroundings) -> Result<Option<Box<dyn Whole>>> {
        Ok(None)
    }

    async fn backup(&self, place: &OsStr, _: &Path, _: Tell) -> Result<()> {
        Err(Error::invalid(format!(
            "dynamodb:{} is no file; point-in-time recovery restores it to any second, and `almanac admin export` copies it",
            self.name(place)
        )))
    }

    async fn create(&self, place: &OsStr, around: &Surroundings) -> Result<()> {
        manage::create(&config(place, around)).await.map(drop)
    }

    async fn describe(&self, place: &OsStr, around: &Surroundings) -> Result<Lines> {
        manage::describe(&config(place, around)).await.map(lines)
    }

    async fn delete(&self, place: &OsStr, around: &Surroundings) -> Result<()> {
        manage::delete(&config(place, around)).await
    }
}

fn lines(table: TableDescription) -> Lines {
    let is_emulator = table.endpoint.is_some();
    let place = match table.endpoint {
        Some(endpoint) => format!("{endpoint} (region {})", table.region),
        None => table.region,
    };
    let mut lines = vec![
        ("table", table.name),
        ("engine", format!("DynamoDB, {}, {}", table.status, table.billing)),
        ("place", place),
        ("arn", table.arn),
    ];
    lines.extend(table.created_at.map(|created| ("created", created.to_string())));
    lines.push(("key", table.key));
    lines.extend(table.indexes.into_iter().map(|index| {
        ("index", format!("{} ({}), {}, about {} items", index.name, index.key, index.status, index.items))
    }));
    lines.extend([
        ("feed", table.stream.map_or("none".into(), |stream| format!("{}, {}", stream.view, stream.arn))),
        ("expiry", table.time_to_live.map_or("none".into(), |attribute| format!("by {attribute}"))),
        ("items", format!("about {}, counted every six hours", table.items)),
        ("size", format!("about {} bytes", table.bytes)),
    ]);
    match table.is_protected {
        true => lines.push(("protected", "yes: it must be unlocked before it can be deleted".into())),
        false if is_emulator => {}
        false => lines.push(("protected", "no".into())),
    }
    let recovery = |is_on| if is_on { "to any second of the last 35 days" } else { "no" };
    lines.extend(table.is_recoverable.map(|is_on| ("recovery", recovery(is_on).into())));
    lines.extend(table.problems.into_iter().map(|problem| ("problem", problem)));
    lines
}

#[async_trait]
impl Whole for DynamoTable {
    async fn page(&self, scan: &Scan) -> Result<Page> {
        self.scan(scan).await
    }
}
