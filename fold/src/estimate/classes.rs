//! Expected metrics of several classes: the scores of each class are calibrated against all others, and the
//! calibrated scores of a prediction are divided by their sum, so that they add up to one (Zadrozny and Elkan 2002,
//! 4), as NannyML does.

use std::collections::{BTreeMap, BTreeSet};

use event::fields::plain_label;

use super::{Calibration, EXPECTED, Expected, LabelledScore, within_limits};
use crate::formulas::MAX_CLASSES;

/// Predictions of several classes, each with the scores of some.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassCases {
    /// Number of each named class.
    numbers: BTreeMap<Box<str>, u32>,
    rows: Vec<Row>,
    /// Classes with scores of each row, one row after the other.
    scores: Vec<(u32, f64)>,
    /// True if there are more than [`MAX_CLASSES`], so that nothing is kept.
    has_too_many: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    /// Predicted class.
    says: u32,
    /// Real class, if known.
    real: Option<u32>,
    /// End of its scores.
    end: usize,
}

/// Calibration of the scores of each class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassCalibration(BTreeMap<Box<str>, Calibration>);

impl ClassCases {
    /// Takes a prediction: its scores from 0 to 1, each class once, the predicted class, and the real one, if known.
    pub fn add<'a>(&mut self, scores: impl Iterator<Item = (&'a str, f64)>, says: &str, real: Option<&str>) {
        if self.has_too_many {
            return;
        }
        for (class, score) in scores {
            let number = self.number(class);
            self.scores.push((number, score));
        }
        let (says, real) =
            (self.number(&plain_label(says)), real.map(|real| self.number(&plain_label(real))));
        self.rows.push(Row { says, real, end: self.scores.len() });
        if self.numbers.len() > MAX_CLASSES {
            *self = Self { has_too_many: true, ..Self::default() };
        }
    }

    fn number(&mut self, class: &str) -> u32 {
        if let Some(number) = self.numbers.get(class) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(class.into(), number);
        number
    }

    /// Adds the cases of another join.
    pub fn extend(&mut self, more: &Self) {
        let names: BTreeMap<u32, &str> =
            more.numbers.iter().map(|(name, number)| (*number, &**name)).collect();
        let name = |number: u32| names.get(&number).copied().unwrap_or_default();
        for (row, scores) in more.each() {
            let scores = scores.iter().map(|(class, score)| (name(*class), *score));
            self.add(scores, name(row.says), row.real.map(name));
        }
        if more.has_too_many {
            *self = Self { has_too_many: true, ..Self::default() };
        }
    }

    /// Iterates over the rows with their scores.
    fn each(&self) -> impl Iterator<Item = (Row, &[(u32, f64)])> {
        let mut begin = 0;
        self.rows.iter().map(move |row| (*row, &self.scores[std::mem::replace(&mut begin, row.end)..row.end]))
    }

    /// Returns the number of cases.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no cases.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether there are more classes than supported, [`MAX_CLASSES`].
    pub fn has_too_many(&self) -> bool {
        self.has_too_many
    }

    /// Returns the number of cases whose real class is known.
    pub fn judged(&self) -> usize {
        self.rows.iter().filter(|row| row.real.is_some()).count()
    }

    /// Returns the number of bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(self.rows.as_slice()) + size_of_val(self.scores.as_slice())
    }

    /// Returns the number of further bytes needed while metrics are computed.
    pub fn bytes_of_expected(&self) -> usize {
        self.rows.len() * self.numbers.len() * size_of::<[f64; 4]>()
    }
}

impl ClassCalibration {
    /// Fits labelled cases; `None` unless two classes occur among the real ones. A class without a score in a
    /// prediction has the score 0.
    pub fn of(cases: &ClassCases) -> Option<Self> {
        let mut judged = vec![Vec::<LabelledScore>::new(); cases.numbers.len()];
        // By class: predictions with a score of it, those of them that are really of it, and all that are.
        let (mut scored, mut real_scored, mut real) =
            (judged_counts(cases), judged_counts(cases), judged_counts(cases));
        let mut n = 0;
        for (row, scores) in cases.each() {
            let Some(own) = row.real else { continue };
            n += 1;
            real[own as usize] += 1;
            for (class, score) in scores {
                let at = *class as usize;
                judged[at].push((*score, f64::from(u8::from(*class == own)), 1.0));
                scored[at] += 1;
                real_scored[at] += u64::from(*class == own);
            }
        }
        if real.iter().filter(|count| **count > 0).count() < 2 {
            return None;
        }
        let calibrations = cases.numbers.iter().filter_map(|(name, number)| {
            let at = *number as usize;
            let mut judged = std::mem::take(&mut judged[at]);
            if let without @ 1.. = n - scored[at] {
                judged.push((0.0, (real[at] - real_scored[at]) as f64, without as f64));
            }
            Some((name.clone(), Calibration::fit(judged)?))
        });
        Some(Self(calibrations.collect()))
    }
}

