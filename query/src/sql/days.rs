//! The days that a statement reads of each of its tables.

use std::collections::BTreeSet;

use event::{Day, Error, Id, Kind, MAX_WINDOW_DAYS, Result, Window};
use log::key;

use super::{Sql, plan::Need, tables::Table};
use crate::{
    Point, Query,
    dataset::Dataset,
    expired::{may_expire, warning},
    read::Reading,
};

impl Query {
    /// Determines the days of each table to read. Returns the requested days of events that may expire, including days with
    /// nothing left.
    pub(super) async fn choose_days(
        &self,
        workspace: &Id,
        sql: &Sql,
        needs: &mut [Need],
    ) -> Result<BTreeSet<Day>> {
        let mut asked = BTreeSet::new();
        for need in needs.iter_mut() {
            let name = need.of.name();
            if !need.of.has_history() && (sql.as_of.is_some() || sql.read_version.is_some()) {
                return Err(Error::invalid(format!("sql: {name} are of now, and not as of another time")));
            }
            if need.days.is_none() && !sql.all_days {
                return Err(Error::invalid(format!(
                    "sql: say which days of {name} to read, such as `where day between '2026-06-01' and '2026-06-30'`, or ask for all days"
                )));
            }
            let there = match &sql.read_version {
                Some(read_version) => Some(read_version.window),
                None if need.of == Table::Transitions => self.transitions_there(workspace).await?,
                None => self.days_there(workspace, need.of.what()).await?,
            };
            if sql.read_version.is_none() && need.of.what().is_some_and(may_expire) {
                asked.extend(need.days.iter().flatten());
            }
            let days: BTreeSet<Day> = match (there, need.days.take()) {
                (None, _) => BTreeSet::new(),
                (Some(there), Some(days)) => days.into_iter().filter(|day| there.contains(*day)).collect(),
                (Some(there), None) => there.days().collect(),
            };
            if days.len() > MAX_WINDOW_DAYS as usize {
                return Err(Error::invalid(format!(
                    "sql: {name} are read of {} days, more than {MAX_WINDOW_DAYS}; ask for less",
                    days.len()
                )));
            }
            need.days = Some(days);
        }
        Ok(asked)
    }

    /// Warns of requested days that the answer lacks as their events have expired.
    pub(super) async fn lacks(
        &self,
        workspace: &Id,
        reading: Option<&Reading>,
        asked: BTreeSet<Day>,
    ) -> Result<Option<String>> {
        let (Some(first), Some(last)) = (asked.first(), asked.last()) else { return Ok(None) };
        let kept = match reading {
            Some(reading) => reading.kept.clone(),
            None => {
                let window = Window::new(*first, *last)?;
                self.kept(workspace, &Point { window, as_of: None, read_version: None, is_raw: true }).await?
            }
        };
        let expired = self.expired(workspace, &kept, asked.into_iter()).await?;
        Ok(expired.as_deref().map(warning))
    }

    /// Returns the window from the first to the last day of which a workspace has events, or projections that stay when events
    /// expire. Releases may be registered years after the days of a history: their days count only for the table of releases.
    async fn days_there(&self, workspace: &Id, what: Option<Dataset>) -> Result<Option<Window>> {
        let is_wanted = |kind: Kind| kind != Kind::Releases || what == Some(Dataset::Events(Kind::Releases));
        let mut ranges = vec![key::segments(workspace)];
        if what.is_some_and(Dataset::stays) {
            let version = log::active::load(&*self.table, workspace).await?.version;
            ranges.push(key::all_projections(workspace, version));
        }
        let mut there: Option<Window> = None;
        for range in ranges {
            let first = end_of(&*self.table, table::Query::table(range.clone()), is_wanted).await?;
            let last = end_of(&*self.table, table::Query::table(range).backward(), is_wanted).await?;
            if let Some((first, last)) = first.zip(last) {
                let (from, to) =
                    there.map_or((first, last), |there| (there.from().min(first), there.to().max(last)));
                there = Some(Window::new(from, to)?);
            }
        }
        Ok(there)
    }
}

impl Sql {
    /// Returns the window from the first to the last day read for these needs.
    pub(super) fn days_read(&self, needs: &[&Need]) -> Result<Option<Window>> {
        let mut all: Option<Window> = None;
        for need in needs {
            let (Some(window), Some(what)) = (need.window()?, need.of.what()) else { continue };
            let days = self.request((need, what), window).days_read();
            all = Some(match all {
                Some(all) => Window::new(all.from().min(days.from()), all.to().max(days.to()))?,
                None => days,
            });
        }
        Ok(all)
    }
}

impl Need {
    /// Returns the window around its days; `None`, if there are none.
    pub(super) fn window(&self) -> Result<Option<Window>> {
        let days = self.days.as_ref();
        let ends = days.and_then(|days| Some((*days.first()?, *days.last()?)));
        ends.map(|(from, to)| Window::new(from, to)).transpose()
    }
}

/// Number of items per read in a search for one.
const ITEMS_AT_ONCE: usize = 16;

/// Returns the day of the first item of a query for projections, or for segments of the wanted kinds.
async fn end_of(
    table: &dyn table::Table,
    query: table::Query,
    is_wanted: impl Fn(Kind) -> bool,
) -> Result<Option<Day>> {
    let query = query.limit(ITEMS_AT_ONCE).only(&["v"]);
    let mut pages = table::Pages::of(table, query);
    while let Some(items) = pages.next().await? {
        for item in &items {
            match key::parse_segment(&item.key) {
                Some((log, _)) if is_wanted(log.kind) => return Ok(Some(log.day)),
                Some(_) => {}
                None => return key::parse_projection(&item.key).map(|(day, _)| Some(day)),
            }
        }
    }
    Ok(None)
}
