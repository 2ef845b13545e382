//! Tasks of releases: equality of tasks, and the distance of a prediction from the truth.

use event::{Task, fields::same_label};

use super::fields::Fields;
use crate::decimal;

/// Numbers tasks; equal tasks have equal numbers.
pub(super) fn task_numbers<'a>(tasks: &[Option<&'a Task>]) -> Vec<u32> {
    let mut known = Vec::<Option<&'a Task>>::new();
    let mut numbers = Vec::with_capacity(tasks.len());
    for task in tasks {
        let number = known.iter().position(|known| known == task).unwrap_or(known.len());
        if number == known.len() {
            known.push(*task);
        }
        numbers.push(number as u32);
    }
    numbers
}

/// Returns the distance of a prediction from the truth: of a probability from 0 or 1, of a number from the real one;
/// 1 for a wrong class. Two predictions whose decimals are equally far off have equal distances.
pub(super) fn distance(task: &Task, prediction: &Fields<'_>, outcome: &Fields<'_>) -> Option<f64> {
    let wrong = |is_wrong: bool| f64::from(u8::from(is_wrong));
    match task {
        Task::Binary { positive_label } => {
            let real = same_label(outcome.label?, positive_label);
            let by_score = prediction.score.filter(|score| (0.0..=1.0).contains(score));
            by_score
                .map(|score| decimal::difference(score, wrong(real)).abs())
                .or(prediction.label.map(|label| wrong(same_label(label, positive_label) != real)))
        }
        Task::Multiclass => Some(wrong(!same_label(prediction.class()?, outcome.label?))),
        Task::Regression => Some(decimal::difference(prediction.value?, outcome.value?).abs()),
    }
}
