//! Decoded segments of one day, and rows in them.

use event::{Columns, lane::Place};

use crate::{FoldError, Result};

/// One decoded segment with its place in the log of its day and kind.
#[derive(Clone, Copy, Debug)]
pub struct LogSegment<'a> {
    /// Where it stands: what has the greater place is later.
    pub place: Place,
    /// Its events, at least the columns that are needed.
    pub columns: &'a Columns,
}

/// A row of a slice of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowRef {
    /// Which element of the slice.
    pub segment: u32,
    /// Which row of that segment, from 0.
    pub row: u32,
}

/// The elements of `segments` that have rows, in log order ([`Place`]), each with its index in the
/// slice; and how many rows they have together.
pub(crate) fn in_log_order<'a>(segments: &[LogSegment<'a>]) -> Result<(Vec<(u32, &'a Columns)>, usize)> {
    let rows = segments.iter().map(|segment| segment.columns.rows).sum();
    // Row numbers take 32 bits, less two that mean "none".
    if rows >= u32::MAX as usize - 1 || segments.len() >= u32::MAX as usize {
        return Err(FoldError::TooManyRows { rows });
    }
    let mut order: Vec<usize> = (0..segments.len()).filter(|&at| segments[at].columns.rows > 0).collect();
    order.sort_by_key(|&at| segments[at].place);
    Ok((order.into_iter().map(|at| (at as u32, segments[at].columns)).collect(), rows))
}
