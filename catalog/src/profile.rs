//! Profiles of the columns of each day's predictions, from the rollups, for drift.

use std::collections::BTreeMap;

use event::{Day, Error, Id, Kind, Result, Window};
use fold::{Rollup, drift::Profile, rollup::Part};
use log::{
    key::{self, Projection},
    projection::Projected,
};
use table::{Item, Query};

/// Queries that read the rollups of a window with all their parts: two ranges.
pub fn profile_queries(workspace: &Id, version: u32, window: Window) -> [Query; 2] {
    let (from, to) = (window.from(), window.to());
    [
        Query::table(key::projections(workspace, version, from, to)),
        Query::table(key::features_between(workspace, version, from, to)),
    ]
}

/// Computes the profile of each day from items of projections: of a release, or of all. A day without a head of features has no
/// features: all its predictions lack each. That holds if the rollups were read before the features, since the head is put before
/// the rollup covers the first segment with features.
///
/// # Errors
/// `Corrupt`.
pub fn profiles(items: &[Item], release: Option<&str>) -> Result<BTreeMap<Day, Profile>> {
    let mut days = BTreeMap::<Day, Profile>::new();
    let (mut rollups, mut features) = (BTreeMap::new(), BTreeMap::new());
    for item in items {
        let (day, found) = key::parse_projection(&item.key)?;
        let state = || Ok::<_, Error>(Projected::from_item(item)?.state);
        match found {
            Projection::Breakdown(breakdown) if breakdown.by != key::By::Metric => {
                let part = Part::from_state(breakdown.by, &state()?);
                days.entry(day).or_default().add(&part.map_err(|error| wrong(day, error))?, release);
            }
            Projection::Features => _ = features.insert(day, state()?),
            Projection::Rollup => _ = rollups.insert(day, state()?),
            Projection::Breakdown(_) | Projection::Evaluation | Projection::EvaluationPart(..) => {}
        }
    }
    let head = |day: Day, state: &str| Rollup::from_state(state).map_err(|error| wrong(day, error));
    for (day, profile) in &mut days {
        let all = profile.predictions();
        let Some(features) = features.get(day).map(|state| head(*day, state)).transpose()? else {
            profile.features_are_of(all);
            continue;
        };
        let of_all = features.events(Kind::Predictions);
        let releases = &features.predictions.releases;
        profile.features_are_of(match release.map(|name| releases.get(name)) {
            None => of_all,
            Some(Some(of_release)) => of_release.n,
            Some(None) if releases.others().is_none() => 0,
            // The release is merged into the rest of the head. Its number is known if the features are of all predictions.
            Some(None) => match rollups.get(day).map(|state| head(*day, state)).transpose()? {
                Some(rollup) if rollup.events(Kind::Predictions) == of_all => all,
                _ => 0,
            },
        });
    }
    Ok(days)
}

fn wrong(day: Day, error: fold::FoldError) -> Error {
    Error::corrupt(format!("{day}: {error}"))
}
