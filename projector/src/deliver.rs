//! Posts crossings and digests to the webhooks of workspaces. A delivery is an item that is written together with the crossing or
//! the digest. A worker that tries it claims it first, by a write under the condition that no other worker did, which puts the
//! next try off until this one is over. So each is posted at least once, however often a worker dies, and each time under one id,
//! by which the receiver recognizes it.
//!
//! Deliveries due at one receiver are posted one after the other, in parallel to other receivers. A receiver that does not answer
//! is tried once for all its due deliveries; only some of those that failed recently are tried at one time, so that others have
//! room.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use catalog::{Catalog, CrossedRule, Delivered, Delivery, DeliveryState, ToldDigest, Tried, Webhook};
use event::{Clock, ErrorKind, Id, Result, Timestamp};
use futures::{StreamExt, stream};
use log::key;
use table::{Condition, Index, Key, Query, Table, Write, unless_overtaken};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{caught, shared::Shared};

/// Time between two searches for due deliveries.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Maximum time of a try. It is shorter than the wait before the next.
pub const TRY_WITHIN: Duration = Duration::from_secs(10);

/// Number of receivers posted to at one time, and the number of these that may have failed the last time.
const RECEIVERS_AT_ONCE: usize = 32;
const FAILING_AT_ONCE: usize = 16;

/// Maximum deliveries that are taken up together, the maximum of one receiver, and the maximum read for them: those of receivers
/// that are posted to already are skipped. So a slow or failing receiver does not hide the deliveries due at others.
const MAX_DUE: usize = 5_000;
const MAX_DUE_OF_ONE: usize = 500;
const MAX_LOOKED_AT: usize = 4 * MAX_DUE;

/// Number of keys read in a page.
const PAGE: usize = 1_000;

/// Poster of bodies to webhooks: the HTTP client of a worker.
#[async_trait]
pub trait Courier: Debug + Send + Sync {
    /// Posts a parcel once. It need not limit the time: after [`TRY_WITHIN`] it is not waited for.
    async fn post(&self, parcel: &Parcel) -> Posted;
}

/// Content and target of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Webhook, with its address and the secret of its signatures.
    pub webhook: Webhook,
    /// Path of the webhook's workspace.
    pub path: String,
    /// Id by which the receiver recognizes a repeated crossing or digest.
    pub id: String,
    /// Time of the post.
    pub at: Timestamp,
    /// Body, in JSON.
    pub body: String,
}

/// Answer of a receiver to a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// Accepted.
    Taken,
    /// Answered, and not accepted.
    Refused(String),
    /// Answered that the receiver wants no further posts.
    Gone(String),
    /// Not reached, not answered, or failed in the receiver.
    Down(String),
}

/// Result of posting due deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of accepted deliveries.
    pub delivered: u64,
    /// Number of failed tries, including those of receivers that had just failed.
    pub failed: u64,
    /// Number of deliveries given up.
    pub given_up: u64,
}

impl Outcome {
    fn add(&mut self, delivery: &Delivery) {
        match delivery.state {
            DeliveryState::Pending => self.failed += 1,
            DeliveryState::Delivered => self.delivered += 1,
            DeliveryState::GivenUp => self.given_up += 1,
        }
    }
}

/// Webhook of a workspace.
type Receiver = (Id, String);

/// Receivers that are posted to, with true for those with a delivery that failed before.
type Busy = BTreeMap<Receiver, bool>;

/// Writes of the deliveries of a crossing to some webhooks, for the transaction that writes it.
pub(crate) fn writes<'a>(
    workspace: &Id,
    webhooks: impl Iterator<Item = &'a Webhook>,
    crossed: &CrossedRule,
) -> Vec<Write> {
    let of = |webhook: &Webhook| Delivery::of(crossed, &webhook.name).to_item(workspace);
    webhooks.map(|webhook| Write::Put(of(webhook), Condition::Absent)).collect()
}

/// Posts all due deliveries, and waits until each receiver has answered or failed.
///
/// # Errors
/// Errors of the table. Claimed deliveries are tried again later.
pub async fn deliver(
    table: &dyn Table,
    catalog: &Catalog,
    courier: &dyn Courier,
    clock: &Clock,
) -> Result<Outcome> {
    let due = due(table, clock.now(), &Busy::new()).await?;
    let round = Round { table, catalog, courier, clock };
    let round = &round;
    let served = stream::iter(due).map(async |(receiver, due)| round.serve(&receiver, &due.keys).await);
    let served: Vec<_> = served.buffer_unordered(RECEIVERS_AT_ONCE).collect().await;
    let mut outcome = Outcome::default();
    for one in served {
        let one = one?;
        outcome.delivered += one.delivered;
        outcome.failed += one.failed;
        outcome.given_up += one.given_up;
    }
    Ok(outcome)
}

/// Deliveries due at a receiver, the longest due first.
#[derive(Debug, Default)]
struct Due {
    keys: Vec<Key>,
    /// True if any of them was tried before.
    has_failed: bool,
}

