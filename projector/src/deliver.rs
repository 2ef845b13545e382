//! Posts transitions and digests to the webhooks of workspaces. A delivery is an item written together with its
//! transition or digest. Before each try a worker claims it, by a write conditional on its version, which postpones the
//! next try until this one is over. So each is posted at least once, however often a worker dies, and always under one
//! id, by which the receiver recognizes repetitions.
//!
//! Deliveries due at one receiver are posted one after the other, in parallel to other receivers. A receiver that does not answer
//! is tried once for all its due deliveries.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use catalog::{Catalog, Delivery, DeliveryState, Webhook};
use event::{Clock, ErrorKind, Id, Result, Timestamp};
use futures::{StreamExt, stream};
use log::key;
use table::{Condition, Index, Key, Query, Table, unless_overtaken};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

pub use catalog::Posted;

use crate::{caught, shared::Shared};

/// Time between two searches for due deliveries.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Maximum time of a try. It is shorter than the wait before the next.
pub const TRY_WITHIN: Duration = Duration::from_secs(10);

/// Number of receivers posted to at one time.
const RECEIVERS_AT_ONCE: usize = 32;

/// Maximum deliveries that are taken up together, the maximum of one receiver, and the maximum read for them: those of receivers
/// that are posted to already are skipped. So a slow or failing receiver does not hide the deliveries due at others.
const MAX_DUE: usize = 5_000;
const MAX_DUE_OF_ONE: usize = 500;
const MAX_LOOKED_AT: usize = 4 * MAX_DUE;

/// Number of keys read in a page.
const PAGE: usize = 1_000;

