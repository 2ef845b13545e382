//! Rules that were deleted, or whose judgement is taken back. All who were notified that one fires are notified of the end; then
//! its standing is deleted.

use catalog::{Alert, Alerts, CrossedRule, Judged, alert_item, model_of_alert};
use event::{Day, Id, Result, Timestamp};
use fold::alert::{Crossing, Standing, State};
use log::{key, projection::Applied};
use table::{Condition, Pages, Query, Table, Write, query_all, unless_overtaken};

use crate::deliver;

/// Rule that was judged, and was deleted or begins again.
pub(super) struct Ended<'a> {
    pub(super) table: &'a dyn Table,
    pub(super) workspace: &'a Id,
    /// Alert rules and webhooks of the workspace now.
    pub(super) alerts: &'a Alerts,
    pub(super) name: &'a str,
    /// Reason that it does not fire any more.
    pub(super) why: &'static str,
    pub(super) now: Timestamp,
}

impl Ended<'_> {
    /// Reports that it does not fire any more, if it did, and deletes its standing, unless another rule of its name uses the
    /// item. Returns the standing after that, and whether anything was reported.
    pub(super) async fn settle(&self, judged: Judged, has_successor: bool) -> Result<(Judged, bool)> {
        let told = match judged.standing.state {
            State::Firing => self.tell(judged).await?,
            State::Ok | State::Pending | State::Resolved | State::NoData => None,
        };
        let is_told = told.is_some();
        let judged = told.unwrap_or(judged);
        if !has_successor {
            let key = key::standing(self.workspace, self.name);
            unless_overtaken(self.table.delete(&key, Condition::unchanged(judged.ver)).await)?;
        }
        Ok((judged, is_told))
    }

    /// Reports that it does not fire any more, and returns the standing after that. `None`, when another process was quicker, or
    /// nobody was notified that it fires.
    async fn tell(&self, judged: Judged) -> Result<Option<Judged>> {
        let Self { table, workspace, name, .. } = *self;
        let Some(fired) = self.fired(judged).await? else { return Ok(None) };
        // Written as for a crossing: the standing, the crossing, the alert and the deliveries are one write.
        let after =
            Judged { ver: judged.ver + 1, standing: Standing { state: State::Resolved, days: 0 }, ..judged };
        let mut writes = vec![Write::Put(after.to_item(workspace, name), Condition::unchanged(judged.ver))];
        writes.extend(self.told(judged, &fired).await?);
        let written = unless_overtaken(table.transact(writes).await)?;
        if written.is_some() {
            tracing::info!(%workspace, rule = name, "an alert rule fires no more: {}", self.why);
        }
        Ok(written.map(|()| after))
    }

    /// Finds the crossing at which it began to fire.
    async fn fired(&self, judged: Judged) -> Result<Option<CrossedRule>> {
        let own = format!("/{}/{}", self.name, judged.created_at.micros());
        let earlier = key::crossings(self.workspace, Day::FIRST, judged.day);
        let mut pages = Pages::of(self.table, Query::table(earlier).backward());
        while let Some(page) = pages.next().await? {
            if let Some(item) = page.iter().find(|item| item.key.sk.ends_with(&own)) {
                let crossed = CrossedRule::from_item(item)?;
                return Ok(Some(crossed).filter(|crossed| crossed.crossing == Crossing::Fires));
            }
        }
        Ok(None)
    }

    /// Writes that notify all who were notified that it fires of the end.
    async fn told(&self, judged: Judged, fired: &CrossedRule) -> Result<Vec<Write>> {
        let Self { table, workspace, name, now, .. } = *self;
        // Set before all reports about a later rule of its name.
        let at = Timestamp::from_micros(now.micros() - 1).unwrap_or(now);
        // Set behind all days on which it crossed.
        let day = fired.day.next().map_or(fired.day, |next| next.max(now.day()));
        let over = CrossedRule {
            rule: name.to_owned(),
            created_at: judged.created_at,
            day,
            crossing: Crossing::Resolves,
            at,
            measured: None,
            value: None,
            cut: Applied::new(),
            text: self.why.into(),
        };
        let model = model_of_alert(table, workspace, fired.at, name).await?;
        let alert = Alert { at, name: name.to_owned(), model, text: over.text.clone() };
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
