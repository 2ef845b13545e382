//! Where the table is: `sqlite:PATH`, `dynamodb:TABLE`, and what other engines there are.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use table::engine::{ENGINES, Engine};

use super::Origin;

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
        Self { engine: &table::sqlite::Sqlite, place: path.into_os_string() }
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

/// How stores are written, with `between` them.
fn forms(between: &str) -> String {
    ENGINES.map(|engine| format!("{}:{}", engine.scheme(), engine.place())).join(between)
}

/// What the flag is for.
pub(super) fn help() -> String {
    format!("Where the table is: {} [default: sqlite:{FILE} in the data folder]", forms(" or "))
}

/// Reads a store; an error says what is wrong with the text.
pub(super) fn parse(text: &str, origin: &Origin) -> Result<Store, String> {
    let named = text.split_once(':').and_then(|(scheme, place)| {
        let engine = ENGINES.into_iter().find(|engine| engine.scheme() == scheme)?;
        Some((engine, place))
    });
    let Some((engine, place)) = named else {
        return Err(format!("`{text}` is neither {}", forms(" nor ")));
    };
    engine.check(place)?;
    let place = OsString::from(place);
    let place = match engine.file(&place) {
        Some(path) => origin.locate(path).into_os_string(),
        None => place,
    };
    Ok(Store { engine, place })
}
