//! Rules that were deleted, or whose judgement is taken back. Those who were told that one fires are told that this is over; then it is forgotten where it stood.

use catalog::{Alert, Alerts, CrossedRule, Judged, alert_item, model_of_alert};
use event::{Day, Id, Result, Timestamp};
use fold::alert::{Crossing, Standing, State};
use log::{key, projection::Applied};
use table::{Condition, Pages, Query, Table, Write, query_all, unless_overtaken};

use crate::deliver;

/// A rule that was judged, and is not there any more or begins again.
pub(super) struct Ended<'a> {
    pub(super) table: &'a dyn Table,
    pub(super) workspace: &'a Id,
    /// What the workspace watches now.
    pub(super) alerts: &'a Alerts,
    pub(super) name: &'a str,
    /// Why it does not fire any more.
    pub(super) why: &'static str,
    pub(super) now: Timestamp,
}

impl Ended<'_> {
    /// Tells that it does not fire any more, if it did, and forgets where it stood, unless there is another rule of its name, which goes
    /// on in its item. Returns where it stands then, and whether something was told.
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

    /// Tells that it does not fire any more; where it stands then. `None`, when somebody else was quicker, or nobody was told that it fires.
    async fn tell(&self, judged: Judged) -> Result<Option<Judged>> {
        let Self { table, workspace, name, .. } = *self;
        let Some(fired) = self.fired(judged).await? else { return Ok(None) };
        // As when a rule crosses: where it stands, the crossing, the alert and the deliveries are one write.
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

    /// That it began to fire.
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

    /// The writes by which those are told that it is over who were told that it fires.
    async fn told(&self, judged: Judged, fired: &CrossedRule) -> Result<Vec<Write>> {
        let Self { table, workspace, name, now, .. } = *self;
        // Before all that is told of a rule of its name that came since.
        let at = Timestamp::from_micros(now.micros() - 1).unwrap_or(now);
        // Behind all days on which it crossed.
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
