//! A comparison that goes on day after day, and keeps nothing of the meetings before.

use serde::{Deserialize, Serialize};

use super::{Measure, Meeting, SoFar, in_order, sequence::Sequence, so_far, take};

/// Two releases head to head, as far as they met so far. After each day it says what [`head_to_head`](super::head_to_head) says of all
/// days up to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ongoing {
    /// By the place in [`Measure::ALL`]; `None` from the first meeting on that has none of the measure.
    courses: [Option<Course>; Measure::ALL.len()],
}

/// The advantages by a measure so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Course {
    // Older items also say here whether the bounds ever left out zero.
    sequence: Sequence,
}

impl Default for Ongoing {
    fn default() -> Self {
        Self { courses: Measure::ALL.map(|_| Some(Course::default())) }
    }
}

impl Ongoing {
    /// Adds the meetings of a day, which need not be sorted.
    pub fn add(&mut self, mut met: Vec<Meeting>) {
        in_order(&mut met);
        for (measure, kept) in Measure::ALL.iter().zip(&mut self.courses) {
            let Some(course) = kept else { continue };
            let has_all = met.iter().all(|met| {
                let advantage = measure.of(met);
                if let Some(advantage) = advantage {
                    take(&mut course.sequence, advantage);
                }
                advantage.is_some()
            });
            if !has_all {
                *kept = None;
            }
        }
    }

    /// By what the advantage is measured, and what is known of it.
    pub fn says(&self) -> (Measure, SoFar) {
        let mut courses = Measure::ALL.into_iter().zip(&self.courses);
        let found = courses.find_map(|(measure, course)| Some((measure, course.as_ref()?)));
        match found {
            Some((measure, course)) => (measure, so_far(&course.sequence)),
            None => (Measure::Wins, so_far(&Sequence::default())),
        }
    }
}
