//! A receiver of webhooks as the projector sees it: it keeps what it was sent, and takes it as a test says.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use projector::deliver::{Courier, Parcel, Posted};

/// What a receiver does with a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Does {
    /// It takes it, and says so.
    Takes,
    /// It takes it, and says so after a while.
    TakesAfter(Duration),
    /// It takes it, and its answer is lost.
    TakesSilently,
    /// It never sees it.
    MissesIt,
    /// It sees it, and answers this.
    Answers(Posted),
    /// It never answers.
    Hangs,
}

/// What a test decides of each parcel.
type Decides = Box<dyn Fn(&Parcel) -> Does + Send + Sync>;

/// A receiver of all that is posted.
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
    /// One that does what `decides` says.
    pub fn that(decides: impl Fn(&Parcel) -> Does + Send + Sync + 'static) -> Self {
        Self { decides: Box::new(decides), got: Mutex::default() }
    }

    fn parcels(&self) -> MutexGuard<'_, Vec<Parcel>> {
        self.got.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has seen what another saw as well.
    pub fn take(&self, parcels: Vec<Parcel>) {
        self.parcels().extend(parcels);
    }

    /// What it saw, in order.
    pub fn got(&self) -> Vec<Parcel> {
        self.parcels().clone()
    }
}

#[async_trait]
impl Courier for Receiver {
    async fn post(&self, parcel: &Parcel) -> Posted {
        let does = (self.decides)(parcel);
        if does != Does::MissesIt {
            self.parcels().push(parcel.clone());
        }
        // Others work in between.
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
