//! Test of the difference between the area under the curve of some predictions and that of the rest.
//!
//! The variance of an area is that of DeLong, DeLong and Clarke-Pearson 1988: for each class the variance of the mean
//! of its placements. The placement of a score is here twice the number of lower scores of the other class, plus one
//! for each equal one. So all counts are integers, without rounding, up to the divisions at the end.
//!
//! The scores of the rest are not collected: the placement of a score of the whole among the rest is its placement in
//! the whole less the one in the part. The latter is constant between two scores of the part, so sums over the whole
//! up to each of its scores suffice, and a part is tested in as many steps as it has scores.

use std::sync::OnceLock;

use super::normal_beyond;

/// Sorted scores of predictions, for tests of parts of them.
#[derive(Debug, Default)]
pub struct Curve {
    /// Scores as ranked by [`Scores`](super::Scores): bits that sort like the score, with the class in the lowest
    /// one.
    ranked: Box<[u64]>,
    /// Sums, computed with the first test of a part.
    sums: OnceLock<Sums>,
}

/// Values by class, negatives first.
type ByClass<T> = [T; 2];

/// Counts of the scores below some score.
#[derive(Clone, Copy, Debug, Default)]
struct Below {
    n: ByClass<u64>,
    /// Sum of the placements: at most half the square of the number of scores, so it fits up to 2^32 of them.
    placements: ByClass<u64>,
}

/// Sums over the scores of a curve.
#[derive(Debug)]
struct Sums {
    /// Distinct scores, as bits, in ascending order.
    scores: Vec<u64>,
    /// Counts below each of them and, as the last, of all.
    below: Vec<Below>,
    /// Sums of the squares of all placements.
    squares: ByClass<u128>,
}

/// An area under a curve, as integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    n: ByClass<u64>,
    placements: ByClass<u128>,
    squares: ByClass<u128>,
}

/// Returns the number of scores of each class.
fn classes(ranked: &[u64]) -> ByClass<u64> {
    let positives = ranked.iter().map(|ranked| ranked & 1).sum::<u64>();
    [ranked.len() as u64 - positives, positives]
}

/// Returns the placement of a score for each class: twice the number of lower scores of the other class, plus the
/// equal ones.
fn placements(below: ByClass<u64>, tied: ByClass<u64>) -> ByClass<u64> {
    [2 * below[1] + tied[1], 2 * below[0] + tied[0]]
}

fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

impl Sums {
    fn of(ranked: &[u64]) -> Self {
        let (mut scores, mut below, mut squares) = (Vec::new(), Vec::new(), [0; 2]);
        let mut passed = Below::default();
        for tied in ranked.chunk_by(|one, other| one >> 1 == other >> 1) {
            scores.push(tied[0] >> 1);
            below.push(passed);
            let own = classes(tied);
            let placements = placements(passed.n, own);
            for class in 0..2 {
                passed.n[class] += own[class];
                passed.placements[class] += own[class] * placements[class];
                squares[class] += u128::from(own[class]) * product(placements[class], placements[class]);
            }
        }
        below.push(passed);
        Self { scores, below, squares }
    }

    fn whole(&self) -> Area {
        let Below { n, placements } = self.below[self.scores.len()];
        Area { n, placements: placements.map(u128::from), squares: self.squares }
    }

    /// Returns the area of the rest without a part; `None` if it is not a part.
    fn without(&self, part: &[u64]) -> Option<Area> {
        let mut rest =
            Rest { sums: self, taken: [0; 2], less: [0; 2], squares: [0; 2], less_squares: [0; 2] };
        let (mut at, mut passed) = (0, [0; 2]);
        for tied in part.chunk_by(|one, other| one >> 1 == other >> 1) {
            let score = tied[0] >> 1;
            let next = at + self.scores[at..].partition_point(|other| *other < score);
            if self.scores.get(next) != Some(&score) {
                return None;
            }
            let own = classes(tied);
            rest.between((at, next), placements(passed, [0; 2]));
            let of_part = placements(passed, own);
            rest.between((next, next + 1), of_part);
            rest.take(next, own, of_part)?;
            (at, passed) = (next + 1, [passed[0] + own[0], passed[1] + own[1]]);
        }
        rest.between((at, self.scores.len()), placements(passed, [0; 2]));
        rest.area()
    }
}

