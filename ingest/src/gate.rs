//! The gate before the append: how much may be under way at one time, and whose turn it is.
//!
//! A large request needs a slot while it is read, checked and stored. Free slots go round among the
//! workspaces that wait, so one that sends much does not keep the others out. A small request needs no
//! slot; there is a bound on how many are under way. What is over a bound is turned away at once,
//! before its body is read.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use meter::{
    Counter, Histogram,
    catalogue::{GATE_REFUSED, GATE_WAIT_SECONDS},
};
use store::Id;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many large requests are worked on at one time.
    pub slots: usize,
    /// How many of them may be of one workspace.
    pub slots_of_workspace: usize,
    /// How many large requests may wait for a slot.
    pub waiting: usize,
    /// How many of them may be of one workspace.
    pub waiting_of_workspace: usize,
    /// How long one waits at most.
    pub wait: Duration,
    /// How many small requests may be under way.
    pub small: usize,
    /// How many of them may be of one workspace.
    pub small_of_workspace: usize,
    /// How many bytes of bodies may be in memory, of all requests together.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            slots: 8,
            slots_of_workspace: 6,
            waiting: 512,
            waiting_of_workspace: 128,
            wait: Duration::from_secs(10),
            small: 4096,
            small_of_workspace: 3072,
            bytes: 192 * 1024 * 1024,
        }
    }
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Its workspace has too many requests under way.
    Workspace,
    /// The service has.
    Service,
    /// The service is about to stop.
    Stopping,
}

/// The size of a request, as far as it is known before its body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// It is worked on at once.
    Small,
    /// It needs a slot.
    Large,
}

/// How much is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Small requests.
    pub small: usize,
    /// Large requests that have a slot.
    pub large: usize,
    /// Large requests that wait for one.
    pub waiting: usize,
    /// Bytes of bodies in memory.
    pub bytes: usize,
}

/// Lets requests through.
#[derive(Debug)]
pub struct Gate {
    bounds: Bounds,
    state: Mutex<State>,
    waits: Histogram,
    /// How many were turned away, by [`Busy::ALL`].
    refused: [Counter; Busy::ALL.len()],
}

impl Busy {
    const ALL: [Busy; 3] = [Busy::Workspace, Busy::Service, Busy::Stopping];

    /// Its name among the labels of a metric.
    fn name(self) -> &'static str {
        match self {
            Busy::Workspace => "workspace",
            Busy::Service => "service",
            Busy::Stopping => "stopping",
        }
    }
}

#[derive(Debug, Default)]
struct State {
    is_stopping: bool,
    slots: HashMap<Id, usize>,
    small: HashMap<Id, usize>,
    waiting: HashMap<Id, VecDeque<oneshot::Sender<Pass>>>,
    /// The workspaces that wait, the one whose turn is next first.
    turns: VecDeque<Id>,
    bytes: usize,
}

/// The permission to work on one request; it ends when it is dropped.
#[derive(Debug)]
pub struct Pass {
    gate: Arc<Gate>,
    workspace: Id,
    size: Size,
    bytes: usize,
}

