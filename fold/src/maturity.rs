//! Number of predictions of a day that will finally be labelled, and the final value of a metric, estimated from days whose
//! outcomes are known.
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

/// Days of which one may be outside of the band of a [`Nowcast`] on either side: the band holds nine of ten.
const DAYS_A_SIDE: usize = 20;

/// Final value of a metric of a day, by its moves on other days from the same age on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nowcast {
    /// Value at the age and the mean move.
    pub expected: f64,
    /// Bounds that hold the final value with a probability of at least 90%, if the days could stand in any order.
    pub band: (f64, f64),
    /// Number of days from which it is learned.
    pub days: usize,
    /// Share of these days whose final value is in the band that all others of them give; `None` with fewer than 20.
    pub coverage: Option<f64>,
}

impl Nowcast {
    /// Nowcast of a day whose value is final.
    pub fn is(value: f64) -> Self {
        Self { expected: value, band: (value, value), days: 0, coverage: None }
    }

    /// Cuts the expected value and the band at the bounds of the metric.
    pub fn within(self, (least, most): (f64, f64)) -> Self {
        let cut = |value: f64| value.clamp(least, most);
        Self { expected: cut(self.expected), band: (cut(self.band.0), cut(self.band.1)), ..self }
    }

    /// Predicts the final value from that at an age, and the moves of other days from that age to the end; `None` with fewer
    /// than 19 of them.
    ///
    /// The band is that of conformal prediction (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005): of n
    /// moves and k = floor((n + 1) / 20) it is between the k-th smallest and the k-th greatest.
    pub fn of(value: f64, moves: &[f64]) -> Option<Self> {
        let days = moves.len();
        let outside = ((days + 1) / DAYS_A_SIDE).checked_sub(1)?;
        let mut moves = moves.to_vec();
        moves.sort_unstable_by(f64::total_cmp);
        let band = (value + moves[outside], value + moves[days - 1 - outside]);
        let expected = value + moves.iter().sum::<f64>() / days as f64;
        Some(Self { expected, band, days, coverage: coverage(&moves) })
    }
}

/// Returns the share of sorted moves that are in the band of all others.
fn coverage(moves: &[f64]) -> Option<f64> {
    let days = moves.len();
    let outside = (days / DAYS_A_SIDE).checked_sub(1)?;
    let is_inside = |at: &usize| {
        // Places in the moves without this one.
        let lowest = moves[if *at <= outside { outside + 1 } else { outside }];
        let highest = moves[if *at >= days - 1 - outside { days - 2 - outside } else { days - 1 - outside }];
        (lowest..=highest).contains(&moves[*at])
    };
    Some((0..days).filter(is_inside).count() as f64 / days as f64)
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
    fn nowcast_band_leaves_out_twentieth_on_each_side() {
        let moves: Vec<f64> = (0..40).map(|day| f64::from((day * 7) % 40) / 100.0).collect();
        let nowcast = Nowcast::of(0.5, &moves).unwrap();
        assert_eq!((nowcast.days, nowcast.band), (40, (0.5 + 0.01, 0.5 + 0.38)));
        assert!((nowcast.expected - 0.695).abs() < 1e-12);
        assert_eq!(Nowcast::of(0.5, &moves[..18]), None);
        let cut = nowcast.within((0.0, 0.8));
        assert_eq!((cut.band, cut.days), ((0.51, 0.8), 40));
        let few = Nowcast::of(0.5, &[0.25; 19]).unwrap();
        assert_eq!((few.expected, few.band, few.coverage), (0.75, (0.75, 0.75), None));
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
        /// By leaving each day out in turn.
        #[test]
        fn coverage_is_that_of_each_day_by_the_others(moves in proptest::collection::vec(-9i8..9, 20..70)) {
            let moves: Vec<f64> = moves.into_iter().map(f64::from).collect();
            let is_inside = |at: &usize| {
                let mut others = moves.clone();
                let own = others.remove(*at);
                let (low, high) = Nowcast::of(0.0, &others).unwrap().band;
                (low..=high).contains(&own)
            };
            let share = (0..moves.len()).filter(is_inside).count() as f64 / moves.len() as f64;
            let found = Nowcast::of(0.0, &moves).unwrap().coverage;
            prop_assert_eq!(found, Some(share));
            prop_assert!(share >= 0.9 - 1.0 / moves.len() as f64);
        }

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
