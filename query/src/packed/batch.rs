//! A batch of rows as a message of Arrow: the buffers of each column, compressed if that makes them much shorter.

use event::Result;
use lz4::{BlockMode, ContentChecksum, EncoderBuilder, block};
use polars::prelude::{CompatLevel, DataFrame, PolarsResult, Series};
use polars_arrow::{
    array::{Array, PrimitiveArray, Utf8ViewArray, View},
    bitmap::BitmapBuilder,
    datatypes::{PhysicalType, PrimitiveType},
    io::ipc::{
        format::ipc::{Buffer, FieldNode},
        write::{
            Compression, EncodedData, WriteOptions, commit_encoded_arrays, common_sync::write_message,
            encode_array,
        },
    },
    types::NativeType,
};

use super::rows::{self, Unit};
use crate::frame::failed;

/// Size in bytes of the beginning of a buffer that decides about its compression; a smaller buffer is not compressed.
const SAMPLE_BYTES: usize = 4_096;

/// Minimum factor of compression: a buffer is compressed if its sample shrinks to less than a half.
const PAYS: usize = 2;

/// Header of a frame of LZ4 with independent blocks of at most 4 MB each, without any checksum.
const FRAME: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73];

/// Maximum bytes of a block in the frame.
const BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// Bit in the length of a block that marks it as not compressed.
const STORED: u32 = 1 << 31;

/// End of a frame: a block without bytes.
const END: [u8; 4] = [0; 4];

/// Alignment of buffers in bytes.
const ALIGNMENT: usize = 64;

/// Maximum bytes of a text held inline by its view.
const INLINE_BYTES: u32 = View::MAX_INLINE_SIZE;

/// Number of longer texts that are remembered, to recognise repetitions.
const KNOWN_TEXTS: usize = 256;

/// Builds the message of the rows of frames, one after the other, with columns of equal types. Equal rows give equal bytes.
///
/// # Errors
/// An error if it cannot be written.
pub(crate) fn message(frames: &[DataFrame]) -> Result<Vec<u8>> {
    let rows = frames.iter().map(DataFrame::height).sum();
    let mut body = Body::default();
    let columns = frames.first().map_or(0, DataFrame::width);
    let made = (0..columns).try_for_each(|at| {
        let pieces = frames.iter().map(|frame| frame.columns()[at].as_materialized_series());
        body.column(rows, &pieces.collect::<Vec<_>>())
    });
    made.and_then(|()| body.message(rows)).map_err(failed)
}

/// The concatenated texts of a column. A text that repeats soon is stored once, so that its views are equal.
#[derive(Default)]
struct Texts {
    all: Vec<u8>,
    known: Vec<View>,
}

impl Texts {
    /// Returns the new view of a text, given its old one.
    fn view(&mut self, view: View, text: &[u8]) -> View {
        self.known.resize(KNOWN_TEXTS, View::default());
        let ends =
            [text.first_chunk(), text.last_chunk()].map(|end| end.map_or(0, |end| u64::from_le_bytes(*end)));
        let place = u64::from(view.length).wrapping_add(ends[0]).rotate_left(7) ^ ends[1];
        let known = &mut self.known[place.place() % KNOWN_TEXTS];
        let there = &self.all[known.offset as usize..][..known.length as usize];
        if there != text {
            *known = View { buffer_idx: 0, offset: self.all.len() as u32, ..view };
            self.all.extend_from_slice(text);
        }
        *known
    }
}

#[derive(Default)]
struct Body {
    data: Vec<u8>,
    buffers: Vec<Buffer>,
    nodes: Vec<FieldNode>,
    /// Number of data buffers of each column of texts.
    texts: Vec<i64>,
}

impl Body {
    fn message(self, rows: usize) -> PolarsResult<Vec<u8>> {
        let Self { data, buffers, nodes, texts } = self;
        let packed = WriteOptions { compression: Some(Compression::LZ4) };
        let mut encoded = EncodedData { ipc_message: Vec::new(), arrow_data: data };
        commit_encoded_arrays(rows, &packed, texts, buffers, nodes, None, &mut encoded);
        let mut message =
            Vec::with_capacity(encoded.arrow_data.len() + encoded.ipc_message.len() + ALIGNMENT);
        write_message(&mut message, &encoded)?;
        Ok(message)
    }

