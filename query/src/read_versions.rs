//! Read versions named by requests: each must cover all logs that the request reads.

use std::sync::Arc;

use event::{Error, Kind, Result, Window};
use log::read_version::ReadVersion;

use crate::{by::By, rollups::kinds_by, what::What};

/// Returns the kinds of events read for it, if it is read from the logs.
pub(crate) fn kinds_read(what: What, by: &By) -> &'static [Kind] {
    match what {
        What::Rollups => kinds_by(by),
        _ => what.kinds(),
    }
}

/// Parses a read version, which must cover the window and the kinds requested.
pub(crate) fn read_version_of(
    (what, by): (What, &By),
    window: Window,
    text: &str,
) -> Result<Arc<ReadVersion>> {
    let read_version: ReadVersion = text.parse()?;
    if !(read_version.window.contains(window.from()) && read_version.window.contains(window.to())) {
        return Err(Error::invalid(format!(
            "it is of {} to {}",
            read_version.window.from(),
            read_version.window.to()
        )));
    }
    if let Some(kind) = kinds_read(what, by).iter().find(|kind| !read_version.kinds.contains(kind)) {
        return Err(Error::invalid(format!("it does not say how far {} were read", kind.name())));
    }
    Ok(Arc::new(read_version))
}
