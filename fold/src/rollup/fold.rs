//! Folding of the columns of one segment into its contribution to the projections of its day.

use std::collections::BTreeMap;

use event::{
    Columns, Kind,
    fields::TAG_PREFIX,
    lane::{Breakdown, By, LogPosition},
};

use super::{
    Delta, Part, Rollup,
    bounded::Merge,
    feature::Feature,
    groups::{Admitted, Pairs, beyond, count, counts, distributions, labels_by, score_bins, sketches},
    logged::{LoggedMetricRollup, Series},
    numbers::Headline,
    parts::{MetricRollup, OutcomeRollup, PredictionRollup, ReleaseRollup},
    release::{ReleaseCounts, ReleaseDetail},
    sums::numbers,
    tag::{
        TAG_COUNTS_BUDGET, TAG_HEADS_BUDGET, TAG_SCORES_BUDGET, TAG_SKETCH_LEVEL, TagCounts, TagScores,
        TagValues,
    },
};
use crate::{
    EventPlace, LogSegment, Result,
    read::{Codes, Numbers, Texts, floats, measured, present, required_texts, required_times, texts},
    sketch::Floored,
};

/// Folds a segment of a kind.
pub(super) fn segment(kind: Kind, LogSegment { place, columns }: LogSegment<'_>) -> Result<Delta> {
    let mut delta = Delta::default();
    if columns.rows > 0 {
        match kind {
            Kind::Predictions => predictions(columns, &mut delta)?,
            Kind::Outcomes => outcomes(columns, &mut delta.rollup)?,
            Kind::Metrics => metrics(place, columns, &mut delta)?,
            Kind::Releases => releases(columns, &mut delta)?,
            // Counted as an outcome on the day that it labels, once that is found.
            Kind::Unmatched => {}
        }
    }
    Ok(delta)
}

fn predictions(columns: &Columns, delta: &mut Delta) -> Result<()> {
    let releases = required_texts(columns, "release")?.codes();
    let label = optional_codes(columns, "label")?;
    let (score, value) = (floats(columns, "score")?, floats(columns, "value")?);
    let latency = floats(columns, "latency_ms")?;
    let (codes, groups) = (&releases.codes, releases.len());
    let ns = count(codes, groups);
    let mut labels = labels_by(&releases, &label);
    let mut scores = distributions(codes, groups, score);
    let bins = score_bins(codes, groups, score);
    let mut values = distributions(codes, groups, value);
    let mut latencies = distributions(codes, groups, latency);
    let mut rollup = PredictionRollup::default();
    for (at, name) in releases.names.iter().enumerate() {
        // A dictionary may hold strings that no row uses.
        if ns[at] == 0 {
            continue;
        }
        let (labelled, labels) = std::mem::take(&mut labels[at]);
        let detail = ReleaseDetail {
            n: ns[at],
            labelled,
            score: scores[at].take(),
            score_bins: bins[at],
            value: values[at].take(),
            latency: latencies[at].take(),
            labels,
            ..ReleaseDetail::default()
        };
        rollup.releases.add(name, &detail.headline());
        rollup.total.merge(&detail.headline());
        rollup.score_bins.merge(&detail.score_bins);
        release(delta, name, &ReleaseCounts::new(Kind::Predictions, ns[at]), Some(&detail));
    }
    delta.rollup.predictions = rollup;
    let has_tag = columns.columns.iter().any(|column| column.name.starts_with(TAG_PREFIX));
    let floored = score.filter(|_| has_tag).map(|score| Floored::new(score.values, TAG_SKETCH_LEVEL));
    let by_tag = ByTag { label: &label, score, value, latency, floored };
    tags(columns, delta, |tag| by_tag.values(tag))
}

