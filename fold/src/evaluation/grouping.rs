//! Grouping of predictions into the rows of an answer: by release or pool of releases, by the values of texts, by
//! bins of numbers, by time of prediction.
//!
//! A bucket is a function of the prediction alone, after the join: a correction that moves a prediction to another
//! bucket counts there, and nothing counts twice. A bucket has the metrics that an evaluation of its predictions
//! alone has; its wins, losses and ties are against all releases that predicted the same outcomes, evaluated or not.

mod interned;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use interned::Interned;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::{Joined, LogSegment, Result, RowRef, read::required_times};

/// Maximum number of columns to group predictions by.
pub const MAX_BY: usize = 4;

/// Maximum number of buckets of an evaluation.
pub const MAX_BUCKETS: usize = 10_000;

/// Name of releases that are in no pool.
pub const UNKNOWN: &str = "(unknown)";

/// Value of a column that groups predictions. Texts and bins come first, then those without a value of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// A text.
    Text(String),
    /// Number of a bin: the number of its edges that are not greater than the value.
    Bin(usize),
    /// Any text without a bucket of its own.
    Others,
    /// No value.
    Null,
}

/// Column that groups predictions.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// Groups by the values of a column of texts.
    Texts {
        /// Name of the column, such as `tag.carrier`.
        column: String,
        /// Values with a bucket each, all others sharing one; every value has one, when `None`.
        kept: Option<BTreeSet<String>>,
    },
    /// Groups by bins of a column of numbers.
    Bins {
        /// Name of the column, such as `feature.distance`.
        column: String,
        /// Edges of the bins, in ascending order: a number that equals an edge is above it.
        edges: Vec<f64>,
    },
}

impl By {
    /// Returns the name of the column.
    pub fn column(&self) -> &str {
        match self {
            Self::Texts { column, .. } | Self::Bins { column, .. } => column,
        }
    }
}

/// Spans in which each release was live, in microseconds: from the first instant, inclusive, to the second,
/// exclusive.
pub type LiveSpans = BTreeMap<String, Vec<(i64, i64)>>;

/// Selection of evaluated predictions by whether their release was live when they were made. The rest are still met
/// head to head, so live releases are compared with those that were not live.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Spans in which releases were live.
    pub live: LiveSpans,
    /// True to evaluate predictions of live releases, false to evaluate the rest.
    pub is_live: bool,
}

/// Grouping of predictions; by default one bucket for each release.
#[derive(Clone, Debug, Default)]
pub struct Grouping {
    /// Name of the pool of each release, such as its model; `None` for one bucket a release.
    pub pools: Option<BTreeMap<String, String>>,
    /// Further columns to group by, at most [`MAX_BY`].
    pub by: Vec<By>,
    /// Instants at which periods begin, and the end of the last one. Predictions before or after are left out. Empty
    /// for one period without bounds.
    pub borders: Vec<i64>,
    /// Selection of evaluated predictions; all, when `None`.
    pub judged: Option<Judged>,
    /// Releases whose predictions are included, each with whether it is evaluated or only met by others; all, when
    /// `None`.
    pub only: Option<BTreeMap<String, bool>>,
    /// Condition on included predictions; all, when `None`.
    pub condition: Option<Arc<dyn Condition>>,
}

/// Common properties of the predictions of one row. Buckets are ordered as rows are.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket {
    /// Number of the period.
    pub period: usize,
    /// Name of the release or its pool.
    pub name: String,
    /// Values by column of [`Grouping::by`].
    pub values: Vec<Value>,
}

/// Marker of no bucket.
const NONE: u32 = u32::MAX;

/// Assignment of the predictions of a join to buckets.
pub(super) struct Dealt {
    pub(super) buckets: Vec<Bucket>,
    /// Cell of each bucket: the number of its period and values. Predictions of one cell meet.
    pub(super) cells: Vec<u32>,
    /// Number of superseded predictions of each bucket, which do not count because they were sent again later.
    pub(super) repeated: Vec<u64>,
    /// Bucket of each pair; `None` if each release is a bucket.
    of_pair: Option<Vec<u32>>,
    /// Crowd of each pair that is in no bucket. Pairs in buckets meet crowds.
    crowds: Vec<u32>,
    /// Cell of each crowd: the number of its period and values.
    crowd_cells: Vec<u32>,
}

impl Dealt {
    /// Returns the bucket of a pair, by its number and its release; `None` if it is left out.
    #[inline]
    pub(super) fn bucket(&self, number: usize, release: u32) -> Option<usize> {
        match &self.of_pair {
            None => Some(release as usize),
            Some(of_pair) => {
                Some(of_pair[number]).filter(|bucket| *bucket != NONE).map(|bucket| bucket as usize)
            }
        }
    }
}

