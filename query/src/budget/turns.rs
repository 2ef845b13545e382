//! Turns are permits to work on queries, shared so that no caller and no workspace takes all, and a new caller finds
//! one free.
//!
//! A caller may have three times the free amount, and all callers of a workspace together seven times (dynamic
//! thresholds, Choudhury and Hahne 1998): one alone has three quarters, a second one three quarters of the rest. The
//! next turn goes to a waiter that may have one: of the workspace with the fewest turns, there of the caller with the
//! fewest, and of these the longest waiting.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use event::Id;
use log::audit::{Author, current};
use tokio::{sync::oneshot, time::timeout};

/// Maximum of a caller, as a multiple of the free amount.
const OF_CALLER: u64 = 3;

/// Maximum of the callers of a workspace, as a multiple of the free amount.
const OF_WORKSPACE: u64 = 7;

/// Caller and workspace of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Principal, or client address where callers are anonymous; `None` in a command, which shares with nobody.
    caller: Option<Arc<str>>,
    workspace: Option<Id>,
}

impl Share {
    /// Returns the share of the caller of this task.
    pub(crate) fn of(workspace: Option<&Id>) -> Self {
        let author = current();
        let caller = author.request.is_some().then(|| match author.address {
            Some(address) if author.principal == Author::anonymous().principal => address.to_string().into(),
            _ => author.principal.as_str().into(),
        });
        Self { caller, workspace: workspace.cloned() }
    }

    /// Returns the maximum of `limit` that it may have while nobody else has any.
    pub(crate) fn most_of(&self, limit: u64) -> u64 {
        if self.caller.is_none() { limit } else { limit - limit.div_ceil(OF_CALLER + 1) }
    }

    /// Returns true if it may have `more` of `limit`, of which `taken` is used by itself and others. A caller may always have
    /// `least` of the free amount.
    pub(super) fn has_room<'a>(
        &self,
        (limit, least): (u64, u64),
        more: u64,
        taken: impl IntoIterator<Item = (&'a Share, u64)>,
    ) -> bool {
        let (mut all, mut of_caller, mut of_workspace) = (more, more, more);
        for (share, amount) in taken {
            all = all.saturating_add(amount);
            if share.caller == self.caller {
                of_caller = of_caller.saturating_add(amount);
            }
            if share.workspace == self.workspace {
                of_workspace = of_workspace.saturating_add(amount);
            }
        }
        let Some(free) = limit.checked_sub(all) else { return false };
        self.caller.is_none()
            || of_caller <= least
            || (of_caller <= free.saturating_mul(OF_CALLER)
                && of_workspace <= free.saturating_mul(OF_WORKSPACE))
    }
}

/// A number of turns, and the callers that wait for one.
#[derive(Debug)]
pub(super) struct Turns {
    limit: usize,
    waiting_limit: usize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    given: Vec<(u64, Share)>,
    /// In the order of arrival.
    waiting: Vec<Waiter>,
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    share: Share,
    given: oneshot::Sender<Turn>,
}

/// Permission to work on a query, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

impl Turns {
    pub(super) fn new(limit: usize, waiting_limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, waiting_limit, queue: Mutex::default() })
    }

    /// Waits for a turn for this caller; `None`, if too many wait already, or none is free in time.
    pub(super) async fn enter(self: &Arc<Self>, share: Share, wait: Duration) -> Option<Turn> {
        let waiting = {
            let mut queue = self.queue();
            // No waiter may have a turn now: else it would have been given one.
            if share.has_room((self.limit as u64, 1), 1, queue.given()) {
                return Some(self.give(&mut queue, share));
            }
            let waiting = queue.waiting.iter().map(|waiter| (&waiter.share, 1));
            if !share.has_room((self.waiting_limit as u64, 1), 1, waiting) {
                return None;
            }
            let number = queue.number();
            let (given, waiting) = oneshot::channel();
            queue.waiting.push(Waiter { number, share, given });
            Waiting { turns: self, number, given: waiting }
        };
        waiting.turn(wait).await
    }

    fn give(self: &Arc<Self>, queue: &mut Queue, share: Share) -> Turn {
        let number = queue.number();
        queue.given.push((number, share));
        Turn { turns: Arc::clone(self), number }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn back, and gives the free turns to waiters.
    fn end(self: &Arc<Self>, number: u64) {
        let mut not_taken = Vec::new();
        let mut queue = self.queue();
        queue.given.retain(|(given, _)| *given != number);
        while let Some(at) = queue.next_of(self.limit as u64) {
            let waiter = queue.waiting.remove(at);
            let turn = self.give(&mut queue, waiter.share);
            if let Err(turn) = waiter.given.send(turn) {
                // Dropping the turn ends it, which locks the queue; so it is dropped after the lock.
                queue.given.retain(|(given, _)| *given != turn.number);
                not_taken.push(turn);
            }
        }
        drop(queue);
        drop(not_taken);
    }
}

