//! Recent happenings in a digest: alerts that fired, and comparisons with live releases that were decided.

use event::{Id, Result, Timestamp};
use fold::alert::Crossing;

use super::{DAY_SECONDS, DIGEST_DAYS, FiredAlert, LiveRelease, days_before};
use crate::{
    AlertScope, Alerts, Catalog, CrossedRule, HistoryOf, MAX_CROSSINGS, MAX_DELAY_DAYS, feed::DECIDED,
};

/// Happenings read at once, and the maximum searched.
const PAGE: usize = 200;
const MOST: usize = 2_000;

/// Decided comparison of a live release with one that predicts beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedComparison {
    /// Time of the decision.
    pub at: Timestamp,
    /// Name of the model.
    pub model: Option<String>,
    /// The release that predicts beside the live one.
    pub challenger: String,
    /// Environment in which the live one is live.
    pub environment: Option<String>,
    /// Text of the decision.
    pub text: String,
}

impl Catalog {
    /// Reads the alerts that began to fire within the last days, the latest first.
    pub(super) async fn fired(
        &self,
        workspace: &Id,
        alerts: &Alerts,
        live: &[LiveRelease],
        now: Timestamp,
    ) -> Result<Vec<FiredAlert>> {
        let since = now.plus_seconds(-i64::from(DIGEST_DAYS) * DAY_SECONDS);
        // A day may be judged this long after its end.
        let first = days_before(since.day(), MAX_DELAY_DAYS + 1);
        let crossings = self.crossings(workspace, first, now.day(), MAX_CROSSINGS).await?;
        let model_of = |rule: &str| {
            let rule = alerts.rules.iter().find(|known| known.name() == rule)?;
            match &rule.scope {
                AlertScope::Workspace => None,
                AlertScope::Live { model, .. } => Some(model.clone()),
                AlertScope::Release(release) => {
                    live.iter().find(|one| one.release == *release).map(|one| one.model.clone())
                }
            }
        };
        let fires = |crossed: &CrossedRule| crossed.crossing == Crossing::Fires && crossed.at >= since;
        let fired = crossings.into_iter().filter(fires);
        let mut fired: Vec<_> =
            fired.map(|crossed| FiredAlert { model: model_of(&crossed.rule), crossed }).collect();
        fired.sort_by_key(|alert| (std::cmp::Reverse(alert.crossed.at), alert.crossed.id()));
        Ok(fired)
    }

    /// Reads the comparisons decided in a workspace since an instant, the latest first: among its last 2,000 happenings.
    pub(super) async fn decided(&self, workspace: &Id, since: Timestamp) -> Result<Vec<DecidedComparison>> {
        let (mut found, mut after) = (Vec::new(), None);
        for _ in 0..MOST / PAGE {
            let page = self.history(workspace, HistoryOf::Workspace, PAGE, after).await?;
            let is_past = page.happenings.last().is_some_and(|last| last.at < since);
            let lately = page.happenings.into_iter().filter(|one| one.what == DECIDED && one.at >= since);
            found.extend(lately.map(|one| DecidedComparison {
                at: one.at,
                model: one.model,
                challenger: one.about,
                environment: one.environment,
                text: one.note.unwrap_or_default(),
            }));
            after = page.next;
            if is_past || after.is_none() {
                break;
            }
        }
        Ok(found)
    }
}
