//! Caught panics: a panic over a single segment or day must not end the process, which would meet it again as soon as it is
//! started.

use std::{any::Any, fmt::Display, panic::AssertUnwindSafe};

use evaluate::said;
use event::{Error, Result};
use futures::FutureExt;
use meter::{Counter, catalogue::PROJECTOR_PANICS};

fn panicked(panic: &(dyn Any + Send)) -> String {
    count().increment(1);
    said(panic)
}

/// Counter of panics.
pub(crate) fn count() -> Counter {
    PROJECTOR_PANICS.counter([])
}

/// Returns the result of `work`, or the reason that it failed: its error, or the message of its panic. State that it had begun to
/// change must not be used any more.
pub(crate) fn text<T, E: Display>(
    work: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<T, String> {
    evaluate::caught(work).map_err(|(reason, has_panicked)| {
        if has_panicked {
            count().increment(1);
        }
        reason
    })
}

/// Returns the result of `work`; a panic becomes an error of the stored data, which does not pass by itself.
pub(crate) async fn whole<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(made) => made,
        Err(panic) => Err(Error::corrupt(panicked(&*panic))),
    }
}
