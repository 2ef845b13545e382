//! Survey of the values of predictions of a window, to choose buckets that are the same on all its days.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use event::Columns;

use super::By;
use crate::{
    FoldError, Result,
    hash::hash,
    read::{floats, required_times, texts},
    rollup::bounded::Merge,
    sketch::Sketch,
};

/// Maximum number of values of a column with a bucket each, the most frequent ones; all others share one.
pub const MAX_VALUES: usize = 256;

/// Number of values of which the frequency is counted. Of more, those with the least hashes are counted.
const MAX_COUNTED: usize = 50_000;

/// Size of the sketch of a column of numbers, in bytes: exact as long as all numbers fit.
const SKETCH_BYTES: usize = 32 * 1024;

/// Maximum number of digits that a double needs.
const MAX_DIGITS: usize = 17;

/// Column to survey.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Most frequent texts of a column.
    Texts(String),
    /// Edges of this number of bins with equally many numbers each, or about as many if numbers repeat.
    Bins(String, usize),
}

/// Values of some columns, counted in bounded memory. The result does not depend on the order of the events.
#[derive(Debug)]
pub struct Survey {
    columns: Vec<(Wanted, Seen)>,
    /// Span of the surveyed predictions, from the first instant, inclusive, to the second, exclusive; all, when
    /// `None`.
    span: Option<(i64, i64)>,
}

#[derive(Debug)]
enum Seen {
    Texts(Counts),
    Numbers { sketch: Sketch<SKETCH_BYTES>, extremes: Option<(f64, f64)> },
}

impl Survey {
    /// Creates an empty survey.
    pub fn new(wanted: Vec<Wanted>) -> Self {
        let seen = |wanted: &Wanted| match wanted {
            Wanted::Texts(_) => Seen::Texts(Counts::default()),
            Wanted::Bins(..) => Seen::Numbers { sketch: Sketch::default(), extremes: None },
        };
        let columns = wanted.into_iter().map(|wanted| (seen(&wanted), wanted));
        Self { columns: columns.map(|(seen, wanted)| (wanted, seen)).collect(), span: None }
    }

    /// Limits the survey to predictions from the first instant, inclusive, to the second, exclusive. It then needs
    /// `predicted_at` too.
    #[must_use]
    pub fn within(self, span: Option<(i64, i64)>) -> Self {
        Self { span, ..self }
    }

