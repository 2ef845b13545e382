//! The request for a lineage.

use event::{Error, Result, Timestamp, Window};
use log::audit::{Author, SourceValues};

use super::flows::{Flow, Flows};
use crate::window::week_until;

/// The parameters of a request, as text from the command line or a URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineageWords<'a> {
    /// Only events from this source: pairs such as `job=nightly; run=17`, all of which must match.
    pub source: Option<&'a str>,
    /// Only predictions of this release, or outcomes that judge it.
    pub release: Option<&'a str>,
    /// The first day.
    pub from: Option<&'a str>,
    /// The last day.
    pub to: Option<&'a str>,
}

/// A request for a lineage.
#[derive(Clone, Debug)]
pub struct LineageRequest {
    pub(super) window: Window,
    /// A source whose values must all match.
    source: Author,
    release: Option<String>,
}

impl LineageRequest {
    /// Parses the parameters of a request received at `now`.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub fn parse(words: &LineageWords<'_>, now: Timestamp) -> Result<Self> {
        let source = match words.source {
            None => Author::program(),
            Some(pairs) => Author::program().from_source(pairs)?,
        };
        if words.release == Some("") {
            return Err(Error::invalid("release is empty; leave it out"));
        }
        let window = week_until(words.from, words.to, now)?;
        Ok(Self { window, source, release: words.release.map(str::to_owned) })
    }

    fn is_from(&self, found: &SourceValues<'_>) -> bool {
        self.source
            .source_values()
            .iter()
            .zip(found)
            .all(|(wanted, found)| wanted.is_none() || wanted == found)
    }

    /// Returns true if a flow is requested. Outcomes without a release belong to all releases with predictions on their day.
    pub(super) fn wants(&self, flow: &Flow, flows: &Flows) -> bool {
        let is_of = |release: &String| match &flow.release {
            Some(of) => **of == **release,
            None => flows.labels(flow).any(|judged| *judged == **release),
        };
        self.is_from(&flow.source()) && self.release.as_ref().is_none_or(is_of)
    }
}
