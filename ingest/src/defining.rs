//! Definitions in release events.

use std::collections::BTreeSet;

use catalog::{Action, Definitions, Effect, ReleaseSpec, WorkspacePage};
use event::{Day, Definition, DefinitionChange, Kind, Result, Said, fields::same_label};

use crate::{
    batch::{Batch, RowIssue},
    definitions::SAYS_NOTHING,
};

/// Days to which a batch adds definitions.
pub(crate) fn days_of(batch: &Batch) -> BTreeSet<Day> {
    let action = (batch.kind == Kind::Releases).then(|| batch.columns.column("action")).flatten();
    let defines = |row: usize| action.and_then(|action| action.text(row)) == Some(Action::Define.name());
    (0..batch.rows()).filter(|row| defines(*row)).map(|row| batch.days[row]).collect()
}

/// Text of a field of an event.
pub(crate) fn text<'a>(batch: &'a Batch, name: &str, row: usize) -> Option<&'a str> {
    batch.columns.column(name)?.text(row)
}

fn number(batch: &Batch, name: &str, row: usize) -> Option<f64> {
    batch.columns.column(name)?.float(row)
}

fn has(batch: &Batch, name: &str, row: usize) -> bool {
    text(batch, name, row).is_some() || number(batch, name, row).is_some()
}

/// Change of a definition that an event makes.
fn change(batch: &Batch, row: usize) -> Result<DefinitionChange> {
    DefinitionChange::read(|name| text(batch, name, row), |name| number(batch, name, row))
}

/// Returns why the definition of an event does not fit the release, as that is judged from the event's day on.
pub(crate) fn misfit(batch: &Batch, row: usize, release: &str, known: &Definitions) -> Option<RowIssue> {
    let change = change(batch, row).ok()?;
    let error = known.changed_by(release, &change).err()?;
    Some((row, "task", error.to_string()))
}

/// Returns the fault of the definition of an event, or of one that should not be there.
pub(crate) fn problem(batch: &Batch, row: usize, action: Option<Action>) -> Option<RowIssue> {
    match action.map(Action::effect) {
        Some(Effect::Defines) => {
            if !has(batch, "effective_from", row) {
                let message = "is missing; a definition says from which day on it holds";
                return Some((row, "effective_from", message.into()));
            }
            match change(batch, row) {
                Ok(change) if change.is_empty() => Some((row, "action", SAYS_NOTHING.into())),
                Ok(_) => None,
                Err(error) => Some((row, "task", error.to_string())),
            }
        }
        Some(Effect::Registers) => has(batch, "effective_from", row).then(|| {
            (row, "effective_from", "does not belong here; a release begins from the beginning".into())
        }),
        _ => {
            let found = Definition::FIELDS.into_iter().find(|name| has(batch, name, row))?;
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

/// Returns whether two texts of a field are one label.
fn is_label(name: &str, one: &str, other: &str) -> bool {
    name == "positive_label" && same_label(one, other)
}

/// Returns why a release cannot be registered by an event: its name belongs to another model, or the event has another definition
/// than the one it begins with.
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
    let begins = first.filter(|first| first.is_used).map_or(&model.definition, |first| &first.definition);
    let said = begins.said();
    let is_said =
        |name: &str, is: &dyn Fn(&Said) -> bool| said.iter().any(|(known, said)| *known == name && is(said));
    let is_same = Definition::FIELDS.into_iter().all(|name| {
        let is_same_text = text(batch, name, row).is_none_or(|text| {
            is_said(name, &|said| matches!(said, Said::Text(own) if own == text || is_label(name, own, text)))
        });
        let number = number(batch, name, row);
        is_same_text && number.is_none_or(|number| is_said(name, &|said| *said == Said::Number(number)))
    });
    let message = || {
        let (name, task) = (&release.name, &begins.task);
        format!("is not what `{name}` begins with ({task}); register it without, and define it from a day on")
    };
    (!is_same).then(|| (row, "task", message()))
}