    fn column(&mut self, rows: usize, pieces: &[&Series]) -> PolarsResult<()> {
        let arrays: Vec<&dyn Array> =
            pieces.iter().flat_map(|piece| piece.chunks()).map(|array| &**array).collect();
        let Some(first) = arrays.first() else { return Ok(()) };
        match first.dtype().to_physical_type() {
            PhysicalType::Primitive(PrimitiveType::Int32) => self.numbers::<i32, u32>(rows, &arrays),
            PhysicalType::Primitive(PrimitiveType::Int64) => self.numbers::<i64, u64>(rows, &arrays),
            PhysicalType::Primitive(PrimitiveType::Float64) => self.numbers::<f64, u64>(rows, &arrays),
            PhysicalType::Utf8View => self.strings(rows, &arrays),
            _ => self.other(pieces),
        }
    }

    /// Adds the number of rows of a column, and the bitmap of its nulls.
    fn node(&mut self, rows: usize, arrays: &[&dyn Array]) -> PolarsResult<()> {
        let nulls: usize = arrays.iter().map(|array| array.null_count()).sum();
        self.nodes.push(FieldNode { length: rows as i64, null_count: nulls as i64 });
        if nulls == 0 {
            return self.buffer(&[]);
        }
        let mut valid = BitmapBuilder::with_capacity(rows);
        for array in arrays {
            match array.validity() {
                Some(bitmap) => valid.extend_from_bitmap(bitmap),
                None => valid.extend_constant(array.len(), true),
            }
        }
        let valid = valid.freeze();
        self.buffer(valid.as_slice().0)
    }

    fn numbers<T: NativeType, R: Unit>(&mut self, rows: usize, arrays: &[&dyn Array]) -> PolarsResult<()> {
        self.node(rows, arrays)?;
        let pieces = arrays.iter().filter_map(|array| array.as_any().downcast_ref::<PrimitiveArray<T>>());
        let pieces: Vec<&[T]> = pieces.map(|array| array.values().as_slice()).collect();
        match pieces[..] {
            [one] => self.rows(bytemuck::cast_slice::<T, R>(one)),
            _ => self.rows(bytemuck::cast_slice::<T, R>(&pieces.concat())),
        }
    }

    /// Adds a column of texts; those longer than a view holds stand in a buffer, in their order.
    fn strings(&mut self, rows: usize, arrays: &[&dyn Array]) -> PolarsResult<()> {
        self.node(rows, arrays)?;
        let (mut views, mut texts) = (Vec::<u128>::with_capacity(rows), Texts::default());
        for array in arrays.iter().filter_map(|array| array.as_any().downcast_ref::<Utf8ViewArray>()) {
            let mut view = |row: usize, view: &View| match view.length {
                ..=INLINE_BYTES => *view,
                _ => texts.view(*view, array.value(row).as_bytes()),
            };
            let rows = array.views().iter().enumerate();
            match array.validity().filter(|valid| valid.unset_bits() > 0) {
                None => views.extend(rows.map(|(row, of)| bytemuck::cast::<_, u128>(view(row, of)))),
                Some(valid) if valid.set_bits() == 0 => views.resize(views.len() + array.len(), 0),
                Some(valid) => views.extend(rows.zip(valid).map(|((row, of), is_there)| {
                    let there = is_there.then(|| view(row, of));
                    bytemuck::cast::<_, u128>(there.unwrap_or_default())
                })),
            }
        }
        let texts = texts.all;
        self.rows(&views)?;
        self.texts.push(i64::from(!texts.is_empty()));
        if texts.is_empty() { Ok(()) } else { self.buffer(&texts) }
    }

    /// Adds a column of any other type.
    fn other(&mut self, pieces: &[&Series]) -> PolarsResult<()> {
        let mut all = pieces[0].clone();
        pieces[1..].iter().try_for_each(|piece| all.append(piece).map(|_| ()))?;
        let array = all.rechunk().to_arrow(0, CompatLevel::newest());
        let (mut plain, mut places, mut offset) = (Vec::new(), Vec::new(), 0);
        let as_it_is = WriteOptions { compression: None };
        encode_array(
            &array,
            &as_it_is,
            &mut self.texts,
            &mut places,
            &mut plain,
            &mut self.nodes,
            &mut offset,
        );
        places.iter().try_for_each(|Buffer { offset, length }| {
            self.buffer(&plain[*offset as usize..][..*length as usize])
        })
    }

    /// Adds a buffer whose rows often repeat.
    fn rows<T: Unit>(&mut self, rows: &[T]) -> PolarsResult<()> {
        let sample = &rows[..rows.len().min(SAMPLE_BYTES / size_of::<T>())];
        let mut tried = Vec::with_capacity(2 * SAMPLE_BYTES);
        rows::compress(sample, &mut tried);
        let pays = size_of_val(sample) == SAMPLE_BYTES && tried.len() * PAYS < SAMPLE_BYTES;
        if !pays {
            return self.buffer(bytemuck::cast_slice(rows));
        }
        self.placed(size_of_val(rows), |to| {
            frame(rows.chunks(BLOCK_BYTES / size_of::<T>()), packed, to);
            Ok(())
        })
    }

