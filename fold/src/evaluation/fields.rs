//! Fields of events that an evaluation needs, read from a segment or copied out of it.

use std::{cmp::Ordering, sync::Arc};

use event::{
    fields::{GROUP, SCORE_PREFIX, plain_label},
    pseudonym::is_pseudonym,
};

use crate::{
    LogSegment, Result, RowRef,
    hash::{hash, mix},
    read::{Numbers, Texts, floats, required_times, texts},
};

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Fields of a row that an evaluation needs.
#[derive(Clone, Copy, Default)]
pub(super) struct Fields<'a> {
    pub(super) score: Option<f64>,
    pub(super) label: Option<&'a str>,
    pub(super) value: Option<f64>,
    pub(super) lower: Option<f64>,
    pub(super) upper: Option<f64>,
    pub(super) scores: Option<Scores<'a>>,
    pub(super) group: Option<Group<'a>>,
}

/// Group of a prediction, as an item of which it has a key.
#[derive(Clone, Copy)]
pub(super) struct Group<'a> {
    /// Hash of its name, its release and its day.
    pub(super) hash: u64,
    pub(super) key: &'a str,
}

impl<'a> Fields<'a> {
    /// Returns the class of a prediction of several classes: its label, else the class with the greatest score; among
    /// several such classes the first in the order of their bytes, as `numpy.argmax` of sorted classes.
    pub(super) fn class(&self) -> Option<&'a str> {
        self.label.or_else(|| self.scores?.greatest())
    }
}

/// Scores of the classes of one prediction, at least one.
#[derive(Clone, Copy)]
pub(super) struct Scores<'a> {
    classes: &'a Arc<[Box<str>]>,
    values: Values<'a>,
}

#[derive(Clone, Copy)]
enum Values<'a> {
    /// Columns of a segment, by class, and the row.
    Columns(&'a [Numbers<'a, f64>], usize),
    /// Kept scores; NaN if the class has none.
    Kept(&'a [f64]),
}

impl<'a> Scores<'a> {
    /// Iterates over the classes that have a score, in the order of the classes.
    #[inline]
    pub(super) fn iter(self) -> impl Iterator<Item = (&'a str, f64)> + Clone {
        let score = move |at: usize| match self.values {
            Values::Columns(columns, row) => columns[at].get(row),
            Values::Kept(values) => Some(values[at]).filter(|score| !score.is_nan()),
        };
        let classes = self.classes.iter().enumerate();
        classes.filter_map(move |(at, class)| Some((&**class, score(at)?)))
    }

    fn greatest(self) -> Option<&'a str> {
        let better = |best: (&'a str, f64), one: (&'a str, f64)| if one.1 > best.1 { one } else { best };
        self.iter().reduce(better).map(|(class, _)| class)
    }
}

/// Fields of a segment that an evaluation needs.
pub(super) struct View<'a> {
    key: Option<Texts<'a>>,
    /// True if the key of any row was erased.
    has_erased: bool,
    score: Option<Numbers<'a, f64>>,
    label: Option<Texts<'a>>,
    value: Option<Numbers<'a, f64>>,
    lower: Option<Numbers<'a, f64>>,
    upper: Option<Numbers<'a, f64>>,
    /// Classes with scores, in the order of their bytes.
    classes: Arc<[Box<str>]>,
    scores: Vec<Numbers<'a, f64>>,
    groups: Option<GroupColumns<'a>>,
}

/// Columns that name the groups of predictions.
struct GroupColumns<'a> {
    group: Texts<'a>,
    release: Option<Texts<'a>>,
    predicted_at: &'a [i64],
}

impl<'a> View<'a> {
    pub(super) fn read(segment: &LogSegment<'a>) -> Result<Self> {
        let columns = segment.columns;
        let number = |name: &str| if columns.rows == 0 { Ok(None) } else { floats(columns, name) };
        let text = |name: &str| if columns.rows == 0 { Ok(None) } else { texts(columns, name) };
        let mut scores = Vec::new();
        for column in &columns.columns {
            if let Some(class) = column.name.strip_prefix(SCORE_PREFIX)
                && let Some(numbers) = number(&column.name)?
            {
                scores.push((Box::from(plain_label(class)), numbers));
            }
        }
        scores.sort_by(|one: &(Box<str>, _), other| one.0.cmp(&other.0));
        let (classes, scores): (Vec<_>, Vec<_>) = scores.into_iter().unzip();
        let key = text("key")?;
        let is_erased = |row: usize| key.and_then(|key| key.get(row)).is_some_and(is_pseudonym);
        Ok(Self {
            key,
            has_erased: (0..columns.rows).any(is_erased),
            score: number("score")?,
            label: text("label")?,
            value: number("value")?,
            lower: number("lower")?,
            upper: number("upper")?,
            classes: classes.into(),
            scores,
            groups: match text(GROUP)? {
                Some(group) => Some(GroupColumns {
                    group,
                    release: text("release")?,
                    predicted_at: required_times(columns, "predicted_at")?,
                }),
                None => None,
            },
        })
    }

