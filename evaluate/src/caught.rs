//! Catching panics: a panic over a single segment must not end the process, which would meet it again after every
//! restart.

use std::{
    any::Any,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Returns the message of a panic as a reason.
pub fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.as_deref().unwrap_or("without a message"))
}

/// Returns the result of `work`, or else the reason of its failure, with true if it was a panic. State that it had
/// begun to change must not be used any more.
///
/// # Errors
/// Fails if it fails or panics.
pub fn caught<T, E: Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T, (String, bool)> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(made) => made.map_err(|error| (error.to_string(), false)),
        Err(panic) => Err((said(&*panic), true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_and_a_panic_are_told_apart() {
        assert_eq!(caught(|| Ok::<_, String>(1)), Ok(1));
        assert_eq!(caught(|| Err::<u8, _>("no")), Err(("no".into(), false)));
        let (reason, has_panicked) = caught(|| -> Result<u8, String> { panic!("of {}", 1) }).unwrap_err();
        assert_eq!((&*reason, has_panicked), ("panicked: of 1", true));
    }
}