fn judged_counts(cases: &ClassCases) -> Vec<u64> {
    vec![0; cases.numbers.len()]
}

/// Returns the expectation of each metric of [`EXPECTED`]; `None` if undefined. With `is_judged`, only predictions
/// whose real class is known count.
///
/// Holds [`ClassCases::bytes_of_expected`].
pub fn expected_of_classes(
    cases: &ClassCases,
    calibration: &ClassCalibration,
    is_judged: bool,
) -> [Option<Expected>; EXPECTED.len()] {
    let metrics = Likely::new(cases, ProbabilitySource::Scores(calibration), is_judged).metrics();
    let of = |(name, limits): (&str, [f64; 2])| {
        let (_, value, deviation) = *metrics.iter().find(|(known, ..)| *known == name)?;
        within_limits((value, deviation), limits)
    };
    EXPECTED.map(of)
}

/// Returns each metric of [`EXPECTED`] of the predictions whose real class is known; `None` if undefined.
///
/// Holds [`ClassCases::bytes_of_expected`].
pub fn realised_of_classes(cases: &ClassCases) -> [Option<f64>; EXPECTED.len()] {
    let metrics = Likely::new(cases, ProbabilitySource::Truth, true).metrics();
    EXPECTED.map(|(name, _)| {
        let (_, value, _) = metrics.iter().find(|(known, ..)| *known == name)?;
        value.is_finite().then_some(*value)
    })
}

/// Source of the probabilities of the classes of a prediction.
#[derive(Clone, Copy)]
enum ProbabilitySource<'a> {
    /// Calibrated scores.
    Scores(&'a ClassCalibration),
    /// Real class, which is certain.
    Truth,
}

impl<'a> ProbabilitySource<'a> {
    /// Returns the classes with a calibration.
    fn names(self) -> impl Iterator<Item = &'a Box<str>> {
        let calibration = match self {
            Self::Scores(calibration) => Some(calibration),
            Self::Truth => None,
        };
        calibration.into_iter().flat_map(|calibration| calibration.0.keys())
    }

    /// Returns the probability of each named class, given the scores and the real class of a prediction.
    fn of(self, places: &BTreeMap<&str, usize>, scores: &[f64], real: Option<usize>) -> Vec<f64> {
        let calibration = match self {
            Self::Scores(calibration) => calibration,
            Self::Truth => {
                return (0..places.len()).map(|class| f64::from(u8::from(real == Some(class)))).collect();
            }
        };
        let of_class =
            |(name, score): (&&str, &f64)| calibration.0.get(*name).map_or(0.0, |of| of.probability(*score));
        let likely: Vec<f64> = places.keys().zip(scores).map(of_class).collect();
        let sum: f64 = likely.iter().sum();
        // Without any score, every class is equally probable.
        likely.iter().map(|one| if sum > 0.0 { one / sum } else { 1.0 / likely.len() as f64 }).collect()
    }
}

/// Predictions with the probability of each class.
struct Likely {
    /// Number of classes.
    classes: usize,
    /// Number of the predicted class of each prediction.
    says: Vec<usize>,
    /// Score of each class of each prediction, one prediction after the other; `p` holds the probabilities.
    scores: Vec<f64>,
    p: Vec<f64>,
}

impl Likely {
    fn new(cases: &ClassCases, says: ProbabilitySource<'_>, is_judged: bool) -> Self {
        let names: BTreeSet<&str> = says.names().chain(cases.numbers.keys()).map(|name| &**name).collect();
        let places: BTreeMap<&str, usize> = names.into_iter().zip(0..).collect();
        let classes = places.len();
        let mut place_of = vec![0; cases.numbers.len()];
        cases.numbers.iter().for_each(|(name, number)| place_of[*number as usize] = places[&**name]);
        let mut rows = Vec::new();
        for (row, some) in cases.each().filter(|(row, _)| !is_judged || row.real.is_some()) {
            let mut scores = vec![0.0; classes];
            some.iter().for_each(|(class, score)| scores[place_of[*class as usize]] = *score);
            rows.push((place_of[row.says as usize], row.real.map(|real| place_of[real as usize]), scores));
        }
        // Sums must not depend on the order in which predictions came.
        rows.sort_unstable_by(|one, other| {
            let by_score = one.2.iter().zip(&other.2).map(|(one, other)| one.total_cmp(other));
            by_score.fold(one.0.cmp(&other.0), |found, by| found.then(by)).then(one.1.cmp(&other.1))
        });
        let mut likely = Self { classes, says: Vec::new(), scores: Vec::new(), p: Vec::new() };
        for (said, real, scores) in rows {
            likely.p.extend(says.of(&places, &scores, real));
            likely.says.push(said);
            likely.scores.extend(scores);
        }
        likely
    }

