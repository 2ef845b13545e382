//! Windows of days, from the words that name them.

use event::{Day, Error, Result, Window};

use crate::request::MAX_WINDOW_DAYS;

/// The days from one to another, both included.
///
/// # Errors
/// `Invalid`, saying which word is wrong.
pub(crate) fn days_between(from: &str, to: &str) -> Result<Window> {
    let named = |name: &str, error: Error| Error::invalid(format!("{name}: {error}"));
    let from: Day = from.parse().map_err(|error| named("from", error))?;
    let to: Day = to.parse().map_err(|error| named("to", error))?;
    let window = Window::new(from, to)?;
    if to.number() - from.number() >= MAX_WINDOW_DAYS {
        return Err(Error::invalid(format!(
            "the window is longer than {MAX_WINDOW_DAYS} days; ask for less"
        )));
    }
    Ok(window)
}
