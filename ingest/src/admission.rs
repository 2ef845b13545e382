//! Admission before the append: bounds the requests under way, and gives them turns.
//!
//! A large request needs a slot while it is parsed and stored. Free slots go round among the waiting workspaces, so one that
//! sends much does not keep out the rest. A slot is requested when the first part of the body is there, and given back while the
//! client is waited for: a slow client costs the bytes that it has sent, and no slot. A small request needs no slot; the number
//! under way is bounded. A request over a bound is turned away at once, before its body is read.
//!
//! Memory is counted by the decoded body, not by its length: its reader claims the memory of the rows before it decodes them
//! ([`Memory`]), and a request whose claim is refused is turned away.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use event::Id;
use meter::{
    Counter, Histogram,
    catalogue::{GATE_REFUSED, GATE_WAIT_SECONDS},
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use crate::batch::Refused;

/// Reason for turning a request away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Its workspace has too many requests under way.
    Workspace,
    /// The service has too many requests under way.
    Service,
    /// The service is about to stop.
    Stopping,
}

/// Size of a request, as far as it is known before its body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Worked on at once.
    Small,
    /// In need of a slot.
    Large,
}

/// Number of requests and bytes under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Small requests.
    pub small: usize,
    /// Large requests with a slot.
    pub large: usize,
    /// Large requests without one: they are read, or wait.
    pub reading: usize,
    /// Large requests that wait for a slot.
    pub waiting: usize,
    /// Bytes of bodies, and of their decoded forms, in memory.
    pub bytes: usize,
}

/// Admission that lets requests through.
#[derive(Debug)]
pub struct Admission {
    bounds: Bounds,
    state: Mutex<State>,
    waits: Histogram,
    /// Number of requests turned away, by [`Busy::ALL`].
    refused: [Counter; Busy::ALL.len()],
}

impl Busy {
    const ALL: [Busy; 3] = [Busy::Workspace, Busy::Service, Busy::Stopping];

    /// Name among the labels of a metric.
    fn name(self) -> &'static str {
        match self {
            Busy::Workspace => "workspace",
            Busy::Service => "service",
            Busy::Stopping => "stopping",
        }
    }
}

type Counts = HashMap<Id, usize>;

#[derive(Debug, Default)]
struct State {
    is_stopping: bool,
    slots: Counts,
    reading: Counts,
    small: Counts,
    waiting: HashMap<Id, VecDeque<oneshot::Sender<Slot>>>,
    /// Waiting workspaces, the one with the next turn first.
    turns: VecDeque<Id>,
    bytes: usize,
    slow_bytes: Counts,
}

/// Permission to read one request, and to work on it once it has a slot; it ends when it is dropped.
#[derive(Debug)]
pub struct Pass {
    admission: Arc<Admission>,
    workspace: Id,
    size: Size,
    memory: Memory,
    slot: Option<Slot>,
    /// True if it has had a slot and gave it back.
    is_slow: bool,
}

/// Memory of a request. Its pass and the reader of its body hold it: it counts until both are dropped.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Account>);

#[derive(Debug)]
struct Account {
    admission: Arc<Admission>,
    held: Mutex<Held>,
}

/// Bytes that a request holds.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Bytes of its body received so far.
    body: usize,
    /// Memory beside the body while that is read.
    reading: usize,
    /// Memory in the place of the body once it is read.
    read: usize,
    /// True once the body is released, since it was unpacked as it came.
    is_unpacked: bool,
}

impl Held {
    fn all(self) -> usize {
        let body = if self.is_unpacked { 0 } else { self.body };
        (body + self.reading).max(self.read)
    }
}

/// Slot taken by a workspace.
#[derive(Debug)]
struct Slot {
    admission: Arc<Admission>,
    workspace: Id,
}

