//! A stream of Arrow in which each buffer is compressed where that makes it much shorter, and stands as it is elsewhere: columns
//! in which the same value repeats, or none is, take next to nothing, and scores and keys cost no time.
//!
//! What stands as it is stands in a frame of LZ4 all the same, in blocks that are not compressed
//! (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>). Arrow has a mark for a buffer that is not compressed as well, which polars reads
//! since its version 1.34 only.

use std::io::{self, Write};

use event::Result;
use lz4::{BlockMode, ContentChecksum, EncoderBuilder, block};
use polars::prelude::{ArrowSchema, PolarsError, PolarsResult};
use polars_arrow::{
    array::Array,
    io::ipc::{
        format::ipc::Buffer,
        write::{
            Compression, EncodedData, WriteOptions, commit_encoded_arrays,
            common_sync::{write_continuation, write_message},
            default_ipc_fields, encode_array, schema_to_bytes,
        },
    },
    record_batch::RecordBatchT,
};

use crate::frame::failed;

/// So many bytes at the beginning of a buffer tell whether it is compressed, a buffer of fewer is not.
const SAMPLE_BYTES: usize = 4_096;

/// It is, when these become less than a half.
const PAYS: usize = 2;

/// How a frame of LZ4 begins whose blocks have at most 4 MB each and depend on none before, without any checksum.
const FRAME: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73];

/// The most bytes of a block in it.
const BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// The bit in the length of a block that says that it is not compressed.
const STORED: u32 = 1 << 31;

/// Buffers begin at multiples of so many bytes.
const ALIGNMENT: usize = 64;

/// Writes record batches as a stream.
pub(crate) struct PackedWriter<W> {
    to: W,
    /// What is tried of a buffer.
    tried: Vec<u8>,
}

impl<W: Write> PackedWriter<W> {
    /// Writes how a stream of these columns begins.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn begin(schema: &ArrowSchema, mut to: W) -> Result<Self> {
        let fields = default_ipc_fields(schema.iter_values());
        let ipc_message = schema_to_bytes(schema, &fields, None);
        write_message(&mut to, &EncodedData { ipc_message, arrow_data: Vec::new() }).map_err(failed)?;
        let room = block::compress_bound(SAMPLE_BYTES).map_err(PolarsError::from).map_err(failed)?;
        Ok(Self { to, tried: vec![0; room] })
    }

    /// Writes a batch, whose columns are of the types that the stream began with. None is a dictionary.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&mut self, batch: &RecordBatchT<Box<dyn Array>>) -> Result<()> {
        self.batch(batch).map_err(failed)
    }

    fn batch(&mut self, batch: &RecordBatchT<Box<dyn Array>>) -> PolarsResult<()> {
        let (mut nodes, mut places, mut texts, mut offset) = (Vec::new(), Vec::new(), Vec::new(), 0);
        // It is dropped with the batch: while a client takes nothing, a stream keeps only what it counts.
        let mut plain = Vec::new();
        for array in batch.arrays() {
            let as_it_is = WriteOptions { compression: None };
            encode_array(array, &as_it_is, &mut texts, &mut places, &mut plain, &mut nodes, &mut offset);
        }
        let mut arrow_data = Vec::with_capacity(plain.len() / 2);
        let mut buffers = Vec::with_capacity(places.len());
        for Buffer { offset, length } in places {
            let begin = arrow_data.len();
            self.buffer(&plain[offset as usize..][..length as usize], &mut arrow_data)?;
            buffers.push(Buffer { offset: begin as i64, length: (arrow_data.len() - begin) as i64 });
            arrow_data.resize(arrow_data.len().next_multiple_of(ALIGNMENT), 0);
        }
        let packed = WriteOptions { compression: Some(Compression::LZ4) };
        let mut encoded = EncodedData { ipc_message: Vec::new(), arrow_data };
        commit_encoded_arrays(batch.len(), &packed, texts, buffers, nodes, None, &mut encoded);
        write_message(&mut self.to, &encoded)?;
        Ok(())
    }

    /// Writes a buffer behind its length. One without bytes has none.
    fn buffer(&mut self, bytes: &[u8], to: &mut Vec<u8>) -> PolarsResult<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        to.extend_from_slice(&(bytes.len() as i64).to_le_bytes());
        if !pays(bytes, &mut self.tried)? {
            store(bytes, to);
            return Ok(());
        }
        // TCP and the number of rows say that the answer is whole; blocks by themselves are read and written without copies.
        let mut encoder = EncoderBuilder::new();
        encoder.checksum(ContentChecksum::NoChecksum).block_mode(BlockMode::Independent);
        let mut encoder = encoder.build(to)?;
        encoder.write_all(bytes)?;
        Ok(encoder.finish().1?)
    }

    /// Writes how the stream ends.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        write_continuation(&mut self.to, 0).map_err(failed)?;
        self.to.flush().map_err(PolarsError::from).map_err(failed)
    }
}

