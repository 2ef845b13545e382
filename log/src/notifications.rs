//! Notifications that data of a workspace changed. They carry only the topic; a listener reads the data from the table.
//! A process notifies of its own writes and of changes that it reads from the change feed: on SQLite those of all
//! writers, on DynamoDB those of its shards.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use event::Id;
use table::Key;
use tokio::{sync::Notify, time::Instant};

use crate::key;

/// Time after the last read of the change feed at which the process counts as not reading it. A read waits some seconds for
/// a change.
const READS_WITHIN: Duration = Duration::from_secs(30);

/// Topic of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Entities, releases, settings and attributes: everything in the audit log or the activity feed.
    Catalog,
    /// Evaluations, vintages, and the active version of projections.
    Evaluations,
    /// Rollups.
    Rollups,
    /// States of alert rules, and transitions.
    Alerts,
    /// Events.
    Events,
    /// Runs and experiments, and the latest values of their metrics.
    Runs,
}

type Listeners = HashMap<Id, Vec<Weak<Listener>>>;

/// Listeners, by workspace.
#[derive(Clone, Debug, Default)]
pub struct Notifications {
    listeners: Arc<Mutex<Listeners>>,
    feed_read_at: Arc<Mutex<Option<Instant>>>,
}

/// Listener for notifications of a workspace, until it is dropped.
#[derive(Debug, Default)]
pub struct Listener {
    heard: Mutex<BTreeSet<Topic>>,
    told: Notify,
}

impl Topic {
    /// All topics.
    pub const ALL: [Topic; 6] =
        [Self::Catalog, Self::Evaluations, Self::Rollups, Self::Alerts, Self::Events, Self::Runs];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Evaluations => "evaluations",
            Self::Rollups => "rollups",
            Self::Alerts => "alerts",
            Self::Events => "events",
            Self::Runs => "runs",
        }
    }

    /// Returns the workspace and the topic of a written item; `None` if it has no topic.
    fn of(key: &Key) -> Option<(Id, Self)> {
        let (workspace, part) = key::parse_workspace_part(&key.pk)?;
        let topic = match part {
            "/audit" | "/feed" => Self::Catalog,
            "/alert" => Self::Alerts,
            "/day" => Self::Events,
            "/vintage" => Self::Evaluations,
            "/rollup-vintage" => Self::Rollups,
            "/run" | "/latest" => Self::Runs,
            _ if key::parse_active(key).is_some() => Self::Evaluations,
            _ if part.starts_with("/rollup/") && key.sk.contains("/eval") => Self::Evaluations,
            _ if part.starts_with("/rollup/") => Self::Rollups,
            _ => return None,
        };
        Some((workspace, topic))
    }
}

impl Notifications {
    /// Creates a listener.
    pub fn listen(&self, workspace: &Id) -> Arc<Listener> {
        let listener = Arc::new(Listener::default());
        let mut listeners = lock(&self.listeners);
        listeners.retain(|_, listeners| {
            listeners.retain(|listener| listener.strong_count() > 0);
            !listeners.is_empty()
        });
        listeners.entry(workspace.clone()).or_default().push(Arc::downgrade(&listener));
        listener
    }

    /// Returns whether this process reads the change feed now, and so reports changes by other processes.
    pub fn reads_feed(&self) -> bool {
        lock(&self.feed_read_at).is_some_and(|at| at.elapsed() < READS_WITHIN)
    }

    /// Records that this process reads the change feed now.
    pub(crate) fn reads_feed_now(&self) {
        *lock(&self.feed_read_at) = Some(Instant::now());
    }

    pub(crate) fn tell(&self, news: BTreeSet<(Id, Topic)>) {
        if news.is_empty() {
            return;
        }
        let listeners = lock(&self.listeners);
        for (workspace, topic) in news {
            for listener in listeners.get(&workspace).into_iter().flatten().filter_map(Weak::upgrade) {
                lock(&listener.heard).insert(topic);
                listener.told.notify_one();
            }
        }
    }

    /// Returns the notifications for these keys that have listeners.
    pub(crate) fn of<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) -> BTreeSet<(Id, Topic)> {
        if lock(&self.listeners).is_empty() {
            return BTreeSet::new();
        }
        keys.into_iter().filter_map(Topic::of).collect()
    }
}

