//! What release events may say of how predictions are judged.

use std::collections::BTreeSet;

use catalog::{Action, Definitions, Effect, ReleaseSpec, WorkspacePage};
use event::{Day, Definition, Kind, fields::same_label};

use crate::batch::{Batch, RowIssue};

/// The fields of an event that say how predictions are judged.
const FIELDS: [&str; 4] = ["task", "positive_label", "threshold", "effective_from"];

/// The days to which a batch adds definitions.
pub(crate) fn days_of(batch: &Batch) -> BTreeSet<Day> {
    let action = (batch.kind == Kind::Releases).then(|| batch.columns.column("action")).flatten();
    let defines = |row: usize| action.and_then(|action| action.text(row)) == Some(Action::Define.name());
    (0..batch.rows()).filter(|row| defines(*row)).map(|row| batch.days[row]).collect()
}

/// The text of a field of an event.
pub(crate) fn text<'a>(batch: &'a Batch, name: &str, row: usize) -> Option<&'a str> {
    batch.columns.column(name)?.text(row)
}

fn threshold(batch: &Batch, row: usize) -> Option<f64> {
    batch.columns.column("threshold")?.float(row)
}

fn has(batch: &Batch, name: &str, row: usize) -> bool {
    text(batch, name, row).is_some() || (name == "threshold" && threshold(batch, row).is_some())
}

/// What is wrong with the definition that an event makes, or has and should not.
pub(crate) fn problem(batch: &Batch, row: usize, action: Option<Action>) -> Option<RowIssue> {
    match action.map(Action::effect) {
        Some(Effect::Defines) => {
            let missing = ["task", "effective_from"].into_iter().find(|name| !has(batch, name, row));
            if let Some(name) = missing {
                return Some((
                    row,
                    name,
                    "is missing; a definition says the task, and from which day on".into(),
                ));
            }
            let (label, from) = (text(batch, "positive_label", row), text(batch, "effective_from", row));
            let task = text(batch, "task", row).unwrap_or_default();
            let parsed = Definition::parse(task, label, threshold(batch, row), from);
            parsed.err().map(|error| (row, "task", error.to_string()))
        }
        Some(Effect::Registers) => has(batch, "effective_from", row).then(|| {
            (row, "effective_from", "does not belong here; a release begins from the beginning".into())
        }),
        _ => {
            let found = FIELDS.into_iter().find(|name| has(batch, name, row))?;
            Some((
                row,
                found,
                format!(
                    "does not belong here; the action `{}` says how a release is judged",
                    Action::Define.name()
                ),
            ))
        }
    }
}

/// Why a release cannot be registered as an event says: its name stays with another model, or it says another
/// definition than it begins with.
pub(crate) fn differs(
    batch: &Batch,
    row: usize,
    page: &WorkspacePage,
    known: &Definitions,
    release: &ReleaseSpec,
) -> Option<RowIssue> {
    let model = page.models.iter().find(|model| model.entity.name == release.model)?;
    let first = known.first(&release.name);
    if let Some(Err(error)) = first.map(|first| first.check(&release.name, &model.entity.id)) {
        return Some((row, "release", error.to_string()));
    }
    let own = Definition { task: model.task.clone(), threshold: model.threshold, from: None };
    let begins = first.filter(|first| first.is_used).map_or(own, |first| first.definition());
    let task = text(batch, "task", row).unwrap_or(begins.task.name());
    let is_same = task == begins.task.name()
        && text(batch, "positive_label", row)
            .is_none_or(|label| begins.task.positive_label().is_some_and(|own| same_label(label, own)))
        && threshold(batch, row).is_none_or(|threshold| threshold == begins.threshold);
    let message = || {
        let (name, task) = (&release.name, &begins.task);
        format!("is not what `{name}` begins with ({task}); register it without, and define it from a day on")
    };
    (!is_same).then(|| (row, "task", message()))
}
