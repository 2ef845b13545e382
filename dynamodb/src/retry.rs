//! Retrying of calls with temporary failures, within a time budget.
//!
//! The SDK could do that too, but it would hide the essential fact: whether an earlier attempt may have been
//! executed. A conditional put whose first attempt timed out *after* its execution is refused at the second, by
//! itself.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fault::{Class, Fault};

/// Time for which an ordinary call is tried.
pub(super) const CALL_BUDGET: Duration = Duration::from_secs(20);

/// Maximum time to wait before the second attempt.
const FIRST_WAIT: Duration = Duration::from_millis(25);

/// Maximum time to wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// A call that did not succeed within its budget.
#[derive(Debug)]
pub(super) struct Failed {
    /// Fault of the last attempt.
    pub(super) fault: Fault,
    /// True if an attempt had no answer, so that it may have been executed.
    pub(super) is_unsettled: bool,
}

/// Repeats `attempt` until it succeeds, fails for good, or `budget` is used up.
pub(super) async fn call<T, F>(budget: Duration, attempt: impl FnMut() -> F) -> Result<T, Failed>
where
    F: Future<Output = Result<T, Fault>>,
{
    call_until(Instant::now() + budget, attempt).await
}

/// Repeats `attempt` until it succeeds, fails for good, or `deadline` is reached.
pub(super) async fn call_until<T, F>(deadline: Instant, mut attempt: impl FnMut() -> F) -> Result<T, Failed>
where
    F: Future<Output = Result<T, Fault>>,
{
    let mut is_unsettled = false;
    let mut most = FIRST_WAIT;
    loop {
        let fault = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(fault) => fault,
        };
        is_unsettled |= fault.class == Class::Unanswered;
        meter::catalogue::DYNAMODB_FAILED.counter([reason(fault.class)]).increment(1);
        let wait = jitter(most);
        if !fault.class.is_passing() || Instant::now() + wait >= deadline {
            return Err(Failed { fault, is_unsettled });
        }
        tracing::debug!(what = fault.what, ?wait, "trying again");
        meter::catalogue::DYNAMODB_RETRIES.counter([]).increment(1);
        sleep(wait).await;
        most = (most * 2).min(MAX_WAIT);
    }
}

/// Returns the label of a failed attempt in the metric.
fn reason(class: Class) -> &'static str {
    match class {
        Class::Throttled => "throttled",
        Class::Unanswered => "unanswered",
        Class::Refused => "refused",
        _ => "other",
    }
}

/// Returns a uniformly random time up to `most`, so that callers refused together do not retry together. The only
/// randomness in this engine.
fn jitter(most: Duration) -> Duration {
    most.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn outcomes(budget: Duration, outcomes: &[Result<u8, Class>]) -> (Result<u8, Failed>, usize) {
        let mut made = 0;
        let outcome = call(budget, || {
            let outcome = outcomes[made.min(outcomes.len() - 1)];
            made += 1;
            async move { outcome.map_err(|class| Fault::new(class, "")) }
        });
        (outcome.await, made)
    }

    #[tokio::test]
    async fn only_transient_failures_are_retried() {
        let (outcome, made) =
            outcomes(CALL_BUDGET, &[Err(Class::Throttled), Err(Class::Throttled), Ok(7)]).await;
        assert_eq!((outcome.unwrap(), made), (7, 3));
        let (outcome, made) = outcomes(CALL_BUDGET, &[Err(Class::Invalid), Ok(7)]).await;
        assert_eq!((outcome.unwrap_err().fault.class, made), (Class::Invalid, 1));
    }

    #[tokio::test]
    async fn unanswered_attempt_leaves_outcome_unsettled() {
        let (outcome, _) = outcomes(CALL_BUDGET, &[Err(Class::Unanswered), Err(Class::Refused)]).await;
        assert!(outcome.unwrap_err().is_unsettled);
        let (outcome, _) = outcomes(CALL_BUDGET, &[Err(Class::Throttled), Err(Class::Refused)]).await;
        assert!(!outcome.unwrap_err().is_unsettled);
    }

    #[tokio::test]
    async fn the_budget_ends() {
        let (outcome, made) = outcomes(Duration::from_millis(60), &[Err(Class::Throttled)]).await;
        assert_eq!(outcome.unwrap_err().fault.class, Class::Throttled);
        assert!(made >= 1);
    }
}