/// Subtraction of a part from sums, score by score.
struct Rest<'a> {
    sums: &'a Sums,
    /// Number of scores taken.
    taken: ByClass<u64>,
    /// Decrease of the sum of the placements.
    less: ByClass<u128>,
    /// Increase of the sum of the squares; `less_squares` is its decrease.
    squares: ByClass<u128>,
    less_squares: ByClass<u128>,
}

impl Rest<'_> {
    /// Subtracts the placements in the part from the scores of the whole in a range of places.
    fn between(&mut self, (from, to): (usize, usize), of_part: ByClass<u64>) {
        let (from, to) = (&self.sums.below[from], &self.sums.below[to]);
        for (class, of_part) in of_part.into_iter().enumerate() {
            let n = to.n[class] - from.n[class];
            let placements = to.placements[class] - from.placements[class];
            self.less[class] += product(n, of_part);
            // (w - p)^2 = w^2 - 2 w p + p^2, of which the first is in the sums.
            self.squares[class] += u128::from(n) * product(of_part, of_part);
            self.less_squares[class] += 2 * product(placements, of_part);
        }
    }

    /// Takes the scores of the part at a place, with their placements in it. `None` if the whole has fewer.
    fn take(&mut self, place: usize, own: ByClass<u64>, of_part: ByClass<u64>) -> Option<()> {
        let (from, to) = (&self.sums.below[place], &self.sums.below[place + 1]);
        let tied = [to.n[0] - from.n[0], to.n[1] - from.n[1]];
        let of_whole = placements(from.n, tied);
        for class in 0..2 {
            tied[class].checked_sub(own[class])?;
            let left = of_whole[class].checked_sub(of_part[class])?;
            self.taken[class] += own[class];
            self.less[class] += product(own[class], left);
            self.less_squares[class] += u128::from(own[class]) * product(left, left);
        }
        Some(())
    }

    fn area(self) -> Option<Area> {
        let Area { mut n, mut placements, mut squares } = self.sums.whole();
        for class in 0..2 {
            n[class] = n[class].checked_sub(self.taken[class])?;
            placements[class] = placements[class].checked_sub(self.less[class])?;
            squares[class] = (squares[class] + self.squares[class]).checked_sub(self.less_squares[class])?;
        }
        Some(Area { n, placements, squares })
    }
}

impl Area {
    /// Returns the area and its variance; `None` unless there are two scores of each class.
    fn and_variance(&self) -> Option<(f64, f64)> {
        if self.n.iter().any(|n| *n < 2) {
            return None;
        }
        let of_class = |class: usize| {
            let (n, others) = (self.n[class], self.n[1 - class]);
            // At most a quarter of the fourth power of the number of scores: it fits up to 2^32 of them.
            let around =
                u128::from(n) * self.squares[class] - self.placements[class] * self.placements[class];
            let (n, others) = (n as f64, others as f64);
            around as f64 / (n * n * (n - 1.0)) / (4.0 * others * others)
        };
        let pairs = product(self.n[0], self.n[1]);
        Some((self.placements[1] as f64 / (2 * pairs) as f64, of_class(0) + of_class(1)))
    }
}

impl Curve {
    /// Takes sorted scores as ranked by [`Scores`](super::Scores).
    pub(super) fn new(ranked: Vec<u64>) -> Self {
        Self { ranked: ranked.into_boxed_slice(), sums: OnceLock::new() }
    }

    /// Returns the number of bytes of the scores.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ranked)
    }

    /// Returns the maximum number of further bytes needed once parts of it are tested.
    pub fn bytes_of_tests(&self) -> usize {
        self.ranked.len() * (size_of::<u64>() + size_of::<Below>())
    }

    /// Returns the probability of so great a difference between the areas under the curves of a part and of the rest
    /// if they are equal: for two independent samples, by the normal distribution. `None` unless both have two
    /// positives and two negatives, and if nothing varies.
    pub fn p_value_of(&self, part: &Self) -> Option<f64> {
        if u32::try_from(self.ranked.len()).is_err() {
            return None;
        }
        let rest = self.sums.get_or_init(|| Sums::of(&self.ranked)).without(&part.ranked)?;
        let (area, variance) = Sums::of(&part.ranked).whole().and_variance()?;
        let (of_rest, variance_of_rest) = rest.and_variance()?;
        let variance = variance + variance_of_rest;
        (variance > 0.0).then(|| normal_beyond((area - of_rest) / variance.sqrt()))
    }
}

impl PartialEq for Curve {
    fn eq(&self, other: &Self) -> bool {
        self.ranked == other.ranked
    }
}

#[cfg(test)]
mod tests;