/// Reads the deliveries due by an instant, by receiver, except for busy ones.
async fn due(table: &dyn Table, now: Timestamp, busy: &Busy) -> Result<BTreeMap<Receiver, Due>> {
    let query = Query { index: Index::Gsi1, ..Query::table(key::deliveries_due(now)) };
    let mut query = query.only(&["tries"]).limit(PAGE);
    let (mut due, mut count, mut looked_at) = (BTreeMap::<Receiver, Due>::new(), 0, 0);
    loop {
        let page = table.query(&query).await?;
        looked_at += page.items.len();
        for item in page.items {
            let Some((workspace, webhook)) = key::parse_delivery(&item.key) else { continue };
            let receiver = (workspace, webhook.to_owned());
            if !busy.contains_key(&receiver) {
                let of = due.entry(receiver).or_default();
                of.has_failed |= item.int("tries").is_ok_and(|tries| tries > 0);
                if of.keys.len() < MAX_DUE_OF_ONE {
                    of.keys.push(item.key);
                    count += 1;
                }
            }
        }
        match page.next {
            Some(next) if count < MAX_DUE && looked_at < MAX_LOOKED_AT => query.after = Some(next),
            _ => return Ok(due),
        }
    }
}

/// Tools of a round of posts.
struct Round<'a> {
    table: &'a dyn Table,
    catalog: &'a Catalog,
    courier: &'a dyn Courier,
    clock: &'a Clock,
}

impl Round<'_> {
    /// Posts the deliveries due at a receiver, one after the other.
    async fn serve(&self, (workspace, webhook): &Receiver, keys: &[Key]) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let path = match self.catalog.workspace(&workspace.to_string()).await {
            Ok(found) => found.path,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // The workspace is gone, and with it everyone who could see them.
                for key in keys {
                    self.table.delete(key, Condition::None).await?;
                }
                return Ok(outcome);
            }
            Err(error) => return Err(error),
        };
        let alerts = self.catalog.alerts(workspace).await?;
        let mut down = None;
        for key in keys {
            let Some(item) = self.table.get(key).await? else { continue };
            let delivery = match Delivery::from_item(&item) {
                Ok(delivery) => delivery,
                // Other due deliveries need not wait for it.
                Err(error) => {
                    tracing::error!(%workspace, webhook, %error, "a delivery cannot be read");
                    continue;
                }
            };
            let now = self.clock.now();
            if !delivery.is_due(now) {
                continue;
            }
            let settled = match (alerts.webhook(webhook), &down) {
                (None, _) => {
                    let why = Tried::Never("the webhook was deleted".to_owned());
                    self.write(workspace, delivery.after(&why, now)).await?
                }
                (Some(_), Some(why)) => {
                    self.write(workspace, delivery.passed_over(&Tried::Failed(String::clone(why)), now))
                        .await?
                }
                (Some(webhook), None) => {
                    let Some(claimed) = self.write(workspace, delivery.claimed(now)).await? else { continue };
                    let posted = self.post(workspace, &path, webhook, &claimed).await?;
                    if let Posted::Down(why) = &posted {
                        down = Some(why.clone());
                    }
                    self.write(workspace, claimed.after(&tried(posted), self.clock.now())).await?
                }
            };
            if let Some(settled) = settled {
                report(workspace, &settled);
                outcome.add(&settled);
            }
        }
        Ok(outcome)
    }

    /// Writes the result of a delivery; `None`, when another worker was quicker.
    async fn write(&self, workspace: &Id, delivery: Delivery) -> Result<Option<Delivery>> {
        let own = Condition::unchanged(delivery.ver - 1);
        let written = unless_overtaken(self.table.put(delivery.to_item(workspace), own).await)?;
        Ok(written.map(|()| delivery))
    }

    async fn post(
        &self,
        workspace: &Id,
        path: &str,
        webhook: &Webhook,
        delivery: &Delivery,
    ) -> Result<Posted> {
        let Some(item) = self.table.get(&delivery.source_key(workspace)).await? else {
            return Ok(Posted::Gone(format!("the {} is not there", delivery.of.name())));
        };
        let body = match &delivery.of {
            Delivered::Crossing { .. } => {
                CrossedRule::from_item(&item).map(|crossed| webhook.body(workspace, path, &crossed))
            }
            Delivered::Digest { .. } => ToldDigest::from_item(&item).map(|told| told.body),
        };
        let body = match body {
            Ok(body) => body,
            Err(error) => return Ok(Posted::Refused(error.to_string())),
        };
        let parcel = Parcel {
            webhook: webhook.clone(),
            path: path.to_owned(),
            // Two workspaces may have one receiver.
            id: format!("{workspace}.{}", delivery.id()),
            at: self.clock.now(),
            body,
        };
        let posted = timeout(TRY_WITHIN, self.courier.post(&parcel)).await;
        Ok(posted.unwrap_or_else(|_| Posted::Down(format!("no answer within {} s", TRY_WITHIN.as_secs()))))
    }
}

