//! The partitions of a table on DynamoDB, as far as they throttle.
//!
//! Modelled are the documented limits: a partition takes 1,000 write units and 3,000 read units a second, and nothing above
//! that; a new table on demand has four partitions, over which partition keys are spread by a hash; items of one partition
//! key may be spread over several partitions by ranges of the sort key ("Burst and adaptive capacity", "Best practices for
//! partition keys", DynamoDB Developer Guide). Amazon does not document when and where a hot partition is split: here it is
//! after it was throttled for so long, where half of its last writes are on either side. A partition whose last writes are
//! all of one item is not split. Unused capacity is not kept.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use table::Key;

/// Number of last writes of a partition that decide where it is split.
const LAST: usize = 512;

/// After so long without a throttled request a partition is no longer hot.
const COOL: Duration = Duration::from_secs(10);

/// Limits of a partition.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Write units a second.
    pub writes: f64,
    /// Read units a second.
    pub reads: f64,
    /// Number of partitions at first.
    pub partitions: u64,
    /// For how long one is throttled before it is split.
    pub split_after: Duration,
}

/// Cost of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Units {
    /// Read units.
    Read(f64),
    /// Write units.
    Write(f64),
}

/// Where an item is: the hash of its partition key, then its sort key.
type Place = (u64, String);

/// Units that flow in by the second, of which no more than those of a second are kept.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: f64,
    rate: f64,
    at: Duration,
}

impl Bucket {
    fn new(rate: f64, at: Duration) -> Self {
        Self { level: rate, rate, at }
    }

    /// True if some units are left. More may then be taken, which later requests wait for.
    fn has_some(&mut self, now: Duration) -> bool {
        let flown = now.saturating_sub(self.at).as_secs_f64() * self.rate;
        (self.level, self.at) = ((self.level + flown).min(self.rate), self.at.max(now));
        self.level > 0.0
    }
}

#[derive(Debug)]
struct Partition {
    writes: Bucket,
    reads: Bucket,
    /// Since when it is throttled, and when it was last.
    hot: Option<(Duration, Duration)>,
    last: VecDeque<(Place, f64)>,
}

impl Partition {
    fn new(limits: &Limits, at: Duration) -> Self {
        let (writes, reads) = (Bucket::new(limits.writes, at), Bucket::new(limits.reads, at));
        Self { writes, reads, hot: None, last: VecDeque::new() }
    }

    /// Where half of the units of the last writes are on either side; `None`, when they are all at one place.
    fn middle(&self) -> Option<Place> {
        let mut by_place = BTreeMap::<&Place, f64>::new();
        for (place, units) in &self.last {
            *by_place.entry(place).or_default() += units;
        }
        let half = by_place.values().sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let mut places = by_place.into_iter().skip_while(|(_, units)| {
            sum += units;
            sum < half
        });
        let (at, _) = places.next()?;
        // The first place stays below, so that both have some.
        let is_first = self.last.iter().map(|(place, _)| place).min() == Some(at);
        if is_first { places.next().map(|(next, _)| next.clone()) } else { Some(at.clone()) }
    }
}

/// The partitions of a table.
#[derive(Debug)]
pub struct Partitions {
    limits: Limits,
    /// By the place from which on each is.
    starts: BTreeMap<Place, Partition>,
    /// Number of splits.
    pub splits: u64,
}

/// Place of an item. The id of the only workspace has no part in the hash, so a seed always gives the same spread.
fn place(key: &Key) -> Place {
    let mut hasher = DefaultHasher::new();
    key.pk.split_once('/').map_or(key.pk.as_str(), |(_, rest)| rest).hash(&mut hasher);
    (hasher.finish(), key.sk.clone())
}

impl Partitions {
    /// Partitions of a new table.
    pub fn new(limits: Limits) -> Self {
        let width = u64::MAX / limits.partitions;
        let starts = (0..limits.partitions).map(|number| (number * width, String::new()));
        let starts = starts.map(|start| (start, Partition::new(&limits, Duration::ZERO))).collect();
        Self { limits, starts, splits: 0 }
    }

