//! A stream of Arrow with each buffer compressed if that makes it much shorter, and stored otherwise: columns of repeated values
//! or without any value take next to nothing, and scores and keys cost no time.
//!
//! A stored buffer stands in a frame of LZ4 all the same, in blocks without compression
//! (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>). Arrow also has a mark for a buffer that is not compressed,
//! but polars reads it only since version 1.34.

mod batch;
mod rows;

use std::io::Write;

use event::Result;
use polars::prelude::{ArrowSchema, PolarsError};
use polars_arrow::io::ipc::write::{
    EncodedData,
    common_sync::{write_continuation, write_message},
    default_ipc_fields, schema_to_bytes,
};

use crate::frame::failed;

pub(crate) use batch::message;

/// Writes the beginning of a stream of these columns.
///
/// # Errors
/// An error if it cannot be written.
pub(crate) fn begin(schema: &ArrowSchema, to: &mut impl Write) -> Result<()> {
    let fields = default_ipc_fields(schema.iter_values());
    let ipc_message = schema_to_bytes(schema, &fields, None);
    write_message(to, &EncodedData { ipc_message, arrow_data: Vec::new() }).map_err(failed)?;
    Ok(())
}

/// Writes the end of a stream.
///
/// # Errors
/// An error if it cannot be written.
pub(crate) fn end(to: &mut impl Write) -> Result<()> {
    write_continuation(to, 0).map_err(failed)?;
    to.flush().map_err(PolarsError::from).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use polars::prelude::{CompatLevel, DataFrame, SchemaExt};
    use polars_io::{SerReader, ipc::IpcStreamReader};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        frame::{days, floats, frame, ints, texts, times},
        output::Format,
    };

    fn packed(rows: &DataFrame) -> Vec<u8> {
        let mut bytes = Vec::new();
        begin(&rows.schema().to_arrow(CompatLevel::newest()), &mut bytes).unwrap();
        bytes.extend(message(std::slice::from_ref(rows)).unwrap());
        end(&mut bytes).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> DataFrame {
        IpcStreamReader::new(Cursor::new(bytes)).finish().unwrap()
    }

    /// Returns numbers without repetitions.
    fn noise(rows: usize) -> impl Iterator<Item = f64> {
        (1..=rows).map(|row| ((row as f64) * 0.754_877_666_246_692_8).fract().sqrt())
    }

    #[test]
    fn repeated_values_pack_small_and_noise_stays_raw() {
        const ROWS: usize = 16_384;
        let each = || 0..ROWS;
        let of = |column| frame(ROWS, vec![column]).unwrap();
        for repeats in [
            of(days("day", vec![20_000; ROWS])),
            of(floats("never", each().map(|_| None))),
            of(times("appended_at", each().map(|_| Some(1_780_000_000_000_000)))),
            of(texts("release", each().map(|_| Some("v1")))),
            of(texts("none", each().map(|_| None))),
        ] {
            let bytes = packed(&repeats);
            assert!(bytes.len() < ROWS / 4, "{}: {} bytes", repeats.columns()[0].name(), bytes.len());
            assert!(read(&bytes).equals_missing(&repeats));
        }
        let scores = of(floats("score", noise(ROWS).map(Some)));
        let bytes = packed(&scores);
        assert!((8 * ROWS..8 * ROWS + 2_048).contains(&bytes.len()), "{} bytes", bytes.len());
        let first = noise(1).next().unwrap().to_le_bytes();
        let at = bytes.windows(8).position(|eight| eight == first).unwrap();
        assert_eq!(bytes[at - 4..at], ((8 * ROWS as u32) | 1 << 31).to_le_bytes());
        assert!(read(&bytes).equals_missing(&scores));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_written_is_read_again(
            (rows, each, letters, place) in (1_usize..3_000, 1_usize..200, 0_usize..40, 0_usize..3_000),
        ) {
            let is_there = |row: usize| !(row / each).is_multiple_of(3);
            let words: Vec<String> = (0..rows).map(|row| "x".repeat(letters * (row / each) % 60)).collect();
            let columns = vec![
                days("day", (0..rows).map(|row| (row / each) as i32).collect()),
                floats("score", noise(rows).enumerate().map(|(row, value)| is_there(row).then_some(value))),
                ints("count", (0..rows).map(|row| is_there(row).then_some((row / each) as u64))),
                times("at", (0..rows).map(|row| Some(row as i64 * 1_000))),
                texts("word", words.iter().enumerate().map(|(row, word)| is_there(row).then_some(word.as_str()))),
            ];
            let rows = frame(rows, columns).unwrap();
            let again = read(&packed(&rows));
            prop_assert!(again.equals_missing(&rows), "{again} {rows}");
            // The division of rows into frames does not change the bytes.
            let place = place.min(rows.height()) as i64;
            let pieces = [rows.slice(0, place as usize), rows.slice(place, usize::MAX)];
            prop_assert!(message(&pieces).unwrap() == message(std::slice::from_ref(&rows)).unwrap());
            let mut whole = Vec::new();
            Format::IpcStreamLz4.write(&mut rows.clone(), &mut whole).unwrap();
            prop_assert!(read(&whole).equals_missing(&rows));
        }
    }
}
