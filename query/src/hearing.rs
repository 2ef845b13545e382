//! Who hears of what is written: the bell of a log, and news of a workspace, which a bounded number may hear at one time.

use std::sync::Arc;

use event::{Error, Id, Result};
use log::{
    bell::Bell,
    news::{Listener, News},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Query, follow::Watches};

/// The most that hear news at one time.
const MAX_LISTENERS: usize = 1_000;

/// The news of a process.
#[derive(Clone, Debug)]
pub(crate) struct Hearing {
    news: News,
    places: Arc<Semaphore>,
}

impl Hearing {
    fn of(news: News) -> Self {
        Self { news, places: Arc::new(Semaphore::new(MAX_LISTENERS)) }
    }

    /// Whether there are news of what other processes write.
    pub(crate) fn reads_feed(&self) -> bool {
        self.news.reads_feed()
    }

    /// A listener for a workspace.
    pub(crate) fn listen(&self, workspace: &Id) -> Arc<Listener> {
        self.news.listen(workspace)
    }

    /// The place of one more listener.
    ///
    /// # Errors
    /// `Unavailable`, when there are as many as may be.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| Error::unavailable(format!("{MAX_LISTENERS} hear news already; ask later")))
    }
}

impl Default for Hearing {
    /// Of news that nobody tells.
    fn default() -> Self {
        Self::of(News::default())
    }
}

impl Query {
    /// The same, and who follows a log hears the bell of the table to which this process appends.
    pub fn hearing(self, bell: Bell) -> Self {
        Self { watches: Watches::new(bell), ..self }
    }

    /// The same, and who asks for news of a workspace hears these.
    pub fn telling(self, news: News) -> Self {
        Self { news: Hearing::of(news), ..self }
    }

    /// The news that are told.
    pub(crate) fn news(&self) -> &Hearing {
        &self.news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let hearing = Hearing::default();
        let mut places: Vec<_> = (0..MAX_LISTENERS).map(|_| hearing.place().unwrap()).collect();
        assert!(hearing.clone().place().is_err());
        places.pop();
        assert!(hearing.place().is_ok());
    }
}