/// Folds the features of a segment.
pub(super) fn features(kind: Kind, columns: &Columns) -> Result<Delta> {
    let mut delta = Delta::default();
    if columns.rows == 0 || kind != Kind::Predictions {
        return Ok(delta);
    }
    let releases = required_texts(columns, "release")?.codes();
    let (codes, groups) = (&releases.codes, releases.len());
    for (name, n) in releases.names.iter().zip(count(codes, groups)).filter(|(_, n)| *n > 0) {
        let head = Headline { n, ..Headline::default() };
        delta.rollup.predictions.releases.add(name, &head);
        delta.rollup.predictions.total.merge(&head);
    }
    for column in &columns.columns {
        let Some(feature) = kind.sketched(&column.name) else { continue };
        let of_releases = distributions(codes, groups, floats(columns, &column.name)?);
        let mut found = Feature::default();
        for (name, numbers) in releases.names.iter().zip(of_releases).filter(|(_, numbers)| numbers.is_some())
        {
            found.releases.add(name, &numbers);
        }
        if found.releases.is_empty() {
            continue;
        }
        let part = delta.parts.entry(Breakdown::of(By::Feature, feature));
        if let Part::Feature(part) = part.or_insert_with(|| Part::of(By::Feature)) {
            part.features.add(feature, &found);
        }
    }
    Ok(delta)
}

/// Adds to the counts and details of a release.
fn release(delta: &mut Delta, name: &str, counts: &ReleaseCounts, detail: Option<&ReleaseDetail>) {
    let part = delta.parts.entry(Breakdown::of(By::Release, name)).or_insert_with(|| Part::of(By::Release));
    if let Part::Release(part) = part {
        part.counts.add(name, counts);
        if let Some(detail) = detail {
            part.details.add(name, detail);
        }
    }
}

/// Columns of predictions to break down by the values of a tag.
struct ByTag<'a, 'b> {
    label: &'a Codes<'b>,
    score: Option<Numbers<'a, f64>>,
    value: Option<Numbers<'a, f64>>,
    latency: Option<Numbers<'a, f64>>,
    floored: Option<Floored>,
}

impl ByTag<'_, '_> {
    fn heads(&self, tag: &Admitted<'_>, ns: &[u64]) -> Vec<Headline> {
        let (codes, groups) = (&tag.codes, tag.len());
        let mut labelled = vec![0; groups];
        let null = self.label.names.len() as u32;
        if null > 0 {
            codes.iter().zip(&self.label.codes).for_each(|(&group, &label)| {
                labelled[group as usize] += u64::from(label != null);
            });
        }
        let scores = numbers(codes, groups, self.score).into_iter();
        let others = numbers(codes, groups, self.value).into_iter().zip(numbers(codes, groups, self.latency));
        let counts = ns.iter().copied().zip(labelled);
        let head =
            |(((n, labelled), score), (value, latency))| Headline { n, labelled, score, value, latency };
        counts.zip(scores).zip(others).map(head).collect()
    }

    fn values(&self, tag: &Admitted<'_>) -> TagValues {
        let ns = count(&tag.codes, tag.len());
        let counts = ns.iter().map(|&predictions| TagCounts { predictions, metrics: 0 }).collect();
        let heads = self.heads(tag, &ns);
        // Every value has a sketch, even without a score: so the kept ones depend on the values alone.
        let scores = match (&self.floored, self.score) {
            (Some(floored), Some(score)) => {
                let rows = tag.codes.iter().copied().enumerate();
                let rows = rows.filter(|(row, _)| score.valid.is_none_or(|valid| valid[*row]));
                TagScores::of_groups(tag.len(), floored, rows)
            }
            _ => vec![TagScores::default(); tag.len()],
        };
        TagValues { counts: tag.collect(counts), heads: tag.collect(heads), scores: tag.collect(scores) }
    }
}

