//! Metadata of the columns in a body, each with good columns behind it: the footer of a Parquet file, the note of its writer about
//! types (a schema of Arrow in base 64), and the messages of an Arrow stream. The first byte of an input says which.

use std::sync::LazyLock;

use base64::{Engine, prelude::BASE64_STANDARD};
use event::{Kind, Timestamp};
use ingest::format::{BodyReader, Encoding, Format};

use super::bodies::frame;
use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "metadata",
    about: "what Parquet and Arrow say of their columns: footers, notes of types, schemas, batches",
    seeds,
    words: &[
        "ARROW:schema",
        "PAR1",
        "latency_ms",
        "feature.a",
        "key",
        "\u{0}\u{0}\u{0}\u{0}",
        "\u{1}\u{0}\u{0}\u{0}",
        "\u{7f}",
    ],
    take,
};

/// The beginning of a note, behind its length.
const NOTED: &[u8] = b"ARROW:schema";

/// The bytes behind the footer of a Parquet file: its length, and `PAR1`.
const TAIL: usize = 8;

/// A Parquet file and an Arrow stream of the same rows.
static BODIES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let mut frame = frame();
    [query::Format::Parquet, query::Format::IpcStream].map(|format| {
        let mut body = Vec::new();
        format.write(&mut frame, &mut body).unwrap();
        body
    })
});

/// The begin and the end of the footer of a Parquet file.
fn footer(file: &[u8]) -> (usize, usize) {
    let end = file.len() - TAIL;
    (end - u32::from_le_bytes(*file[end..].first_chunk().unwrap()) as usize, end)
}

/// The begin and the end of the note of types, in base 64.
fn note(file: &[u8]) -> (usize, usize) {
    let is_text = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let name = file.windows(NOTED.len()).position(|window| window == NOTED).unwrap() + NOTED.len();
    let mut runs =
        (name..file.len()).map(|at| (at, file[at..].iter().take_while(|byte| is_text(byte)).count()));
    let (start, length) = runs.find(|(_, length)| *length > NOTED.len()).unwrap();
    // Its length, which stands before it, may look like a letter of it.
    let start = start + length % 4;
    (start, start + length / 4 * 4)
}

/// The body that an input makes, and its format.
fn made(input: &[u8]) -> Option<(Format, Vec<u8>)> {
    let [parquet, _] = &*BODIES;
    let (which, rest) = input.split_first()?;
    Some(match which % 3 {
        0 => {
            let (start, _) = footer(parquet);
            let length = u32::try_from(rest.len()).ok()?.to_le_bytes();
            (Format::Parquet, [&parquet[..start], rest, &length, b"PAR1"].concat())
        }
        1 => {
            let (start, end) = note(parquet);
            let mut message = rest.to_vec();
            message.resize((end - start) / 4 * 3, 0);
            let text = BASE64_STANDARD.encode(message);
            (Format::Parquet, [&parquet[..start], text.as_bytes(), &parquet[end..]].concat())
        }
        _ => (Format::Arrow, rest.to_vec()),
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let [parquet, arrow] = &*BODIES;
    let (start, end) = footer(parquet);
    let noted = note(parquet);
    let message = BASE64_STANDARD.decode(&parquet[noted.0..noted.1]).unwrap();
    vec![[&[0], &parquet[start..end]].concat(), [&[1], &message[..]].concat(), [&[2], &arrow[..]].concat()]
}

fn take(input: &[u8]) -> bool {
    let Some((format, body)) = made(input) else { return false };
    let now = Timestamp::parse("2026-06-02T00:00:00Z").unwrap();
    let mut reader = BodyReader::new(Kind::Predictions, format, Encoding::Identity, now);
    let batch = reader.push(&body).and_then(|()| reader.finish());
    let Ok(batch) = batch else { return false };
    assert_eq!(batch.numbers.len(), batch.rows());
    for batch in batch.by_days() {
        let bytes = segment::encode(&batch.columns).unwrap();
        assert_eq!(segment::decode(&bytes).unwrap().rows, batch.rows());
    }
    true
}
