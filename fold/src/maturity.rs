//! Number of predictions of a day that will finally be labelled, estimated from days whose outcomes are known.
//!
//! The additive method of claims reserving (Schmidt and Zocher, "The Bornhuetter-Ferguson principle", Variance 2(1),
//! 2008): among all predictions of the days that have reached an age, the share labelled between the age before and
//! this one is expected of every day. Unlike a ratio of counts it needs no labels at a young age.

use event::{Day, Timestamp};

/// Age of a day: the time since the day ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    /// Age in hours.
    pub hours: u32,
    /// Name of the age.
    pub name: &'static str,
}

/// Ages of a day at which a vintage of its evaluation is stored, the youngest first.
pub const AGES: [Age; 7] = [
    Age { hours: 1, name: "1h" },
    Age { hours: 6, name: "6h" },
    Age { hours: 24, name: "1d" },
    Age { hours: 3 * 24, name: "3d" },
    Age { hours: 7 * 24, name: "7d" },
    Age { hours: 14 * 24, name: "14d" },
    Age { hours: 30 * 24, name: "30d" },
];

impl Age {
    /// Returns the time at which a day reaches it; `None` for the last day of the calendar, which has no end.
    pub fn of(self, day: Day) -> Option<Timestamp> {
        Some(day.next()?.start().plus_seconds(i64::from(self.hours) * 3_600))
    }
}

/// A day with the arrival of its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Number of predictions.
    pub predictions: u64,
    /// Number of predictions labelled at each age reached, the youngest first.
    pub judged: Vec<u64>,
    /// Number of predictions labelled by the latest data.
    pub latest: u64,
}

/// Returns the expected final number of labelled predictions of each day. For a day that has reached the last of
/// `ages`, it is the known number; for another one it is `None` if no day has reached some later age.
pub fn expected(days: &[Arrival], ages: usize) -> Vec<Option<f64>> {
    // The latest data follows the last age.
    let shares: Vec<Option<f64>> = (0..=ages).map(|age| share(days, age, ages)).collect();
    let of_day = |day: &Arrival| {
        let latest = day.latest as f64;
        if day.judged.len() == ages {
            return Some(latest);
        }
        let known = day.judged.last().copied().unwrap_or_default() as f64;
        let to_come: Option<f64> = shares.get(day.judged.len()..)?.iter().copied().sum();
        Some((known + day.predictions as f64 * to_come?).max(latest))
    };
    days.iter().map(of_day).collect()
}

/// Returns the share of predictions labelled since the age before, over the days that have reached an age. `None` if
/// there are none.
fn share(days: &[Arrival], age: usize, ages: usize) -> Option<f64> {
    let (mut judged, mut predictions) = (0.0, 0.0);
    for day in days {
        let is_whole = day.judged.len() == ages;
        let latest = (age == ages && is_whole).then_some(&day.latest);
        let Some(until) = day.judged.get(age).or(latest) else { continue };
        let before = age.checked_sub(1).map_or(0, |before| day.judged[before]);
        judged += *until as f64 - before as f64;
        predictions += day.predictions as f64;
    }
    (predictions > 0.0).then(|| judged / predictions)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn day(predictions: u64, judged: &[u64], latest: u64) -> Arrival {
        Arrival { predictions, judged: judged.to_vec(), latest }
    }

    #[test]
    fn expected_outcomes_follow_earlier_days() {
        let days = [
            // None after an hour, half of them after a day, nine of ten after a week; one more came later.
            day(100, &[0, 50, 90], 91),
            day(300, &[0, 150, 270], 270),
            day(200, &[0, 110], 110),
            day(50, &[0], 3),
            day(50, &[], 0),
        ];
        let found = expected(&days, 3);
        // Between an hour and a day 310 of 600 came, between a day and a week 160 of 400, and later one of 400.
        let week = 160.0 / 400.0 + 1.0 / 400.0;
        let day = 310.0 / 600.0;
        let all = [91.0, 270.0, 110.0 + 200.0 * week, 50.0 * (week + day), 50.0 * (week + day)];
        for (found, all) in found.iter().zip(all) {
            assert!((found.unwrap() - all).abs() < 1e-12, "{found:?} is not {all}");
        }
    }

    #[test]
    fn immature_days_give_no_expected_outcomes() {
        assert_eq!(expected(&[day(10, &[1], 2), day(10, &[1, 4], 4)], 3), [None, None]);
        assert_eq!(expected(&[day(0, &[0, 0, 0], 0), day(5, &[], 0)], 3), [Some(0.0), None]);
        // More has arrived already than was expected.
        assert_eq!(expected(&[day(10, &[1, 1], 1), day(10, &[1], 9)], 2), [Some(1.0), Some(9.0)]);
        // Late arrivals on the old day are expected again.
        assert_eq!(expected(&[day(10, &[0, 0], 8), day(5, &[], 0)], 2), [Some(8.0), Some(4.0)]);
    }

    proptest! {
        #[test]
        fn days_that_ripen_alike_are_foretold_exactly(
            scales in prop::collection::vec(1u64..1_000, 1..20),
            steps in prop::collection::vec(0u64..5, 4),
            reached in prop::collection::vec(0usize..=4, 20),
        ) {
            let ages: Vec<u64> = steps.iter().scan(0, |sum, step| { *sum += step; Some(*sum) }).collect();
            let whole = |scale: u64, reached: usize| {
                let judged: Vec<u64> = ages[..reached].iter().map(|age| age * scale).collect();
                let latest = judged.last().copied().unwrap_or_default();
                Arrival { predictions: 20 * scale, judged, latest }
            };
            let mut days = vec![whole(7, 4)];
            days.extend(scales.iter().zip(&reached).map(|(scale, reached)| whole(*scale, *reached)));
            let found = expected(&days, 4);
            for (found, scale) in found[1..].iter().zip(&scales) {
                let all = (ages[3] * scale) as f64;
                prop_assert!((found.unwrap() - all).abs() <= 1e-9 * all.max(1.0), "{:?} is not {}", found, all);
            }
        }
    }
}
