//! Spans during which each release was live in an environment, as known now or at another time.

use std::collections::{BTreeMap, btree_map::Entry};

use event::{Day, Error, Id, Kind, Result, Timestamp, id};
use log::{key, segment_item::Segment};
use table::{Item, Query, query_all};

use super::{
    Catalog,
    live::{ITEM_VERSION, LiveState, ReleaseChange},
};

/// Spans by release, each with its beginning and end; without an end it is still live.
pub type LiveSpans = BTreeMap<String, Vec<(Timestamp, Option<Timestamp>)>>;

/// Attributes read of a change: all but the live state after it.
const READ: [&str; 7] = ["v", "at", "what", "about", "model", "environment", "note"];

impl Catalog {
    /// Reads the spans of each release in an environment, up to an instant: one query. Spans as known at another time come from
    /// the release events appended by then, which takes one more query for each day with changes.
    ///
    /// # Errors
    /// `Invalid`, when nothing was ever live there, naming the existing environments; those of the table.
    pub async fn live_spans(
        &self,
        workspace: &Id,
        environment: &str,
        until: Timestamp,
        known_by: Option<Timestamp>,
    ) -> Result<LiveSpans> {
        id::check_name(environment)?;
        let range = key::live_changes_until(workspace, environment, until);
        let items = query_all(&*self.table, Query::table(range).only(&READ)).await?;
        let mut changes: Vec<ReleaseChange> =
            items.iter().map(|item| item.to_record(ITEM_VERSION)).collect::<Result<_>>()?;
        if changes.is_empty() {
            self.check_environment(workspace, environment).await?;
        }
        if let Some(instant) = known_by {
            changes = self.known_changes(workspace, changes, instant).await?;
        }
        let (mut state, mut spans) = (LiveState::new(), LiveSpans::new());
        for change in &changes {
            let before = state.get(&change.model).map(|live| live.release.clone());
            change.apply(&mut state);
            let after = state.get(&change.model).map(|live| live.release.clone());
            if before == after {
                continue;
            }
            let span = before.and_then(|release| spans.get_mut(&release)?.last_mut());
            if let Some((_, end)) = span {
                *end = Some(change.at);
            }
            if let Some(release) = after {
                spans.entry(release).or_default().push((change.at, None));
            }
        }
        Ok(spans)
    }

    /// Checks that a release was live in an environment at any time.
    async fn check_environment(&self, workspace: &Id, environment: &str) -> Result<()> {
        let there = self.live_now(workspace).await?;
        if there.contains_key(environment) {
            return Ok(());
        }
        let names = there.into_keys().collect::<Vec<_>>().join(", ");
        let there = if names.is_empty() { "there is none yet".into() } else { format!("there are {names}") };
        Err(Error::invalid(format!("there is no environment `{environment}`; {there}")))
    }

    /// Keeps the changes whose events had been appended by an instant.
    async fn known_changes(
        &self,
        workspace: &Id,
        changes: Vec<ReleaseChange>,
        instant: Timestamp,
    ) -> Result<Vec<ReleaseChange>> {
        let mut appended = BTreeMap::<Day, Vec<(ReleaseChange, Timestamp)>>::new();
        let mut known = Vec::new();
        for change in changes {
            let day = change.at.day();
            if let Entry::Vacant(entry) = appended.entry(day) {
                entry.insert(self.appended_changes(workspace, day).await?);
            }
            let same = |(other, _): &&(ReleaseChange, Timestamp)| {
                let name = |change: &ReleaseChange| {
                    (change.at, change.action, change.release.clone(), change.environment.clone())
                };
                name(other) == name(&change)
            };
            let times = appended[&day].iter().filter(same).map(|(_, appended_at)| *appended_at);
            if times.min().is_some_and(|appended_at| appended_at <= instant) {
                known.push(change);
            }
        }
        Ok(known)
    }

    /// Reads the release events of a day, and the times at which they were appended.
    async fn appended_changes(&self, workspace: &Id, day: Day) -> Result<Vec<(ReleaseChange, Timestamp)>> {
        let range = key::segments_of_kind(workspace, day, Kind::Releases);
        let of_item = |item: Item| {
            let segment = Segment::from_item(item)?;
            let changes = ReleaseChange::of(&segment.unpack(|_| true)?)?;
            Ok(changes.into_iter().map(move |change| (change, segment.appended_at)))
        };
        let found = query_all(&*self.table, Query::table(range)).await?.into_iter().map(of_item);
        Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}
