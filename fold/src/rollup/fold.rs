//! From the columns of one segment to the rollup of that segment.

use store::Columns;

use super::{
    breakdown::Breakdown,
    groups::{Pairs, count, numbers, score_bins},
    parts::{
        Labels, MetricRollup, OutcomeRollup, PredictionRollup, ReleasePredictions, ReleaseRollup, Series,
    },
};
use crate::{
    Result,
    read::{Codes, floats, required_floats, required_texts, required_times, texts},
};

pub(super) fn predictions(columns: &Columns) -> Result<PredictionRollup> {
    let releases = required_texts(columns, "release")?.codes();
    let label = optional_codes(columns, "label")?;
    let (score, value) = (floats(columns, "score")?, floats(columns, "value")?);
    let counts = count(&releases.codes, releases.len());
    let scores = numbers(&releases, score);
    let bins = score_bins(&releases, score);
    let values = numbers(&releases, value);
    let labels = labels_by(&releases, &label);
    let mut rollup = PredictionRollup { n: columns.rows as u64, releases: Breakdown::default() };
    let groups = counts.into_iter().zip(scores).zip(bins).zip(values).zip(labels);
    for (name, ((((n, score), score_bins), value), labels)) in releases.names.iter().zip(groups) {
        // A dictionary may hold strings that no row uses.
        if n > 0 {
            rollup.releases.add(name, ReleasePredictions { n, score, score_bins, labels, value });
        }
    }
    Ok(rollup)
}

pub(super) fn outcomes(columns: &Columns) -> Result<OutcomeRollup> {
    let all = Codes::null(columns.rows);
    let label = optional_codes(columns, "label")?;
    let value = floats(columns, "value")?;
    let labels = labels_by(&all, &label).pop().unwrap_or_default();
    let value = numbers(&all, value).pop().flatten();
    Ok(OutcomeRollup { n: columns.rows as u64, labels, value })
}

pub(super) fn metrics(columns: &Columns) -> Result<MetricRollup> {
    let names = required_texts(columns, "name")?.codes();
    let times = required_times(columns, "measured_at")?;
    let values = required_floats(columns, "value")?;
    let releases = optional_codes(columns, "release")?;
    let pairs = Pairs::new(&names, &releases);
    let mut series = vec![Series::empty(); pairs.pairs.len()];
    for ((&pair, &at), &value) in pairs.codes.iter().zip(times).zip(values) {
        series[pair as usize].add(at, value);
    }
    let mut rollup = MetricRollup { n: columns.rows as u64, names: Breakdown::default() };
    for (&(name, release), series) in pairs.pairs.iter().zip(series) {
        let release = releases.names.get(release as usize).copied().unwrap_or("");
        let mut of_release = Breakdown::default();
        of_release.add(release, series);
        rollup.names.add(names.names[name as usize], of_release);
    }
    Ok(rollup)
}

pub(super) fn releases(columns: &Columns) -> Result<ReleaseRollup> {
    let releases = required_texts(columns, "release")?.codes();
    let actions = required_texts(columns, "action")?.codes();
    let mut rollup = ReleaseRollup { n: columns.rows as u64, releases: Breakdown::default() };
    for (name, labels) in releases.names.iter().zip(labels_by(&releases, &actions)) {
        if labels.n > 0 {
            rollup.releases.add(name, labels);
        }
    }
    Ok(rollup)
}

fn optional_codes<'a>(columns: &'a Columns, name: &'static str) -> Result<Codes<'a>> {
    Ok(texts(columns, name)?.map_or_else(|| Codes::null(columns.rows), |texts| texts.codes()))
}

/// How often each label occurs in each group; nulls are no labels.
fn labels_by(groups: &Codes<'_>, labels: &Codes<'_>) -> Vec<Labels> {
    let mut counts = vec![Labels::default(); groups.len()];
    for ((group, label), n) in Pairs::new(groups, labels).counts() {
        if let Some(label) = labels.names.get(label as usize) {
            counts[group as usize].add(label, n);
        }
    }
    counts
}
