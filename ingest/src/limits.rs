//! All limits of a request. A request over one is refused with an error that names it.

use std::time::Duration;

/// Maximum bytes of a key, of a note and of any other text. The maximum number of tags stands in [the table of
/// families](event::fields::Family).
pub use event::fields::{MAX_KEY_BYTES, MAX_NOTE_BYTES, MAX_TEXT_BYTES};

/// Maximum bytes of a body.
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Maximum rows of a batch.
pub const MAX_BATCH_ROWS: usize = 100_000;
/// Maximum days that one batch may touch: each is a log of its own.
pub const MAX_BATCH_DAYS: usize = 400;
/// Maximum numbers of families in a batch, rows times columns: a column takes memory also for rows that lack it.
pub const MAX_BATCH_CELLS: usize = 1 << 23;
/// Maximum bytes of memory of the decoded rows of a batch, independent of their size in the body. Twice as many, for the copies
/// that go to different logs, are less than [the memory of all decoded bodies](crate::admission::Bounds::claimed).
pub const MAX_BATCH_BYTES: usize = 80 * 1024 * 1024;
/// Maximum fields, or members of a family, that are read of a row before it is refused.
pub const MAX_FIELDS: usize = 1_024;
/// Maximum bytes of an idempotency key.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 256;
/// Number of rows of a file that make a batch, if they are of few days.
pub const FILE_BATCH_ROWS: usize = 50_000;
/// Number of bytes of the rows of a file that make a batch, however few rows they are.
pub const FILE_CHUNK_BYTES: usize = 64 * 1024 * 1024;
/// Maximum bytes of the id that an event gives itself.
pub const MAX_EVENT_ID_BYTES: usize = 256;
/// Maximum bytes of one row of a text format: a line, an element of an array.
pub const MAX_LINE_BYTES: usize = 2 * 1024 * 1024;
/// Maximum distance of an event into the future, in seconds.
pub const MAX_FUTURE_SECONDS: i64 = 24 * 60 * 60;
/// Maximum time before its observation in which the prediction of an outcome without a date is searched, in days.
pub const MAX_LOOK_BACK_DAYS: u32 = 400;
/// Maximum bad rows that an answer lists.
pub const MAX_LISTED_ERRORS: usize = 100;
/// Time for which an idempotency key is remembered, in seconds, unless it is kept for good.
pub const IDEMPOTENCY_SECONDS: i64 = 7 * 24 * 60 * 60;
/// Time within which a repeated batch without an idempotency key counts as the same one, in seconds, by the times of the log that
/// it goes to.
pub const REPEAT_SECONDS: i64 = 10 * 60;

/// Usual maximum time for the body of a request to arrive.
pub const BODY_WITHIN: Duration = Duration::from_secs(120);

/// Maximum release events of a batch that promotion gates judge.
pub const MAX_GATED: usize = 16;
