//! Time of the engine's clock: its answers carry a `Date`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::config::{
    ConfigBag, Intercept, RuntimeComponents, interceptors::BeforeDeserializationInterceptorContextRef,
};
use chrono::DateTime;
use event::Timestamp;
use tokio::time::Instant;

/// Maximum age of an answer's date on arrival. A date farther behind the time derived from earlier ones shows that
/// one of those was wrong.
const MAX_BACK_MICROS: i64 = 10 * 1_000_000;

/// Dates of the engine's answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Dates(Arc<Mutex<Option<Seen>>>);

/// Date of an answer with its time of arrival.
#[derive(Clone, Copy, Debug)]
struct Seen {
    date: Timestamp,
    at: Instant,
}

impl Seen {
    /// Returns a lower bound of the engine's time.
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.at.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.date.micros().saturating_add(passed)).unwrap_or(self.date)
    }
}

impl Dates {
    /// Returns a lower bound of the engine's clock: the date of an answer plus the time passed since by this process'
    /// monotonic clock. It is behind by less than a second plus the transit time of the answer. `None` before the
    /// first answer, and if answers have no date.
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.seen().map(|seen| seen.now())
    }

    /// Records the date of an answer that has just arrived.
    fn note(&self, date: Timestamp) {
        let mut seen = self.seen();
        let known = seen.map(|seen| seen.now().micros());
        // A slow answer gives a weaker bound than earlier ones.
        if known.is_none_or(|known| date.micros() >= known || date.micros() < known - MAX_BACK_MICROS) {
            *seen = Some(Seen { date, at: Instant::now() });
        }
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intercept for Dates {
    fn name(&self) -> &'static str {
        "Dates"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let date = context.response().headers().get("date");
        let date = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok());
        if let Some(date) = date.and_then(|date| Timestamp::from_micros(date.timestamp_micros())) {
            self.note(date);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::default().plus_seconds(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn the_engine_s_time_goes_on_between_answers() {
        let dates = Dates::default();
        assert_eq!(dates.now(), None);
        dates.note(seconds(100));
        advance(Duration::from_secs(3)).await;
        assert_eq!(dates.now(), Some(seconds(103)));
        // An answer that took two seconds to arrive.
        dates.note(seconds(101));
        assert_eq!(dates.now(), Some(seconds(103)));
        dates.note(seconds(104));
        assert_eq!(dates.now(), Some(seconds(104)));
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_server_date_is_replaced_by_next_answer() {
        let dates = Dates::default();
        dates.note(seconds(1_000_000));
        dates.note(seconds(100));
        assert_eq!(dates.now(), Some(seconds(100)));
    }
}
