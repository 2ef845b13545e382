//! Cuts that requests name: each must say how far all was read that is asked for.

use std::sync::Arc;

use event::{Error, Kind, Result, Window};
use log::cut::Cut;

use crate::{by::By, rollups::kinds_by, what::What};

/// The kinds of events that are read for it, when it is read from the logs.
pub(crate) fn kinds_read(what: What, by: &By) -> &'static [Kind] {
    match what {
        What::Rollups => kinds_by(by),
        _ => what.kinds(),
    }
}

/// Reads a cut, which must hold all that is asked for.
pub(crate) fn cut_of((what, by): (What, &By), window: Window, text: &str) -> Result<Arc<Cut>> {
    let cut: Cut = text.parse()?;
    if !(cut.window.contains(window.from()) && cut.window.contains(window.to())) {
        return Err(Error::invalid(format!("it is of {} to {}", cut.window.from(), cut.window.to())));
    }
    if let Some(kind) = kinds_read(what, by).iter().find(|kind| !cut.kinds.contains(kind)) {
        return Err(Error::invalid(format!("it does not say how far {} were read", kind.name())));
    }
    Ok(Arc::new(cut))
}
