//! Metrics of groups whose items are ranked by their scores: NDCG as scikit-learn's `ndcg_score`, the other metrics as
//! `trec_eval` (`pytrec_eval`).

use std::{io, mem};

use serde::{Deserialize, Serialize};

use super::errors::ordered_bits;
use crate::{
    ExactSum,
    metric::Evidence,
    runs::{Record, Run, Runs},
};

/// Greatest relevance of an item, so that sums of relevances stay finite.
pub const MAX_RELEVANCE: f64 = 1e100;

/// Number of items up to which the metrics of a cutoff look.
const CUTOFFS: [usize; 2] = [5, 10];

/// Name of a metric of a group with a relevant item, and its formula.
type GroupMetric = (&'static str, fn(&Ranking) -> f64);

/// Metrics of a group with a relevant item. Their means over groups are stored in this order.
pub(crate) const GROUP_METRICS: [GroupMetric; 10] = [
    ("ndcg", |of| of.ndcg(None)),
    ("ndcg_at_5", |of| of.ndcg(Some(0))),
    ("ndcg_at_10", |of| of.ndcg(Some(1))),
    ("map", |of| of.precisions / of.n_relevant()),
    ("map_at_10", |of| of.at[1].precisions / of.n_relevant()),
    ("mrr", |of| of.first.map_or(0.0, |first| 1.0 / first as f64)),
    ("precision_at_5", |of| of.at[0].hits as f64 / CUTOFFS[0] as f64),
    ("precision_at_10", |of| of.at[1].hits as f64 / CUTOFFS[1] as f64),
    ("recall_at_10", |of| of.at[1].hits as f64 / of.n_relevant()),
    ("hit_rate_at_10", |of| if of.at[1].hits > 0 { 1.0 } else { 0.0 }),
];

/// Metrics of groups, of which sums and counts of several days add up. The default is for no groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupMeans {
    /// Groups with a relevant item; the sums below are of them.
    pub evaluated: u64,
    /// Groups with an outcome, but without a relevant item.
    pub without_relevant: u64,
    /// Sum of each metric over the groups, and the sum of its squares.
    sums: [(f64, f64); GROUP_METRICS.len()],
}

impl GroupMeans {
    /// Returns the mean of a metric over the groups, by its place among [`GROUP_METRICS`].
    pub(crate) fn mean(&self, at: usize) -> Option<f64> {
        (self.evaluated > 0).then(|| self.sums[at].0 / self.evaluated as f64)
    }

    /// Returns the Student interval of a mean.
    pub(crate) fn interval(&self, metric: &str) -> Option<(f64, f64)> {
        let at = GROUP_METRICS.iter().position(|(name, _)| *name == metric)?;
        let (sum, squares) = self.sums[at];
        Evidence::Mean { n: self.evaluated, sum, squares }.interval()
    }
}

/// Item of a group. Items sort by group, then by score; of equal scores the greater key by bytes comes first, as in
/// `trec_eval`, when they are taken in descending order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    group: u64,
    /// Bits of the score, changed so that they sort like it.
    score: u64,
    key: Box<str>,
    /// Bits of the relevance, which sort like it; `None` without an outcome.
    relevance: Option<u64>,
}

impl Item {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.len()
    }
}

impl Record for Item {
    fn write(&self, bytes: &mut Vec<u8>) {
        // No relevance has the bits of NaN.
        let relevance = self.relevance.unwrap_or(u64::MAX);
        for number in [self.group, self.score, relevance, self.key.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.key.as_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut number = || u64::read(bytes);
        let [group, score, relevance, length] = [number()?, number()?, number()?, number()?];
        let (key, rest) = bytes.split_at_checked(length as usize)?;
        *bytes = rest;
        let relevance = Some(relevance).filter(|bits| *bits != u64::MAX);
        Some(Self { group, score, key: str::from_utf8(key).ok()?.into(), relevance })
    }
}

/// Items of the groups of a release. Metrics are computed at the end, from all of them sorted: partitions of keys cut groups
/// apart.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    items: Vec<Item>,
    /// Bytes of the items held.
    bytes: usize,
    /// Sorted items in a file.
    runs: Vec<Run>,
    /// Metrics of the items that were in the file.
    settled: Option<GroupMeans>,
}

