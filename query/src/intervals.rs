//! The columns of intervals, which evaluations have on request.

use std::sync::LazyLock;

use event::{
    custom::{CUSTOM_METRICS, INTERVAL_ENDS},
    fields::FieldType,
};
use fold::{
    evaluation::{CustomValue, IntervalsOf},
    metric::{METRICS, Metric, Row},
};

use crate::{columns::ColumnType, request::Request};

/// A column of a metric's interval, or the column of the number of keys.
pub(crate) struct IntervalColumn {
    pub(crate) name: String,
    part: Part,
}

/// Content of a column.
#[derive(Clone, Copy)]
enum Part {
    Keys,
    Of(&'static Metric, End),
}

/// Part of a metric's interval.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    N,
    Low,
    High,
}

/// The parts in the order of the suffixes [`INTERVAL_ENDS`].
const ENDS: [End; 3] = [End::N, End::Low, End::High];

impl End {
    fn kind(self) -> ColumnType {
        if self == Self::N { ColumnType::Count } else { ColumnType::Field(FieldType::Float) }
    }

    /// Returns this end of an interval.
    fn of(self, interval: Option<(f64, f64)>) -> Option<f64> {
        match self {
            Self::N => None,
            Self::Low => Some(interval?.0),
            Self::High => Some(interval?.1),
        }
    }
}

/// A column of the interval of a custom metric.
pub(crate) struct CustomInterval {
    /// Name of the metric.
    metric: String,
    end: End,
}

impl CustomInterval {
    /// Returns the column of a name.
    pub(crate) fn named(column: &str) -> Option<Self> {
        let member = CUSTOM_METRICS.member(column)?;
        let of_end = |(end, text): (End, &str)| {
            let metric = member.strip_suffix(text).filter(|metric| !metric.is_empty())?;
            Some(Self { metric: metric.to_owned(), end })
        };
        ENDS.into_iter().zip(INTERVAL_ENDS).find_map(of_end)
    }

    /// Returns its type.
    pub(crate) fn kind(&self) -> ColumnType {
        self.end.kind()
    }

    /// Returns true if a table for people shows it.
    pub(crate) fn is_main(&self) -> bool {
        self.end != End::N
    }

    /// Returns its count in a row.
    pub(crate) fn count(&self, row: &Row<'_>) -> Option<u64> {
        self.of(row).map(|custom| custom.n)
    }

    /// Returns its number in a row.
    pub(crate) fn number(&self, row: &Row<'_>) -> Option<f64> {
        self.end.of(self.of(row)?.interval)
    }

    fn of<'a>(&self, row: &Row<'a>) -> Option<&'a CustomValue> {
        // A metric without a value has no interval either.
        row.release?.custom.get(&self.metric).filter(|custom| custom.value.is_some())
    }
}

/// Returns the names of the interval columns of a custom metric, given the name of its own column.
pub(crate) fn of_custom(column: &str) -> impl Iterator<Item = String> {
    INTERVAL_ENDS.iter().map(move |end| format!("{column}{end}"))
}

/// Returns the metrics that need intervals: those named by the columns of a request, or all. A bootstrap of all takes as long as
/// most queries.
pub(crate) fn asked(request: &Request) -> Option<IntervalsOf> {
    let names = match &request.columns {
        _ if !request.has_intervals => return None,
        None => return Some(IntervalsOf::ALL),
        Some(names) => names,
    };
    let of =
        names.iter().fold(IntervalsOf::default(), |of, name| match named(name).map(|column| column.part) {
            Some(Part::Of(metric, _)) => of.and(metric),
            Some(Part::Keys) => of,
            None if CustomInterval::named(name).is_some() => of.and_customs(),
            None => of,
        });
    Some(of)
}

/// Returns true if a name is that of an interval column, which requests intervals.
pub(crate) fn is_one(name: &str) -> bool {
    named(name).is_some() || CustomInterval::named(name).is_some()
}

/// All columns, in their order.
static COLUMNS: LazyLock<Vec<IntervalColumn>> = LazyLock::new(|| {
    let of = |metric: &'static Metric| {
        ENDS.into_iter().zip(INTERVAL_ENDS).map(move |(end, text)| IntervalColumn {
            name: format!("{}{text}", metric.name),
            part: Part::Of(metric, end),
        })
    };
    let keys = IntervalColumn { name: "keys".to_owned(), part: Part::Keys };
    let metrics = METRICS.iter().filter(|metric| metric.method.is_some());
    std::iter::once(keys).chain(metrics.flat_map(of)).collect()
});

pub(crate) fn columns() -> impl Iterator<Item = &'static IntervalColumn> {
    COLUMNS.iter()
}

/// Returns the column of a name.
pub(crate) fn named(name: &str) -> Option<&'static IntervalColumn> {
    columns().find(|column| column.name == name)
}

impl IntervalColumn {
    /// Returns its type.
    pub(crate) fn kind(&self) -> ColumnType {
        match self.part {
            Part::Keys => ColumnType::Count,
            Part::Of(_, end) => end.kind(),
        }
    }

    /// Returns true if a table for people shows it.
    pub(crate) fn is_main(&self) -> bool {
        match self.part {
            Part::Keys | Part::Of(_, End::N) => false,
            Part::Of(metric, _) => metric.is_main,
        }
    }

    /// Returns its count in a row.
    pub(crate) fn count(&self, row: &Row<'_>) -> Option<u64> {
        let intervals = row.release?.intervals.as_ref()?;
        match self.part {
            Part::Keys => Some(intervals.keys),
            Part::Of(metric, _) => Some(intervals.estimates.get(metric.name)?.n),
        }
    }

    /// Returns its number in a row.
    pub(crate) fn number(&self, row: &Row<'_>) -> Option<f64> {
        let estimates = &row.release?.intervals.as_ref()?.estimates;
        match self.part {
            Part::Keys => None,
            Part::Of(metric, end) => end.of(estimates.get(metric.name)?.interval),
        }
    }
}
