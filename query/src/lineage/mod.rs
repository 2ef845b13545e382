//! Lineage of events: from a dataset, a job or a run to predictions, to their stored evaluations, to their releases, and back.
//!
//! It is read from the headers of segments: the releases named, and the authors of batches with their sources. No events are
//! read. In a segment with batches of several sources and events of several releases, the number of events of a source that name
//! a release is known within bounds only, and both bounds are answered.

mod flows;
mod rows;

use event::{Day, Id, Result, Timestamp, Window};
use log::audit::{Author, SourceValues};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use self::flows::{Flow, Flows};
pub(crate) use self::rows::columns;
use crate::{Answer, Query, answer, request::named, window::week_until};

/// Name in paths and metrics.
pub(crate) const NAME: &str = "lineage";

/// The parameters of a request.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct LineageParams {
    /// Only what came from this source: pairs such as `job=nightly;run=17` of `system`, `job`, `run` and `dataset`, all of which must
    /// fit.
    #[param(min_length = 1)]
    pub source: Option<String>,
    /// Only what this release made, and the outcomes that judge it.
    #[param(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    pub release: Option<String>,
    /// The first UTC day; six days before the last one by default.
    #[param(value_type = Option<String>, format = Date)]
    pub from: Option<Day>,
    /// The last UTC day; today by default.
    #[param(value_type = Option<String>, format = Date)]
    pub to: Option<Day>,
    /// The format of the answer, which the operation describes.
    #[param(ignore)]
    pub format: Option<String>,
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
    /// Makes the request of parameters received at `now`.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub fn parse(params: &LineageParams, now: Timestamp) -> Result<Self> {
        let source = match &params.source {
            None => Author::program(),
            Some(pairs) => Author::program().from_source(pairs)?,
        };
        let window = week_until(params.from, params.to, now)?;
        Ok(Self { window, source, release: named("release", params.release.as_deref())? })
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
