//! Where the data is.

use std::{path::Path, sync::Arc};

use store::{Clock, Result, Table, table::sqlite::SqliteTable};

/// The name of the file in the data folder.
const FILE: &str = "almanac.db";

/// Opens the table in folder `data`, created when it is new.
pub(crate) fn create(data: &Path) -> Result<Arc<dyn Table>> {
    Ok(Arc::new(SqliteTable::open(&data.join(FILE), Clock::system())?))
}

/// Opens the table in folder `data`, which must be there.
pub(crate) fn existing(data: &Path) -> Result<Arc<dyn Table>> {
    let path = data.join(FILE);
    if !path.exists() {
        return Err(store::Error::not_found(format!(
            "there is no data at {}; `almanac up` or `almanac demo` makes some, --data names another place",
            path.display()
        )));
    }
    Ok(Arc::new(SqliteTable::open_existing(&path, Clock::system())?))
}
