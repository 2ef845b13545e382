//! Letters shown to operators: those of the active version, and of the one being built.

use std::collections::BTreeMap;

use event::{Error, Id, Result};
use log::{
    active::{self, Active},
    key::LogId,
};
use table::Table;

use super::{DeadLetter, LetterState, find_version, list_version};

/// Lists all dead letters of a workspace, in the active version and in the one being built: one for each segment.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn list(table: &dyn Table, workspace: &Id) -> Result<Vec<DeadLetter>> {
    list_of(table, active::load(table, workspace).await?, workspace).await
}

/// Lists the letters when these versions are known.
pub(crate) async fn list_of(table: &dyn Table, found: Active, workspace: &Id) -> Result<Vec<DeadLetter>> {
    let mut letters: BTreeMap<String, DeadLetter> = BTreeMap::new();
    for version in versions(found) {
        for letter in list_version(table, version, workspace).await? {
            let name = letter.to_string();
            let first = first_of(letters.remove(&name), Some(letter));
            letters.extend(first.map(|letter| (name, letter)));
        }
    }
    Ok(letters.into_values().collect())
}

/// Active version, and then the one being built.
fn versions(found: Active) -> impl Iterator<Item = u32> {
    std::iter::once(found.version).chain(found.building)
}

/// Chooses the letter of a segment to show: one that stops something first, then the one of the refusal whose skip leaves the
/// segment out of more, then the one of the active version.
fn first_of(active: Option<DeadLetter>, building: Option<DeadLetter>) -> Option<DeadLetter> {
    let weight = |letter: &DeadLetter| (letter.state == LetterState::Stopped, letter.refused);
    match (active, building) {
        (Some(active), Some(building)) if weight(&building) > weight(&active) => Some(building),
        (active, building) => active.or(building),
    }
}

/// Finds the dead letter of a segment, in the active version or in the one being built.
///
/// # Errors
/// `NotFound`, when it has none.
pub async fn find(table: &dyn Table, log: &LogId, seq: u64) -> Result<DeadLetter> {
    let mut found = None;
    for version in versions(active::load(table, &log.workspace).await?) {
        found = first_of(found, find_version(table, version, log, seq).await?);
    }
    found.ok_or_else(|| Error::not_found(format!("there is no dead letter {log}/{seq:010}")))
}

#[cfg(test)]
mod tests {
    use event::{Kind, Timestamp};

    use super::*;
    use crate::dead_letters::{Refused, Stopped};

    fn letter(version: u32, refused: Refused, state: LetterState) -> DeadLetter {
        let log = LogId {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: "2013-06-01".parse().unwrap(),
            kind: Kind::Predictions,
            lane: 0,
        };
        let stopped = Stopped { log, seq: 42, reason: "damaged".into() };
        DeadLetter { state, ..DeadLetter::new(version, stopped, refused, Timestamp::default()) }
    }

    #[test]
    fn dead_letter_that_stops_more_is_shown() {
        use LetterState::{Skipped, Stopped};
        use Refused::{Features, Rollup};
        assert_eq!(letter(1, Rollup, Stopped).segment(), "2013-06-01/p/00/42");
        let shown = |active: Option<(Refused, LetterState)>, building: Option<(Refused, LetterState)>| {
            let of = |version, one: Option<_>| one.map(|(refused, state)| letter(version, refused, state));
            first_of(of(1, active), of(2, building)).map(|letter| letter.version)
        };
        assert_eq!(shown(None, None), None);
        assert_eq!(shown(None, Some((Rollup, Stopped))), Some(2));
        assert_eq!(shown(Some((Rollup, Stopped)), Some((Rollup, Stopped))), Some(1));
        assert_eq!(shown(Some((Features, Stopped)), Some((Rollup, Stopped))), Some(2));
        assert_eq!(shown(Some((Rollup, Skipped)), Some((Features, Stopped))), Some(2));
        assert_eq!(shown(Some((Features, Stopped)), Some((Rollup, Skipped))), Some(1));
    }
}