impl Dealt {
    /// Returns the number of buckets and crowds.
    pub(super) fn contenders(&self) -> usize {
        self.buckets.len() + self.crowd_cells.len()
    }

    /// Returns the number of the bucket of a pair or, counted after all buckets, of its crowd; and the cell of that.
    #[inline]
    pub(super) fn contender(&self, number: usize, release: u32) -> Option<(usize, u32)> {
        if let Some(bucket) = self.bucket(number, release) {
            return Some((bucket, self.cells[bucket]));
        }
        let crowd = *self.crowds.get(number)? as usize;
        Some((self.buckets.len() + crowd, *self.crowd_cells.get(crowd)?))
    }
}

impl Grouping {
    /// Returns the columns of predictions that it needs, beside those of every evaluation.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let of_condition = self.condition.iter().flat_map(|condition| condition.columns());
        self.by.iter().map(By::column).chain(of_condition.map(String::as_str))
    }

    /// Returns whether each release is a bucket, with all its predictions.
    pub(super) fn is_plain(&self) -> bool {
        self.pools.is_none()
            && self.by.is_empty()
            && self.borders.is_empty()
            && self.judged.is_none()
            && self.only.is_none()
            && self.condition.is_none()
    }

    /// Returns whether the predictions of a release are evaluated.
    pub(super) fn applies_to(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.get(name).is_some_and(|is_judged| *is_judged))
    }

    /// Returns whether the number of buckets is bounded by other means: they are releases, or stored values.
    pub(super) fn is_bounded(&self) -> bool {
        self.is_plain() || self.only.is_some()
    }

    /// Assigns the predictions of a join to buckets.
    pub(super) fn deal(&self, joined: &Joined, predictions: &[LogSegment<'_>]) -> Result<Dealt> {
        if self.is_plain() {
            let bucket = |name: &String| Bucket { name: name.clone(), ..Bucket::default() };
            return Ok(Dealt {
                buckets: joined.releases.iter().map(bucket).collect(),
                cells: vec![0; joined.releases.len()],
                repeated: joined.repeated.clone(),
                of_pair: None,
                crowds: Vec::new(),
                crowd_cells: Vec::new(),
            });
        }
        let mut dealer = Dealer::new(self, joined, predictions)?;
        let of_pair = joined.pairs.iter().map(|pair| dealer.deal(pair.prediction, pair.release)).collect();
        let crowds = match self.judged {
            Some(_) => joined.pairs.iter().map(|pair| dealer.crowd(pair.prediction, pair.release)).collect(),
            None => Vec::new(),
        };
        let mut repeated = vec![0; dealer.buckets.len()];
        for &(at, release) in &joined.repeats {
            let bucket = dealer.deal(at, release);
            repeated.resize(dealer.buckets.len(), 0);
            if let Some(repeated) = repeated.get_mut(bucket as usize) {
                *repeated += 1;
            }
        }
        let Dealer { buckets, cells, crowd_cells, .. } = dealer;
        Ok(Dealt { buckets, cells, repeated, of_pair: Some(of_pair), crowds, crowd_cells })
    }
}

/// Key of a bucket: a number for the name, the period and each column.
type Numbers = [u32; MAX_BY + 2];

/// Number of a name, and the spans in which the release was live.
type Named<'a> = (u32, &'a [(i64, i64)]);

struct Dealer<'a> {
    grouping: &'a Grouping,
    segments: Vec<Dimensions<'a>>,
    /// Name and live spans of each release; `None` if its predictions are left out.
    names: Vec<Option<Named<'a>>>,
    name_texts: Vec<String>,
    /// Values of each column, by number.
    values: Vec<Vec<Value>>,
    known: HashMap<Numbers, u32>,
    known_cells: HashMap<Numbers, u32>,
    last: Option<(Numbers, u32)>,
    buckets: Vec<Bucket>,
    cells: Vec<u32>,
    known_crowds: HashMap<Numbers, u32>,
    crowd_cells: Vec<u32>,
}

/// Grouping inputs of the predictions of a segment.
struct Dimensions<'a> {
    predicted_at: &'a [i64],
    /// Number of the value of each row, by column.
    codes: Vec<Vec<u32>>,
    /// True for included rows; all are, when `None`.
    kept: Option<Vec<bool>>,
}

