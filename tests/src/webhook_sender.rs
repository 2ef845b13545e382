//! A receiver of webhooks for the projector: it keeps its parcels, and accepts them as a test decides.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use projector::deliver::{Parcel, Posted, WebhookSender};

/// Reaction of a receiver to a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Does {
    /// Accepts it.
    Takes,
    /// Accepts it after a while.
    TakesAfter(Duration),
    /// Accepts it, and its answer is lost.
    TakesSilently,
    /// Never sees it.
    MissesIt,
    /// Sees it, and gives this answer.
    Answers(Posted),
    /// Never answers.
    Hangs,
}

/// Decision of a test for each parcel.
type Decides = Box<dyn Fn(&Parcel) -> Does + Send + Sync>;

/// Receiver of all posts.
pub struct Receiver {
    decides: Decides,
    got: Mutex<Vec<Parcel>>,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl Receiver {
    /// Makes a receiver that reacts as `decides`.
    pub fn that(decides: impl Fn(&Parcel) -> Does + Send + Sync + 'static) -> Self {
        Self { decides: Box::new(decides), got: Mutex::default() }
    }

    fn parcels(&self) -> MutexGuard<'_, Vec<Parcel>> {
        self.got.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the parcels of another receiver.
    pub fn take(&self, parcels: Vec<Parcel>) {
        self.parcels().extend(parcels);
    }

    /// Received parcels, in order.
    pub fn got(&self) -> Vec<Parcel> {
        self.parcels().clone()
    }
}

#[async_trait]
impl WebhookSender for Receiver {
    async fn post(&self, parcel: &Parcel) -> Posted {
        let does = (self.decides)(parcel);
        if does != Does::MissesIt {
            self.parcels().push(parcel.clone());
        }
        // Lets others work in between.
        tokio::task::yield_now().await;
        match does {
            Does::Takes => Posted::Taken,
            Does::TakesAfter(wait) => {
                tokio::time::sleep(wait).await;
                Posted::Taken
            }
            Does::TakesSilently | Does::MissesIt => Posted::Down("no answer".to_owned()),
            Does::Answers(posted) => posted,
            Does::Hangs => std::future::pending().await,
        }
    }
}