impl Admission {
    /// Creates admission control with these bounds.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            state: Mutex::default(),
            waits: GATE_WAIT_SECONDS.histogram([]),
            refused: Busy::ALL.map(|reason| GATE_REFUSED.counter([reason.name()])),
        })
    }

    /// Admits a request of a workspace.
    ///
    /// # Errors
    /// Fails when too many are under way, or the admission is closed.
    pub fn enter(self: &Arc<Self>, workspace: &Id, size: Size) -> Result<Pass, Busy> {
        let state = &mut *self.state();
        let (counts, most, most_of_workspace) = match size {
            Size::Small => (&mut state.small, self.bounds.small, self.bounds.small_of_workspace),
            Size::Large => (&mut state.reading, self.bounds.reading, self.bounds.reading_of_workspace),
        };
        let refused = match () {
            () if state.is_stopping => Some(Busy::Stopping),
            () if count(counts, workspace) >= most_of_workspace => Some(Busy::Workspace),
            () if counts.values().sum::<usize>() >= most => Some(Busy::Service),
            () => None,
        };
        if let Some(reason) = refused {
            return Err(self.refuse(reason));
        }
        *counts.entry(workspace.clone()).or_default() += 1;
        let (admission, workspace) = (Arc::clone(self), workspace.clone());
        let memory = Memory(Arc::new(Account { admission: Arc::clone(self), held: Mutex::default() }));
        Ok(Pass { admission, workspace, size, memory, slot: None, is_slow: false })
    }

    fn refuse(&self, reason: Busy) -> Busy {
        let counters = Busy::ALL.iter().zip(&self.refused);
        counters.filter(|(one, _)| **one == reason).for_each(|(_, counter)| counter.increment(1));
        reason
    }

    /// Present load.
    pub fn load(&self) -> Load {
        let state = self.state();
        let in_line = |line: &VecDeque<oneshot::Sender<Slot>>| {
            line.iter().filter(|waiting| !waiting.is_closed()).count()
        };
        Load {
            small: state.small.values().sum(),
            large: state.slots.values().sum(),
            reading: state.reading.values().sum(),
            waiting: state.waiting.values().map(in_line).sum(),
            bytes: state.bytes,
        }
    }

    /// Turns away every new request. Requests that were begun go on.
    pub fn close(&self) {
        self.state().is_stopping = true;
    }

    /// Takes a slot, if one is free for this workspace and none of its requests waits; else a place in the line.
    fn slot_or_place(
        self: &Arc<Self>,
        state: &mut State,
        workspace: &Id,
    ) -> Result<Slot, oneshot::Receiver<Slot>> {
        // Removes requests that gave up from the line.
        if let Some(line) = state.waiting.get_mut(workspace) {
            line.retain(|waiting| !waiting.is_closed());
        }
        let is_first = state.waiting.get(workspace).is_none_or(VecDeque::is_empty);
        if is_first && self.has_slot(state, workspace) {
            return Ok(self.take_slot(state, workspace));
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.entry(workspace.clone()).or_default().push_back(sender);
        if !state.turns.contains(workspace) {
            state.turns.push_back(workspace.clone());
        }
        Err(receiver)
    }

    fn has_slot(&self, state: &State, workspace: &Id) -> bool {
        state.slots.values().sum::<usize>() < self.bounds.slots
            && count(&state.slots, workspace) < self.bounds.slots_of_workspace
    }

    fn take_slot(self: &Arc<Self>, state: &mut State, workspace: &Id) -> Slot {
        *state.slots.entry(workspace.clone()).or_default() += 1;
        Slot { admission: Arc::clone(self), workspace: workspace.clone() }
    }

    /// Gives free slots to the waiting requests, one workspace after the other.
    fn grant(self: &Arc<Self>) {
        while let Some((waiting, slot)) = self.next_in_line() {
            // A request that gave up does not take the slot: dropping it frees it for the next one.
            drop(waiting.send(slot));
        }
    }

    fn next_in_line(self: &Arc<Self>) -> Option<(oneshot::Sender<Slot>, Slot)> {
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
                let slot = self.take_slot(&mut state, &workspace);
                return Some((waiting, slot));
            }
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Returns whether the request has a slot.
    pub fn has_slot(&self) -> bool {
        self.slot.is_some()
    }

    /// Number of bytes of the body received.
    pub fn bytes(&self) -> usize {
        self.memory.held().body
    }

    /// Memory of the request.
    pub fn memory(&self) -> Memory {
        self.memory.clone()
    }

    /// Makes a small request a large one, since its body decodes to more than expected: from here on it needs a slot.
    ///
    /// # Errors
    /// Fails when too many large ones are under way.
    pub fn enlarge(&mut self) -> Result<(), Busy> {
        let mut large = self.admission.enter(&self.workspace, Size::Large)?;
        mem::swap(&mut large.memory, &mut self.memory);
        *self = large;
        Ok(())
    }

    /// Returns whether `bytes` more of the body may be held now; if not, a slot must be taken first.
    pub fn has_room(&self, bytes: usize) -> bool {
        let Bounds { ahead, slow_bytes, slow_bytes_of_workspace, .. } = self.admission.bounds;
        if self.has_slot() || self.size == Size::Small || self.bytes() < ahead {
            return true;
        }
        let state = self.admission.state();
        let own = count(&state.slow_bytes, &self.workspace);
        let all: usize = state.slow_bytes.values().sum();
        self.is_slow && own + bytes <= slow_bytes_of_workspace && all + bytes <= slow_bytes
    }

    /// Counts `bytes` more of the body in memory.
    ///
    /// # Errors
    /// Fails when all requests together hold too much; one alone never does.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Busy> {
        let Held { body, .. } = self.memory.held();
        self.memory.grow(self.admission.bounds.bytes, |held| held.body = body + bytes)?;
        if self.is_slow {
            *self.admission.state().slow_bytes.entry(self.workspace.clone()).or_default() += bytes;
        }
        Ok(())
    }

    /// Waits for a slot, when it has none.
    ///
    /// # Errors
    /// Fails when it takes too long.
    pub async fn line_up(&mut self) -> Result<(), Busy> {
        if self.has_slot() || self.size == Size::Small {
            return Ok(());
        }
        let asked = Instant::now();
        let found = {
            let mut state = self.admission.state();
            self.admission.slot_or_place(&mut state, &self.workspace)
        };
        let slot = match found {
            Ok(slot) => slot,
            Err(waiting) => match timeout(self.admission.bounds.wait, waiting).await {
                Ok(Ok(slot)) => slot,
                _ => {
                    self.admission.waits.record(asked.elapsed());
                    return Err(self.admission.refuse(Busy::Service));
                }
            },
        };
        self.admission.waits.record(asked.elapsed());
        self.slot = Some(slot);
        let mut state = self.admission.state();
        take(&mut state.reading, &self.workspace, 1);
        if self.is_slow {
            take(&mut state.slow_bytes, &self.workspace, self.bytes());
            self.is_slow = false;
        }
        Ok(())
    }

    /// Gives the slot back, since the client is slow, or since the next step of the request takes a slot of its own.
    pub fn step_aside(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        self.is_slow = true;
        {
            let mut state = self.admission.state();
            *state.reading.entry(self.workspace.clone()).or_default() += 1;
            *state.slow_bytes.entry(self.workspace.clone()).or_default() += self.bytes();
        }
        drop(slot);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        if self.is_slow {
            take(&mut state.slow_bytes, &self.workspace, self.bytes());
        }
        match (self.size, &self.slot) {
            (Size::Small, _) => take(&mut state.small, &self.workspace, 1),
            (Size::Large, None) => take(&mut state.reading, &self.workspace, 1),
            // The slot frees itself.
            (Size::Large, Some(_)) => {}
        }
    }
}

