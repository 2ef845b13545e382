//! The columns of intervals, which evaluations have when they are asked for.

use std::sync::LazyLock;

use event::fields::FieldType;
use fold::figure::{FIGURES, Figure, Row};

use crate::column_type::ColumnType;

/// A column of a figure's interval, or that of how many keys there are.
pub(crate) struct IntervalColumn {
    pub(crate) name: String,
    part: Part,
}

/// What a column says.
#[derive(Clone, Copy)]
enum Part {
    Keys,
    N(&'static Figure),
    Low(&'static Figure),
    High(&'static Figure),
}

/// All of them, in their order.
static COLUMNS: LazyLock<Vec<IntervalColumn>> = LazyLock::new(|| {
    let of = |figure: &'static Figure| {
        [("n", Part::N(figure)), ("low", Part::Low(figure)), ("high", Part::High(figure))]
            .map(|(end, part)| IntervalColumn { name: format!("{}_{end}", figure.name), part })
    };
    let keys = IntervalColumn { name: "keys".to_owned(), part: Part::Keys };
    let figures = FIGURES.iter().filter(|figure| figure.method.is_some());
    std::iter::once(keys).chain(figures.flat_map(of)).collect()
});

pub(crate) fn columns() -> impl Iterator<Item = &'static IntervalColumn> {
    COLUMNS.iter()
}

/// The column of a name.
pub(crate) fn named(name: &str) -> Option<&'static IntervalColumn> {
    columns().find(|column| column.name == name)
}

impl IntervalColumn {
    /// What it holds.
    pub(crate) fn kind(&self) -> ColumnType {
        match self.part {
            Part::Keys | Part::N(_) => ColumnType::Count,
            Part::Low(_) | Part::High(_) => ColumnType::Field(FieldType::Float),
        }
    }

    /// Whether a table for people shows it.
    pub(crate) fn is_main(&self) -> bool {
        match self.part {
            Part::Keys | Part::N(_) => false,
            Part::Low(figure) | Part::High(figure) => figure.is_main,
        }
    }

    /// Its count in a row.
    pub(crate) fn count(&self, row: &Row<'_>) -> Option<u64> {
        let intervals = row.release?.intervals.as_ref()?;
        match self.part {
            Part::Keys => Some(intervals.keys),
            Part::N(figure) => Some(intervals.estimates.get(figure.name)?.n),
            Part::Low(_) | Part::High(_) => None,
        }
    }

    /// Its number in a row.
    pub(crate) fn number(&self, row: &Row<'_>) -> Option<f64> {
        let estimates = &row.release?.intervals.as_ref()?.estimates;
        match self.part {
            Part::Keys | Part::N(_) => None,
            Part::Low(figure) => Some(estimates.get(figure.name)?.interval?.0),
            Part::High(figure) => Some(estimates.get(figure.name)?.interval?.1),
        }
    }
}
