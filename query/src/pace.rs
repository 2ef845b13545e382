//! Rests between pieces of work, so that readers leave the cores to appends.

use std::time::Duration;

use tokio::time::Instant;

/// Maximum rest.
const MOST: Duration = Duration::from_millis(50);

/// Inverse share of its time: a piece that waited for a core for less than this had the core to itself.
const SHARE: u32 = 16;

/// The start of a piece of work, on its thread.
pub(crate) struct Began {
    at: Instant,
    /// Total time that the thread had waited for a core by then; `None` if the system does not report it.
    waited: Option<Duration>,
}

impl Began {
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), waited: waited() }
    }

    /// Returns the rest after the piece that the same thread has just done: as long as the piece took, if something is being
    /// appended and others wanted its core, or might have.
    pub(crate) fn rest(&self, is_appending: bool) -> Option<Duration> {
        if !is_appending {
            return None;
        }
        rest(self.at.elapsed(), waited().zip(self.waited).map(|(now, then)| now.saturating_sub(then)))
    }
}

fn rest(took: Duration, waited: Option<Duration>) -> Option<Duration> {
    let had_core = waited.is_some_and(|waited| waited < took / SHARE);
    (!had_core).then(|| took.min(MOST))
}

/// Returns the total time that this thread has waited for a core since its start.
#[cfg(target_os = "linux")]
fn waited() -> Option<Duration> {
    use std::{fs::File, os::unix::fs::FileExt};

    thread_local! {
        static STATS: Option<File> = File::open("/proc/thread-self/schedstat").ok();
    }
    STATS.with(|stats| {
        let mut text = [0; 64];
        let length = stats.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        // The first field is the time on a core, the second the time waiting, in nanoseconds.
        text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
    })
}

/// Returns `None`: other systems do not report it.
#[cfg(not(target_os = "linux"))]
fn waited() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piece_that_waited_for_a_core_rests() {
        let [ten, second] = [Duration::from_millis(10), Duration::from_secs(1)];
        assert_eq!(rest(ten, Some(Duration::ZERO)), None);
        assert_eq!(rest(ten, Some(ten / 20)), None);
        assert_eq!(rest(ten, Some(ten / 10)), Some(ten));
        assert_eq!(rest(second, Some(ten)), None);
        assert_eq!(rest(second, Some(second / 2)), Some(MOST));
        assert_eq!(rest(ten, None), Some(ten), "where it is not known, others might have wanted the core");
        assert_eq!(Began::now().rest(false), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_says_how_long_a_thread_has_waited() {
        // Some kernels do not count it.
        if let Some(first) = waited() {
            assert!(waited().is_some_and(|next| next >= first));
        }
    }
}
