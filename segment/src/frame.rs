//! Integers as distances from their minimum, in as few byte planes as the largest needs.

use super::bytes::{Checked, Cursor, put_varint, unzigzag, zigzag};
use super::chunks::{put_chunks, take_chunks};
use super::planes;

/// Appends `values`: value = minimum + step x number, all modulo 2^64. The step is the common divisor of all
/// distances: times in whole seconds are counted in seconds.
pub(super) fn put_frame(out: &mut Vec<u8>, values: &[i64]) {
    let (Some(&minimum), Some(&maximum)) = (values.iter().min(), values.iter().max()) else {
        return;
    };
    let mut numbers: Vec<u64> = values.iter().map(|value| value.wrapping_sub(minimum) as u64).collect();
    let step = common_divisor(&numbers);
    if step > 1 {
        numbers.iter_mut().for_each(|number| *number /= step);
    }
    let largest = (maximum.wrapping_sub(minimum) as u64).checked_div(step).unwrap_or(0);
    let width = largest.checked_ilog2().map_or(0, |bits| bits as usize / 8 + 1);
    out.push(width as u8);
    put_varint(out, zigzag(minimum));
    if width > 0 {
        put_varint(out, step);
        put_chunks(out, &planes::split(&numbers, width), numbers.len());
    }
}

/// Reads `count` values written by [`put_frame`].
pub(super) fn take_frame(cursor: &mut Cursor, count: usize) -> Checked<Vec<i64>> {
    take_frame_as(cursor, count, |value| value)
}

/// Reads `count` values written by [`put_frame`], each converted by `of`.
pub(super) fn take_frame_as<T: Clone>(
    cursor: &mut Cursor,
    count: usize,
    of: impl Fn(i64) -> T,
) -> Checked<Vec<T>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let width = cursor.u8()? as usize;
    let minimum = unzigzag(cursor.varint()?);
    if width == 0 {
        return Ok(vec![of(minimum); count]);
    }
    if width > 8 {
        return Err(format!("numbers of {width} bytes, at most 8 are allowed").into());
    }
    let step = cursor.varint()?;
    let planes = take_chunks(cursor, count * width)?;
    Ok(match step {
        1 => planes::join(&planes, count, width, |number| of(minimum.wrapping_add(number as i64))),
        _ => planes::join(&planes, count, width, |number| {
            of(minimum.wrapping_add(number.wrapping_mul(step) as i64))
        }),
    })
}

/// Returns the greatest common divisor; 0 if all numbers are 0. Unrelated numbers reach 1 in a few steps.
fn common_divisor(numbers: &[u64]) -> u64 {
    let mut divisor = 0u64;
    for &number in numbers {
        let mut rest = number.checked_rem(divisor).unwrap_or(number);
        if divisor == 0 {
            (divisor, rest) = (number, 0);
        }
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        if divisor == 1 {
            break;
        }
    }
    divisor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(values: &[i64]) -> usize {
        let mut out = Vec::new();
        put_frame(&mut out, values);
        let mut cursor = Cursor::new(&out);
        assert_eq!(take_frame(&mut cursor, values.len()).expect("just written"), values);
        cursor.finish().expect("nothing left");
        out.len()
    }

    #[test]
    fn frames_round_trip_in_few_bytes() {
        assert_eq!(stored(&[]), 0);
        assert_eq!(stored(&[5]), 2);
        assert_eq!(stored(&[-7; 1000]), 2);
        assert_eq!(stored(&[i64::MIN, i64::MAX, 0, -1, 1]), 1 + 10 + 1 + 2 + 40);
        assert_eq!(stored(&[1_000_000, 4_000_000, 3_000_000]), 1 + 3 + 3 + 1 + 3, "counted in millions");
        assert_eq!(stored(&[0, 255]), 1 + 1 + 2 + 1 + 2, "one step of 255");
        assert_eq!(stored(&[0, 255, 256]), 1 + 1 + 1 + 1 + 6);
        assert_eq!(stored(&[i64::MIN, i64::MAX]), 1 + 10 + 10 + 1 + 2);
    }

    #[test]
    fn common_divisors() {
        assert_eq!(common_divisor(&[]), 0);
        assert_eq!(common_divisor(&[0, 0]), 0);
        assert_eq!(common_divisor(&[0, 12, 0, 18]), 6);
        assert_eq!(common_divisor(&[12, 18, 7]), 1);
        assert_eq!(common_divisor(&[u64::MAX]), u64::MAX);
    }

    #[test]
    fn wrong_frames_are_refused() {
        assert!(take_frame(&mut Cursor::new(&[9, 0, 1]), 3).is_err(), "nine bytes wide");
        assert!(take_frame(&mut Cursor::new(&[1, 0, 1]), 3).is_err(), "no planes");
        assert!(take_frame(&mut Cursor::new(&[]), 3).is_err(), "nothing");
    }
}
