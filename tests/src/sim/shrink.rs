//! Makes a list of operations that finds something shorter.

use super::Op;

/// A part of `ops` that still fails, from which no single operation can be left out: first many are left out at
/// a time, then fewer.
pub fn shrink(ops: &[Op], fails: impl Fn(&[Op]) -> bool) -> Vec<Op> {
    let mut ops = ops.to_vec();
    let mut at_once = ops.len() / 2;
    while at_once > 0 {
        let (mut at, before) = (0, ops.len());
        while at < ops.len() {
            let end = ops.len().min(at + at_once);
            let shorter = [&ops[..at], &ops[end..]].concat();
            match fails(&shorter) {
                true => ops = shorter,
                false => at = end,
            }
        }
        // Until none can be left out.
        if at_once > 1 || ops.len() == before {
            at_once /= 2;
        }
    }
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_left() {
        let ops: Vec<Op> = (0..40).map(|millis| Op::Advance { millis }).collect();
        let has = |ops: &[Op], millis| ops.contains(&Op::Advance { millis });
        let left = shrink(&ops, |ops| has(ops, 7) && (has(ops, 30) || has(ops, 31)));
        assert_eq!(left, [Op::Advance { millis: 7 }, Op::Advance { millis: 31 }]);
        assert_eq!(shrink(&ops, |_| true), []);
        assert_eq!(shrink(&ops, |_| false), ops);
    }
}