impl Gate {
    /// A gate with these bounds.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            state: Mutex::default(),
            waits: GATE_WAIT_SECONDS.histogram([]),
            refused: Busy::ALL.map(|reason| GATE_REFUSED.counter([reason.name()])),
        })
    }

    /// Lets a request of a workspace through, when it is its turn.
    ///
    /// # Errors
    /// When too many are under way or wait, or the gate is closed.
    pub async fn enter(self: &Arc<Self>, workspace: &Id, size: Size) -> Result<Pass, Busy> {
        let entered = self.enter_in_turn(workspace, size).await;
        if let Err(reason) = entered {
            let counters = Busy::ALL.iter().zip(&self.refused);
            counters.filter(|(one, _)| **one == reason).for_each(|(_, counter)| counter.increment(1));
        }
        entered
    }

    async fn enter_in_turn(self: &Arc<Self>, workspace: &Id, size: Size) -> Result<Pass, Busy> {
        let asked = Instant::now();
        let waiting = {
            let mut state = self.state();
            if state.is_stopping {
                return Err(Busy::Stopping);
            }
            match size {
                Size::Small => {
                    let (all, own) = (state.small.values().sum::<usize>(), count(&state.small, workspace));
                    if own >= self.bounds.small_of_workspace {
                        return Err(Busy::Workspace);
                    }
                    if all >= self.bounds.small {
                        return Err(Busy::Service);
                    }
                    *state.small.entry(workspace.clone()).or_default() += 1;
                    return Ok(self.pass(workspace, size));
                }
                Size::Large if self.has_slot(&state, workspace) && !state.waiting.contains_key(workspace) => {
                    *state.slots.entry(workspace.clone()).or_default() += 1;
                    self.waits.record(0.0);
                    return Ok(self.pass(workspace, size));
                }
                Size::Large => self.wait_in_line(&mut state, workspace)?,
            }
        };
        let waited = timeout(self.bounds.wait, waiting).await;
        self.waits.record(asked.elapsed());
        match waited {
            Ok(Ok(pass)) => Ok(pass),
            Ok(Err(_)) => Err(Busy::Stopping),
            Err(_) => Err(Busy::Service),
        }
    }

    /// How much is under way.
    pub fn load(&self) -> Load {
        let state = self.state();
        let in_line = |line: &VecDeque<oneshot::Sender<Pass>>| {
            line.iter().filter(|waiting| !waiting.is_closed()).count()
        };
        Load {
            small: state.small.values().sum(),
            large: state.slots.values().sum(),
            waiting: state.waiting.values().map(in_line).sum(),
            bytes: state.bytes,
        }
    }

    /// Turns away whoever comes from now on, and whoever waits for a slot.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_stopping = true;
        state.turns.clear();
        state.waiting.clear();
    }

    fn wait_in_line(&self, state: &mut State, workspace: &Id) -> Result<oneshot::Receiver<Pass>, Busy> {
        // Those who gave up are not in line any more.
        for line in state.waiting.values_mut() {
            line.retain(|waiting| !waiting.is_closed());
        }
        let own = state.waiting.get(workspace).map_or(0, VecDeque::len);
        if own >= self.bounds.waiting_of_workspace {
            return Err(Busy::Workspace);
        }
        if state.waiting.values().map(VecDeque::len).sum::<usize>() >= self.bounds.waiting {
            return Err(Busy::Service);
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.entry(workspace.clone()).or_default().push_back(sender);
        if !state.turns.contains(workspace) {
            state.turns.push_back(workspace.clone());
        }
        Ok(receiver)
    }

    fn has_slot(&self, state: &State, workspace: &Id) -> bool {
        state.slots.values().sum::<usize>() < self.bounds.slots
            && count(&state.slots, workspace) < self.bounds.slots_of_workspace
    }

    fn pass(self: &Arc<Self>, workspace: &Id, size: Size) -> Pass {
        Pass { gate: Arc::clone(self), workspace: workspace.clone(), size, bytes: 0 }
    }

    /// Gives free slots to those who wait, one workspace after the other.
    fn grant(self: &Arc<Self>) {
        while let Some((waiting, pass)) = self.next_in_line() {
            // Whoever gave up hands it back: dropping the pass frees the slot, for the next one here.
            drop(waiting.send(pass));
        }
    }

    fn next_in_line(self: &Arc<Self>) -> Option<(oneshot::Sender<Pass>, Pass)> {
        let mut state = self.state();
        for _ in 0..state.turns.len() {
            let workspace = state.turns.pop_front()?;
            if !self.has_slot(&state, &workspace) {
                state.turns.push_back(workspace);
                continue;
            }
            let next = state.waiting.get_mut(&workspace).and_then(VecDeque::pop_front);
            if state.waiting.get(&workspace).is_some_and(|line| !line.is_empty()) {
                state.turns.push_back(workspace.clone());
            } else {
                state.waiting.remove(&workspace);
            }
            if let Some(waiting) = next {
                *state.slots.entry(workspace.clone()).or_default() += 1;
                return Some((waiting, self.pass(&workspace, Size::Large)));
            }
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Notes that `bytes` more of the body are in memory.
    ///
    /// # Errors
    /// When all requests together hold too much; one alone never does.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Busy> {
        let mut state = self.gate.state();
        let others = state.bytes - self.bytes;
        if others > 0 && state.bytes + bytes > self.gate.bounds.bytes {
            return Err(Busy::Service);
        }
        state.bytes += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        {
            let mut state = self.gate.state();
            state.bytes -= self.bytes;
            let counts = match self.size {
                Size::Small => &mut state.small,
                Size::Large => &mut state.slots,
            };
            if let Some(count) = counts.get_mut(&self.workspace) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&self.workspace);
                }
            }
        }
        if self.size == Size::Large {
            self.gate.grant();
        }
    }
}

