//! Lineage of events: from a dataset, a job or a run to predictions, to their stored evaluations, to their releases, and back.
//!
//! It is read from the headers of segments: the releases named, and the authors of batches with their sources. No events are
//! read. In a segment with batches of several sources and events of several releases, the number of events of a source that name
//! a release is known within bounds only, and both bounds are answered.

mod flows;
mod rows;

use event::{Error, Id, Result, Timestamp, Window};
use log::audit::{Author, SourceValues};
use tokio::time::Instant;

use self::flows::{Flow, Flows};
pub(crate) use self::rows::columns;
use crate::{Answer, Query, answer, window::week_until};

/// Name in paths and metrics.
pub(crate) const NAME: &str = "lineage";

/// The parameters of a request, as text from the command line or a URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineageParams<'a> {
    /// Only events from this source: pairs such as `job=nightly; run=17`, all of which must match.
    pub source: Option<&'a str>,
    /// Only predictions of this release, or outcomes that label it.
    pub release: Option<&'a str>,
    /// The first day.
    pub from: Option<&'a str>,
    /// The last day.
    pub to: Option<&'a str>,
}

/// A request for a lineage.
#[derive(Clone, Debug)]
pub struct LineageRequest {
    window: Window,
    /// A source whose values must all match.
    source: Author,
    release: Option<String>,
}

impl LineageRequest {
    /// Parses the parameters of a request received at `now`.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub fn parse(words: &LineageParams<'_>, now: Timestamp) -> Result<Self> {
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
    fn wants(&self, flow: &Flow, flows: &Flows) -> bool {
        let is_of = |release: &String| match &flow.release {
            Some(of) => **of == **release,
            None => flows.labels(flow).any(|judged| *judged == **release),
        };
        self.is_from(&flow.source()) && self.release.as_ref().is_none_or(is_of)
    }
}

impl Query {
    /// Returns the lineage of the events of a workspace: a row for each day, kind of events, source and release.
    ///
    /// # Errors
    /// `NotFound`, if there is no such workspace; `TooLarge` and `Unavailable`, if it takes too much of the bounds; errors of the
    /// table.
    pub async fn lineage(&self, workspace: &Id, request: &LineageRequest) -> Result<Answer> {
        let (turn, hold) = self.budget.enter(Some(workspace)).await?;
        let wanted = hold.wanted();
        let began = Instant::now();
        let page = self.catalog.page(workspace).await?;
        let kept = self.catalog.kept(workspace, request.window, self.clock.now()).await?;
        let flows = Flows::read(&*self.table, workspace, request, &kept, &hold).await?;
        let frame = rows::frame_of(&flows, request, &page)?;
        let held = answer::Held { hold, wanted, turn: Some(turn) };
        self.answer(NAME, began, frame, (None, None), held).await
    }
}
