//! The evaluations of a workspace's last days, from the latest day backwards.

use event::{Day, Error, Id, Result};
use fold::Evaluation;
use log::{
    evaluated::{self, At},
    key,
};
use table::{Query, Table};

/// Reads one day after the other.
pub(crate) struct Recent<'a> {
    table: &'a dyn Table,
    workspace: &'a Id,
    version: u32,
    day: Day,
}

impl<'a> Recent<'a> {
    /// Begins at the latest day that is projected in a version; `None`, when none is.
    ///
    /// # Errors
    /// Those of the table.
    pub(crate) async fn of(table: &'a dyn Table, version: u32, workspace: &'a Id) -> Result<Option<Self>> {
        let latest = Query::table(key::all_projections(workspace, version)).backward().limit(1).only(&["v"]);
        let Some(latest) = table.query(&latest).await?.items.pop() else { return Ok(None) };
        let (day, _) = key::parse_projection(&latest.key)?;
        Ok(Some(Self { table, workspace, version, day }))
    }

    /// Moves to the day before, and returns the one that it stood at.
    pub(crate) fn step_back(&mut self) -> Day {
        let day = self.day;
        self.day = day.start().plus_seconds(-1).day();
        day
    }

    /// The evaluation of a day without the rows of splits; `None`, when there is none.
    ///
    /// # Errors
    /// Those of the table; `Corrupt`, when it cannot be read.
    pub(crate) async fn evaluation(&self, day: Day) -> Result<Option<Evaluation>> {
        let at = At { workspace: self.workspace, version: self.version, day };
        let Some((_, states)) = evaluated::load_plain(self.table, at).await? else { return Ok(None) };
        let evaluation = Evaluation::from_states(&states);
        evaluation.map(Some).map_err(|error| Error::corrupt(format!("item {}: {error}", at.key())))
    }
}
