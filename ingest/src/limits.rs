//! Every limit of a request, in one place. What exceeds one is refused with an error that names it.

use std::time::Duration;

/// The most bytes in a key, in a note and in any other text. How many tags there may be stands in
/// [the table of families](event::fields::Family).
pub use event::fields::{MAX_KEY_BYTES, MAX_NOTE_BYTES, MAX_TEXT_BYTES};

/// The most bytes in a body.
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// The most rows in a batch.
pub const MAX_BATCH_ROWS: usize = 100_000;
/// The most days that one batch may touch: each is a log of its own.
pub const MAX_BATCH_DAYS: usize = 400;
/// The most numbers of families in a batch, rows times columns: a column takes memory also where a row lacks it.
pub const MAX_BATCH_CELLS: usize = 1 << 23;
/// The most bytes of memory that the rows of a batch take once they are decoded, however few they are in the body. Twice as many, for the copies that
/// go to different logs, are less than [what all bodies may become](crate::gate::Bounds::claimed).
pub const MAX_BATCH_BYTES: usize = 80 * 1024 * 1024;
/// The most fields, or members of a family, that are read of a row before it is refused.
pub const MAX_FIELDS: usize = 1_024;
/// The most bytes in an idempotency key.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 256;
/// How many rows of a file make a batch, if they are of few days.
pub const FILE_BATCH_ROWS: usize = 50_000;
/// How many bytes of the rows of a file make a batch, however few rows they are.
pub const FILE_CHUNK_BYTES: usize = 64 * 1024 * 1024;
/// The most bytes in the id that an event gives itself.
pub const MAX_EVENT_ID_BYTES: usize = 256;
/// The most bytes in one row of a text format: a line, an element of an array.
pub const MAX_LINE_BYTES: usize = 2 * 1024 * 1024;
/// How far in the future an event may be, in seconds.
pub const MAX_FUTURE_SECONDS: i64 = 24 * 60 * 60;
/// How far before it was observed an outcome without a date may have its prediction looked for, in days.
pub const MAX_LOOK_BACK_DAYS: u32 = 400;
/// The most bad rows that an answer lists.
pub const MAX_LISTED_ERRORS: usize = 100;
/// How long an idempotency key is remembered, in seconds, unless it is kept for good.
pub const IDEMPOTENCY_SECONDS: i64 = 7 * 24 * 60 * 60;
/// How long a batch that has no idempotency key is taken for the same one when it comes again, in seconds,
/// by the times of the log that it goes to.
pub const REPEAT_SECONDS: i64 = 10 * 60;

/// How long the body of a request may take to come, as a rule.
pub const BODY_WITHIN: Duration = Duration::from_secs(120);

/// The most release events of a batch that promotion gates judge.
pub const MAX_GATED: usize = 16;
