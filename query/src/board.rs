//! The leaderboard: of what is live, and of a given day, out of its evaluation.

use catalog::{MAX_BOARD, PrimaryMetric, RankedRelease};
use event::{Day, Error, Id, Result};
use fold::{Evaluation, evaluation::Record};
use log::{
    active,
    evaluated::{self, At},
};

use crate::Query;

/// A release and its place on a day.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The release, by name.
    pub release: String,
    /// The value of the metric.
    pub value: f64,
    /// How many of its predictions were judged.
    pub labelled: u64,
    /// How many of them the value is made of.
    pub n: u64,
    /// Whether these are enough to be ranked; else it stands behind those that are.
    pub is_ranked: bool,
    /// How it did against the other releases of the day.
    pub record: Record,
}

impl Query {
    /// The live releases, the best first, with the names that their models have now: one query of the
    /// board, and a read of each model on it.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is not 1 to [`MAX_BOARD`]; those of the table.
    pub async fn leaderboard(&self, workspace: &Id, limit: usize) -> Result<Vec<RankedRelease>> {
        let mut board = self.catalog.leaderboard(workspace, limit).await?;
        self.catalog.name_models(workspace, &mut board).await?;
        Ok(board)
    }

    /// The releases of a day, the best first, and what they are ranked by. All that were judged by this
    /// metric are there, live or not; those of which too few were judged stand behind. It reads two items and the
    /// evaluation.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is not 1 to [`MAX_BOARD`]; `Conflict`, when no primary metric is set; those of the table.
    pub async fn leaderboard_of(
        &self,
        workspace: &Id,
        day: Day,
        limit: usize,
    ) -> Result<(PrimaryMetric, Vec<Place>)> {
        if !(1..=MAX_BOARD).contains(&limit) {
            return Err(Error::invalid(format!("the limit is 1 to {MAX_BOARD}")));
        }
        let unset = || Error::conflict("the workspace has no primary metric to rank by; set one");
        let settings = self.catalog.settings(workspace).await?;
        let primary = settings.primary_metric.ok_or_else(unset)?;
        let version = active::load(&*self.table, workspace).await?.version;
        let at = At { workspace, version, day };
        let Some((_, states)) = evaluated::load(&*self.table, at).await? else {
            return Ok((primary, Vec::new()));
        };
        let evaluation = Evaluation::from_states(&states);
        let evaluation = evaluation.map_err(|error| Error::corrupt(format!("item {}: {error}", at.key())))?;
        let place = |(release, of): (&String, &fold::evaluation::ReleaseEvaluation)| {
            let value = of.figure(primary.metric)?;
            let n = of.judged_by(primary.metric);
            let (labelled, record, is_ranked) = (of.judged(), of.record, n >= settings.min_n());
            Some(Place { release: release.clone(), value, labelled, n, is_ranked, record })
        };
        let mut places: Vec<Place> = evaluation.releases.iter().filter_map(place).collect();
        // Those of one value stay in the order of their names.
        places.sort_by(|a, b| {
            let by_score = || primary.score(b.value).total_cmp(&primary.score(a.value));
            b.is_ranked.cmp(&a.is_ranked).then_with(by_score)
        });
        places.truncate(limit);
        Ok((primary, places))
    }
}
