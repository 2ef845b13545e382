//! Digest of events, by which a batch without an idempotency key is named. It is part of stored data, so it never changes.

use std::fmt::Write as _;

use event::{Column, Columns, Kind, Values, columns::Coded};
use sha2::{Digest, Sha256};

use crate::batch::BatchId;

/// Name of a batch without a key in answers, by the digest of its events.
pub fn key(digest: &str) -> String {
    format!("sha256-{digest}")
}

/// Name of a batch without a key inside of the logs.
pub fn batch(digest: &str) -> BatchId {
    let mut id = [0; 16];
    id.copy_from_slice(&Sha256::digest(key(digest))[..16]);
    BatchId(id)
}

/// Digest of events, each of which belongs to the day of this number: equal for equal events in any format.
pub fn digest(kind: Kind, columns: &Columns, days: &[i32]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(kind.letter());
    hasher.update((columns.rows as u64).to_le_bytes());
    digest_fixed(&mut hasher, days, |day| day.to_le_bytes());
    for column in &columns.columns {
        digest_column(&mut hasher, column);
    }
    hasher.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

/// Number of bytes given to the hash at once, which stay in the cache.
const STEP_BYTES: usize = 8 * 1024;

fn digest_column(hasher: &mut Sha256, column: &Column) {
    hasher.update((column.name.len() as u64).to_le_bytes());
    hasher.update(&column.name);
    match &column.valid {
        Some(valid) => digest_fixed(hasher, valid, |valid| [u8::from(*valid)]),
        None => digest_fixed(hasher, &vec![(); column.values.len()], |()| [1]),
    }
    match &column.values {
        Values::Time(values) => digest_fixed(hasher, values, |value| value.to_le_bytes()),
        Values::Float(values) => digest_fixed(hasher, values, |value| value.to_le_bytes()),
        Values::Text(strings) => digest_texts(hasher, column, strings.iter().map(str::as_bytes)),
        Values::Coded(Coded { codes, dictionary }) => {
            let texts: Vec<&[u8]> = dictionary.iter().map(str::as_bytes).collect();
            // A null row has the code 0, also with an empty dictionary.
            let text = |code: &u8| texts.get(usize::from(*code)).copied().unwrap_or_default();
            digest_texts(hasher, column, codes.iter().map(text));
        }
    }
}

/// Digests entries that all have the same length.
fn digest_fixed<T, const N: usize>(hasher: &mut Sha256, values: &[T], bytes: impl Fn(&T) -> [u8; N]) {
    let mut step = [0; STEP_BYTES];
    for values in values.chunks(STEP_BYTES / N) {
        step.chunks_exact_mut(N).zip(values).for_each(|(place, value)| place.copy_from_slice(&bytes(value)));
        hasher.update(&step[..values.len() * N]);
    }
}

/// Digests strings, each after its length; nothing for a null row.
fn digest_texts<'a>(hasher: &mut Sha256, column: &Column, texts: impl Iterator<Item = &'a [u8]>) {
    let mut step = Vec::with_capacity(2 * STEP_BYTES);
    for (row, text) in texts.enumerate() {
        let text = if column.is_valid(row) { text } else { &[] };
        step.extend_from_slice(&(text.len() as u32).to_le_bytes());
        step.extend_from_slice(text);
        if step.len() > STEP_BYTES {
            hasher.update(&step);
            step.clear();
        }
    }
    hasher.update(&step);
}