    /// Adds a buffer of any content.
    fn buffer(&mut self, bytes: &[u8]) -> PolarsResult<()> {
        if bytes.is_empty() {
            let offset = self.data.len() as i64;
            self.buffers.push(Buffer { offset, length: 0 });
            return Ok(());
        }
        let pays = pays(bytes)?;
        self.placed(bytes.len(), |to| {
            if !pays {
                frame(bytes.chunks(BLOCK_BYTES), store, to);
                return Ok(());
            }
            // No checksum: TCP and the number of rows protect the answer's integrity. Independent blocks are read and
            // written without copies.
            let mut encoder = EncoderBuilder::new();
            encoder.checksum(ContentChecksum::NoChecksum).block_mode(BlockMode::Independent);
            let mut encoder = encoder.build(to)?;
            std::io::Write::write_all(&mut encoder, bytes)?;
            Ok(encoder.finish().1?)
        })
    }

    /// Adds a buffer of `bytes` bytes that `write` writes as a frame of LZ4. It stands behind its length.
    fn placed(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut Vec<u8>) -> PolarsResult<()>,
    ) -> PolarsResult<()> {
        let begin = self.data.len();
        self.data.extend_from_slice(&(bytes as i64).to_le_bytes());
        write(&mut self.data)?;
        let length = self.data.len() - begin;
        self.buffers.push(Buffer { offset: begin as i64, length: length as i64 });
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        Ok(())
    }
}

/// Writes a frame of blocks, each by `write`.
fn frame<'a, T: 'a>(
    blocks: impl Iterator<Item = &'a [T]>,
    write: impl Fn(&'a [T], &mut Vec<u8>),
    to: &mut Vec<u8>,
) {
    to.extend_from_slice(&FRAME);
    blocks.for_each(|block| write(block, to));
    to.extend_from_slice(&END);
}

/// Writes a block without compression.
fn store(block: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(&(block.len() as u32 | STORED).to_le_bytes());
    to.extend_from_slice(block);
}

/// Writes a block of rows, compressed unless that makes it longer.
fn packed<T: Unit>(block: &[T], to: &mut Vec<u8>) {
    let begin = to.len();
    let length = |to: &[u8]| to.len() - begin - size_of::<u32>();
    to.extend_from_slice(&[0; size_of::<u32>()]);
    rows::compress(block, to);
    if length(to) < size_of_val(block) {
        let length = (length(to) as u32).to_le_bytes();
        to[begin..][..length.len()].copy_from_slice(&length);
    } else {
        to.truncate(begin);
        store(bytemuck::cast_slice(block), to);
    }
}

/// Returns true if a buffer is worth compressing, estimated from its beginning.
fn pays(bytes: &[u8]) -> PolarsResult<bool> {
    let Some(sample) = bytes.get(..SAMPLE_BYTES) else { return Ok(false) };
    let packed = block::compress(sample, None, false)?;
    Ok(packed.len() * PAYS < SAMPLE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn read(frame: &[u8]) -> Vec<u8> {
        let mut read = Vec::new();
        lz4::Decoder::new(frame).unwrap().read_to_end(&mut read).unwrap();
        read
    }

    #[test]
    fn lz4_reads_stored_and_packed_blocks() {
        let noise: Vec<u64> =
            (1..=BLOCK_BYTES as u64 / 4).map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&noise);
        for length in [1, 4_095, BLOCK_BYTES, BLOCK_BYTES + 1, bytes.len()] {
            let mut stored = Vec::new();
            frame(bytes[..length].chunks(BLOCK_BYTES), store, &mut stored);
            assert!(read(&stored) == bytes[..length], "{length} bytes");
        }
        // Rows without repetitions are stored in blocks of equal length.
        let (mut of_noise, mut of_few) = (Vec::new(), Vec::new());
        frame(noise.chunks(BLOCK_BYTES / 8), packed, &mut of_noise);
        assert!(read(&of_noise) == bytes);
        assert_eq!(of_noise.len(), FRAME.len() + 2 * 4 + bytes.len() + END.len());
        let few: Vec<u64> = noise.iter().map(|row| row % 3).collect();
        frame(few.chunks(BLOCK_BYTES / 8), packed, &mut of_few);
        assert!(read(&of_few) == bytemuck::cast_slice::<_, u8>(&few) && of_few.len() < bytes.len() / 2);
    }
}
