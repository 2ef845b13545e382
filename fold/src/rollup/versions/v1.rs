//! Version 1 had no parts of breakdowns. The rollup held all releases and metrics by name, or `null` where there were too
//! many, and of numbers no sums of squares, so there is no deviation of them.
//!
//! What it did not count reads as 0: outcomes that name an instant, release changes that name a configuration or an
//! environment; and labels of predictions where the releases are `null`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::rollup::{Bins, Headline, Merge, NumberRollup, SCORE_BINS};

/// Values by name; none, when there were too many names.
type Names<V> = Option<BTreeMap<String, V>>;

#[derive(Deserialize)]
struct Rollup {
    predictions: OfReleases<Predictions>,
    outcomes: Outcomes,
    metrics: Metrics,
    releases: OfReleases<Labels>,
}

#[derive(Deserialize)]
struct OfReleases<V> {
    n: u64,
    releases: Names<V>,
}

#[derive(Deserialize)]
struct Predictions {
    n: u64,
    score: Option<Numbers>,
    score_bins: [u64; SCORE_BINS],
    labels: Labels,
    value: Option<Numbers>,
}

#[derive(Deserialize)]
struct Labels {
    n: u64,
    counts: Names<u64>,
}

#[derive(Deserialize)]
struct Numbers {
    n: u64,
    sum: String,
    min: f64,
    max: f64,
}

#[derive(Deserialize)]
struct Outcomes {
    n: u64,
    labels: Labels,
    value: Option<Numbers>,
}

#[derive(Deserialize)]
struct Metrics {
    n: u64,
    names: Names<Names<Series>>,
}

#[derive(Deserialize)]
struct Series {
    numbers: Numbers,
}

impl Numbers {
    /// Version 1 had sums of any length. One that does not fit the sums of today is left out.
    fn upgrade(&self) -> Result<NumberRollup, String> {
        let Self { n, sum, min, max } = self;
        let with = |sum: Option<&str>| {
            serde_json::from_value(json!({"n": n, "sum": sum, "squares": null, "min": min, "max": max}))
        };
        with(Some(sum)).or_else(|_| with(None)).map_err(|error| error.to_string())
    }
}

impl Predictions {
    fn headline(&self) -> Result<Headline, String> {
        let numbers = |of: &Option<Numbers>| of.as_ref().map(Numbers::upgrade).transpose();
        let (score, value) = (numbers(&self.score)?, numbers(&self.value)?);
        Ok(Headline { n: self.n, labelled: self.labels.n, score, value, latency: None })
    }
}

/// Adds up what is known by name.
fn summed<'a>(counts: impl Iterator<Item = (&'a String, u64)>) -> Value {
    let mut sums = BTreeMap::<&str, u64>::new();
    counts.for_each(|(name, n)| *sums.entry(name).or_default() += n);
    json!({ "names": sums })
}

fn counts(labels: &Labels) -> impl Iterator<Item = (&String, u64)> {
    labels.counts.iter().flatten().map(|(label, n)| (label, *n))
}

/// The rollup as version 2 wrote it.
pub(super) fn rollup(state: Value) -> Result<Value, String> {
    let old: Rollup = serde_json::from_value(state).map_err(|error| error.to_string())?;
    let (mut total, mut bins) = (Headline::default(), Bins::default());
    // What does not fit is left out when version 2 is read.
    let mut releases = BTreeMap::<&str, Headline>::new();
    for (name, of) in old.predictions.releases.iter().flatten() {
        let head = of.headline()?;
        total.merge(&head);
        bins.merge(&Bins(of.score_bins));
        releases.insert(name, head);
    }
    total.n = old.predictions.n;
    let value = old.outcomes.value.as_ref().map(Numbers::upgrade).transpose()?;
    let series = || {
        old.metrics.names.iter().flatten().flat_map(|(name, releases)| {
            releases.iter().flatten().map(move |(release, series)| (name, release, series.numbers.n))
        })
    };
    let of_releases = series().filter(|(_, release, _)| !release.is_empty());
    let actions = old.releases.releases.iter().flatten().flat_map(|(_, labels)| counts(labels));
    Ok(json!({
        "predictions": {"total": total, "score_bins": bins, "releases": {"names": releases}},
        "outcomes": {
            "n": old.outcomes.n,
            "with_instant": 0,
            "labelled": old.outcomes.labels.n,
            "labels": summed(counts(&old.outcomes.labels)),
            "value": value,
        },
        "metrics": {
            "n": old.metrics.n,
            "with_release": of_releases.map(|(.., n)| n).sum::<u64>(),
            "names": summed(series().map(|(name, _, n)| (name, n))),
        },
        "releases": {
            "n": old.releases.n,
            "with_configuration": 0,
            "with_environment": 0,
            "actions": summed(actions),
        },
    }))
}