impl Memory {
    fn held(&self) -> Held {
        *self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the memory of the decoded body: `reading` bytes beside it while it is read, and `read` in its place afterwards.
    /// Less than was claimed before changes nothing.
    ///
    /// # Errors
    /// Fails when all requests together hold too much, and when one would be too much alone.
    pub(crate) fn claim(&self, reading: usize, read: usize) -> Result<(), Refused> {
        let Bounds { bytes, claimed, .. } = self.0.admission.bounds;
        let mut alone = 0;
        let claimed = self.grow(claimed, |held| {
            held.reading = held.reading.max(reading);
            held.read = held.read.max(read);
            alone = held.all();
        });
        match claimed {
            _ if alone > bytes => Err(Refused::TooLarge(format!(
                "the body takes more than {} MiB of memory while it is decoded; send several, or write it in batches of fewer rows",
                bytes >> 20
            ))),
            claimed => claimed.map_err(|_| Refused::NoRoom),
        }
    }

    /// Records that the body is released, and that only its unpacked form is held.
    pub(crate) fn unpacked(&self) {
        // A smaller amount is never refused.
        _ = self.grow(usize::MAX, |held| held.is_unpacked = true);
    }

    /// Changes the held bytes, so that all requests hold `most` bytes at most, if others hold some.
    fn grow(&self, most: usize, change: impl FnOnce(&mut Held)) -> Result<(), Busy> {
        let Account { admission, held } = &*self.0;
        let mut state = admission.state();
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, mut after) = (held.all(), *held);
        change(&mut after);
        let (others, after_all) = (state.bytes - before, after.all());
        if others > 0 && after_all > before && others + after_all > most {
            return Err(admission.refuse(Busy::Service));
        }
        state.bytes = others + after_all;
        *held = after;
        Ok(())
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner).all();
        self.admission.state().bytes -= held;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        take(&mut self.admission.state().slots, &self.workspace, 1);
        self.admission.grant();
    }
}

