//! Faults of processes, and their number in each history.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Fault of a process or of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Standstill for a while (SIGSTOP).
    Stop,
    /// Kill (SIGKILL) and restart.
    Kill,
    /// Jump of its clock.
    Jump,
    /// Silence of a client.
    Silence,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::Stop, Self::Kill, Self::Jump, Self::Silence];

    /// Plural, for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stops",
            Self::Kill => "kills",
            Self::Jump => "clock jumps",
            Self::Silence => "silent clients",
        }
    }
}

/// Span of time, in microseconds since 1970.
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

/// All faults, in order.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<(Fault, Span)>>);

impl Faults {
    pub(crate) fn note(&self, fault: Fault, begun: i64, ended: i64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((fault, Span { begun, ended }));
    }

    /// Number of faults by kind.
    pub(crate) fn counts(&self) -> BTreeMap<Fault, usize> {
        let mut counts = BTreeMap::new();
        for (fault, _) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            *counts.entry(*fault).or_default() += 1;
        }
        counts
    }

    /// Mean number of faults of each kind in these spans; and the number of spans without a fault of a process.
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
    fn spans_meet_the_faults_that_touch_them() {
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
