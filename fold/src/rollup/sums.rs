//! Summing up the numbers of many groups in one pass over a column.
//!
//! Adding a double to a fixed-point sum shifts its bits to their place. Doubles of the same exponent have the same
//! place; so their bits are summed as integers first, and one shift for each group and exponent follows. The sums are
//! the same, bit for bit.

use super::{moments::Cell, numbers::NumberRollup};
use crate::{fixed, read::Numbers};

/// Number of exponents, from the greatest down, that are summed separately; smaller numbers are rare.
const EXPONENTS: i32 = 24;

/// Maximum number of rows for which a [`Cell`] cannot overflow: 2^53 squared, 2^20 times.
const MAX_ROWS: usize = 1 << 20;

/// Maximum number of groups for which the memory is worth it.
const MAX_GROUPS: usize = 512;

/// Calls `visit` with the group and the number of each row that has one.
#[inline]
pub(super) fn each(groups: &[u32], column: Numbers<'_, f64>, mut visit: impl FnMut(usize, f64)) {
    let rows = groups.iter().zip(column.values);
    match column.valid {
        None => rows.for_each(|(&group, &number)| visit(group as usize, number)),
        Some(valid) => {
            let present = rows.zip(valid).filter(|(_, valid)| **valid);
            present.for_each(|((&group, &number), _)| visit(group as usize, number));
        }
    }
}

/// Sums up the numbers of each group; `None` for a group without numbers.
pub(super) fn numbers(
    codes: &[u32],
    groups: usize,
    column: Option<Numbers<'_, f64>>,
) -> Vec<Option<NumberRollup>> {
    let Some(column) = column else { return vec![None; groups] };
    let mut rollups = vec![NumberRollup::empty(); groups];
    let greatest = column.values.iter().map(|&number| fixed::exponent(number)).max().unwrap_or(0);
    // Exponent field 0 is that of zero and of numbers that are rarer still.
    let least = (greatest + 1 - EXPONENTS).max(1);
    if codes.len() > MAX_ROWS || groups > MAX_GROUPS || greatest < least {
        each(codes, column, |group, number| rollups[group].add(number));
    } else {
        let width = (greatest + 1 - least) as usize;
        let mut cells = vec![Cell::default(); groups * width];
        each(codes, column, |group, number| {
            let rollup = &mut rollups[group];
            rollup.count(number);
            let above = fixed::exponent(number) - least;
            if above >= 0 {
                cells[group * width + above as usize].add(number);
            } else if number != 0.0 {
                rollup.add_sums(number);
            }
        });
        for (group, cells) in cells.chunks(width).enumerate() {
            for (cell, exponent) in cells.iter().zip(least..).filter(|(cell, _)| cell.squares > 0) {
                rollups[group].add_whole(cell.sum, cell.squares, exponent);
            }
        }
    }
    rollups.into_iter().map(NumberRollup::some).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    fn number() -> impl Strategy<Value = f64> {
        let whole = proptest::num::f64::NORMAL | proptest::num::f64::ZERO | proptest::num::f64::SUBNORMAL;
        prop_oneof![4 => 0.0..1.0f64, 2 => -1e6..1e6f64, 1 => whole, 1 => (-120i32..120).prop_map(|e| 2f64.powi(e))]
    }

    proptest! {
        #[test]
        fn the_sums_are_those_of_one_by_one(
            rows in vec((0u32..3, option::weighted(0.9, number())), 0..80),
            small in any::<bool>(),
        ) {
            let rows: Vec<_> = rows.into_iter().filter(|(_, x)| !small || x.is_none_or(|x| x.abs() < 1e28)).collect();
            let codes: Vec<u32> = rows.iter().map(|(group, _)| *group).collect();
            let values: Vec<f64> = rows.iter().map(|(_, number)| number.unwrap_or(0.0)).collect();
            let valid: Vec<bool> = rows.iter().map(|(_, number)| number.is_some()).collect();
            let found = numbers(&codes, 3, Some(Numbers { values: &values, valid: Some(&valid) }));
            for group in 0..3 {
                let mut expected = NumberRollup::empty();
                rows.iter().filter(|row| row.0 == group).filter_map(|row| row.1).for_each(|x| expected.add(x));
                prop_assert_eq!(&found[group as usize], &expected.some());
            }
        }
    }
}