    /// Number of partitions.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    fn of(&mut self, place: &Place) -> Option<(&Place, &mut Partition)> {
        self.starts.range_mut(..=place).next_back()
    }

    /// Lets a request for an item through, or refuses it: a refusal makes its partition hot, and may split it.
    pub fn lets_through(&mut self, key: &Key, units: Units, now: Duration) -> bool {
        let place = place(key);
        let Some((start, partition)) = self.of(&place) else { return true };
        let bucket = match units {
            Units::Read(_) => &mut partition.reads,
            Units::Write(_) => &mut partition.writes,
        };
        if bucket.has_some(now) {
            return true;
        }
        let since =
            partition.hot.filter(|(_, last)| now.saturating_sub(*last) < COOL).map_or(now, |hot| hot.0);
        partition.hot = Some((since, now));
        let start = start.clone();
        if now.saturating_sub(since) >= self.limits.split_after {
            self.split(&start, now);
        }
        false
    }

    /// Counts what a request costs that was let through.
    pub fn charge(&mut self, key: &Key, units: Units) {
        let place = place(key);
        let Some((_, partition)) = self.of(&place) else { return };
        match units {
            Units::Read(units) => partition.reads.level -= units,
            Units::Write(units) => {
                partition.writes.level -= units;
                partition.last.push_back((place, units));
                if partition.last.len() > LAST {
                    partition.last.pop_front();
                }
            }
        }
    }

    fn split(&mut self, start: &Place, now: Duration) {
        let middle = self.starts.get(start).and_then(Partition::middle);
        let Some(partition) = self.starts.get_mut(start) else { return };
        partition.hot = None;
        let Some(middle) = middle else { return };
        partition.last.retain(|(place, _)| *place < middle);
        self.starts.insert(middle, Partition::new(&self.limits, now));
        self.splits += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { writes: 100.0, reads: 300.0, partitions: 4, split_after: Duration::from_secs(60) };

    /// Units a second that get through in each of some minutes, when more is wanted of keys, one after the other.
    fn written(partitions: &mut Partitions, minutes: u64, key: impl Fn(u64) -> Key) -> Vec<f64> {
        let mut rates = Vec::new();
        let mut number = 0;
        for minute in 0..minutes {
            let mut through = 0.0;
            for millis in (0..60_000).step_by(2) {
                let (key, now) = (key(number), Duration::from_millis(minute * 60_000 + millis));
                number += 1;
                if partitions.lets_through(&key, Units::Write(1.0), now) {
                    partitions.charge(&key, Units::Write(1.0));
                    through += 1.0;
                }
            }
            rates.push(through / 60.0);
        }
        rates
    }

    #[test]
    fn a_partition_takes_what_it_takes() {
        let rates = written(&mut Partitions::new(LIMITS), 1, |_| Key::new("a", "1"));
        assert!((100.0..103.0).contains(&rates[0]), "{rates:?}");
    }

    #[test]
    fn spread_load_splits_partitions_until_it_fits() {
        let mut partitions = Partitions::new(LIMITS);
        let lanes = |number: u64| Key::new("a", format!("{:02}/{:08}", number % 16, number / 16));
        let rates = written(&mut partitions, 8, lanes);
        assert!(rates[0] < 110.0 && rates[7] > 450.0, "{rates:?}");
        assert!(partitions.count() > 6, "{}", partitions.count());
    }

    /// All new items come after all that are there: whatever is split off is behind.
    #[test]
    fn ascending_keys_never_outpace_one_partition() {
        let mut partitions = Partitions::new(LIMITS);
        let rates = written(&mut partitions, 8, |number| Key::new("a", format!("{number:08}")));
        assert!(rates.iter().all(|rate| *rate < 120.0), "{rates:?}");
        let one = written(&mut Partitions::new(LIMITS), 8, |_| Key::new("a", "1"));
        assert!(one.iter().all(|rate| *rate < 103.0), "{one:?}");
    }
}
