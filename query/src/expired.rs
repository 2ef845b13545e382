//! Expired days, whose events an answer lacks.

use std::collections::BTreeSet;

use catalog::Kept;
use event::{Day, Id, Kind, Result, Window};
use log::{active, key};
use table::{Query as TableQuery, query_all};

use crate::{
    Query,
    read::Reading,
    request::{Dataset, Request},
};

/// Returns true if the answer is made of events that may expire. Release events never do.
pub(crate) fn may_expire(what: Dataset) -> bool {
    matches!(what, Dataset::Joined) || matches!(what, Dataset::Events(kind) if kind != Kind::Releases)
}

impl Query {
    /// Describes the expired ones among some days by their number and the last of them; `None` if there are none. A day that was
    /// never folded had no events.
    pub(crate) async fn expired(
        &self,
        workspace: &Id,
        kept: &Kept,
        days: impl Iterator<Item = Day>,
    ) -> Result<Option<String>> {
        let gone: BTreeSet<Day> = days.filter(|day| !kept.keeps(*day)).collect();
        let (Some(first), Some(last)) = (gone.first(), gone.last()) else { return Ok(None) };
        let version = active::load(&*self.table, workspace).await?.version;
        let range = key::projections(workspace, version, *first, *last);
        let items = query_all(&*self.table, TableQuery::table(range).only(&["v"])).await?;
        let folded = items.iter().filter_map(|item| key::parse_projection(&item.key).ok());
        let lacking: BTreeSet<Day> = folded.map(|(day, _)| day).filter(|day| gone.contains(day)).collect();
        Ok(in_words(lacking.into_iter()))
    }

    /// Warns of the expired days of a reading of events that the answer lacks.
    pub(crate) async fn warn_of_expired_events(&self, reading: &Reading, request: &Request) -> Result<()> {
        if may_expire(request.what)
            && let Some(expired) =
                self.expired(&reading.workspace, &reading.kept, reading.window.days()).await?
        {
            reading.warn(warning(&expired));
        }
        Ok(())
    }
}

/// Describes expired days by their number and the last of them; `None` if there are none.
fn in_words(expired: impl Iterator<Item = Day>) -> Option<String> {
    let (count, last) = expired.map(|day| (1, day)).reduce(|(count, _), (one, day)| (count + one, day))?;
    Some(format!("the events of {count} of the days, up to {last},"))
}

/// Returns the warning that an answer lacks expired days.
pub(crate) fn warning(expired: &str) -> String {
    format!("{expired} have expired and are not in the answer")
}

impl Reading {
    /// Warns of expired events of a window, which are missing from metrics made of the logs.
    pub(crate) fn warn_of_expired(&self, window: Window) {
        if let Some(expired) = in_words(window.days().filter(|day| !self.kept.keeps(*day))) {
            self.warn(warning(&expired));
        }
    }
}
