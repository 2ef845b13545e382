//! What the rollups of each day say of the columns of its predictions, for drift.

use std::collections::BTreeMap;

use event::{Day, Error, Id, Kind, Result, Window};
use fold::{Rollup, drift::Profile, rollup::Part};
use log::{
    key::{self, Projection},
    projection::Projected,
};
use table::{Item, Query};

/// The queries that read the rollups of a window with all their parts: two ranges.
pub fn profile_queries(workspace: &Id, version: u32, window: Window) -> [Query; 2] {
    let (from, to) = (window.from(), window.to());
    [
        Query::table(key::projections(workspace, version, from, to)),
        Query::table(key::features_between(workspace, version, from, to)),
    ]
}

/// What the items of projections say of each day: of a release, or of all.
///
/// # Errors
/// `Corrupt`.
pub fn profiles(items: &[Item], release: Option<&str>) -> Result<BTreeMap<Day, Profile>> {
    let mut days = BTreeMap::<Day, Profile>::new();
    for item in items {
        let (day, found) = key::parse_projection(&item.key)?;
        let wrong = |error| Error::corrupt(format!("{day}: {error}"));
        match found {
            Projection::Breakdown(breakdown) if breakdown.by != key::By::Metric => {
                let state = Projected::from_item(item)?.state;
                let part = Part::from_state(breakdown.by, &state).map_err(wrong)?;
                days.entry(day).or_default().add(&part, release);
            }
            Projection::Features => {
                let head = Rollup::from_state(&Projected::from_item(item)?.state).map_err(wrong)?;
                days.entry(day).or_default().features_are_of(match release {
                    None => head.events(Kind::Predictions),
                    Some(name) => head.predictions.releases.get(name).map_or(0, |head| head.n),
                });
            }
            Projection::Rollup
            | Projection::Breakdown(_)
            | Projection::Evaluation
            | Projection::EvaluationPart(..) => {}
        }
    }
    Ok(days)
}