impl Groups {
    /// Takes an item with a finite score, and with its relevance from 0 to [`MAX_RELEVANCE`] if it has an outcome.
    pub fn add(&mut self, group: u64, key: &str, score: f64, relevance: Option<f64>) {
        // Adding zero turns negative zero, which would sort apart from zero, into zero.
        let relevance = relevance.map(|relevance| (relevance + 0.0).to_bits());
        let item = Item { group, score: ordered_bits(score + 0.0), key: key.into(), relevance };
        self.bytes += item.bytes();
        self.items.push(item);
    }

    /// Returns the number of bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves the items held to a file.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn spill(&mut self, runs: &mut Runs) -> io::Result<()> {
        if !self.items.is_empty() {
            self.runs.push(runs.write(&mut mem::take(&mut self.items))?);
            self.bytes = 0;
        }
        Ok(())
    }

    /// Computes the metrics, if some items are in the file.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn settle(&mut self, runs: &mut Runs) -> io::Result<()> {
        if self.runs.is_empty() {
            return Ok(());
        }
        self.spill(runs)?;
        let mut walk = Walk::default();
        runs.merge(&mem::take(&mut self.runs), |item: Item| walk.pass(&item))?;
        self.settled = Some(walk.finish());
        Ok(())
    }

    /// Returns the metrics.
    pub fn judge(mut self) -> GroupMeans {
        if let Some(settled) = self.settled {
            return settled;
        }
        self.items.sort_unstable();
        let mut walk = Walk::default();
        self.items.iter().rev().for_each(|item| walk.pass(item));
        walk.finish()
    }
}

/// Walk through all items in descending order.
#[derive(Default)]
struct Walk {
    group: u64,
    ranking: Ranking,
    evaluated: u64,
    without_relevant: u64,
    sums: [(ExactSum, ExactSum); GROUP_METRICS.len()],
}

impl Walk {
    fn pass(&mut self, item: &Item) {
        if item.group != self.group {
            self.end_group();
            self.group = item.group;
        }
        self.ranking.pass(item);
    }

    fn end_group(&mut self) {
        let mut ranking = mem::take(&mut self.ranking);
        ranking.end_tie();
        if ranking.relevant.is_empty() {
            self.without_relevant += u64::from(ranking.has_outcome);
            return;
        }
        ranking.relevant.sort_unstable_by(|one, other| other.total_cmp(one));
        self.evaluated += 1;
        for ((sum, squares), (_, formula)) in self.sums.iter_mut().zip(GROUP_METRICS) {
            let value = formula(&ranking);
            sum.add(value);
            squares.add(value * value);
        }
    }

    fn finish(mut self) -> GroupMeans {
        self.end_group();
        let sums = self.sums.map(|(sum, squares)| (sum.value(), squares.value()));
        GroupMeans { evaluated: self.evaluated, without_relevant: self.without_relevant, sums }
    }
}

/// A group, whose items are passed from the first down.
#[derive(Default)]
pub(crate) struct Ranking {
    passed: usize,
    has_outcome: bool,
    /// Relevances above 0, in descending order at the end.
    relevant: Vec<f64>,
    /// Sum of the precision at each relevant item.
    precisions: f64,
    /// Rank of the first relevant item.
    first: Option<usize>,
    /// Discounted gain of all items; gains of tied items are averaged.
    dcg: f64,
    at: [Cutoff; CUTOFFS.len()],
    tie: Tie,
}

/// Sums over the items up to a cutoff.
#[derive(Default)]
struct Cutoff {
    hits: usize,
    precisions: f64,
    dcg: f64,
}

/// Items of one score.
#[derive(Default)]
struct Tie {
    score: u64,
    n: usize,
    gain: f64,
    /// Sum of the discounts of all ranks, and of those up to each cutoff.
    discounts: f64,
    discounts_at: [f64; CUTOFFS.len()],
}

/// Returns the discount of the gain at a rank, which counts from 1.
fn discount(rank: usize) -> f64 {
    1.0 / libm::log2(rank as f64 + 1.0)
}

