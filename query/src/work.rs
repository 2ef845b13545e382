//! The threads on which queries compute. They give way to the threads that append: ingest beside many readers keeps most of its
//! rate, and the readers take the rest.
//!
//! Three mechanisms ensure this. The threads have a lower priority than others of the process (on Linux; elsewhere a thread has
//! no priority of its own). Short pieces of work take turns, one for each core, so that many readers are no more than a few
//! runnable threads. And while something is appended, a piece that had to wait for its core keeps its turn for as long again as
//! it took: sending to readers, and their own work, runs at normal priority, and this reduces it.

use std::{
    num::NonZero,
    sync::{LazyLock, mpsc},
    thread::{self, available_parallelism},
    time::Duration,
};

use evaluate::caught;
use event::{Error, Result};
use log::append_notifier::Appending;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Semaphore, oneshot},
    task::JoinHandle,
    time::Instant,
};

/// Niceness of the threads above that of others. A thread that is 10 nicer gets about a tenth of a core that another one wants as
/// well.
const NICENESS: i32 = 10;

/// The threads of this process, and the turns of short pieces of work.
struct Threads {
    /// `None`, if the system refuses it; then work is done on the threads for blocking work.
    own: Option<Runtime>,
    turns: Semaphore,
}

static THREADS: LazyLock<Threads> = LazyLock::new(|| Threads {
    own: Builder::new_current_thread().thread_name("query").on_thread_start(give_way).build().ok(),
    turns: Semaphore::new(available_parallelism().map_or(1, NonZero::get)),
});

/// Runs work that may take long, or may wait, at a low priority.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    match &THREADS.own {
        Some(own) => own.spawn_blocking(work),
        None => tokio::task::spawn_blocking(work),
    }
}

/// Runs a short piece of work, which waits for nothing, at a low priority, when its turn comes. Turns are given in the order of
/// the requests.
pub(crate) fn piece<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    run(move || {
        // The thread waits, not a task: a stream whose client takes nothing is not polled, and would keep a turn.
        let turn = THREADS.own.as_ref().and_then(|own| own.handle().block_on(THREADS.turns.acquire()).ok());
        let began = Began::now();
        let made = work();
        if let Some((turn, rest)) = turn.zip(began.rest(Appending::is_any())) {
            // The result is not held back. The rest has a thread of its own, so it does not wait behind pieces that wait for a
            // turn; there are no more of these threads than turns. If the thread cannot start, the turn is free at once.
            let resting = thread::Builder::new().name("query-rest".to_owned());
            let rested = resting.spawn(move || {
                thread::sleep(rest);
                drop(turn);
            });
            drop(rested);
        }
        made
    })
}

/// Runs two short parts of a task, in parallel if another turn is free.
///
/// # Errors
/// `Unavailable`, if the second one was broken off.
pub(crate) fn both<A, B: Send + 'static>(
    first: impl FnOnce() -> A,
    second: impl FnOnce() -> B + Send + 'static,
) -> Result<(A, B)> {
    let turn = THREADS.own.as_ref().and_then(|_| THREADS.turns.try_acquire().ok());
    if turn.is_none() {
        return Ok((first(), second()));
    }
    let (tell, told) = mpsc::channel();
    run(move || {
        let made = second();
        drop(turn);
        // The receiver is gone only if it was broken off itself.
        _ = tell.send(made);
    });
    let first = first();
    let second = told.recv();
    Ok((first, second.map_err(|gone| Error::unavailable("making the answer was interrupted").because(gone))?))
}

/// Makes the calling thread, and those that it starts, give way to others.
#[cfg(target_os = "linux")]
pub(crate) fn give_way() {
    // On Linux a thread has a priority of its own. If setting it fails, the thread works at the common priority.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a thread of queries keeps the priority that all have");
    }
}

/// Does nothing: a thread has no priority of its own here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn give_way() {
    let _ = NICENESS;
}

/// Maximum rest between pieces of work.
const MAX_REST: Duration = Duration::from_millis(50);

/// Inverse share of its time: a piece that waited for a core for less than this had the core to itself.
const SHARE: u32 = 16;