    fn n(&self) -> usize {
        self.says.len()
    }

    fn p(&self, row: usize, class: usize) -> f64 {
        self.p[row * self.classes + class]
    }

    fn says(&self, row: usize, class: usize) -> f64 {
        f64::from(u8::from(self.says[row] == class))
    }

    /// Returns the metrics that several classes have: name, metric of the expected counts, standard deviation.
    fn metrics(&self) -> Vec<(&'static str, f64, f64)> {
        if self.n() == 0 {
            return Vec::new();
        }
        let n = self.n() as f64;
        let rows = || 0..self.n();
        let (mut real, mut said, mut hits) =
            (vec![0.0; self.classes], vec![0.0; self.classes], vec![0.0; self.classes]);
        for row in rows() {
            real.iter_mut().enumerate().for_each(|(class, real)| *real += self.p(row, class));
            said[self.says[row]] += 1.0;
            hits[self.says[row]] += self.p(row, self.says[row]);
        }
        // Mean over the classes of `times * hits / of`, if defined, and its derivative by the truth: `times` for a
        // prediction of the class, less `share` times the metric of the class.
        let mean_of = |name, times: f64, of: &dyn Fn(usize) -> f64, share: f64| {
            let defined: Vec<usize> = (0..self.classes).filter(|class| of(*class) > 0.0).collect();
            let count = defined.len() as f64;
            let metric = |class: usize| times * hits[class] / of(class);
            let value = defined.iter().map(|class| metric(*class)).sum::<f64>() / count;
            let slope = |row: usize, class: usize| match of(class) > 0.0 {
                true => (times * self.says(row, class) - share * metric(class)) / of(class) / count,
                false => 0.0,
            };
            (name, value, self.deviation(slope))
        };
        let loss = |row: usize, class: usize| {
            let score = self.scores[row * self.classes + class];
            -libm::log(score.clamp(f64::EPSILON, 1.0 - f64::EPSILON)) / n
        };
        let expected_loss = rows()
            .map(|row| (0..self.classes).map(|class| self.p(row, class) * loss(row, class)).sum::<f64>());
        let (auc, of_auc) = self.auc();
        vec![
            (
                "accuracy",
                hits.iter().sum::<f64>() / n,
                self.deviation(|row, class| self.says(row, class) / n),
            ),
            ("auc", auc, self.deviation(|row, class| of_auc[row * self.classes + class])),
            ("log_loss", expected_loss.sum(), self.deviation(loss)),
            mean_of("macro_precision", 1.0, &|class| said[class], 0.0),
            mean_of("macro_recall", 1.0, &|class| real[class], 1.0),
            mean_of("macro_f1", 2.0, &|class| said[class] + real[class], 1.0),
        ]
    }

    /// Returns the standard deviation of a metric that changes by `slope` when the truth of a row is a class, by the
    /// delta method.
    fn deviation(&self, slope: impl Fn(usize, usize) -> f64) -> f64 {
        let of_row = |row: usize| {
            let (mut mean, mut square) = (0.0, 0.0);
            for class in 0..self.classes {
                let (p, slope) = (self.p(row, class), slope(row, class));
                mean += p * slope;
                square += p * slope * slope;
            }
            (square - mean * mean).max(0.0)
        };
        (0..self.n()).map(of_row).sum::<f64>().sqrt()
    }

    /// Returns the mean over the classes of the area under the curve of one against the rest, by expected counts; and
    /// its derivative by the truth of each row and class.
    fn auc(&self) -> (f64, Vec<f64>) {
        let mut slopes = vec![0.0; self.p.len()];
        let (mut sum, mut defined) = (0.0, Vec::new());
        for class in 0..self.classes {
            let score = |row: &usize| self.scores[*row * self.classes + class];
            let mut order: Vec<usize> = (0..self.n()).collect();
            // Stable: ties stay in the order of the rows.
            order.sort_by(|one, other| score(one).total_cmp(&score(other)));
            let ordered: Vec<(f64, f64)> =
                order.iter().map(|row| (score(row), self.p(*row, class))).collect();
            let (area, changes) = super::area(&ordered);
            if area.is_finite() {
                sum += area;
                defined.push(class);
                order
                    .iter()
                    .zip(changes)
                    .for_each(|(row, change)| slopes[*row * self.classes + class] = change);
            }
        }
        let count = defined.len() as f64;
        slopes.iter_mut().for_each(|slope| *slope /= count);
        (sum / count, slopes)
    }
}

#[cfg(test)]
impl ClassCalibration {
    /// Uses one calibration for each class.
    pub(super) fn of_each<const N: usize>(names: [&str; N], of: &Calibration) -> Self {
        Self(names.map(|name| (name.into(), of.clone())).into())
    }
}
