//! Appends of this process, for its other work: notifications for followers of logs, and the count of those under way, to
//! which other work gives way. A notification says that a log may have grown; the table says whether it has. Appends of other
//! processes notify nobody here.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use event::{Id, Kind};
use table::Call;
use tokio::sync::Notify;

use crate::{key, merged::FROM, walk::Heads};

type Listeners = HashMap<(Id, Kind), Vec<Weak<AppendListener>>>;

/// Listeners for appends, by workspace and kind.
#[derive(Clone, Debug, Default)]
pub struct AppendNotifier(Arc<Mutex<Listeners>>);

/// A listener for appends to the logs of a workspace and kind.
#[derive(Debug, Default)]
pub struct AppendListener {
    appended: Mutex<Heads>,
    notify: Notify,
}

impl AppendNotifier {
    /// A listener, until it is dropped.
    pub fn listen(&self, workspace: &Id, kind: Kind) -> Arc<AppendListener> {
        let listener = Arc::new(AppendListener::default());
        let mut listeners = lock(&self.0);
        listeners.retain(|_, listeners| {
            listeners.retain(|listener| listener.strong_count() > 0);
            !listeners.is_empty()
        });
        listeners.entry((workspace.clone(), kind)).or_default().push(Arc::downgrade(&listener));
        listener
    }

    /// The segments that a call puts, that listeners wait for. A merged item holds none that is new.
    pub(crate) fn heads(&self, call: Call<'_>) -> Heads {
        if lock(&self.0).is_empty() {
            return Heads::new();
        }
        let items = call.items().into_iter().filter(|item| !item.attributes.contains_key(FROM));
        items.filter_map(|item| key::parse_segment(&item.key)).collect()
    }

    pub(crate) fn notify(&self, heads: Heads) {
        if heads.is_empty() {
            return;
        }
        let listeners = lock(&self.0);
        for (log, seq) in heads {
            let Some(listening) = listeners.get(&(log.workspace.clone(), log.kind)) else { continue };
            for listener in listening.iter().filter_map(Weak::upgrade) {
                let mut appended = lock(&listener.appended);
                let known = appended.entry(log.clone()).or_default();
                *known = seq.max(*known);
                drop(appended);
                listener.notify.notify_one();
            }
        }
    }
}

impl AppendListener {
    /// Segments that may have come since the last call: the last one of each log.
    pub fn heard(&self) -> Heads {
        std::mem::take(&mut *lock(&self.appended))
    }

    /// Returns when something was appended since the last call.
    pub async fn appended(&self) {
        self.notify.notified().await;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of batches on their way into the logs. It belongs to the process, as its cores do.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Batch on its way into the logs, until it is dropped.
#[derive(Debug)]
pub struct Appending(());

impl Appending {
    /// Counts a batch that is on its way.
    pub fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// Returns whether any batch is on its way.
    pub fn is_any() -> bool {
        UNDER_WAY.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Appending {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use event::{Clock, Columns, Timestamp};
    use table::{Condition, Item, Key, Table, sqlite::SqliteTable};

    use super::*;
    use crate::{key::LogId, segment_item::Segment, store::Store};

    #[tokio::test]
    async fn notifies_only_for_segments_of_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let below = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
        let table = Store::over(Arc::new(below));
        let notifier = table.notifier();
        let log = |kind| LogId {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: "2013-06-01".parse().unwrap(),
            kind,
            lane: 0,
        };
        let listener = notifier.listen(&log(Kind::Outcomes).workspace, Kind::Outcomes);
        let put = async |kind, seq| {
            let segment =
                Segment::pack(log(kind), seq, Timestamp::default(), Vec::new(), &Columns::default());
            table.put(segment.unwrap().to_item(), Condition::Absent).await
        };
        put(Kind::Predictions, 1).await.unwrap();
        table.put(Item::new(Key::new("a", "b")), Condition::None).await.unwrap();
        assert_eq!(listener.heard(), Heads::new());
        put(Kind::Outcomes, 1).await.unwrap();
        put(Kind::Outcomes, 2).await.unwrap();
        listener.appended().await;
        assert_eq!(listener.heard(), Heads::from([(log(Kind::Outcomes), 2)]));
        assert!(put(Kind::Outcomes, 2).await.is_err(), "it is there");
        assert_eq!(listener.heard(), Heads::from([(log(Kind::Outcomes), 2)]), "it may be another's");
        drop(listener);
        notifier.listen(&log(Kind::Metrics).workspace, Kind::Metrics);
        assert_eq!(lock(&notifier.0).len(), 1, "who listens no more is forgotten");
    }
}
