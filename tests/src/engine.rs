//! The two engines, each with an empty table of a test's own, and [`on_both_engines!`](crate::on_both_engines), which makes a
//! test for each.

use std::sync::Arc;

use dynamodb::DynamoTable;
use event::Clock;
use log::store::Store;
use table::{Table, sqlite::SqliteTable};

use crate::local::fresh_table;

/// Engine of a table.
#[derive(Clone, Copy, Debug)]
pub enum Engine {
    /// A file, in a folder that is deleted with the table.
    Sqlite,
    /// A table of DynamoDB Local, which `tests/run` starts.
    DynamodbLocal,
}

/// Empty table that no other test uses.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// The table, as services know it.
    pub table: Arc<dyn Table>,
    /// The table, as the engine opened it.
    pub engine: Arc<dyn Table>,
    folder: Option<Arc<tempfile::TempDir>>,
}

impl Engine {
    /// Makes a table with the time of `clock`.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn fresh(self, clock: Clock) -> Fresh {
        match self {
            Engine::Sqlite => Fresh::sqlite(clock),
            Engine::DynamodbLocal => {
                let config = fresh_table(clock);
                dynamodb::create(&config).await.expect("a new table");
                let table = DynamoTable::connect(config).await.expect("it is there");
                Fresh::of(Arc::new(table), None)
            }
        }
    }
}

impl Fresh {
    /// Makes a file with the time of `clock`.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn sqlite(clock: Clock) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the file");
        Self::of(open(&folder, clock), Some(Arc::new(folder)))
    }

    fn of(engine: Arc<dyn Table>, folder: Option<Arc<tempfile::TempDir>>) -> Self {
        Self { table: Store::over(Arc::clone(&engine)), engine, folder }
    }

    /// All bytes of the file and of files beside it; empty if the table is no file.
    ///
    /// # Panics
    /// If they cannot be read.
    pub fn file_bytes(&self) -> Vec<u8> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let files = std::fs::read_dir(folder.path()).expect("the folder is there");
        let bytes = |file: std::io::Result<std::fs::DirEntry>| {
            std::fs::read(file.expect("a file").path()).expect("its bytes")
        };
        files.flat_map(bytes).collect()
    }

    /// Opens the file once more.
    ///
    /// # Panics
    /// If the table is no file.
    pub fn open_again(&self, clock: Clock) -> Arc<dyn Table> {
        Store::over(open(self.folder.as_ref().expect("it is a file"), clock))
    }
}

fn open(folder: &tempfile::TempDir, clock: Clock) -> Arc<dyn Table> {
    Arc::new(SqliteTable::open(&folder.path().join("t.db"), clock).expect("the file opens"))
}

/// Makes a test on SQLite and one on DynamoDB Local of each of the named functions. They take the result of `open` for the
/// [`Engine`](crate::engine::Engine): `on_both_engines!(World::on: first_test, second_test)`.
#[macro_export]
macro_rules! on_both_engines {
    ($open:path: $($name:ident),+ $(,)?) => {
        mod sqlite {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                super::$name($open($crate::engine::Engine::Sqlite).await).await;
            })+
        }

        mod dynamodb_local {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                super::$name($open($crate::engine::Engine::DynamodbLocal).await).await;
            })+
        }
    };
}
