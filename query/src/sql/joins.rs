//! Upper bounds of the rows of joins, computed before the joins: a join of many rows by few values would take more memory than
//! there is.

use event::{Error, Result};
use polars::{
    lazy::{dsl::Expr, frame::LazyFrame},
    prelude::{DataType, IdxSize, JoinArgs, JoinType, PolarsResult, col, len, lit},
};

use crate::budget::Hold;

/// Maximum number of joins in a statement.
const MAX_JOINS: usize = 6;

/// One join: both sides, and the keys of each. Without keys every row is paired with every row.
pub(super) struct Join {
    pub(super) sides: [LazyFrame; 2],
    pub(super) keys: [Vec<Expr>; 2],
}

/// Returns an upper bound of the rows of joins, from the inner to the outer ones; counting stops beyond `most`. It must run on a
/// large stack.
///
/// # Errors
/// `Invalid`, if there are too many joins; `Unavailable`, if nobody waits for it.
pub(super) fn rows(joins: Vec<Join>, most: u64, hold: &Hold) -> Result<u64> {
    if joins.len() > MAX_JOINS {
        return Err(Error::invalid(format!("sql: a statement has at most {MAX_JOINS} joins")));
    }
    let mut all = 0_u64;
    for join in joins {
        hold.check()?;
        all = all.saturating_add(join.rows().map_err(crate::frame::refused)?);
        if all > most {
            break;
        }
    }
    Ok(all)
}

impl Join {
    /// Returns an upper bound of its rows: for each key the product of the rows of both sides, plus the rows without a match.
    fn rows(self) -> PolarsResult<u64> {
        let [left, right] = self.sides;
        let (of_left, of_right) = (height(left.clone())?, height(right.clone())?);
        let [left_on, right_on] = self.keys;
        if left_on.is_empty() {
            return Ok(of_left.saturating_mul(of_right));
        }
        let name = |at: usize| format!("key{at}");
        let names: Vec<Expr> = (0..left_on.len()).map(|at| col(name(at))).collect();
        let counted = |side: LazyFrame, on: Vec<Expr>, rows: &str| {
            let keys: Vec<Expr> = on.into_iter().enumerate().map(|(at, key)| key.alias(name(at))).collect();
            side.select(keys).group_by(names.clone()).agg([len().cast(DataType::Float64).alias(rows)])
        };
        let [left, right] = [counted(left, left_on, "left"), counted(right, right_on, "right")];
        let met = left.join(right, names.clone(), names.clone(), JoinArgs::new(JoinType::Inner));
        let met =
            met.select([(col("left") * col("right")).sum().fill_null(lit(0.0)).alias("met")]).collect()?;
        let met = met.column("met")?.f64()?.get(0).unwrap_or_default();
        // The cast saturates: a sum beyond the range of an integer is the greatest one.
        Ok((met as u64).saturating_add(of_left).saturating_add(of_right))
    }
}

fn height(side: LazyFrame) -> PolarsResult<u64> {
    let rows = side.select([len().alias("rows")]).collect()?;
    let rows = rows.column("rows")?.as_materialized_series().get(0)?.extract::<IdxSize>();
    Ok(rows.unwrap_or_default().into())
}
