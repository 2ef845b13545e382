//! Columns of times: microseconds as integers.

use super::bytes::{Checked, Cursor, put_varint, unzigzag, zigzag};
use super::frame::{put_frame, take_frame};

/// A frame of the times.
pub(super) const FRAME: u8 = 1;
/// First time, then a frame of the differences from each time to the next.
pub(super) const DELTA: u8 = 2;

/// Appends `values`, which is not empty, and returns their encoding.
pub(super) fn put(out: &mut Vec<u8>, values: &[i64]) -> u8 {
    let deltas: Vec<i64> = values.array_windows().map(|[one, next]| next.wrapping_sub(*one)).collect();
    if !deltas_are_shorter(values, &deltas) {
        put_frame(out, values);
        return FRAME;
    }
    put_varint(out, zigzag(values[0]));
    put_frame(out, &deltas);
    DELTA
}

/// Compares the bits that the numbers need. The high planes of both compress away, so this is a better estimate than
/// comparing the largest numbers.
fn deltas_are_shorter(values: &[i64], deltas: &[i64]) -> bool {
    let bits = |number: u64| u64::from(64 - number.leading_zeros());
    let minimum = values.iter().min().copied().unwrap_or_default();
    let direct: u64 = values.iter().map(|value| bits(value.wrapping_sub(minimum) as u64)).sum();
    let between: u64 = deltas.iter().map(|delta| bits(zigzag(*delta))).sum();
    between < direct
}

/// Reads `count` times.
pub(super) fn take(cursor: &mut Cursor, encoding: u8, count: usize) -> Checked<Option<Vec<i64>>> {
    match encoding {
        FRAME => take_frame(cursor, count).map(Some),
        DELTA => {
            let first = unzigzag(cursor.varint()?);
            let deltas = take_frame(cursor, count - 1)?;
            let mut values = Vec::with_capacity(count);
            let mut value = first;
            values.push(value);
            values.extend(deltas.iter().map(|delta| {
                value = value.wrapping_add(*delta);
                value
            }));
            Ok(Some(values))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(values: &[i64]) -> (u8, usize) {
        let mut out = Vec::new();
        let encoding = put(&mut out, values);
        let mut cursor = Cursor::new(&out);
        assert_eq!(take(&mut cursor, encoding, values.len()), Ok(Some(values.to_vec())));
        cursor.finish().expect("nothing left");
        (encoding, out.len())
    }

    #[test]
    fn only_ascending_times_are_delta_encoded() {
        let start = 1_370_044_800_000_000;
        let hourly: Vec<i64> = (0..500).map(|i| start + i * 3_600_000_000).collect();
        let (encoding, bytes) = stored(&hourly);
        assert!(encoding == DELTA && bytes < 20, "{bytes}");
        let shuffled: Vec<i64> = (0..500).map(|i| start + (i * i * i * 7919 % 10_007) * 1_000_000).collect();
        let (encoding, bytes) = stored(&shuffled);
        assert!(encoding == FRAME && bytes < 1030, "{bytes}");
    }

    #[test]
    fn extremes_wrap_around_and_back() {
        stored(&[i64::MIN, i64::MAX, i64::MIN, 0, i64::MAX, -1]);
        stored(&[0]);
        stored(&[i64::MAX, i64::MIN]);
    }
}