/// Breaks down by every tag; `values` gives the values of the groups.
fn tags(columns: &Columns, delta: &mut Delta, values: impl Fn(&Admitted<'_>) -> TagValues) -> Result<()> {
    // First hash that none of the three keeps.
    let beyond = |names: &[&str]| {
        let counts = beyond::<TagCounts, TAG_COUNTS_BUDGET>(names)?;
        let heads = beyond::<Headline, TAG_HEADS_BUDGET>(names)?;
        let scores = beyond::<TagScores, TAG_SCORES_BUDGET>(names)?;
        Some(counts.max(heads).max(scores))
    };
    for column in &columns.columns {
        let Some(tag) = column.name.strip_prefix(TAG_PREFIX) else { continue };
        let Some(strings) = texts(columns, &column.name)? else { continue };
        let values = values(&Admitted::new(&strings.codes(), beyond));
        if values.counts.is_empty() {
            continue;
        }
        let part = delta.parts.entry(Breakdown::of(By::Tag, tag)).or_insert_with(|| Part::of(By::Tag));
        if let Part::Tag(part) = part {
            part.tags.add(tag, &values);
        }
    }
    Ok(())
}

fn outcomes(columns: &Columns, rollup: &mut Rollup) -> Result<()> {
    let label = optional_codes(columns, "label")?;
    let value = floats(columns, "value")?;
    let all = vec![0; columns.rows];
    let nulls = label.codes.iter().filter(|&&code| code as usize == label.names.len()).count();
    rollup.outcomes = OutcomeRollup {
        n: columns.rows as u64,
        with_instant: present(columns, "predicted_at")?,
        labelled: (columns.rows - nulls) as u64,
        labels: counts(&label),
        value: numbers(&all, 1, value).pop().flatten(),
    };
    Ok(())
}

fn metrics(place: LogPosition, columns: &Columns, delta: &mut Delta) -> Result<()> {
    let names = required_texts(columns, "name")?.codes();
    let times = required_times(columns, "measured_at")?;
    let values = measured(columns, "value")?;
    let releases = optional_codes(columns, "release")?;
    let pairs = Pairs::new(&names, &releases);
    let mut series = vec![Series::empty(); pairs.pairs.len()];
    for (row, ((&pair, &at), &value)) in (0..).zip(pairs.codes.iter().zip(times).zip(values.values)) {
        if value.is_finite() {
            series[pair as usize].add(at, value, EventPlace { segment: place, row });
        }
    }
    let mut by_name = BTreeMap::<u32, LoggedMetricRollup>::new();
    // Values that are NaN or infinite count as events, but are left out of sums, extremes, quantiles and the last
    // value.
    let with_values = pairs.pairs.iter().zip(series).filter(|(_, series)| series.numbers.n > 0);
    for (&(name, release), series) in with_values {
        let release = releases.names.get(release as usize).copied().unwrap_or("");
        let metric = by_name.entry(name).or_default();
        let series = Some(series);
        metric.total.merge(&series);
        metric.releases.add(release, &series);
    }
    let is_finite: Vec<bool> = values.values.iter().map(|value| value.is_finite()).collect();
    let finite = Numbers { values: values.values, valid: Some(&is_finite) };
    let mut sketches = sketches(&names.codes, names.len(), finite);
    for (name, mut metric) in by_name {
        metric.sketch = std::mem::take(&mut sketches[name as usize]);
        let name = names.names[name as usize];
        let part = delta.parts.entry(Breakdown::of(By::Metric, name)).or_insert_with(|| Part::of(By::Metric));
        if let Part::Metric(part) = part {
            part.metrics.add(name, &metric);
        }
    }
    let of_release = count(&releases.codes, releases.len());
    for (name, &n) in releases.names.iter().zip(&of_release).filter(|(name, n)| **n > 0 && !name.is_empty()) {
        release(delta, name, &ReleaseCounts::new(Kind::Metrics, n), None);
    }
    delta.rollup.metrics = MetricRollup {
        n: columns.rows as u64,
        with_release: of_release[..releases.names.len()].iter().sum(),
        names: counts(&names),
    };
    tags(columns, delta, |tag| {
        let counts = count(&tag.codes, tag.len()).into_iter();
        let counts = counts.map(|metrics| TagCounts { predictions: 0, metrics }).collect();
        TagValues { counts: tag.collect(counts), ..TagValues::default() }
    })
}

fn releases(columns: &Columns, delta: &mut Delta) -> Result<()> {
    let releases = required_texts(columns, "release")?.codes();
    let actions = required_texts(columns, "action")?.codes();
    for (name, (n, actions)) in releases.names.iter().zip(labels_by(&releases, &actions)) {
        if n > 0 {
            let detail = ReleaseDetail { actions, ..ReleaseDetail::default() };
            release(delta, name, &ReleaseCounts::new(Kind::Releases, n), Some(&detail));
        }
    }
    delta.rollup.releases = ReleaseRollup {
        n: columns.rows as u64,
        with_configuration: present(columns, "configuration")?,
        with_environment: present(columns, "environment")?,
        actions: counts(&actions),
    };
    Ok(())
}

fn optional_codes<'a>(columns: &'a Columns, name: &'static str) -> Result<Codes<'a>> {
    Ok(texts(columns, name)?.map_or_else(|| Codes::null(columns.rows), |texts: Texts<'a>| texts.codes()))
}