    /// Adds the predictions of a segment.
    ///
    /// # Errors
    /// Fails if a column has another type than its name requires.
    pub fn add(&mut self, predictions: &Columns) -> Result<()> {
        if predictions.rows == 0 {
            return Ok(());
        }
        let times =
            self.span.map(|span| Ok::<_, FoldError>((span, required_times(predictions, "predicted_at")?)));
        let times = times.transpose()?;
        let is_within = |row: usize| times.is_none_or(|((from, to), times)| (from..to).contains(&times[row]));
        for (wanted, seen) in &mut self.columns {
            match (wanted, seen) {
                (Wanted::Texts(column), Seen::Texts(counts)) => {
                    let Some(texts) = texts(predictions, column)? else { continue };
                    let codes = texts.codes();
                    let mut counted = vec![0; codes.len()];
                    let codes_within = codes.codes.iter().enumerate().filter(|(row, _)| is_within(*row));
                    codes_within.for_each(|(_, code)| counted[*code as usize] += 1);
                    let counted = codes.names.iter().zip(counted).filter(|(_, n)| *n > 0);
                    counted.for_each(|(name, n)| counts.add(name, n));
                }
                (Wanted::Bins(column, _), Seen::Numbers { sketch, extremes }) => {
                    let Some(numbers) = floats(predictions, column)? else { continue };
                    let numbers: Vec<f64> = (0..predictions.rows)
                        .filter(|row| is_within(*row))
                        .filter_map(|row| numbers.get(row))
                        .collect();
                    for number in &numbers {
                        let (min, max) = extremes.unwrap_or((*number, *number));
                        *extremes = Some((min.min(*number), max.max(*number)));
                    }
                    sketch.merge(&Sketch::of(&numbers));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the approximate number of bytes held.
    pub fn bytes(&self) -> usize {
        let of_column = |(_, seen): &(_, Seen)| match seen {
            Seen::Texts(counts) => counts.bytes,
            Seen::Numbers { .. } => SKETCH_BYTES,
        };
        self.columns.iter().map(of_column).sum()
    }

    /// Returns the number of counted values of a column of texts.
    pub(super) fn distinct(&self, column: &str) -> usize {
        let of_column = self.columns.iter().find_map(|(wanted, seen)| match (wanted, seen) {
            (Wanted::Texts(known), Seen::Texts(counts)) if known == column => Some(counts.counts.len()),
            _ => None,
        });
        of_column.unwrap_or(0)
    }

    /// Returns the columns without a value in any prediction.
    pub fn unseen(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().filter_map(|(wanted, seen)| {
            let is_unseen = match seen {
                Seen::Texts(counts) => counts.counts.is_empty() && counts.beyond.is_none(),
                Seen::Numbers { extremes, .. } => extremes.is_none(),
            };
            let (Wanted::Texts(column) | Wanted::Bins(column, _)) = wanted;
            is_unseen.then_some(column.as_str())
        })
    }

    /// Returns the grouping by each column.
    pub fn finish(self) -> Vec<By> {
        self.keep(MAX_VALUES)
    }

    /// Returns the grouping by each column, in which at most `most` values of a column of texts have a bucket of
    /// their own.
    pub fn keep(self, most: usize) -> Vec<By> {
        let of_column = |(wanted, seen)| match (wanted, seen) {
            (Wanted::Texts(column), Seen::Texts(counts)) => By::Texts { column, kept: counts.kept(most) },
            (Wanted::Bins(column, bins), Seen::Numbers { sketch, extremes: Some(extremes) }) => {
                let shares = (1..bins).map(|bin| bin as f64 / bins as f64);
                let edges = shares.filter_map(|share| sketch.quantile(share, extremes));
                By::Bins { column, edges: rounded(edges.map(|edge| edge.value).collect()) }
            }
            (Wanted::Texts(column) | Wanted::Bins(column, _), _) => By::Bins { column, edges: Vec::new() },
        };
        self.columns.into_iter().map(of_column).collect()
    }
}

/// Returns the distinct edges, with few digits that keep them distinct.
fn rounded(mut edges: Vec<f64>) -> Vec<f64> {
    edges.dedup();
    let with = |digits: usize| {
        let of_edge = |edge: &f64| format!("{edge:.*e}", digits - 1).parse().unwrap_or(*edge);
        let mut rounded: Vec<f64> = edges.iter().map(of_edge).collect();
        rounded.dedup();
        rounded
    };
    // Two digits more than needed to tell them apart keep them near their true values.
    let few = (1..=MAX_DIGITS).find(|digits| with(*digits).len() == edges.len());
    with(few.map_or(MAX_DIGITS, |few| (few + 2).min(MAX_DIGITS)))
}

/// Counts of texts.
#[derive(Debug, Default)]
struct Counts {
    counts: HashMap<String, u64>,
    /// Hash from which on texts are not counted.
    beyond: Option<u64>,
    bytes: usize,
}

impl Counts {
    fn add(&mut self, text: &str, n: u64) {
        if let Some(count) = self.counts.get_mut(text) {
            *count += n;
            return;
        }
        if self.beyond.is_some_and(|beyond| hash(text.as_bytes()) >= beyond) {
            return;
        }
        self.bytes += text.len() + size_of::<(String, u64)>();
        self.counts.insert(text.to_owned(), n);
        if self.counts.len() > 2 * MAX_COUNTED {
            self.leave_out();
        }
    }

    /// Keeps the texts with the least hashes.
    fn leave_out(&mut self) {
        let mut hashes: Vec<u64> = self.counts.keys().map(|text| hash(text.as_bytes())).collect();
        if hashes.len() <= MAX_COUNTED {
            return;
        }
        let (_, beyond, _) = hashes.select_nth_unstable(MAX_COUNTED);
        let beyond = *beyond;
        self.beyond = Some(beyond);
        self.counts.retain(|text, _| hash(text.as_bytes()) < beyond);
        self.bytes = self.counts.keys().map(|text| text.len() + size_of::<(String, u64)>()).sum();
    }

    /// Returns the most frequent texts; `None` if that is all of them.
    fn kept(mut self, most: usize) -> Option<BTreeSet<String>> {
        if self.beyond.is_some() {
            // The counted texts must not depend on the time of the last thinning.
            self.leave_out();
        } else if self.counts.len() <= most {
            return None;
        } else if self.counts.len() > MAX_COUNTED {
            self.leave_out();
        }
        // The most frequent first, equally frequent ones in the order of their bytes.
        let mut by_count = BTreeMap::<(u64, String), ()>::new();
        by_count.extend(self.counts.into_iter().map(|(text, n)| ((u64::MAX - n, text), ())));
        Some(by_count.into_keys().take(most).map(|(_, text)| text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{columns, floats, texts, times};

    fn surveyed(wanted: Wanted, segments: &[Columns]) -> By {
        let mut survey = Survey::new(vec![wanted]);
        segments.iter().for_each(|segment| survey.add(segment).unwrap());
        survey.finish().remove(0)
    }

    #[test]
    fn columns_that_no_prediction_has_are_unseen() {
        let wanted = |name: &str| [Wanted::Texts(format!("tag.{name}")), Wanted::Bins(name.to_owned(), 4)];
        let mut survey = Survey::new(wanted("score").into_iter().chain(wanted("value")).collect());
        survey
            .add(&columns(vec![
                texts("tag.score", &[None, Some("a")], false),
                texts("tag.value", &[None, None], false),
                floats("score", &[Some(0.5), None]),
            ]))
            .unwrap();
        assert_eq!(survey.unseen().collect::<Vec<_>>(), ["tag.value", "value"]);
    }

    #[test]
    fn the_most_frequent_values_have_a_bucket_each() {
        let name = |n: usize| format!("value {n}");
        let names: Vec<String> = (0..1_000).flat_map(|n| vec![name(n); 1 + n % 7]).collect();
        let column = |names: &[String]| {
            let rows: Vec<Option<&str>> =
                names.iter().map(|name| Some(name.as_str())).chain([None]).collect();
            columns(vec![texts("tag.t", &rows, false)])
        };
        let wanted = || Wanted::Texts("tag.t".into());
        let By::Texts { kept: Some(kept), .. } = surveyed(wanted(), &[column(&names)]) else { panic!() };
        assert_eq!(kept.len(), MAX_VALUES);
        // The 142 names that occur seven times, and the first of those that occur six times.
        for n in 0..1_000 {
            if n % 7 == 6 {
                assert!(kept.contains(&name(n)), "{n}");
            } else if n % 7 < 5 {
                assert!(!kept.contains(&name(n)), "{n}");
            }
        }
        let halves: Vec<Columns> = names.rchunks(777).map(column).collect();
        assert_eq!(surveyed(wanted(), &halves), By::Texts { column: "tag.t".into(), kept: Some(kept) });
        let few = surveyed(wanted(), &[column(&names[..50])]);
        assert_eq!(few, By::Texts { column: "tag.t".into(), kept: None });
    }

    #[test]
    fn kept_values_do_not_depend_on_order() {
        let names: Vec<String> = (0..2 * MAX_COUNTED + 5_000).map(|n| format!("{n}")).collect();
        let kept = |names: &mut dyn Iterator<Item = &String>| {
            let mut counts = Counts::default();
            names.for_each(|name| counts.add(name, 1 + u64::from(name.ends_with("77"))));
            assert!(counts.counts.len() <= 2 * MAX_COUNTED);
            counts.kept(MAX_VALUES).unwrap()
        };
        let one = kept(&mut names.iter());
        assert_eq!(one, kept(&mut names.iter().rev()));
        assert_eq!(one.len(), MAX_VALUES);
        assert!(one.iter().all(|name| name.ends_with("77")));
    }

    #[test]
    fn survey_omits_predictions_outside_its_time() {
        let segment = columns(vec![
            times("predicted_at", &[Some(0), Some(10), Some(19), Some(20)]),
            texts("tag.t", &[Some("before"), Some("a"), Some("b"), Some("after")], false),
            floats("feature.f", &[Some(-1e6), Some(1.0), Some(3.0), Some(1e6)]),
        ]);
        let wanted = vec![Wanted::Texts("tag.t".into()), Wanted::Bins("feature.f".into(), 2)];
        let mut survey = Survey::new(wanted).within(Some((10, 20)));
        survey.add(&segment).unwrap();
        assert_eq!(survey.distinct("tag.t"), 2);
        let By::Bins { edges, .. } = survey.finish().remove(1) else { panic!() };
        assert_eq!(edges, [2.0]);
    }

    #[test]
    fn bins_hold_as_many_numbers_each() {
        let numbers: Vec<Option<f64>> = (0..1_000).map(|n| Some(f64::from(n) / 8.0)).chain([None]).collect();
        let whole = columns(vec![floats("feature.f", &numbers)]);
        let wanted = |bins| Wanted::Bins("feature.f".into(), bins);
        let By::Bins { edges, .. } = surveyed(wanted(4), std::slice::from_ref(&whole)) else { panic!() };
        assert_eq!(edges, [31.2, 62.4, 93.7]);
        let parts: Vec<Columns> =
            numbers.chunks(90).rev().map(|part| columns(vec![floats("feature.f", part)])).collect();
        assert_eq!(surveyed(wanted(4), &parts), By::Bins { column: "feature.f".into(), edges });
        let none = columns(vec![texts("key", &[Some("a")], false)]);
        assert_eq!(surveyed(wanted(4), &[none]), By::Bins { column: "feature.f".into(), edges: Vec::new() });
        let equal = columns(vec![floats("feature.f", &[Some(3.0); 9])]);
        assert_eq!(surveyed(wanted(4), &[equal]), By::Bins { column: "feature.f".into(), edges: vec![3.0] });
        assert_eq!(rounded(vec![1_000_001.0, 1_000_002.0]), [1_000_001.0, 1_000_002.0]);
        assert_eq!(rounded(vec![0.123_456_789, 0.5]), [0.123, 0.5]);
    }
}
