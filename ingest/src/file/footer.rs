//! Arrow files with a footer as streams: the schema and the blocks that the footer names, one after the other. Bytes before and
//! between them belong to their writer alone: polars 2 has a schema there without its length.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
    vec,
};

use polars_arrow_format::ipc::{Block, Footer, FooterRef, Message, MessageHeader, planus::ReadAsRoot};

use super::columns::unreadable;
use crate::{
    batch::Refused,
    format::{coded::encoded, ipc::FILE},
};

/// Bytes behind a footer: its length, and the magic with which the file begins.
const TAIL: usize = 4 + FILE.len();

/// Returns the stream of a file: the file itself or, if it begins as a file with a footer, the blocks that the footer names.
pub(super) fn streamed(mut file: BufReader<File>) -> Result<Box<dyn Read + Send>, Refused> {
    let mut magic = Vec::new();
    (&mut file).take(FILE.len() as u64).read_to_end(&mut magic).map_err(unreadable)?;
    if magic != FILE {
        file.rewind().map_err(unreadable)?;
        return Ok(Box::new(file));
    }
    let footer = footer(&mut file)?;
    // Dictionaries come before the batches that need them; polars 2 writes them behind these.
    let mut blocks = Vec::new();
    for block in footer.dictionaries.into_iter().chain(footer.record_batches).flatten() {
        blocks.push(place(&block).ok_or_else(|| unreadable("its footer names no place in it"))?);
    }
    let schema = footer.schema.ok_or_else(|| unreadable("its footer has no schema"))?;
    let header = Some(MessageHeader::Schema(schema));
    let schema = Message { version: footer.version, header, body_length: 0, custom_metadata: None };
    Ok(Box::new(Blocks { file, schema: Cursor::new(encoded(&schema)), blocks: blocks.into_iter(), left: 0 }))
}

/// Reads the footer of a file.
fn footer(file: &mut BufReader<File>) -> Result<Footer, Refused> {
    let cut = || unreadable("its end is missing");
    let mut tail = [0; TAIL];
    let end = file.seek(SeekFrom::End(-(TAIL as i64))).map_err(unreadable)?;
    file.read_exact(&mut tail).map_err(unreadable)?;
    let (length, magic) = tail.split_at(4);
    let length = length.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)).into();
    let begin = end.checked_sub(length).filter(|_| magic == FILE).ok_or_else(cut)?;
    file.seek(SeekFrom::Start(begin)).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(unreadable)?;
    FooterRef::read_as_root(&bytes).and_then(Footer::try_from).map_err(unreadable)
}

/// Offset of a block, and its number of bytes.
fn place(block: &Block) -> Option<(u64, u64)> {
    let (metadata, body) = (u64::try_from(block.meta_data_length), u64::try_from(block.body_length));
    Some((block.offset.try_into().ok()?, metadata.ok()?.checked_add(body.ok()?)?))
}

/// A schema, and the blocks of a file behind it.
struct Blocks {
    file: BufReader<File>,
    schema: Cursor<Vec<u8>>,
    blocks: vec::IntoIter<(u64, u64)>,
    /// Number of bytes left of the present block.
    left: u64,
}

impl Read for Blocks {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.schema.read(to)?;
        if read > 0 || to.is_empty() {
            return Ok(read);
        }
        while self.left == 0 {
            let Some((at, bytes)) = self.blocks.next() else { return Ok(0) };
            self.file.seek(SeekFrom::Start(at))?;
            self.left = bytes;
        }
        let read = (&mut self.file).take(self.left).read(to)?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a block ends behind the file"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}
