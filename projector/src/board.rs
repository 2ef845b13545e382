//! Keeps the leaderboard: the live releases of a workspace, each with its primary metric over the last days on
//! which any of them was judged by it ([`catalog::RankedRelease`]).
//!
//! Of several projectors that do so at one time the last write holds; the next evaluation, release event
//! or sweep puts right what it did not know.

use std::collections::BTreeMap;

use catalog::{Catalog, PrimaryMetric, Ranked};
use event::{Day, Id, Result};
use fold::Windowed;
use log::active;
use table::Table;

use crate::recent::Recent;

/// How many days before the latest one that is projected are looked at for an evaluation of a release.
pub const BOARD_DAYS: usize = 31;

/// Brings the leaderboard of a workspace up to date. When nothing is live and nothing ranked, it reads
/// what is set and what is live; else the releases, and evaluations from the latest day backwards
/// until every live release was judged.
///
/// # Errors
/// Those of the table, and `Corrupt`.
pub async fn refresh(table: &dyn Table, catalog: &Catalog, workspace: &Id) -> Result<()> {
    let settings = catalog.settings(workspace).await?;
    let Some(primary) = &settings.primary_metric else {
        return clear(catalog, workspace).await;
    };
    let mut live = BTreeMap::<String, Vec<String>>::new();
    for (environment, state) in catalog.live_now(workspace).await? {
        for release in state.into_values() {
            live.entry(release.release).or_default().push(environment.clone());
        }
    }
    let values =
        values(table, workspace, primary, &live.keys().cloned().collect::<Vec<_>>(), settings.days()).await?;
    for release in catalog.ranks(workspace).await? {
        let found = values.get(&release.release).zip(live.get(&release.release));
        let ranked = found.and_then(|((day, window), environments)| {
            Some(Ranked {
                metric: primary.metric.name().to_owned(),
                value: window.value()?,
                day: (*day)?,
                days: window.days(),
                n: window.n(),
                is_ranked: window.n() >= settings.min_n(),
                environments: environments.clone(),
            })
        });
        catalog.rank(workspace, &release, ranked.as_ref().map(|ranked| (ranked, primary))).await?;
    }
    Ok(())
}

/// Takes off the board what is on it from the time when there was a primary metric.
async fn clear(catalog: &Catalog, workspace: &Id) -> Result<()> {
    for release in catalog.leaderboard(workspace, catalog::MAX_BOARD).await? {
        catalog.rank(workspace, &release, None).await?;
    }
    Ok(())
}

/// The primary metric of each of the `wanted` releases over the days of the window, and the last day on which it is
/// defined. The window ends with the latest day on which it is defined for any of them.
async fn values(
    table: &dyn Table,
    workspace: &Id,
    primary: &PrimaryMetric,
    wanted: &[String],
    days: u32,
) -> Result<BTreeMap<String, (Option<Day>, Windowed)>> {
    let mut values = BTreeMap::<String, (Option<Day>, Windowed)>::new();
    if wanted.is_empty() {
        return Ok(values);
    }
    let version = active::load(table, workspace).await?.version;
    let Some(mut recent) = Recent::of(table, version, workspace).await? else { return Ok(values) };
    let (mut left, mut looked_at) = (days, 0);
    while left > 0 && looked_at < BOARD_DAYS {
        let day = recent.step_back();
        if let Some(evaluation) = recent.evaluation(day).await? {
            let judged: Vec<_> =
                wanted.iter().filter_map(|name| Some((name, evaluation.releases.get(name)?))).collect();
            // The window begins with the first day on which the figure is defined for any of them.
            if !values.is_empty() || judged.iter().any(|(_, of)| primary.metric.of(of).is_some()) {
                for (name, of) in judged {
                    let (last, window) = values
                        .entry(name.clone())
                        .or_insert_with(|| (None, Windowed::new(primary.metric.clone())));
                    window.add(of);
                    *last = last.or(primary.metric.of(of).map(|_| day));
                }
            }
        }
        if values.is_empty() { looked_at += 1 } else { left -= 1 }
    }
    Ok(values)
}
