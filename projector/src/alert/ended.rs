//! Rules that were deleted. Where one stood is forgotten; those who were told that it fires are told that this is over, in the same write.

use catalog::{Alert, Alerts, CrossedRule, Judged, alert_item, model_of_alert};
use event::{Id, Result, Timestamp};
use fold::alert::{Crossing, State};
use log::{key, projection::Applied};
use table::{Condition, Pages, Query, Table, Write, query_all, unless_overtaken};

use crate::deliver;

/// A rule that was judged, and is not there any more.
pub(super) struct Ended<'a> {
    pub(super) table: &'a dyn Table,
    pub(super) workspace: &'a Id,
    /// What the workspace watches now.
    pub(super) alerts: &'a Alerts,
    pub(super) name: &'a str,
    /// Where it stood.
    pub(super) judged: Judged,
    pub(super) now: Timestamp,
}

impl Ended<'_> {
    /// Forgets where it stood; whether it is told that it does not fire any more.
    pub(super) async fn forget(&self) -> Result<bool> {
        let Self { table, workspace, name, judged, .. } = *self;
        let mut writes =
            vec![Write::Delete(key::standing(workspace, name), Condition::unchanged(judged.ver))];
        if judged.standing.state == State::Firing
            && let Some(fired) = self.fired().await?
        {
            writes.extend(self.told(&fired).await?);
        }
        let is_told = writes.len() > 1;
        let written = unless_overtaken(table.transact(writes).await)?;
        if is_told && written.is_some() {
            tracing::info!(%workspace, rule = name, "an alert rule was deleted while it fired");
        }
        Ok(is_told && written.is_some())
    }

    /// That it began to fire.
    async fn fired(&self) -> Result<Option<CrossedRule>> {
        let Self { table, workspace, name, judged, .. } = *self;
        let earlier = key::crossings(workspace, event::Day::FIRST, judged.day);
        let mut pages = Pages::of(table, Query::table(earlier).backward());
        while let Some(page) = pages.next().await? {
            for item in &page {
                let crossed = CrossedRule::from_item(item)?;
                if crossed.rule == name && crossed.created_at == judged.created_at {
                    return Ok(Some(crossed).filter(|crossed| crossed.crossing == Crossing::Fires));
                }
            }
        }
        Ok(None)
    }

    /// The writes by which those are told that it is over who were told that it fires.
    async fn told(&self, fired: &CrossedRule) -> Result<Vec<Write>> {
        let Self { table, workspace, name, judged, now, .. } = *self;
        // The first day that nobody judges.
        let Some(day) = judged.day.next() else { return Ok(Vec::new()) };
        let over = CrossedRule {
            rule: name.to_owned(),
            created_at: judged.created_at,
            day,
            crossing: Crossing::Resolves,
            at: now,
            measured: None,
            value: None,
            cut: Applied::new(),
            text: "the rule was deleted while it fired".into(),
        };
        let model = model_of_alert(table, workspace, fired.at, name).await?;
        let alert = Alert { at: now, name: name.to_owned(), model, text: over.text.clone() };
        let posted = key::deliveries_of(workspace, fired.day, name, fired.created_at);
        let posted = query_all(table, Query::table(posted)).await?;
        let webhooks = posted.iter().filter_map(|item| key::parse_delivery(&item.key));
        let webhooks = webhooks.filter_map(|(_, webhook)| self.alerts.webhook(webhook));
        let mut writes = vec![
            Write::Put(over.to_item(workspace), Condition::Absent),
            Write::Put(alert_item(table, workspace, &alert).await?, Condition::None),
        ];
        writes.extend(deliver::writes(workspace, webhooks, &over));
        Ok(writes)
    }
}