/// The start of a piece of work, on its thread.
struct Began {
    at: Instant,
    /// Total time that the thread had waited for a core by then; `None` if the system does not report it.
    waited: Option<Duration>,
}

impl Began {
    fn now() -> Self {
        Self { at: Instant::now(), waited: waited() }
    }

    /// Returns the rest after the piece that the same thread has just done: as long as the piece took, if something is being
    /// appended and others wanted its core, or might have.
    fn rest(&self, is_appending: bool) -> Option<Duration> {
        if !is_appending {
            return None;
        }
        rest(self.at.elapsed(), waited().zip(self.waited).map(|(now, then)| now.saturating_sub(then)))
    }
}

fn rest(took: Duration, waited: Option<Duration>) -> Option<Duration> {
    let had_core = waited.is_some_and(|waited| waited < took / SHARE);
    (!had_core).then(|| took.min(MAX_REST))
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

/// Size in bytes of the stack of a thread for a statement. Only the part in use takes memory.
const STACK_BYTES: usize = 128 * 1024 * 1024;

/// Runs `work` on a thread with a large stack, since statements nest and polars follows them by recursion. It continues even if
/// nobody waits for it any more, as polars cannot be interrupted.
///
/// # Errors
/// Errors of the work; `Invalid`, if it panics.
pub(crate) async fn on_large_stack<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (made, waiting) = oneshot::channel();
    let thread = std::thread::Builder::new().name("sql".into()).stack_size(STACK_BYTES);
    let spawned = thread.spawn(move || {
        give_way();
        let done = caught(|| Ok::<_, Error>(work())).unwrap_or_else(|(reason, _)| {
            tracing::error!(reason, "a statement made polars panic");
            Err(Error::invalid(format!("sql: this statement cannot be answered: polars {reason}")))
        });
        // Nobody may wait for it any more.
        _ = made.send(done);
    });
    spawned.map_err(|error| Error::unavailable("a thread for the statement cannot start").because(error))?;
    waiting.await.map_err(|error| Error::unavailable("the statement was interrupted").because(error))?
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_queries_compute_gives_way_to_all_else() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let others = niceness();
        let most = 19;
        assert_eq!(run(niceness).await.unwrap(), NICENESS.max(others).min(most));
        assert_eq!(piece(niceness).await.unwrap(), NICENESS.max(others).min(most));
        assert_eq!(tokio::task::spawn_blocking(niceness).await.unwrap(), others);
        assert_eq!(niceness(), others);
    }

    #[tokio::test]
    async fn concurrent_pieces_are_limited_to_cores() {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        let cores = available_parallelism().unwrap().get();
        let begun: Vec<_> = (0..3 * cores)
            .map(|_| {
                piece(|| {
                    let at_once = NOW.fetch_add(1, Ordering::SeqCst) + 1;
                    std::thread::sleep(Duration::from_millis(5));
                    NOW.fetch_sub(1, Ordering::SeqCst);
                    at_once
                })
            })
            .collect();
        for piece in begun {
            let at_once = piece.await.unwrap();
            assert!((1..=cores).contains(&at_once), "{at_once}");
        }
        // Two parts of one piece, if there is a turn for the second.
        let asked = piece(|| both(|| 1, || 2)).await.unwrap();
        assert_eq!(asked.unwrap(), (1, 2));
        // A piece that panics gives its turn back.
        for _ in 0..=cores {
            let broken = piece(|| both(|| 1, || -> u8 { panic!("on purpose") })).await;
            assert!(broken.map_or(true, |both| both.is_err()));
        }
        for _ in 0..=cores {
            assert!(piece(|| panic!("on purpose")).await.unwrap_err().is_panic());
        }
        assert_eq!(piece(|| 1).await.unwrap(), 1);
    }

    #[test]
    fn piece_that_waited_for_a_core_rests() {
        let [ten, second] = [Duration::from_millis(10), Duration::from_secs(1)];
        assert_eq!(rest(ten, Some(Duration::ZERO)), None);
        assert_eq!(rest(ten, Some(ten / 20)), None);
        assert_eq!(rest(ten, Some(ten / 10)), Some(ten));
        assert_eq!(rest(second, Some(ten)), None);
        assert_eq!(rest(second, Some(second / 2)), Some(MAX_REST));
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
