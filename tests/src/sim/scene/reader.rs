//! A reader of rollups.

use std::collections::BTreeSet;

use event::{Day, Result};
use log::{
    active, key,
    projection::{Applied, Projected},
};
use table::{Query, query_all};

use super::Scene;

/// A version, and what its rollups cover.
type Seen = (u32, Vec<(Day, Applied)>);

impl Scene {
    /// A reader never sees less of a version than a reader before it.
    pub(super) async fn query(&mut self) {
        let (_, table) = self.table("reader");
        let read = async || -> Result<Option<Seen>> {
            let version = active::load(&*table, &self.workspace).await?.version;
            let range = key::all_projections(&self.workspace, version);
            let mut found = Vec::new();
            for item in query_all(&*table, Query::table(range)).await? {
                if let (day, key::Projection::Rollup) = key::parse_projection(&item.key)? {
                    found.push((day, Projected::from_item(&item)?.applied));
                }
            }
            let is_still = active::load(&*table, &self.workspace).await?.version == version;
            Ok(is_still.then_some((version, found)))
        };
        let Ok(Some((version, found))) = read().await else { return };
        let days: BTreeSet<Day> = found.iter().map(|(day, _)| *day).collect();
        let is_gone = |(of, day): &&(u32, Day)| *of == version && !days.contains(day);
        if let Some((_, day)) = self.seen.keys().find(is_gone) {
            self.violated(format!("the rollup of {day} was there and is gone"));
        }
        for (day, applied) in found {
            let before = self.seen.insert((version, day), applied.clone()).unwrap_or_default();
            if before.iter().any(|(log, seq)| applied.get(log).is_none_or(|now| now < seq)) {
                self.violated(format!(
                    "a reader of {day} sees less than one before: {before:?}, {applied:?}"
                ));
            }
        }
    }
}