fn tried(posted: Posted) -> Tried {
    match posted {
        Posted::Taken => Tried::Delivered,
        Posted::Refused(why) | Posted::Down(why) => Tried::Failed(why),
        Posted::Gone(why) => Tried::Never(why),
    }
}

/// Logs the result of a delivery.
fn report(workspace: &Id, delivery: &Delivery) {
    let (of, webhook, tries) = (delivery.id(), &delivery.webhook, delivery.tries);
    let why = delivery.why.as_deref().unwrap_or_default();
    match delivery.state {
        DeliveryState::Pending => {
            tracing::warn!(%workspace, webhook, of, tries, why, "a delivery failed, and is tried again later");
        }
        DeliveryState::Delivered => tracing::info!(%workspace, webhook, of, tries, "delivered"),
        DeliveryState::GivenUp => {
            tracing::error!(%workspace, webhook, of, tries, why, "a delivery is given up");
        }
    }
}

/// Posts forever, in the one worker that sweeps periodically. Each receiver has a task of its own, so none delays another, nor
/// anything else.
pub(crate) async fn run(shared: &Arc<Shared>) -> Result<()> {
    let Some(courier) = &shared.options.courier else { return std::future::pending().await };
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut posting = Posting::default();
    loop {
        tokio::select! {
            _ = look.tick() => {}
            Some(ended) = posting.tasks.join_next() => {
                posting.ended(shared, ended);
                continue;
            }
        }
        if !shared.has_sweep_lease() {
            continue;
        }
        match due(&*shared.table, shared.now(), &posting.busy).await {
            Ok(due) => posting.begin(shared, courier, due),
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, "the table is not available; what crossed is posted later");
            }
            Err(error) => return Err(error),
        }
    }
}

/// Receivers that are posted to now.
#[derive(Debug, Default)]
struct Posting {
    tasks: JoinSet<(Receiver, Result<Outcome>)>,
    busy: Busy,
}

impl Posting {
    /// Begins a task for each receiver with due deliveries, as far as there is room.
    fn begin(&mut self, shared: &Arc<Shared>, courier: &Arc<dyn Courier>, due: BTreeMap<Receiver, Due>) {
        for (receiver, due) in due {
            let failing = self.busy.values().filter(|failed| **failed).count();
            let is_full =
                self.busy.len() >= RECEIVERS_AT_ONCE || (due.has_failed && failing >= FAILING_AT_ONCE);
            if is_full || self.busy.contains_key(&receiver) {
                continue;
            }
            self.busy.insert(receiver.clone(), due.has_failed);
            let (shared, courier) = (Arc::clone(shared), Arc::clone(courier));
            self.tasks.spawn(async move {
                let (catalog, clock) = (&shared.catalog, &shared.options.clock);
                let round = Round { table: &*shared.table, catalog, courier: &*courier, clock };
                let served = caught::whole(round.serve(&receiver, &due.keys)).await;
                (receiver, served)
            });
        }
    }

    fn ended(
        &mut self,
        shared: &Shared,
        ended: std::result::Result<(Receiver, Result<Outcome>), tokio::task::JoinError>,
    ) {
        // Panics are caught in the task, and tasks are never aborted.
        let Ok((receiver, served)) = ended else { return };
        self.busy.remove(&receiver);
        match served {
            Ok(outcome) => shared.stats.meters.posted(outcome),
            Err(error) => {
                let (workspace, webhook) = receiver;
                tracing::warn!(%workspace, webhook, %error, "what crossed is posted later");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use table::{MAX_TRANSACTION_WRITES, sqlite::SqliteTable};

    use super::*;

    #[tokio::test]
    async fn slow_receiver_does_not_hide_other_due_deliveries() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let receiver = |name: &str| (workspace.clone(), name.to_owned());
        let put = |webhook: &str, number: usize, due_at: Timestamp| {
            let rule = format!("rule-{number}");
            let delivery = Delivery {
                ver: 1,
                of: Delivered::Crossing { rule, created_at: Timestamp::default() },
                day: due_at.day(),
                webhook: webhook.to_owned(),
                made_at: due_at,
                state: DeliveryState::Pending,
                tries: 0,
                due_at,
                why: None,
            };
            Write::Put(delivery.to_item(&workspace), Condition::Absent)
        };
        let (first, now) = (Timestamp::default(), Timestamp::default().plus_seconds(60));
        let mut writes: Vec<Write> = (0..MAX_DUE).map(|number| put("slow", number, first)).collect();
        writes.push(put("quick", 0, now));
        for some in writes.chunks(MAX_TRANSACTION_WRITES) {
            table.transact(some.to_vec()).await.unwrap();
        }
        let seen = async |busy: Busy| -> Vec<Receiver> {
            due(&table, now, &busy).await.unwrap().into_keys().collect()
        };
        assert_eq!(
            seen(Busy::new()).await,
            [receiver("quick"), receiver("slow")],
            "not all of it is taken up"
        );
        assert_eq!(seen(Busy::from([(receiver("slow"), false)])).await, [receiver("quick")]);
    }
}
