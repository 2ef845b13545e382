//! Comparison that continues day after day without keeping earlier meetings.

use serde::{Deserialize, Serialize};

use super::{Measure, Meeting, SoFar, in_order, sequence::Sequence, so_far, take};

/// Two releases head to head, up to now. After each day it gives the advantage that
/// [`head_to_head`](super::head_to_head) computes from all days up to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ongoing {
    /// The advantages by each measure so far, by the place in [`Measure::ALL`]; `None` from the first meeting on that has none of the measure.
    courses: [Option<Sequence>; Measure::ALL.len()],
}

impl Default for Ongoing {
    fn default() -> Self {
        Self { courses: Measure::ALL.map(|_| Some(Sequence::default())) }
    }
}

impl Ongoing {
    /// Adds the meetings of a day, which need not be sorted.
    pub fn add(&mut self, mut met: Vec<Meeting>) {
        in_order(&mut met);
        for (measure, kept) in Measure::ALL.iter().zip(&mut self.courses) {
            let Some(sequence) = kept else { continue };
            let has_all = met.iter().all(|met| {
                let advantage = measure.of(met);
                if let Some(advantage) = advantage {
                    take(sequence, advantage);
                }
                advantage.is_some()
            });
            if !has_all {
                *kept = None;
            }
        }
    }

    /// Returns the measure of the advantage, and the advantage so far.
    pub fn says(&self) -> (Measure, SoFar) {
        let mut courses = Measure::ALL.into_iter().zip(&self.courses);
        let found = courses.find_map(|(measure, sequence)| Some((measure, sequence.as_ref()?)));
        match found {
            Some((measure, sequence)) => (measure, so_far(sequence)),
            None => (Measure::Wins, so_far(&Sequence::default())),
        }
    }
}
