//! Time of segments.
//!
//! An instant is closed [`CLOSED_AFTER_SECONDS`] later: no segment with an earlier time of append comes any more. A third of that
//! is for the clock of the writer, which is compared with the engine's before each put; a third for the put, which is not sent
//! later ([`PUT_WITHIN`]); and a third for the clock of the reader. (A put takes less than its third, since the time that an
//! engine gives is up to two seconds old.)

use std::time::Duration;

use event::{Clock, Error, Result, Timestamp};
use log::{key, segment_item::CLOSED_AFTER_SECONDS};
use table::{Table, probe};

/// Maximum difference between the clocks of a writer and of the engine, in seconds.
pub const MAX_SKEW_SECONDS: i64 = CLOSED_AFTER_SECONDS / 3;

/// Time after the taking of its timestamp within which a segment may be sent and its answer awaited.
pub(super) const PUT_WITHIN: Duration = Duration::from_secs(CLOSED_AFTER_SECONDS as u64 / 3 - 2);

/// Maximum time of a put; a longer one was stored too late.
pub(super) const MAX_PUT: Duration = Duration::from_secs(CLOSED_AFTER_SECONDS as u64 / 3);

/// Clock of a writer.
#[derive(Clone, Debug)]
pub(super) struct Times {
    clock: Clock,
    /// True if it gives the times of a history that is appended again.
    is_replay: bool,
}

impl Times {
    pub(super) fn new(clock: Clock, is_replay: bool) -> Self {
        Self { clock, is_replay }
    }

    /// Time of the clock.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time for a segment that is put to `table` now.
    ///
    /// # Errors
    /// `Unavailable`, with both times, when the clock is too far from the engine's; those of the table.
    pub(super) async fn for_put(&self, table: &dyn Table) -> Result<Timestamp> {
        let now = self.now();
        if self.is_replay || table.engine_time().is_none_or(|engine| check_clock(now, engine).is_ok()) {
            return Ok(now);
        }
        // The engine's time may be so old that this machine has slept since.
        probe(table, &key::probe()).await?;
        let now = self.now();
        table.engine_time().map_or(Ok(now), |engine| check_clock(now, engine).map(|()| now))
    }
}

/// Compares the clock of this machine with that of the engine.
///
/// # Errors
/// `Unavailable`, with both times, when they are more than [`MAX_SKEW_SECONDS`] apart.
pub fn check_clock(now: Timestamp, engine: Timestamp) -> Result<()> {
    let micros = now.micros() - engine.micros();
    if micros.abs() <= MAX_SKEW_SECONDS * 1_000_000 {
        return Ok(());
    }
    let seconds = micros as f64 / 1e6;
    let side = if seconds > 0.0 { "ahead" } else { "behind" };
    Err(Error::unavailable(format!(
        "the clock of this machine says {now}, that of the table {engine}: it is {:.0} s {side}, and nothing is \
         appended by a clock that is more than {MAX_SKEW_SECONDS} s off; set it right",
        seconds.abs()
    )))
}