fn count(counts: &Counts, workspace: &Id) -> usize {
    counts.get(workspace).copied().unwrap_or(0)
}

fn take(counts: &mut Counts, workspace: &Id, amount: usize) {
    if let Some(count) = counts.get_mut(workspace) {
        *count = count.saturating_sub(amount);
        if *count == 0 {
            counts.remove(workspace);
        }
    }
}

/// Bounds of the requests under way.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum large requests worked on at one time.
    pub slots: usize,
    /// Maximum of these from one workspace.
    pub slots_of_workspace: usize,
    /// Maximum large requests that are read, or wait, without a slot.
    pub reading: usize,
    /// Maximum of these from one workspace.
    pub reading_of_workspace: usize,
    /// Maximum wait for a slot.
    pub wait: Duration,
    /// Maximum small requests under way.
    pub small: usize,
    /// Maximum of these from one workspace.
    pub small_of_workspace: usize,
    /// Maximum bytes of bodies, and of their decoded forms, in memory, of all requests together.
    pub bytes: usize,
    /// Maximum bytes in all at which decoded bodies are given memory; the rest is for bodies themselves, so that small ones still
    /// come in while large ones are decoded.
    pub claimed: usize,
    /// Maximum bytes that a request holds before it has had a slot.
    pub ahead: usize,
    /// Maximum bytes of all requests that gave a slot back; one that needs more asks for a slot again.
    pub slow_bytes: usize,
    /// Maximum of these from one workspace.
    pub slow_bytes_of_workspace: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            slots: 8,
            slots_of_workspace: 6,
            reading: 1024,
            reading_of_workspace: 256,
            wait: Duration::from_secs(10),
            small: 4096,
            small_of_workspace: 3072,
            bytes: 192 * 1024 * 1024,
            claimed: 160 * 1024 * 1024,
            ahead: 64 * 1024,
            slow_bytes: 96 * 1024 * 1024,
            slow_bytes_of_workspace: 64 * 1024 * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use event::Timestamp;

    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            slots: 2,
            slots_of_workspace: 2,
            reading: 4,
            reading_of_workspace: 3,
            small: 3,
            small_of_workspace: 2,
            bytes: 100,
            ahead: 10,
            slow_bytes: 50,
            slow_bytes_of_workspace: 40,
            ..Bounds::default()
        }
    }

    fn workspaces() -> [Id; 3] {
        [0, 1, 2].map(|seconds| Id::new(Timestamp::default().plus_seconds(1_600_000_000 + seconds)))
    }

    async fn slot(admission: &Arc<Admission>, workspace: &Id) -> Pass {
        let mut pass = admission.enter(workspace, Size::Large).unwrap();
        pass.line_up().await.unwrap();
        pass
    }

    #[tokio::test]
    async fn slots_go_round_among_workspaces() {
        let admission = Admission::new(bounds());
        let [a, b, _] = workspaces();
        let first = slot(&admission, &a).await;
        let second = slot(&admission, &a).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for (name, workspace) in [("a1", &a), ("a2", &a), ("a3", &a), ("b1", &b)] {
            let (admission, workspace, order) =
                (Arc::clone(&admission), workspace.clone(), Arc::clone(&order));
            tasks.spawn(async move {
                let pass = slot(&admission, &workspace).await;
                order.lock().unwrap().push(name);
                drop(pass);
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(admission.enter(&a, Size::Large).unwrap_err(), Busy::Workspace);
        assert_eq!(admission.enter(&b, Size::Large).unwrap_err(), Busy::Service);
        assert_eq!(admission.load(), Load { large: 2, reading: 4, waiting: 4, ..Load::default() });
        drop(first);
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["a1", "b1", "a2", "a3"]);
        drop(second);
        assert_eq!(admission.load(), Load::default());
        assert!(admission.state().slots.is_empty() && admission.state().waiting.is_empty());
    }

    #[tokio::test]
    async fn request_waiting_too_long_is_refused_without_slot() {
        let admission = Admission::new(Bounds { wait: Duration::from_millis(20), ..bounds() });
        let [a, b, _] = workspaces();
        let passes = [slot(&admission, &a).await, slot(&admission, &a).await];
        let mut late = admission.enter(&b, Size::Large).unwrap();
        assert_eq!(late.line_up().await.unwrap_err(), Busy::Service);
        drop(passes);
        let passes = [slot(&admission, &a).await, slot(&admission, &b).await];
        admission.close();
        assert_eq!(admission.enter(&b, Size::Small).unwrap_err(), Busy::Stopping);
        drop(passes);
        late.line_up().await.unwrap();
        drop(late);
        assert_eq!(admission.load(), Load::default());
    }

    #[tokio::test]
    async fn slow_request_holds_bytes_but_no_slot() {
        let admission = Admission::new(bounds());
        let [a, b, _] = workspaces();
        let mut slow = [slot(&admission, &a).await, slot(&admission, &a).await];
        for pass in &mut slow {
            pass.hold(18).unwrap();
            pass.step_aside();
        }
        assert_eq!(admission.load(), Load { reading: 2, bytes: 36, ..Load::default() });
        // Others go on, and their bytes before their slot need no room.
        let mut other = admission.enter(&b, Size::Large).unwrap();
        assert!(other.has_room(60));
        other.hold(60).unwrap();
        assert!(!other.has_room(1), "it has its first part, and needs a slot for more");
        other.line_up().await.unwrap();
        assert!(other.has_room(1));
        drop(other);
        // The slow ones fill the available room, and then need a slot again.
        assert!(slow[0].has_room(4) && !slow[0].has_room(5), "36 of 40 bytes of the workspace are held");
        slow[0].hold(4).unwrap();
        assert!(!slow[1].has_room(1));
        slow[1].line_up().await.unwrap();
        assert!(slow[1].has_room(1));
        slow[1].hold(1).unwrap();
        assert_eq!(admission.load(), Load { large: 1, reading: 1, bytes: 41, ..Load::default() });
        drop(slow);
        assert_eq!(admission.load(), Load::default());
        assert!(admission.state().slow_bytes.is_empty() && admission.state().reading.is_empty());
    }

    #[test]
    fn small_requests_and_bytes_are_bounded() {
        let admission = Admission::new(bounds());
        let [a, b, c] = workspaces();
        let mut one = admission.enter(&a, Size::Small).unwrap();
        let mut two = admission.enter(&a, Size::Small).unwrap();
        assert_eq!(admission.enter(&a, Size::Small).unwrap_err(), Busy::Workspace);
        let three = admission.enter(&b, Size::Small).unwrap();
        assert_eq!(admission.enter(&c, Size::Small).unwrap_err(), Busy::Service);
        one.hold(1_000).unwrap();
        assert_eq!(two.hold(1).unwrap_err(), Busy::Service);
        drop((one, three));
        two.hold(60).unwrap();
        assert!(admission.enter(&c, Size::Small).is_ok());
        drop(two);
        assert!(admission.state().small.is_empty() && admission.state().bytes == 0);
    }

    #[test]
    fn claims_count_beside_bodies_and_leave_room() {
        let admission = Admission::new(Bounds { claimed: 80, ..bounds() });
        let [a, b, _] = workspaces();
        let mut one = admission.enter(&a, Size::Small).unwrap();
        one.hold(10).unwrap();
        // It holds the greater of its memory while it is read and afterwards.
        one.memory().claim(20, 25).unwrap();
        assert_eq!(admission.load().bytes, 30);
        one.memory().claim(5, 60).unwrap();
        assert_eq!(admission.load().bytes, 60);
        let mut two = admission.enter(&b, Size::Small).unwrap();
        assert_eq!(two.memory().claim(21, 0), Err(Refused::NoRoom));
        two.memory().claim(20, 0).unwrap();
        // A body has the room that claims leave.
        two.hold(20).unwrap();
        assert_eq!(two.hold(1).unwrap_err(), Busy::Service);
        // An unpacked body is not held any more, but was sent.
        two.memory().unpacked();
        assert_eq!((admission.load().bytes, two.bytes()), (80, 20));
        assert!(matches!(one.memory().claim(101, 0), Err(Refused::TooLarge(_))), "nor when it is alone");
        two.enlarge().unwrap();
        assert_eq!(admission.load(), Load { small: 1, reading: 1, bytes: 80, ..Load::default() });
        // It counts until its reader is dropped as well.
        let reader = two.memory();
        drop((one, two));
        assert_eq!(admission.load(), Load { bytes: 20, ..Load::default() });
        drop(reader);
        assert_eq!(admission.load(), Load::default());
    }
}
