//! Content encodings: compressed bytes in, plain bytes out, in a stream and never more than a limit.

use std::io::{self, Write};

use flate2::write::GzDecoder;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use super::Encoding;
use crate::{batch::Refused, limits::MAX_BODY_BYTES};

/// Number of plain bytes passed on at once.
const STEP_BYTES: usize = 64 * 1024;
/// Window of a gzip decoder.
const GZIP_WINDOW: usize = 32 * 1024;
/// Window of a zstd decoder: 8 MiB, as RFC 9659 sets it for HTTP.
const BODY_WINDOW_LOG: u32 = 23;
/// Window that a file of `zstd --ultra` may need: 128 MiB.
const FILE_WINDOW_LOG: u32 = 27;

/// Consumer of plain bytes.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Refused>;

/// Decoder of one body or file. Consecutive gzip members and zstd frames form one.
pub(crate) struct Decoder {
    kind: Inner,
    /// Maximum number of plain bytes, and the number so far.
    limit: u64,
    decoded: u64,
}

enum Inner {
    Identity,
    Gzip { decoder: Box<GzDecoder<Vec<u8>>>, is_empty: bool },
    Zstd { decoder: ZstdDecoder<'static>, step: Vec<u8>, is_in_frame: bool, is_empty: bool },
}

impl Decoder {
    /// Creates a decoder for a body, or without a limit for a file.
    pub(crate) fn new(encoding: Encoding, is_file: bool) -> Self {
        let kind = match encoding {
            Encoding::Identity => Inner::Identity,
            Encoding::Gzip => Inner::Gzip { decoder: Box::new(GzDecoder::new(Vec::new())), is_empty: true },
            Encoding::Zstd => {
                let window = if is_file { FILE_WINDOW_LOG } else { BODY_WINDOW_LOG };
                let mut decoder = ZstdDecoder::new().expect("memory for a decoder");
                decoder.set_parameter(DParameter::WindowLogMax(window)).expect("a window that zstd knows");
                Inner::Zstd { decoder, step: vec![0; STEP_BYTES], is_in_frame: false, is_empty: true }
            }
        };
        let limit = if is_file { u64::MAX } else { MAX_BODY_BYTES as u64 };
        Self { kind, limit, decoded: 0 }
    }

    /// Returns whether the bytes are not compressed.
    pub(crate) fn is_identity(&self) -> bool {
        matches!(self.kind, Inner::Identity)
    }

    /// Maximum plain bytes that it keeps; `None` if the bytes are not compressed.
    pub(crate) fn window(&self) -> Option<usize> {
        match self.kind {
            Inner::Identity => None,
            Inner::Gzip { .. } => Some(GZIP_WINDOW),
            Inner::Zstd { .. } => Some(1 << BODY_WINDOW_LOG),
        }
    }

    /// Decodes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], take: Take<'_>) -> Result<(), Refused> {
        let Self { kind, limit, decoded } = self;
        let mut take = |plain: &[u8]| {
            *decoded += plain.len() as u64;
            if *decoded > *limit {
                return Err(super::too_large());
            }
            plain.chunks(STEP_BYTES).try_for_each(&mut *take)
        };
        match kind {
            Inner::Identity => take(bytes),
            Inner::Gzip { decoder, is_empty } => {
                *is_empty &= bytes.is_empty();
                gunzip(decoder, bytes, &mut take)
            }
            Inner::Zstd { decoder, step, is_in_frame, is_empty } => {
                *is_empty &= bytes.is_empty();
                inflate(decoder, step, is_in_frame, bytes, &mut take)
            }
        }
    }

    /// Ends the body.
    pub(crate) fn finish(self, take: Take<'_>) -> Result<(), Refused> {
        let Self { kind, limit, mut decoded } = self;
        let mut take = |plain: &[u8]| {
            decoded += plain.len() as u64;
            if decoded > limit {
                return Err(super::too_large());
            }
            take(plain)
        };
        match kind {
            Inner::Identity => Ok(()),
            Inner::Gzip { is_empty: true, .. } => Err(cut_off("gzip")),
            Inner::Zstd { is_empty: true, .. } | Inner::Zstd { is_in_frame: true, .. } => {
                Err(cut_off("zstd"))
            }
            Inner::Zstd { .. } => Ok(()),
            Inner::Gzip { mut decoder, .. } => {
                // A complete member accepts no further byte.
                if !matches!(decoder.write(&[0]), Ok(0)) {
                    return Err(cut_off("gzip"));
                }
                decoder.try_finish().map_err(|error| damaged("gzip", &error))?;
                drain(&mut decoder, &mut take)
            }
        }
    }
}

/// Unpacks the next bytes. Another member may begin after a complete one.
fn gunzip(
    decoder: &mut GzDecoder<Vec<u8>>,
    bytes: &[u8],
    take: &mut impl FnMut(&[u8]) -> Result<(), Refused>,
) -> Result<(), Refused> {
    // A small step bounds the output, which is at most about a thousand times as much.
    for step in bytes.chunks(STEP_BYTES / 64) {
        let mut rest = step;
        while !rest.is_empty() {
            let written = decoder.write(rest).map_err(|error| damaged("gzip", &error))?;
            if written == 0 {
                decoder.try_finish().map_err(|error| damaged("gzip", &error))?;
                *decoder = GzDecoder::new(std::mem::take(decoder.get_mut()));
            }
            rest = &rest[written..];
            drain(decoder, take)?;
        }
    }
    Ok(())
}

fn drain(
    decoder: &mut GzDecoder<Vec<u8>>,
    take: &mut impl FnMut(&[u8]) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let plain = std::mem::take(decoder.get_mut());
    take(&plain)?;
    let mut plain = plain;
    plain.clear();
    *decoder.get_mut() = plain;
    Ok(())
}

fn inflate(
    decoder: &mut ZstdDecoder<'static>,
    step: &mut [u8],
    is_in_frame: &mut bool,
    mut bytes: &[u8],
    take: &mut impl FnMut(&[u8]) -> Result<(), Refused>,
) -> Result<(), Refused> {
    loop {
        if bytes.is_empty() && !*is_in_frame {
            return Ok(());
        }
        let status = decoder.run_on_buffers(bytes, step).map_err(|error| damaged("zstd", &error))?;
        bytes = &bytes[status.bytes_read..];
        take(&step[..status.bytes_written])?;
        *is_in_frame = status.remaining != 0;
        // With room left in the output and no input left there is no more output.
        if bytes.is_empty() && status.bytes_written < step.len() {
            return Ok(());
        }
        if status.bytes_read == 0 && status.bytes_written == 0 {
            return Err(cut_off("zstd"));
        }
    }
}

fn damaged(encoding: &str, error: &io::Error) -> Refused {
    Refused::Whole(format!("the body is not {encoding} that can be read: {error}"))
}

fn cut_off(encoding: &str) -> Refused {
    Refused::Whole(format!("the body is not {encoding} that can be read: it ends too early"))
}