/// Poster of bodies to webhooks: the HTTP client of a worker.
#[async_trait]
pub trait WebhookSender: Debug + Send + Sync {
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
    /// Id by which the receiver recognizes a repeated transition or digest.
    pub id: String,
    /// Time of the post.
    pub at: Timestamp,
    /// Body, in JSON.
    pub body: String,
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

/// Webhook of a workspace.
type Receiver = (Id, String);

/// Posts all due deliveries, and waits until each receiver has answered or failed.
///
/// # Errors
/// Errors of the table. Claimed deliveries are tried again later.
pub async fn deliver(
    table: &dyn Table,
    catalog: &Catalog,
    sender: &dyn WebhookSender,
    clock: &Clock,
) -> Result<Outcome> {
    let due = due(table, clock.now(), &BTreeSet::new()).await?;
    let round = &Round { table, catalog, sender, clock };
    let served = stream::iter(due).map(async |(receiver, keys)| round.serve(&receiver, &keys).await);
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

/// Reads the keys of the deliveries due by an instant, the longest due first, by receiver, except for busy ones.
async fn due(
    table: &dyn Table,
    now: Timestamp,
    busy: &BTreeSet<Receiver>,
) -> Result<BTreeMap<Receiver, Vec<Key>>> {
    let query = Query { index: Index::Gsi1, ..Query::table(key::deliveries_due(now)) };
    let mut query = query.only(&["v"]).limit(PAGE);
    let (mut due, mut count, mut looked_at) = (BTreeMap::<Receiver, Vec<Key>>::new(), 0, 0);
    loop {
        let page = table.query(&query).await?;
        looked_at += page.items.len();
        for item in page.items {
            let Some((workspace, webhook)) = key::parse_delivery(&item.key) else { continue };
            let receiver = (workspace, webhook.to_owned());
            if busy.contains(&receiver) {
                continue;
            }
            let keys = due.entry(receiver).or_default();
            if keys.len() < MAX_DUE_OF_ONE {
                keys.push(item.key);
                count += 1;
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
    sender: &'a dyn WebhookSender,
    clock: &'a Clock,
}

impl Round<'_> {
    /// Posts the deliveries due at a receiver, one after the other.
    async fn serve(&self, (workspace, webhook): &Receiver, keys: &[Key]) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let path = match self.catalog.workspace(&workspace.to_string()).await {
            Ok(found) => found.path,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // The workspace is gone, so its deliveries have no reader.
                for key in keys {
                    self.table.delete(key, Condition::None).await?;
                }
                return Ok(outcome);
            }
            Err(error) => return Err(error),
        };
        let alerts = self.catalog.alerts(workspace).await?;
        let webhook = alerts.webhooks.iter().find(|known| known.name == *webhook);
        let deleted = Posted::Gone("the webhook was deleted".to_owned());
        let mut down = None;
        for key in keys {
            let Some(item) = self.table.get(key).await? else { continue };
            let delivery = match Delivery::from_item(&item) {
                Ok(delivery) => delivery,
                // Other due deliveries need not wait for it.
                Err(error) => {
                    tracing::error!(%workspace, %error, "a delivery cannot be read");
                    continue;
                }
            };
            let now = self.clock.now();
            if !delivery.is_due(now) {
                continue;
            }
            let after = match (webhook, &down) {
                (None, _) => delivery.after(&deleted, now),
                // It counts as a try.
                (Some(_), Some(down)) => {
                    Delivery { ver: delivery.ver, ..delivery.claimed(now) }.after(down, now)
                }
                (Some(webhook), None) => {
                    let Some(claimed) = self.write(workspace, delivery.claimed(now)).await? else { continue };
                    let posted = self.post(workspace, &path, webhook, &claimed).await;
                    down = Some(posted.clone()).filter(|posted| matches!(posted, Posted::Down(_)));
                    claimed.after(&posted, self.clock.now())
                }
            };
            if let Some(settled) = self.write(workspace, after).await? {
                report(workspace, &settled, &mut outcome);
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

    async fn post(&self, workspace: &Id, path: &str, webhook: &Webhook, delivery: &Delivery) -> Posted {
        let parcel = Parcel {
            webhook: webhook.clone(),
            path: path.to_owned(),
            // Two workspaces may have one receiver.
            id: format!("{workspace}.{}", delivery.id),
            at: self.clock.now(),
            body: delivery.body.clone().unwrap_or_default(),
        };
        let posted = timeout(TRY_WITHIN, self.sender.post(&parcel)).await;
        posted.unwrap_or_else(|_| Posted::Down(format!("no answer within {} s", TRY_WITHIN.as_secs())))
    }
}

/// Logs and counts the result of a delivery.
fn report(workspace: &Id, delivery: &Delivery, outcome: &mut Outcome) {
    let Delivery { id, webhook, tries, .. } = delivery;
    let why = delivery.why.as_deref().unwrap_or_default();
    match delivery.state {
        DeliveryState::Pending => {
            outcome.failed += 1;
            tracing::warn!(%workspace, webhook, id, tries, why, "a delivery failed, and is tried again later");
        }
        DeliveryState::Delivered => {
            outcome.delivered += 1;
            tracing::info!(%workspace, webhook, id, tries, "delivered");
        }
        DeliveryState::GivenUp => {
            outcome.given_up += 1;
            tracing::error!(%workspace, webhook, id, tries, why, "a delivery is given up");
        }
    }
}

/// Posts forever, in the one worker that sweeps periodically. Each receiver has a task of its own, so none delays another, nor
/// anything else.
pub(crate) async fn run(shared: &Arc<Shared>) -> Result<()> {
    let Some(sender) = &shared.options.sender else { return std::future::pending().await };
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut tasks, mut busy) = (JoinSet::<(Receiver, Result<Outcome>)>::new(), BTreeSet::new());
    loop {
        tokio::select! {
            _ = look.tick() => {}
            Some(ended) = tasks.join_next() => {
                // Panics are caught in the task, and tasks are never aborted.
                let Ok((receiver, served)) = ended else { continue };
                busy.remove(&receiver);
                match served {
                    Ok(outcome) => shared.stats.meters.posted(outcome),
                    Err(error) => tracing::warn!(workspace = %receiver.0, webhook = receiver.1, %error, "what crossed is posted later"),
                }
                continue;
            }
        }
        if !shared.has_sweep_lease() {
            continue;
        }
        let due = match due(&*shared.table, shared.now(), &busy).await {
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, "the table is not available; what crossed is posted later");
                continue;
            }
            due => due?,
        };
        for (receiver, keys) in due.into_iter().take(RECEIVERS_AT_ONCE.saturating_sub(busy.len())) {
            busy.insert(receiver.clone());
            let (shared, sender) = (Arc::clone(shared), Arc::clone(sender));
            tasks.spawn(async move {
                let (catalog, clock) = (&shared.catalog, &shared.options.clock);
                let round = Round { table: &*shared.table, catalog, sender: &*sender, clock };
                let served = caught::whole(round.serve(&receiver, &keys)).await;
                (receiver, served)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use catalog::RuleTransition;
    use table::{MAX_TRANSACTION_WRITES, Write, sqlite::SqliteTable};

    use super::*;

    #[tokio::test]
    async fn slow_receiver_does_not_hide_other_due_deliveries() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let receiver = |name: &str| (workspace.clone(), name.to_owned());
        let put = |webhook: &str, number: usize, due_at: Timestamp| {
            let (rule, day) = (format!("rule-{number}"), due_at.day());
            let rule_transition =
                RuleTransition::resolved(&rule, Timestamp::default(), (day, due_at), String::new());
            let delivery = Delivery::of(&rule_transition, webhook, "{}".to_owned());
            Write::Put(delivery.to_item(&workspace), Condition::Absent)
        };
        let (first, now) = (Timestamp::default(), Timestamp::default().plus_seconds(60));
        let mut writes: Vec<Write> = (0..MAX_DUE).map(|number| put("slow", number, first)).collect();
        writes.push(put("quick", 0, now));
        for some in writes.chunks(MAX_TRANSACTION_WRITES) {
            table.transact(some.to_vec()).await.unwrap();
        }
        let seen = async |busy: BTreeSet<Receiver>| -> Vec<Receiver> {
            due(&table, now, &busy).await.unwrap().into_keys().collect()
        };
        assert_eq!(
            seen(BTreeSet::new()).await,
            [receiver("quick"), receiver("slow")],
            "not all of it is taken up"
        );
        assert_eq!(seen(BTreeSet::from([receiver("slow")])).await, [receiver("quick")]);
    }
}