    /// Returns the key of a row. The join has checked that there is one.
    pub(super) fn key(&self, at: RowRef) -> &'a str {
        self.key.and_then(|key| key.get(at.row as usize)).unwrap_or_default()
    }

    /// Returns whether the key of a row was erased.
    #[inline(always)]
    pub(super) fn is_erased(&self, at: RowRef) -> bool {
        self.has_erased && is_pseudonym(self.key(at))
    }

    #[inline(always)]
    pub(super) fn fields(&self, at: RowRef) -> Fields<'_> {
        let row = at.row as usize;
        let number = |column: Option<Numbers<'a, f64>>| column.and_then(|column| column.get(row));
        Fields {
            score: number(self.score),
            label: self.label.and_then(|label| label.get(row)),
            value: number(self.value),
            lower: number(self.lower),
            upper: number(self.upper),
            scores: if self.scores.is_empty() { None } else { self.scores(row) },
            group: self.groups.as_ref().and_then(|columns| self.group(columns, at)),
        }
    }

    fn group(&self, columns: &GroupColumns<'a>, at: RowRef) -> Option<Group<'a>> {
        let row = at.row as usize;
        let group = columns.group.get(row)?;
        let release = columns.release.and_then(|release| release.get(row)).unwrap_or_default();
        let day = columns.predicted_at[row].div_euclid(DAY) as u64;
        let hash = mix(mix(hash(group.as_bytes()), hash(release.as_bytes())), day);
        Some(Group { hash, key: self.key(at) })
    }

    fn scores(&self, row: usize) -> Option<Scores<'_>> {
        let scores = Scores { classes: &self.classes, values: Values::Columns(&self.scores, row) };
        scores.iter().next().is_some().then_some(scores)
    }
}

/// Fields of a row, kept to be evaluated again.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    score: Option<f64>,
    label: Option<Box<str>>,
    value: Option<f64>,
    /// Bounds and scores; most predictions have none.
    more: Option<Box<More>>,
}

#[derive(Clone, Debug)]
struct More {
    lower: Option<f64>,
    upper: Option<f64>,
    scores: Option<KeptScores>,
}

#[derive(Clone, Debug)]
struct KeptScores {
    /// Classes of the segment, shared by its rows.
    classes: Arc<[Box<str>]>,
    /// One score for each class.
    scores: Box<[f64]>,
}

impl Kept {
    pub(super) fn of(fields: &Fields<'_>) -> Self {
        let scores = fields.scores.map(|scores| {
            let mut kept = vec![f64::NAN; scores.classes.len()];
            let mut classes = scores.classes.iter().zip(&mut kept);
            for (class, score) in scores.iter() {
                if let Some((_, kept)) = classes.find(|(name, _)| ***name == *class) {
                    *kept = score;
                }
            }
            KeptScores { classes: Arc::clone(scores.classes), scores: kept.into() }
        });
        let has_more = fields.lower.is_some() || fields.upper.is_some() || scores.is_some();
        let more = has_more.then(|| Box::new(More { lower: fields.lower, upper: fields.upper, scores }));
        Self { score: fields.score, label: fields.label.map(Into::into), value: fields.value, more }
    }

    pub(super) fn fields(&self) -> Fields<'_> {
        let more = self.more.as_deref();
        let scores = more.and_then(|more| more.scores.as_ref());
        Fields {
            score: self.score,
            label: self.label.as_deref(),
            value: self.value,
            lower: more.and_then(|more| more.lower),
            upper: more.and_then(|more| more.upper),
            scores: scores.map(|of| Scores { classes: &of.classes, values: Values::Kept(&of.scores) }),
            group: None,
        }
    }

    /// Returns the approximate number of bytes held, beside itself.
    pub(super) fn bytes(&self) -> usize {
        let more = self.more.as_deref().map_or(0, |more| {
            size_of::<More>() + more.scores.as_ref().map_or(0, |of| size_of_val(&*of.scores))
        });
        self.label.as_deref().map_or(0, str::len) + more
    }

    /// Returns the work of its evaluation: one, plus one for each class.
    pub(super) fn work(&self) -> usize {
        let scores = self.more.as_deref().and_then(|more| more.scores.as_ref());
        1 + scores.map_or(0, |of| of.scores.len())
    }

    /// Orders by content; equal fields are interchangeable.
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        let (one, other) = (self.fields(), other.fields());
        plain(&one).cmp(&plain(&other)).then_with(|| bits_of_scores(one).cmp(bits_of_scores(other)))
    }
}

/// Sort key of rows before their scores.
type Plain<'a> = (Option<u64>, Option<&'a str>, [Option<u64>; 3]);

fn plain<'a>(of: &Fields<'a>) -> Plain<'a> {
    let bits = |number: Option<f64>| number.map(f64::to_bits);
    (bits(of.score), of.label, [of.value, of.lower, of.upper].map(bits))
}

fn bits_of_scores(of: Fields<'_>) -> impl Iterator<Item = (&str, u64)> {
    of.scores.into_iter().flat_map(Scores::iter).map(|(class, score)| (class, score.to_bits()))
}

#[cfg(test)]
mod tests;