/// Writes a frame whose blocks are not compressed.
fn store(bytes: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(&FRAME);
    for block in bytes.chunks(BLOCK_BYTES) {
        to.extend_from_slice(&(block.len() as u32 | STORED).to_le_bytes());
        to.extend_from_slice(block);
    }
    // A block without bytes ends the frame.
    to.extend_from_slice(&0_u32.to_le_bytes());
}

/// Whether a buffer is worth compressing, as its beginning says.
fn pays(bytes: &[u8], tried: &mut [u8]) -> io::Result<bool> {
    let Some(sample) = bytes.get(..SAMPLE_BYTES) else { return Ok(false) };
    let packed = block::compress_to_buffer(sample, None, false, tried)?;
    Ok(packed * PAYS < SAMPLE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use polars::prelude::{DataFrame, SchemaExt};
    use polars_io::{SerReader, ipc::IpcStreamReader};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        frame::{days, floats, frame, ints, texts, times},
        output::Format,
    };

    fn packed(rows: &DataFrame) -> Vec<u8> {
        let mut bytes = Vec::new();
        let level = polars::prelude::CompatLevel::newest();
        let mut writer = PackedWriter::begin(&rows.schema().to_arrow(level), &mut bytes).unwrap();
        rows.iter_chunks(level, false).for_each(|batch| writer.write(&batch).unwrap());
        writer.finish().unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> DataFrame {
        IpcStreamReader::new(io::Cursor::new(bytes)).finish().unwrap()
    }

    /// Numbers in which nothing repeats.
    fn noise(rows: usize) -> impl Iterator<Item = f64> {
        (1..=rows).map(|row| ((row as f64) * 0.754_877_666_246_692_8).fract().sqrt())
    }

    #[test]
    fn what_repeats_takes_next_to_nothing_and_noise_stands_as_it_is() {
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
        assert_eq!(bytes[at - 4..at], ((8 * ROWS as u32) | STORED).to_le_bytes());
        assert!(read(&bytes).equals_missing(&scores));
    }

    #[test]
    fn a_stored_buffer_is_a_frame_that_lz4_reads() {
        let noise: Vec<u8> = noise(BLOCK_BYTES / 4).flat_map(f64::to_le_bytes).collect();
        for length in [1, 4_095, BLOCK_BYTES, BLOCK_BYTES + 1, noise.len()] {
            let mut frame = Vec::new();
            store(&noise[..length], &mut frame);
            let mut read = Vec::new();
            lz4::Decoder::new(&frame[..]).unwrap().read_to_end(&mut read).unwrap();
            assert!(read == noise[..length], "{length} bytes");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_written_is_read_again(
            (rows, each, letters) in (0_usize..3_000, 1_usize..200, 0_usize..40),
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
            let mut whole = Vec::new();
            Format::IpcStreamLz4.write(&mut rows.clone(), &mut whole).unwrap();
            prop_assert!(read(&whole).equals_missing(&rows));
        }
    }
}
