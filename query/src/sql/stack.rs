//! Work on statements: on a thread of its own, whose stack is large, since statements nest and polars follows them by
//! recursion; and a panic in it is an error.

use evaluate::caught;
use event::{Error, Result};
use tokio::sync::oneshot;

use crate::work;

/// How large the stack is. Only what is used of it takes memory.
const STACK_BYTES: usize = 128 * 1024 * 1024;

/// What `work` makes. It goes on when nobody waits for it any more: polars cannot be broken off.
///
/// # Errors
/// Those of the work; `Corrupt`, when it panics.
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
