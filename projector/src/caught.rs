//! Panics that are caught: what a single segment or day brings about must not end the process, which
//! would meet it again as soon as it is started.

use std::{
    any::Any,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
};

use event::{Error, Result};
use futures::FutureExt;
use meter::{Counter, catalogue::PROJECTOR_PANICS};

/// What a panic said, as a reason.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.as_deref().unwrap_or("without a message"))
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    count().increment(1);
    said(panic)
}

/// The count of panics.
pub(crate) fn count() -> Counter {
    PROJECTOR_PANICS.counter([])
}

/// What `work` makes, or why it cannot: its error, or what its panic said. Nothing that it had begun to
/// change may be used any more.
pub(crate) fn text<T, E: Display>(
    work: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(made) => made.map_err(|error| error.to_string()),
        Err(panic) => Err(panicked(&*panic)),
    }
}

/// What `work` makes; a panic is an error of what is stored, which does not pass by itself.
pub(crate) async fn whole<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(made) => made,
        Err(panic) => Err(Error::corrupt(panicked(&*panic))),
    }
}