impl Listener {
    /// Returns the topics notified since the last call.
    pub fn heard(&self) -> BTreeSet<Topic> {
        std::mem::take(&mut *lock(&self.heard))
    }

    /// Waits for a notification since the last call.
    pub async fn told(&self) {
        self.told.notified().await;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use event::Clock;
    use table::{Condition, Item, Position, Table, Write, sqlite::SqliteTable};

    use super::*;
    use crate::{
        key::{AuditLog, LogId},
        store::Store,
    };

    #[tokio::test]
    async fn news_listener_hears_only_its_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let below: Arc<dyn Table> =
            Arc::new(SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap());
        let table = Store::over(Arc::clone(&below));
        let news = table.news();
        let [own, other] =
            ["2NBs0sLBnJxEcoDLgVnQdJkhEgV", "2NBs0tD5Ihm2PVFzM3kZvMYdQX9"].map(|id| Id::parse(id).unwrap());
        let day = "2013-06-01".parse().unwrap();
        let put = async |table: &dyn Table, key: Key| {
            table.put(Item::new(key).with("v", 1), Condition::None).await.unwrap();
        };
        put(&*table, key::rollup(&own, 1, day)).await;
        let listener = news.listen(&own);
        assert_eq!(listener.heard(), BTreeSet::new(), "what was before is no news");
        for key in [key::rollup(&other, 1, day), key::consumer(&own, "billing"), key::access()] {
            put(&*table, key).await;
        }
        assert_eq!(listener.heard(), BTreeSet::new());
        put(&*table, key::evaluation(&own, 1, day)).await;
        let record = Item::new(key::audit_record(&AuditLog::Workspace(own.clone()), 1)).with("v", 1);
        table.transact(vec![Write::Put(record, Condition::None)]).await.unwrap();
        listener.told().await;
        assert_eq!(listener.heard(), [Topic::Catalog, Topic::Evaluations].into());
        assert_eq!(listener.heard(), BTreeSet::new());
        put(&*table, key::rollup(&own, 1, day)).await;
        let log = LogId { workspace: own.clone(), day, kind: event::Kind::Outcomes, lane: 0 };
        put(&*table, key::segment(&log, 1)).await;
        assert_eq!(listener.heard(), [Topic::Rollups, Topic::Events].into());
        put(&*table, key::active(&own)).await;
        put(&*table, key::vintage(&own, day, 24)).await;
        assert_eq!(listener.heard(), [Topic::Evaluations].into());
        let run = Id::parse("2NBs0vWHgKSVRpnKJq7XRrOP2cP").unwrap();
        for key in [
            key::run(&own, &run),
            key::experiment(&own, "0"),
            key::latest(&own, &run),
            key::latest_part(&own, &run, 3),
        ] {
            put(&*table, key).await;
            assert_eq!(listener.heard(), [Topic::Runs].into());
        }
        // A process that reads the feed hears of the writes of others.
        assert!(!news.reads_feed());
        let shard = table.shards().await.unwrap().remove(0).id;
        let latest = table.changes(&shard, &Position::Latest, Duration::ZERO).await.unwrap().next.unwrap();
        put(&*below, key::standing(&own, "few")).await;
        assert_eq!(listener.heard(), BTreeSet::new());
        table.changes(&shard, &latest, Duration::from_secs(5)).await.unwrap();
        assert_eq!(listener.heard(), [Topic::Alerts].into());
        assert!(news.reads_feed());
        drop(listener);
        news.listen(&other);
        assert_eq!(lock(&news.listeners).len(), 1, "who listens no more is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_feed_reader_no_longer_counts_as_reading() {
        let news = Notifications::default();
        assert!(!news.reads_feed());
        news.reads_feed_now();
        tokio::time::advance(READS_WITHIN / 2).await;
        assert!(news.reads_feed());
        tokio::time::advance(READS_WITHIN / 2).await;
        assert!(!news.reads_feed());
    }

    #[test]
    fn topics_have_names_of_their_own() {
        let names: BTreeSet<&str> = Topic::ALL.map(Topic::name).into();
        assert_eq!(names.len(), Topic::ALL.len());
    }
}
