//! A bell for those who follow logs: it rings when this process has appended. It says that a log may have grown, and the
//! table says whether it has. Appends of other processes ring no bell here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use event::{Id, Kind};
use table::Call;
use tokio::sync::Notify;

use crate::{key, merged::FROM, walk::Heads};

type Ears = HashMap<(Id, Kind), Vec<Weak<Ear>>>;

/// Listeners for appends, by workspace and kind.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<Mutex<Ears>>);

/// One who listens for appends to the logs of a workspace and kind.
#[derive(Debug, Default)]
pub struct Ear {
    rung: Mutex<Heads>,
    rings: Notify,
}

impl Bell {
    /// A listener, until it is dropped.
    pub fn listen(&self, workspace: &Id, kind: Kind) -> Arc<Ear> {
        let ear = Arc::new(Ear::default());
        let mut ears = lock(&self.0);
        ears.retain(|_, ears| {
            ears.retain(|ear| ear.strong_count() > 0);
            !ears.is_empty()
        });
        ears.entry((workspace.clone(), kind)).or_default().push(Arc::downgrade(&ear));
        ear
    }

    /// The segments that a call puts, for those who listen. A merged item holds none that is new.
    pub(crate) fn heads(&self, call: Call<'_>) -> Heads {
        if lock(&self.0).is_empty() {
            return Heads::new();
        }
        let items = call.items().into_iter().filter(|item| !item.attributes.contains_key(FROM));
        items.filter_map(|item| key::parse_segment(&item.key)).collect()
    }

    pub(crate) fn ring(&self, heads: Heads) {
        if heads.is_empty() {
            return;
        }
        let ears = lock(&self.0);
        for (log, seq) in heads {
            let Some(listening) = ears.get(&(log.workspace.clone(), log.kind)) else { continue };
            for ear in listening.iter().filter_map(Weak::upgrade) {
                let mut rung = lock(&ear.rung);
                let known = rung.entry(log.clone()).or_default();
                *known = seq.max(*known);
                drop(rung);
                ear.rings.notify_one();
            }
        }
    }
}

impl Ear {
    /// Segments that may have come since the last call: the last one of each log.
    pub fn heard(&self) -> Heads {
        std::mem::take(&mut *lock(&self.rung))
    }

    /// Returns when the bell has rung since the last call.
    pub async fn rings(&self) {
        self.rings.notified().await;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use event::{Clock, Columns, Timestamp};
    use table::{Condition, Item, Key, Table, sqlite::SqliteTable};

    use super::*;
    use crate::{key::LogId, segment_item::Segment, store::Store};

    #[tokio::test]
    async fn bell_rings_only_for_segments_of_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let below = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
        let table = Store::over(Arc::new(below));
        let bell = table.bell();
        let log = |kind| LogId {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: "2013-06-01".parse().unwrap(),
            kind,
            lane: 0,
        };
        let ear = bell.listen(&log(Kind::Outcomes).workspace, Kind::Outcomes);
        let put = async |kind, seq| {
            let segment =
                Segment::pack(log(kind), seq, Timestamp::default(), Vec::new(), &Columns::default());
            table.put(segment.unwrap().to_item(), Condition::Absent).await
        };
        put(Kind::Predictions, 1).await.unwrap();
        table.put(Item::new(Key::new("a", "b")), Condition::None).await.unwrap();
        assert_eq!(ear.heard(), Heads::new());
        put(Kind::Outcomes, 1).await.unwrap();
        put(Kind::Outcomes, 2).await.unwrap();
        ear.rings().await;
        assert_eq!(ear.heard(), Heads::from([(log(Kind::Outcomes), 2)]));
        assert!(put(Kind::Outcomes, 2).await.is_err(), "it is there");
        assert_eq!(ear.heard(), Heads::from([(log(Kind::Outcomes), 2)]), "it may be another's");
        drop(ear);
        bell.listen(&log(Kind::Metrics).workspace, Kind::Metrics);
        assert_eq!(lock(&bell.0).len(), 1, "who listens no more is forgotten");
    }
}