impl<'a> Dealer<'a> {
    fn new(grouping: &'a Grouping, joined: &Joined, predictions: &[LogSegment<'a>]) -> Result<Self> {
        let mut interned: Vec<Interned> = grouping.by.iter().map(|_| Interned::default()).collect();
        let mut kept =
            grouping.condition.as_ref().map(|condition| condition.holds(predictions)).transpose()?;
        let mut segments = Vec::with_capacity(predictions.len());
        for segment in predictions {
            let mut codes = Vec::with_capacity(grouping.by.len());
            for (by, interned) in grouping.by.iter().zip(&mut interned) {
                codes.push(interned.codes(by, segment)?);
            }
            let predicted_at = match segment.columns.rows {
                0 => &[],
                _ => required_times(segment.columns, "predicted_at")?,
            };
            let kept = kept.as_mut().map(|kept| kept.drain(..segment.columns.rows).collect());
            segments.push(Dimensions { predicted_at, codes, kept });
        }
        let mut name_texts = Vec::new();
        let mut names = Vec::with_capacity(joined.releases.len());
        for release in &joined.releases {
            if grouping.only.as_ref().is_some_and(|only| !only.contains_key(release)) {
                names.push(None);
                continue;
            }
            let name = match &grouping.pools {
                None => release.as_str(),
                Some(pools) => pools.get(release).map_or(UNKNOWN, String::as_str),
            };
            let at = name_texts.iter().position(|known| known == name).unwrap_or(name_texts.len());
            if at == name_texts.len() {
                name_texts.push(name.to_owned());
            }
            let live = grouping.judged.as_ref().and_then(|judged| judged.live.get(release));
            names.push(Some((at as u32, live.map_or(&[][..], Vec::as_slice))));
        }
        Ok(Self {
            grouping,
            segments,
            names,
            name_texts,
            values: interned.into_iter().map(|interned| interned.values).collect(),
            known: HashMap::new(),
            known_cells: HashMap::new(),
            last: None,
            buckets: Vec::new(),
            cells: Vec::new(),
            known_crowds: HashMap::new(),
            crowd_cells: Vec::new(),
        })
    }

    /// Returns the bucket of a prediction.
    fn deal(&mut self, at: RowRef, release: u32) -> u32 {
        let Some((numbers, true)) = self.numbers(at, release) else { return NONE };
        match self.last {
            Some((last, bucket)) if last == numbers => bucket,
            _ => self.bucket(numbers),
        }
    }

    /// Returns the crowd of a prediction that is not evaluated because of the live spans of its release. Crowds are by
    /// release.
    fn crowd(&mut self, at: RowRef, release: u32) -> u32 {
        let Some((mut numbers, false)) = self.numbers(at, release) else { return NONE };
        numbers[0] = release;
        let next = self.crowd_cells.len() as u32;
        let crowd = *self.known_crowds.entry(numbers).or_insert(next);
        if crowd == next {
            let cell = self.cell(numbers);
            self.crowd_cells.push(cell);
        }
        crowd
    }

    /// Returns the key of a prediction, and whether it is evaluated; `None` if it is left out.
    fn numbers(&self, at: RowRef, release: u32) -> Option<(Numbers, bool)> {
        let (segment, row) = (&self.segments[at.segment as usize], at.row as usize);
        if segment.kept.as_ref().is_some_and(|kept| !kept[row]) {
            return None;
        }
        let instant = segment.predicted_at[row];
        let (name, live) = self.names[release as usize]?;
        let is_judged = self.grouping.judged.as_ref().is_none_or(|judged| {
            // The last span that begins by then.
            let before = live.partition_point(|(from, _)| *from <= instant);
            let was_live = live[..before].last().is_some_and(|(_, to)| instant < *to);
            was_live == judged.is_live
        });
        let borders = &self.grouping.borders;
        let period = match borders.partition_point(|border| *border <= instant) {
            _ if borders.is_empty() => 0,
            0 => return None,
            after if after == borders.len() => return None,
            after => after - 1,
        };
        let mut numbers = Numbers::default();
        (numbers[0], numbers[1]) = (name, period as u32);
        numbers[2..].iter_mut().zip(&segment.codes).for_each(|(number, codes)| *number = codes[row]);
        Some((numbers, is_judged))
    }

    /// Returns the cell of a key: the number of its period and values.
    fn cell(&mut self, mut numbers: Numbers) -> u32 {
        numbers[0] = 0;
        let next = self.known_cells.len() as u32;
        *self.known_cells.entry(numbers).or_insert(next)
    }

    fn bucket(&mut self, numbers: Numbers) -> u32 {
        let next = self.buckets.len() as u32;
        let bucket = *self.known.entry(numbers).or_insert(next);
        if bucket == next {
            let values = self.values.iter().zip(&numbers[2..]);
            self.buckets.push(Bucket {
                period: numbers[1] as usize,
                name: self.name_texts[numbers[0] as usize].clone(),
                values: values.map(|(values, number)| values[*number as usize].clone()).collect(),
            });
            let cell = self.cell(numbers);
            self.cells.push(cell);
        }
        self.last = Some((numbers, bucket));
        bucket
    }
}

#[cfg(test)]
pub(super) mod tests;
