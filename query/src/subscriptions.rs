//! Subscriptions to appends of a log and to changes of a workspace, for a bounded number of listeners.

use std::sync::Arc;

use event::{Error, Id, Result};
use log::{
    append_notifier::AppendNotifier,
    notifications::{Listener, Notifications},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Query, follow::Watches};

/// Maximum number of listeners to changes at one time.
const MAX_LISTENERS: usize = 1_000;

/// Change notifications of a process.
#[derive(Clone, Debug)]
pub(crate) struct Subscriptions {
    news: Notifications,
    places: Arc<Semaphore>,
}

impl Subscriptions {
    fn of(news: Notifications) -> Self {
        Self { news, places: Arc::new(Semaphore::new(MAX_LISTENERS)) }
    }

    /// Returns true if it is notified of writes by other processes.
    pub(crate) fn reads_feed(&self) -> bool {
        self.news.reads_feed()
    }

    /// Adds a listener for a workspace.
    pub(crate) fn listen(&self, workspace: &Id) -> Arc<Listener> {
        self.news.listen(workspace)
    }

    /// Takes a place for one more listener.
    ///
    /// # Errors
    /// `Busy`, if all places are taken.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| Error::busy(format!("{MAX_LISTENERS} hear news already; ask later")))
    }
}

impl Default for Subscriptions {
    /// Builds a source without notifications.
    fn default() -> Self {
        Self::of(Notifications::default())
    }
}

impl Query {
    /// Sets the append notifier of the table to which this process appends, for followers of a log.
    pub fn hearing(self, notifier: AppendNotifier) -> Self {
        Self { watches: Watches::new(notifier), ..self }
    }

    /// Sets the source of change notifications of workspaces.
    pub fn telling(self, news: Notifications) -> Self {
        Self { news: Subscriptions::of(news), ..self }
    }

    /// Returns the source of change notifications.
    pub(crate) fn news(&self) -> &Subscriptions {
        &self.news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let hearing = Subscriptions::default();
        let mut places: Vec<_> = (0..MAX_LISTENERS).map(|_| hearing.place().unwrap()).collect();
        assert!(hearing.clone().place().is_err());
        places.pop();
        assert!(hearing.place().is_ok());
    }
}
