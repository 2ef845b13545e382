//! Tags with more values on a day than are stored by themselves: slices lack the rarer ones of that day.

use std::collections::{BTreeMap, BTreeSet};

use event::Day;
use fold::{Evaluation, evaluation::Value};

use crate::window::in_words;

/// Warns of each tag whose stored slices may lack predictions.
pub(super) fn warnings(evaluations: &[(Day, Evaluation)], release: Option<&str>) -> Vec<String> {
    let warning = |(tag, days): (&str, BTreeSet<Day>)| {
        let days: Vec<Day> = days.into_iter().collect();
        format!(
            "`{tag}` had more values on {} than are stored by themselves: the rarer ones count in `(others)` there, so slices of `{tag}` may lack predictions; name such a day alone, or ask as of now, which reads the events",
            in_words(&days)
        )
    };
    short(evaluations, release).into_iter().map(warning).collect()
}

/// Returns for each tag the days whose others may include a value with a slice, of any release or of one. Bins have no others.
fn short<'a>(
    evaluations: &'a [(Day, Evaluation)],
    release: Option<&str>,
) -> BTreeMap<&'a str, BTreeSet<Day>> {
    let mut kept = BTreeMap::<(&str, Day), BTreeSet<&Value>>::new();
    let mut sliced = BTreeMap::<(&str, &str), BTreeSet<&Value>>::new();
    let mut with_others = Vec::new();
    for (day, evaluation) in evaluations {
        for (name, dimensions) in &evaluation.slices {
            let is_asked = release.is_none_or(|release| release == name.as_str());
            for (dimensions, rows) in dimensions {
                let (name, dimensions) = (name.as_str(), dimensions.as_str());
                for row in rows {
                    match row.value {
                        Value::Text(_) => {
                            // The kept values are equal for all releases of a day.
                            kept.entry((dimensions, *day)).or_default().insert(&row.value);
                            if is_asked {
                                sliced.entry((name, dimensions)).or_default().insert(&row.value);
                            }
                        }
                        Value::Others if is_asked => with_others.push((name, dimensions, *day)),
                        _ => {}
                    }
                }
            }
        }
    }
    let mut short = BTreeMap::<&str, BTreeSet<Day>>::new();
    for (name, dimensions, day) in with_others {
        let is_kept = |value: &&Value| kept.get(&(dimensions, day)).is_some_and(|kept| kept.contains(value));
        if sliced.get(&(name, dimensions)).is_some_and(|values| !values.iter().all(is_kept)) {
            short.entry(dimensions).or_default().insert(day);
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use fold::evaluation::{ReleaseEvaluation, SliceRow};

    use super::*;

    /// Builds a day on which a release has these values of a tag.
    fn day(day: &str, release: &str, values: &[Value]) -> (Day, Evaluation) {
        let row = |value: &Value| SliceRow { value: value.clone(), of: ReleaseEvaluation::default() };
        let rows = BTreeMap::from([("tag.tail".to_owned(), values.iter().map(row).collect())]);
        let slices = BTreeMap::from([(release.to_owned(), rows)]);
        (day.parse().unwrap(), Evaluation { slices, ..Evaluation::default() })
    }

    #[test]
    fn days_that_may_hide_slice_values_are_named() {
        let text = |text: &str| Value::Text(text.into());
        let (few, many) = ("2026-06-01", "2026-06-02");
        let both = [
            day(few, "v1", &[text("a"), text("b"), Value::Null]),
            day(many, "v1", &[text("a"), Value::Others]),
        ];
        let told = warnings(&both, None);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("`tag.tail` had more values on 2026-06-02 than"), "{told:?}");
        assert_eq!(warnings(&both, Some("v1")), told);
        assert_eq!(warnings(&both, Some("v2")), [""; 0], "it has no slices");
        // Each slice of a single day is whole, and so are those of days that keep equal values.
        assert_eq!(warnings(&both[1..], None), [""; 0]);
        let same = [few, many].map(|of| day(of, "v1", &[text("a"), Value::Others]));
        assert_eq!(warnings(&same, None), [""; 0]);
        // The day keeps `b`, of which this release has none there.
        let mut other = both.clone();
        other[1].1.slices.extend(day(many, "v2", &[text("b")]).1.slices);
        assert_eq!(warnings(&other, None), [""; 0]);
    }
}
