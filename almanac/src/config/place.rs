//! `sqlite:PATH` or `dynamodb:TABLE`.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::Origin;

/// The name of the SQLite file in the data folder.
pub(super) const FILE: &str = "almanac.db";

/// How long the name of a DynamoDB table may be.
const TABLE_NAME_LENGTH: std::ops::RangeInclusive<usize> = 3..=255;

/// Where the table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// In this SQLite file.
    Sqlite(PathBuf),
    /// In DynamoDB, under this name.
    DynamoDb(String),
}

impl Store {
    /// The table's name, by which a person confirms that this one is meant.
    pub(crate) fn name(&self) -> String {
        match self {
            Store::Sqlite(path) => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
            Store::DynamoDb(table) => table.clone(),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Store::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Store::DynamoDb(table) => write!(f, "dynamodb:{table}"),
        }
    }
}

/// Reads a store; an error says what is wrong with the text.
pub(super) fn parse(text: &str, origin: &Origin) -> Result<Store, String> {
    match text.split_once(':') {
        Some(("sqlite", "")) => Err(format!("`{text}` names no file; it is written sqlite:PATH")),
        Some(("sqlite", path)) => Ok(Store::Sqlite(origin.locate(Path::new(path)))),
        Some(("dynamodb", table)) if is_table_name(table) => Ok(Store::DynamoDb(table.to_owned())),
        Some(("dynamodb", table)) => Err(format!(
            "`{text}`: DynamoDB does not allow the table name `{table}` ({} to {} of a-z, A-Z, 0-9, `_`, `-` \
             and `.`)",
            TABLE_NAME_LENGTH.start(),
            TABLE_NAME_LENGTH.end()
        )),
        _ => Err(format!("`{text}` is neither sqlite:PATH nor dynamodb:TABLE")),
    }
}

fn is_table_name(text: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&letter);
    TABLE_NAME_LENGTH.contains(&text.len()) && text.chars().all(is_allowed)
}
