//! Keeps the leaderboard: the live releases of a workspace, each with its primary metric on the latest day
//! on which it was judged by it ([`store::catalog::RankedRelease`]).
//!
//! Of several projectors that do so at one time the last write holds; the next evaluation, release event
//! or sweep puts right what it did not know.

use std::collections::BTreeMap;

use fold::Evaluation;
use store::{
    Day, Error, Id, Result, Table, active,
    catalog::{Catalog, PrimaryMetric, Ranked},
    evaluated::{self, At},
    key,
    table::Query,
};

/// How many days before the latest one that is projected are looked at for an evaluation of a release.
pub const BOARD_DAYS: usize = 31;

/// Brings the leaderboard of a workspace up to date. When nothing is live and nothing ranked, it reads
/// what is set and what is live; else the releases, and evaluations from the latest day backwards
/// until every live release was judged.
///
/// # Errors
/// Those of the table, and `Corrupt`.
pub async fn refresh(table: &dyn Table, catalog: &Catalog, workspace: &Id) -> Result<()> {
    let Some(primary) = catalog.settings(workspace).await?.primary_metric else {
        return clear(catalog, workspace).await;
    };
    let mut live = BTreeMap::<String, Vec<String>>::new();
    for (environment, state) in catalog.live_now(workspace).await? {
        for release in state.into_values() {
            live.entry(release.release).or_default().push(environment.clone());
        }
    }
    let values = values(table, workspace, &primary, live.keys().cloned().collect()).await?;
    for release in catalog.ranks(workspace).await? {
        let found = values.get(&release.release).zip(live.get(&release.release));
        let ranked = found.map(|((day, value), environments)| Ranked {
            metric: primary.metric.name().to_owned(),
            value: *value,
            day: *day,
            environments: environments.clone(),
        });
        catalog.rank(workspace, &release, ranked.as_ref().map(|ranked| (ranked, &primary))).await?;
    }
    Ok(())
}

/// Takes off the board what is on it from the time when there was a primary metric.
async fn clear(catalog: &Catalog, workspace: &Id) -> Result<()> {
    for release in catalog.leaderboard(workspace, store::catalog::MAX_BOARD).await? {
        catalog.rank(workspace, &release, None).await?;
    }
    Ok(())
}

/// The latest value of each of `wanted`, and its day.
async fn values(
    table: &dyn Table,
    workspace: &Id,
    primary: &PrimaryMetric,
    mut wanted: Vec<String>,
) -> Result<BTreeMap<String, (Day, f64)>> {
    let mut values = BTreeMap::new();
    let version = active::load(table, workspace).await?.version;
    let latest = Query::table(key::all_projections(workspace, version)).backward().limit(1).only(&["v"]);
    let Some(latest) = table.query(&latest).await?.items.pop() else { return Ok(values) };
    let (latest, _) = key::parse_projection(&latest.key)?;
    let mut day = latest;
    for _ in 0..BOARD_DAYS {
        if wanted.is_empty() {
            break;
        }
        let at = At { workspace, version, day };
        if let Some((_, states)) = evaluated::load(table, at).await? {
            let evaluation = Evaluation::from_states(&states);
            let evaluation =
                evaluation.map_err(|error| Error::corrupt(format!("item {}: {error}", at.key())))?;
            wanted.retain(|release| {
                let judged = evaluation.releases.get(release);
                match judged.and_then(|judged| judged.figure(primary.metric)) {
                    Some(value) => values.insert(release.clone(), (day, value)).is_some(),
                    None => true,
                }
            });
        }
        day = day.start().plus_seconds(-1).day();
    }
    Ok(values)
}
