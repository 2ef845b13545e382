//! Columns of doubles, kept bit for bit.

use super::bytes::{Checked, Cursor};
use super::chunks::{put_chunks, take_chunks};
use super::frame::{put_frame, take_frame_as};
use super::planes;

/// Integers over a power of ten: how 0.1234 was most likely written.
pub(super) const DECIMAL: u8 = 1;
/// Bits of each double in eight planes.
pub(super) const BITS: u8 = 2;
/// The bits of each single that a double is exactly, in four planes.
pub(super) const SINGLE_BITS: u8 = 3;

/// Powers of ten, each exact in a double, so one division rounds once, as parsing the decimal would.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
/// Addend that leaves the nearest integer of a double below [`WHOLE_LIMIT`] in its low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0; // 1.5 x 2^52
const WHOLE_LIMIT: f64 = 2_251_799_813_685_248.0; // 2^51

/// Appends `values`, which is not empty, and returns their encoding.
pub(super) fn put(out: &mut Vec<u8>, values: &[f64]) -> u8 {
    if let Some((scale, numbers)) = decimals(values) {
        out.push(scale as u8);
        put_frame(out, &numbers);
        return DECIMAL;
    }
    if let Some(bits) = singles(values) {
        put_chunks(out, &planes::split(&bits, 4), bits.len());
        return SINGLE_BITS;
    }
    let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
    put_chunks(out, &planes::split(&bits, 8), bits.len());
    BITS
}

/// Returns the bits of the values as singles, if each is one exactly. The conversion of NaN bits is not reliable, so
/// NaN is excluded.
fn singles(values: &[f64]) -> Option<Vec<u64>> {
    let is_single = |value: &f64| f64::from(*value as f32).to_bits() == value.to_bits() && !value.is_nan();
    values
        .iter()
        .all(is_single)
        .then(|| values.iter().map(|value| u64::from((*value as f32).to_bits())).collect())
}

/// Returns the smallest scale at which every value is exactly an integer over 10^scale, and those integers. `None` if
/// there is none; NaN, infinities and -0.0 have none.
fn decimals(values: &[f64]) -> Option<(usize, Vec<i64>)> {
    let mut scale = 0;
    let mut numbers = vec![0; values.len()];
    let mut from = 0;
    loop {
        match fill_decimals(&values[from..], scale, &mut numbers[from..]) {
            None if from == 0 => return Some((scale, numbers)),
            // Values that fitted a smaller scale nearly always fit this one, but must be rescaled.
            None => from = 0,
            Some(misfit) => {
                let value = values[from + misfit];
                scale = (scale + 1..POWERS.len()).find(|&scale| decimal(value, POWERS[scale]).1)?;
                from += misfit;
            }
        }
    }
}

/// Fills `numbers`, or returns the place of a value that does not fit the scale.
fn fill_decimals(values: &[f64], scale: usize, numbers: &mut [i64]) -> Option<usize> {
    const BLOCK: usize = 256;
    let power = POWERS[scale];
    for (block, (values, numbers)) in values.chunks(BLOCK).zip(numbers.chunks_mut(BLOCK)).enumerate() {
        let mut all = true;
        for (value, number) in values.iter().zip(numbers) {
            let (whole, exact) = decimal(*value, power);
            *number = whole;
            all &= exact;
        }
        if !all {
            return values.iter().position(|value| !decimal(*value, power).1).map(|at| block * BLOCK + at);
        }
    }
    None
}

/// Returns the integer nearest to `value` x `power`, and whether dividing it gives `value` back.
fn decimal(value: f64, power: f64) -> (i64, bool) {
    let shifted = value * power + ROUNDER;
    let number = shifted.to_bits().wrapping_sub(ROUNDER.to_bits()) as i64;
    let back = (shifted - ROUNDER) / power;
    (number, ((value * power).abs() < WHOLE_LIMIT) & (back.to_bits() == value.to_bits()))
}

/// Reads `count` doubles.
pub(super) fn take(cursor: &mut Cursor, encoding: u8, count: usize) -> Checked<Option<Vec<f64>>> {
    match encoding {
        DECIMAL => {
            let scale = usize::from(cursor.u8()?);
            let power =
                *POWERS.get(scale).ok_or_else(|| format!("{scale} decimals, at most 15 are allowed"))?;
            take_frame_as(cursor, count, |number| number as f64 / power).map(Some)
        }
        BITS => {
            let planes = take_chunks(cursor, count * 8)?;
            Ok(Some(planes::join(&planes, count, 8, f64::from_bits)))
        }
        SINGLE_BITS => {
            let planes = take_chunks(cursor, count * 4)?;
            Ok(Some(planes::join(&planes, count, 4, |bits| f64::from(f32::from_bits(bits as u32)))))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(values: &[f64]) -> (u8, usize) {
        let mut out = Vec::new();
        let encoding = put(&mut out, values);
        let mut cursor = Cursor::new(&out);
        let taken = take(&mut cursor, encoding, values.len()).expect("just written").expect("known encoding");
        assert!(taken.iter().map(|value| value.to_bits()).eq(values.iter().map(|value| value.to_bits())));
        cursor.finish().expect("nothing left");
        (encoding, out.len())
    }

    #[test]
    fn decimals_are_stored_as_whole_numbers() {
        let scores: Vec<f64> = (0..1000).map(|i| f64::from(i * 7919 % 10_000) / 1e4).collect();
        assert_eq!(decimals(&scores).expect("four decimals").0, 4);
        let (encoding, bytes) = stored(&scores);
        assert!(encoding == DECIMAL && bytes < 2020, "{bytes}");
        assert_eq!(stored(&[1.0, 2.0, 1e15, -5.0]).0, DECIMAL);
        assert_eq!(decimals(&[0.5, 0.25, 3.0]).expect("two decimals"), (2, vec![50, 25, 300]));
        assert_eq!(decimals(&[0.000_000_000_000_001]).expect("fifteen"), (15, vec![1]));
    }

    #[test]
    fn singles_are_stored_in_half_the_bytes() {
        let thirds: Vec<f64> = (0..1000).map(|i| f64::from(i as f32 / 3.0)).collect();
        let (encoding, bytes) = stored(&thirds);
        assert!(encoding == SINGLE_BITS && bytes < 4020, "{bytes}");
        for value in
            [-0.0, f64::INFINITY, f64::NEG_INFINITY, f64::from(f32::MAX), f64::from(f32::from_bits(1))]
        {
            assert_eq!(stored(&[f64::from(1.0f32 / 3.0), value]).0, SINGLE_BITS, "{value}");
        }
    }

    #[test]
    fn other_doubles_keep_their_bits() {
        for value in [f64::NAN, 1.0 / 3.0, 1e300, 5e-324, f64::from_bits(0x7ff0_dead_beef_0001)] {
            assert_eq!(stored(&[0.5, value]).0, BITS, "{value}");
        }
        assert_eq!(stored(&[0.1 + 0.2]).0, BITS, "one unit in the last place off 0.3");
    }
}
