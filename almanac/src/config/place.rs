//! Place of the table: `sqlite:PATH`, `dynamodb:TABLE`, or that of another engine.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use table::{engine::Engine, sqlite::Sqlite};

use super::Origin;

/// Engines of this build. Opening a table and `almanac admin table` use the engine of the named store.
const ENGINES: &[&dyn Engine] = &[
    &Sqlite,
    #[cfg(feature = "dynamodb")]
    &dynamodb::DynamoDb,
];

/// Scheme of the engine that a build may lack.
const OPTIONAL: &str = "dynamodb";

/// Name of the SQLite file in the data folder.
pub(super) const FILE: &str = "almanac.db";

/// Place of the table.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// Engine of the table.
    pub(crate) engine: &'static dyn Engine,
    /// Place within the engine.
    pub(crate) place: OsString,
}

impl Store {
    /// A store in this SQLite file.
    pub(super) fn sqlite(path: PathBuf) -> Self {
        Self { engine: &Sqlite, place: path.into_os_string() }
    }

    /// Name of the table, by which a person confirms the choice.
    pub(crate) fn name(&self) -> String {
        self.engine.name(&self.place)
    }

    /// Rest between folds of days that grow a little; zero where writes are free.
    pub(crate) fn rest(&self) -> Duration {
        if self.file().is_some() { Duration::ZERO } else { projector::PAID_REST }
    }

    /// File of the table, if it is one file.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.engine.file(&self.place)
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.engine.scheme(), self.place.display())
    }
}

/// Forms of the names of stores of these engines.
fn forms(engines: &[&dyn Engine]) -> String {
    let forms = engines.iter().map(|engine| format!("{}:{}", engine.scheme(), engine.place()));
    forms.collect::<Vec<_>>().join(" or ")
}

/// Help text of the flag.
pub(super) fn help() -> String {
    format!("Where the table is: {} [default: sqlite:{FILE} in the data folder]", forms(ENGINES))
}

/// Reads a store; an error states the problem of the text.
pub(super) fn parse(text: &str, origin: &Origin) -> Result<Store, String> {
    parse_of(ENGINES, text, origin)
}

/// Reads a store of one of these engines.
pub(super) fn parse_of(
    engines: &[&'static dyn Engine],
    text: &str,
    origin: &Origin,
) -> Result<Store, String> {
    let (scheme, place) = text.split_once(':').unwrap_or_default();
    let Some(engine) = engines.iter().copied().find(|engine| engine.scheme() == scheme) else {
        return Err(match scheme {
            OPTIONAL => format!(
                "`{text}`: this almanac is built without DynamoDB; the wheel, the archive and the image have it, and \
                 `cargo build --features dynamodb` makes one"
            ),
            _ => format!("`{text}` should be {}", forms(engines)),
        });
    };
    engine.check(place)?;
    let place = OsString::from(place);
    let place = match engine.file(&place) {
        Some(path) => origin.locate(path).into_os_string(),
        None => place,
    };
    Ok(Store { engine, place })
}
