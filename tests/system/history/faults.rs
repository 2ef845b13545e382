//! What was done to processes, and how much of it each history met.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// What is done to a process, or by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// It stands still for a while (SIGSTOP).
    Stop,
    /// It is killed (SIGKILL) and started again.
    Kill,
    /// Its clock jumps.
    Jump,
    /// A client says nothing more.
    Silence,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::Stop, Self::Kill, Self::Jump, Self::Silence];

    /// The plural, for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stops",
            Self::Kill => "kills",
            Self::Jump => "clock jumps",
            Self::Silence => "silent clients",
        }
    }
}

/// A stretch of time, in microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begun: i64,
    pub(crate) ended: i64,
}

impl Span {
    fn meets(&self, other: &Self) -> bool {
        self.begun <= other.ended && other.begun <= self.ended
    }
}

/// All faults, as they come.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<(Fault, Span)>>);

impl Faults {
    pub(crate) fn note(&self, fault: Fault, begun: i64, ended: i64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((fault, Span { begun, ended }));
    }

    /// How many of each kind there were.
    pub(crate) fn counts(&self) -> BTreeMap<Fault, usize> {
        let mut counts = BTreeMap::new();
        for (fault, _) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            *counts.entry(*fault).or_default() += 1;
        }
        counts
    }

    /// How many of each kind each of these spans met, on average; and how many spans met no fault of a process.
    pub(crate) fn met(&self, spans: &[Span]) -> (BTreeMap<Fault, f64>, usize) {
        let faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut sums, mut spared) = (BTreeMap::<Fault, usize>::new(), 0);
        for span in spans {
            let met: Vec<Fault> =
                faults.iter().filter(|(_, when)| span.meets(when)).map(|(fault, _)| *fault).collect();
            spared += usize::from(met.iter().all(|fault| *fault == Fault::Silence));
            met.into_iter().for_each(|fault| *sums.entry(fault).or_default() += 1);
        }
        let mean = |sum: usize| sum as f64 / spans.len().max(1) as f64;
        (sums.into_iter().map(|(fault, sum)| (fault, mean(sum))).collect(), spared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_met_by_the_spans_that_it_touches() {
        let faults = Faults::default();
        faults.note(Fault::Stop, 10, 20);
        faults.note(Fault::Kill, 30, 30);
        faults.note(Fault::Silence, 0, 0);
        assert_eq!(faults.counts().values().copied().collect::<Vec<_>>(), [1, 1, 1]);
        let spans = [(0, 10), (20, 40), (31, 50), (0, 5)].map(|(begun, ended)| Span { begun, ended });
        let (met, spared) = faults.met(&spans);
        assert_eq!(met[&Fault::Stop], 0.5);
        assert_eq!(met[&Fault::Kill], 0.25);
        assert_eq!(met[&Fault::Silence], 0.5);
        assert_eq!(spared, 2);
    }
}