impl Queue {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn given(&self) -> impl Iterator<Item = (&Share, u64)> {
        self.given.iter().map(|(_, share)| (share, 1))
    }

    /// Returns the index of the waiter that is given the next turn.
    fn next_of(&self, limit: u64) -> Option<usize> {
        let may = self.waiting.iter().enumerate();
        let may = may.filter(|(_, waiter)| waiter.share.has_room((limit, 1), 1, self.given()));
        let has = |is_of: &dyn Fn(&Share) -> bool| self.given().filter(|(share, _)| is_of(share)).count();
        let next = may.min_by_key(|(_, Waiter { share, .. })| {
            let of_workspace = has(&|other| other.workspace == share.workspace);
            (of_workspace, has(&|other| other.caller == share.caller))
        });
        next.map(|(at, _)| at)
    }
}

/// A waiting caller, until it is dropped.
struct Waiting<'a> {
    turns: &'a Turns,
    number: u64,
    given: oneshot::Receiver<Turn>,
}

impl Waiting<'_> {
    async fn turn(mut self, wait: Duration) -> Option<Turn> {
        timeout(wait, &mut self.given).await.ok()?.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.turns.queue().waiting.retain(|waiter| waiter.number != self.number);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use event::Timestamp;

    use super::*;

    const WAIT: Duration = Duration::from_millis(200);

    fn share(caller: &str, workspace: &Id) -> Share {
        Share { caller: Some(caller.into()), workspace: Some(workspace.clone()) }
    }

    fn workspaces() -> [Id; 2] {
        [(); 2].map(|()| Id::new(Timestamp::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_leaves_turns_and_waiting_to_others() {
        let ([one, two], turns) = (workspaces(), Turns::new(16, 16));
        let asked = (0..40).map(|_| turns.enter(share("greedy", &one), WAIT));
        let given: Vec<_> = futures::future::join_all(asked).await.into_iter().flatten().collect();
        assert_eq!(given.len(), 12, "three quarters");
        let mut others = Vec::new();
        for (caller, workspace) in [("b", &one), ("c", &two), ("d", &two)] {
            others.push(turns.enter(share(caller, workspace), Duration::ZERO).await.unwrap());
        }
        drop((given, others));
        assert!(turns.queue().given.is_empty() && turns.queue().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn commands_share_with_nobody() {
        let alone = Share { caller: None, workspace: None };
        let turns = Turns::new(2, 0);
        let both = [turns.enter(alone.clone(), WAIT).await, turns.enter(alone.clone(), WAIT).await];
        assert!(both.iter().all(Option::is_some) && turns.enter(alone.clone(), WAIT).await.is_none());
        assert_eq!((alone.most_of(100), share("a", &workspaces()[0]).most_of(100)), (100, 75));
    }

    #[tokio::test(start_paused = true)]
    async fn the_caller_with_fewest_turns_is_next() {
        let ([one, two], turns) = (workspaces(), Turns::new(4, 100));
        let mut given: Vec<Turn> = Vec::new();
        for _ in 0..3 {
            given.push(turns.enter(share("greedy", &one), WAIT).await.unwrap());
        }
        given.push(turns.enter(share("b", &one), WAIT).await.unwrap());
        let order = Mutex::new(Vec::new());
        let wait = async |name: &'static str, workspace: &Id| {
            let turn = turns.enter(share(name, workspace), Duration::from_secs(9)).await;
            order.lock().unwrap().push(name);
            turn.unwrap()
        };
        let ends = async {
            tokio::time::sleep(WAIT).await;
            for turn in given {
                drop(turn);
                tokio::time::sleep(WAIT).await;
            }
        };
        let _turns =
            tokio::join!(wait("greedy", &one), wait("b", &one), wait("c", &two), wait("d", &two), ends);
        let order = order.into_inner().unwrap();
        assert_eq!(order[..2], ["c", "d"], "{order:?}");
        assert_eq!(order.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timed_out_waiter_leaves_the_queue() {
        let ([one, _], turns) = (workspaces(), Turns::new(1, 1));
        let turn = turns.enter(share("a", &one), WAIT).await.unwrap();
        assert!(turns.enter(share("b", &one), WAIT).await.is_none());
        drop(timeout(WAIT / 2, turns.enter(share("c", &one), WAIT)).await);
        assert!(turns.queue().waiting.is_empty());
        let (turn, ()) = tokio::join!(turns.enter(share("d", &one), WAIT), async { drop(turn) });
        assert!(turn.is_some());
    }
}
