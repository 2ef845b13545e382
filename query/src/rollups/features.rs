//! The daily rollups by feature, which are stored in a partition of their own.

use std::{collections::BTreeMap, sync::Arc};

use event::{Day, Error, Id, Result};
use fold::{
    Rollup,
    rollup::{Feature, FeatureNumbers, Headline, Part},
};
use futures::future::try_join_all;
use log::{
    active::of_active,
    key::{self, Breakdown, By, Projection},
    projection::Projected,
};
use table::{Item, Key, KeyRange, Query, Table};

use super::{DayParts, Metrics, OTHERS, others};
use crate::{budget::Hold, request::Request, series::held_items};

/// Number of items read at once by their keys.
const READS_AT_ONCE: usize = 16;

/// Reads the breakdowns by feature of a window, or those of one feature; the rollup of a day only counts its predictions.
pub(super) async fn stored(
    table: &Arc<dyn Table>,
    workspace: &Id,
    (request, feature): (&Request, Option<&str>),
    hold: &Hold,
) -> Result<BTreeMap<Day, DayParts>> {
    let (from, to) = (request.window.from(), request.window.to());
    let read = |version| {
        let range = key::features_between(workspace, version, from, to);
        read(table, (workspace, version), range, feature, hold)
    };
    of_active(&**table, workspace, read).await.map(|(_, days)| days)
}

async fn read(
    table: &Arc<dyn Table>,
    (workspace, version): (&Id, u32),
    range: KeyRange,
    feature: Option<&str>,
    hold: &Hold,
) -> Result<BTreeMap<Day, DayParts>> {
    let mut days = BTreeMap::<Day, DayParts>::new();
    let wanted = feature.map(|name| Breakdown::of(By::Feature, name));
    let mut query = Query::table(range);
    if wanted.is_some() {
        // Lists the days only; then one item of each is read.
        query = query.only(&["v"]);
    }
    for item in held_items(table, query, hold).await? {
        let (day, found) = key::parse_projection(&item.key)?;
        if let Projection::Breakdown(one) = found {
            let (_, parts) = days.entry(day).or_default();
            if wanted.is_none() {
                parts.insert(one, part(&item, day)?);
            }
        }
    }
    let all: Vec<Day> = days.keys().copied().collect();
    for some in all.chunks(READS_AT_ONCE) {
        let heads = get(table, some.iter().map(|day| key::features(workspace, version, *day)), hold).await?;
        for (day, item) in some.iter().zip(heads) {
            let wrong = |error| Error::corrupt(format!("{day}: {error}"));
            let state = item.as_ref().map(Projected::from_item).transpose()?.map(|stored| stored.state);
            let rollup = state.map(|state| Rollup::from_state(&state)).transpose().map_err(wrong)?;
            days.entry(*day).or_default().0 = rollup;
        }
        let Some(wanted) = wanted else { continue };
        let keys = some.iter().map(|day| key::breakdown(workspace, version, *day, wanted));
        for (day, item) in some.iter().zip(get(table, keys, hold).await?) {
            if let Some(item) = item {
                days.entry(*day).or_default().1.insert(wanted, part(&item, *day)?);
            }
        }
    }
    Ok(days)
}

async fn get(
    table: &Arc<dyn Table>,
    keys: impl Iterator<Item = Key>,
    hold: &Hold,
) -> Result<Vec<Option<Item>>> {
    let keys: Vec<Key> = keys.collect();
    let items = try_join_all(keys.iter().map(|key| table.get(key))).await?;
    hold.take(items.iter().flatten().map(|item| item.size() as u64).sum()).await?;
    Ok(items)
}

fn part(item: &Item, day: Day) -> Result<Part> {
    let state = Projected::from_item(item)?.state;
    Part::from_state(By::Feature, &state).map_err(|error| Error::corrupt(format!("{day}: {error}")))
}

/// Builds a row for each feature and release, or for those of one `feature`. Features that did not fit are only counted.
pub(super) fn rows((counted, parts): &DayParts, feature: &str) -> Vec<Metrics> {
    let parts = parts.values().filter_map(|part| match part {
        Part::Feature(part) => Some(part),
        _ => None,
    });
    let (mut rows, mut rest) = (BTreeMap::<&str, Vec<Metrics>>::new(), 0);
    let heads = counted.as_ref().map(|counted| &counted.predictions.releases);
    for part in parts {
        let is_wanted = |name: &str| feature.is_empty() || name == feature;
        for (name, found) in part.features.names().iter().filter(|(name, _)| is_wanted(name)) {
            let predictions = |release: &str| heads.and_then(|heads| heads.get(release)).map(|head| head.n);
            rows.insert(name, rows_of_feature(name, found, predictions));
        }
        if part.features.others().is_some() {
            rest += others(&part.features);
        }
    }
    let rest = (rest > 0).then(|| Metrics::default().text("feature", OTHERS).count("names", rest));
    rows.into_values().flatten().chain(rest).collect()
}

fn rows_of_feature(name: &str, feature: &Feature, predictions: impl Fn(&str) -> Option<u64>) -> Vec<Metrics> {
    let row = |release: &str, names: u64, numbers: &FeatureNumbers| {
        let metrics = Metrics::default().text("feature", name).text("release", release);
        let mut metrics = metrics.count("names", names);
        metrics.numbers("value", &numbers.numbers);
        metrics.quantiles("value", |q| numbers.quantile(q));
        if let Some(n) = predictions(release) {
            let head = Headline { n, ..Headline::default() };
            metrics.number("value_null_rate".into(), head.null_rate(Some(&numbers.numbers)));
            metrics = metrics.count("predictions", n);
        }
        metrics
    };
    let releases = feature.releases.names().iter();
    let releases = releases.filter_map(|(release, numbers)| Some(row(release, 1, numbers.as_ref()?)));
    let rest = feature.releases.others().and_then(Option::as_ref);
    let rest = rest.map(|numbers| row(OTHERS, others(&feature.releases), numbers));
    releases.chain(rest).collect()
}
