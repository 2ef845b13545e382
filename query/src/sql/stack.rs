//! Threads for work on statements: each has a large stack, since statements nest and polars follows them by recursion; a panic
//! becomes an error.

use evaluate::caught;
use event::{Error, Result};
use tokio::sync::oneshot;

use crate::work;

/// Size of the stack in bytes. Only the part in use takes memory.
const STACK_BYTES: usize = 128 * 1024 * 1024;

/// Runs `work` on such a thread. It continues even if nobody waits for it any more, as polars cannot be interrupted.
///
/// # Errors
/// Errors of the work; `Invalid`, if it panics.
pub(super) async fn on_large_stack<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (made, waiting) = oneshot::channel();
    let thread = std::thread::Builder::new().name("sql".into()).stack_size(STACK_BYTES);
    let spawned = thread.spawn(move || {
        work::give_way();
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
