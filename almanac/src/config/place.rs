//! Where the table is: `sqlite:PATH`, `dynamodb:TABLE`, and what other engines there are.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use table::{engine::Engine, sqlite::Sqlite};

use super::Origin;

/// The engines of this build. Opening a table and `almanac table` take theirs from the store that was named.
const ENGINES: &[&dyn Engine] = &[
    &Sqlite,
    #[cfg(feature = "dynamodb")]
    &dynamodb::DynamoDb,
];

/// The scheme of the engine that a build may lack.
const OPTIONAL: &str = "dynamodb";

/// The name of the SQLite file in the data folder.
pub(super) const FILE: &str = "almanac.db";

/// Where the table is.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// In which engine.
    pub(crate) engine: &'static dyn Engine,
    /// Which of its tables.
    pub(crate) place: OsString,
}

impl Store {
    /// In this SQLite file.
    pub(super) fn sqlite(path: PathBuf) -> Self {
        Self { engine: &Sqlite, place: path.into_os_string() }
    }

    /// The table's name, by which a person confirms that this one is meant.
    pub(crate) fn name(&self) -> String {
        self.engine.name(&self.place)
    }

    /// How long days that grow a little rest between folds: not at all where writing is free.
    pub(crate) fn rest(&self) -> Duration {
        if self.file().is_some() { Duration::ZERO } else { projector::PAID_REST }
    }

    /// The file that holds the table, when it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.engine.file(&self.place)
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.engine.scheme(), self.place.display())
    }
}

/// The forms in which stores of these engines are named.
fn forms(engines: &[&dyn Engine]) -> String {
    let forms = engines.iter().map(|engine| format!("{}:{}", engine.scheme(), engine.place()));
    forms.collect::<Vec<_>>().join(" or ")
}

/// What the flag is for.
pub(super) fn help() -> String {
    format!("Where the table is: {} [default: sqlite:{FILE} in the data folder]", forms(ENGINES))
}

/// Reads a store; an error says what is wrong with the text.
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