impl Ranking {
    fn pass(&mut self, item: &Item) {
        if item.score != self.tie.score {
            self.end_tie();
            self.tie.score = item.score;
        }
        self.passed += 1;
        let (rank, relevance) = (self.passed, item.relevance.map_or(0.0, f64::from_bits));
        self.has_outcome |= item.relevance.is_some();
        if relevance > 0.0 {
            self.relevant.push(relevance);
            let precision = self.relevant.len() as f64 / rank as f64;
            self.first.get_or_insert(rank);
            self.precisions += precision;
            for (at, _) in self.at.iter_mut().zip(CUTOFFS).filter(|(_, cutoff)| rank <= *cutoff) {
                at.hits += 1;
                at.precisions += precision;
            }
        }
        let (tie, discount) = (&mut self.tie, discount(rank));
        tie.n += 1;
        tie.gain += relevance;
        tie.discounts += discount;
        for (sum, _) in tie.discounts_at.iter_mut().zip(CUTOFFS).filter(|(_, cutoff)| rank <= *cutoff) {
            *sum += discount;
        }
    }

    fn end_tie(&mut self) {
        let tie = mem::take(&mut self.tie);
        if tie.gain > 0.0 {
            let gain = tie.gain / tie.n as f64;
            self.dcg += gain * tie.discounts;
            self.at.iter_mut().zip(tie.discounts_at).for_each(|(at, discounts)| at.dcg += gain * discounts);
        }
    }

    fn n_relevant(&self) -> f64 {
        self.relevant.len() as f64
    }

    /// Returns the discounted gain divided by that of the best order, of all items or up to a cutoff.
    fn ndcg(&self, cutoff: Option<usize>) -> f64 {
        let (dcg, most) = cutoff.map_or((self.dcg, usize::MAX), |at| (self.at[at].dcg, CUTOFFS[at]));
        let best = self.relevant.iter().take(most).zip(1..).map(|(gain, rank)| gain * discount(rank));
        dcg / best.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(items: &[(&str, f64, Option<f64>)]) -> GroupMeans {
        let mut groups = Groups::default();
        items.iter().for_each(|(key, score, relevance)| groups.add(7, key, *score, *relevance));
        groups.judge()
    }

    fn mean(of: &GroupMeans, metric: &str) -> Option<f64> {
        of.mean(GROUP_METRICS.iter().position(|(name, _)| *name == metric).unwrap())
    }

    #[test]
    fn greater_key_comes_first_among_equal_scores() {
        let zeros = judged(&[("a", 0.0, Some(1.0)), ("b", -0.0, Some(0.0)), ("ab", 0.0, None)]);
        assert_eq!((mean(&zeros, "mrr"), mean(&zeros, "map")), (Some(1.0 / 3.0), Some(1.0 / 3.0)));
        let signs = judged(&[("a", 0.5, Some(1.0)), ("b", -0.25, Some(0.0)), ("c", -1e300, Some(2.0))]);
        assert_eq!((mean(&signs, "mrr"), mean(&signs, "map")), (Some(1.0), Some((1.0 + 2.0 / 3.0) / 2.0)));
    }

    #[test]
    fn greatest_and_least_relevances_have_a_gain() {
        for relevance in [MAX_RELEVANCE, f64::MIN_POSITIVE] {
            let found =
                judged(&[("a", 2.0, Some(0.0)), ("b", 1.0, Some(relevance)), ("c", 0.0, Some(relevance))]);
            let (second, third) = (discount(2), discount(3));
            let expected = (second + third) / (1.0 + second);
            assert!((mean(&found, "ndcg").unwrap() - expected).abs() < 1e-15, "{relevance}");
        }
    }

    #[test]
    fn groups_without_relevant_item_are_left_out() {
        let found = judged(&[("a", 1.0, Some(0.0)), ("b", 2.0, None)]);
        assert_eq!((found.evaluated, found.without_relevant, mean(&found, "ndcg")), (0, 1, None));
        assert_eq!(judged(&[("a", 1.0, None)]), GroupMeans::default());
    }

    #[test]
    fn items_are_the_same_from_a_file() {
        let mut items = vec![];
        for key in ["", "ä", &"x".repeat(256)] {
            for relevance in [None, Some(0.0), Some(1.5)] {
                let mut groups = Groups::default();
                groups.add(u64::MAX, key, -3.5, relevance);
                items.append(&mut groups.items);
            }
        }
        let mut bytes = Vec::new();
        items.iter().for_each(|item| item.write(&mut bytes));
        let mut rest = bytes.as_slice();
        assert_eq!(std::iter::from_fn(|| Item::read(&mut rest)).collect::<Vec<_>>(), items);
    }
}