fn count(counts: &HashMap<Id, usize>, workspace: &Id) -> usize {
    counts.get(workspace).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use store::Timestamp;

    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            slots: 2,
            slots_of_workspace: 2,
            waiting: 4,
            waiting_of_workspace: 3,
            small: 3,
            small_of_workspace: 2,
            bytes: 100,
            ..Bounds::default()
        }
    }

    fn workspaces() -> [Id; 3] {
        [0, 1, 2].map(|seconds| Id::new(Timestamp::default().plus_seconds(1_600_000_000 + seconds)))
    }

    #[tokio::test]
    async fn slots_go_round_among_workspaces() {
        let gate = Gate::new(bounds());
        let [a, b, _] = workspaces();
        let first = gate.enter(&a, Size::Large).await.unwrap();
        let second = gate.enter(&a, Size::Large).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for (name, workspace) in [("a1", &a), ("a2", &a), ("a3", &a), ("b1", &b)] {
            let (gate, workspace, order) = (Arc::clone(&gate), workspace.clone(), Arc::clone(&order));
            tasks.spawn(async move {
                let pass = gate.enter(&workspace, Size::Large).await.unwrap();
                order.lock().unwrap().push(name);
                drop(pass);
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(gate.enter(&a, Size::Large).await.unwrap_err(), Busy::Workspace);
        assert_eq!(gate.enter(&b, Size::Large).await.unwrap_err(), Busy::Service);
        assert_eq!(gate.load(), Load { large: 2, waiting: 4, ..Load::default() });
        drop(first);
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["a1", "b1", "a2", "a3"]);
        drop(second);
        assert!(gate.state().slots.is_empty() && gate.state().waiting.is_empty());
    }

    #[tokio::test]
    async fn who_waits_too_long_is_turned_away_and_takes_no_slot() {
        let gate = Gate::new(Bounds { wait: Duration::from_millis(20), ..bounds() });
        let [a, b, _] = workspaces();
        let passes = [gate.enter(&a, Size::Large).await.unwrap(), gate.enter(&a, Size::Large).await.unwrap()];
        assert_eq!(gate.enter(&b, Size::Large).await.unwrap_err(), Busy::Service);
        drop(passes);
        let passes = [gate.enter(&a, Size::Large).await.unwrap(), gate.enter(&b, Size::Large).await.unwrap()];
        gate.close();
        assert_eq!(gate.enter(&b, Size::Small).await.unwrap_err(), Busy::Stopping);
        drop(passes);
        assert!(gate.state().slots.is_empty());
    }

    #[tokio::test]
    async fn small_requests_and_bytes_are_bounded() {
        let gate = Gate::new(bounds());
        let [a, b, c] = workspaces();
        let mut one = gate.enter(&a, Size::Small).await.unwrap();
        let mut two = gate.enter(&a, Size::Small).await.unwrap();
        assert_eq!(gate.enter(&a, Size::Small).await.unwrap_err(), Busy::Workspace);
        let three = gate.enter(&b, Size::Small).await.unwrap();
        assert_eq!(gate.enter(&c, Size::Small).await.unwrap_err(), Busy::Service);
        one.hold(1_000).unwrap();
        assert_eq!(two.hold(1).unwrap_err(), Busy::Service);
        drop((one, three));
        two.hold(60).unwrap();
        assert!(gate.enter(&c, Size::Small).await.is_ok());
        drop(two);
        assert!(gate.state().small.is_empty() && gate.state().bytes == 0);
    }
}
