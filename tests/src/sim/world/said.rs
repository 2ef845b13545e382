//! Release events, compared with what is recorded of them.

use std::collections::BTreeMap;

use catalog::DEFINED;
use event::{Day, Definition, DefinitionChange, Id, lane::LogPosition};
use log::{
    key::{self, LogId},
    projection::Applied,
};
use table::{Item, item::Value};

use super::State;
use crate::sim::scene::ENVIRONMENT;

/// All that was said.
#[derive(Debug, Default)]
pub(in crate::sim) struct Said {
    /// Definitions of releases, by the place of the event.
    pub(in crate::sim) defined: BTreeMap<(LogId, u64), (String, DefinitionChange)>,
    /// Recorded definitions, in the order of their numbers.
    recorded: Vec<(LogId, u64)>,
    /// Releases that went live, or stopped being live.
    pub(in crate::sim) promoted: Vec<Promoted>,
}

/// A release goes live, or is live no more.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Promoted {
    pub(in crate::sim) at: i64,
    pub(in crate::sim) is_live: bool,
    pub(in crate::sim) release: String,
    pub(in crate::sim) model: String,
}

impl Said {
    /// Number of recorded definitions.
    pub(in crate::sim) fn recorded(&self) -> usize {
        self.recorded.len()
    }

    /// The numbers of the recorded definitions that concern a day, with them.
    fn concern(&self, day: Day) -> impl Iterator<Item = (u64, &(LogId, u64), &(String, DefinitionChange))> {
        let known = (1..).zip(&self.recorded).map(|(number, place)| (number, place, &self.defined[place]));
        known.filter(move |(_, _, (_, change))| change.from.is_none_or(|from| from <= day))
    }

    /// Checks a recorded definition.
    fn check(&self, number: u64, log: LogId, item: &Item) -> Result<(LogId, u64), String> {
        if number != self.recorded.len() as u64 + 1 {
            return Err(format!("{} definitions are recorded before it", self.recorded.len()));
        }
        let place = (log, item.int("seq").unwrap_or(0) as u64);
        let (release, change) = self.defined.get(&place).ok_or("no event said it")?;
        if self.recorded.contains(&place) {
            return Err("it is recorded twice".into());
        }
        let releases = Value::record(&[release]);
        let is_same = item.attributes.get("releases") == Some(&releases)
            && Definition::FIELDS.into_iter().all(|name| {
                let said = change.said().into_iter().find(|(said, _)| *said == name);
                let said = said.map(|(_, said)| match said {
                    event::Said::Text(text) => text,
                    event::Said::Number(number) => number.to_string(),
                });
                item.optional_text(name) == said.as_deref()
            });
        if is_same { Ok(place) } else { Err("its event said something else".into()) }
    }
}

impl State {
    /// The workspace of all logs.
    pub(super) fn workspace(&self) -> Option<Id> {
        self.logs.keys().next().map(|log| log.workspace.clone())
    }

    /// Takes note of a definition that is recorded; `None`, when the item is another one.
    pub(super) fn note_definition(&mut self, before: Option<&Item>, item: &Item) -> Option<String> {
        let workspace = self.workspace()?;
        let number = key::parse_definition(&item.key)?;
        if item.key != key::definition(&workspace, number) {
            return None;
        }
        if before.is_some() {
            return Some("it was recorded before".into());
        }
        let Some(log) = item.optional_text("log").and_then(|log| key::parse_log(&workspace, log)) else {
            return Some("it names no log".into());
        };
        match self.said.check(number, log, item) {
            Ok(place) => {
                self.said.recorded.push(place);
                None
            }
            Err(wrong) => Some(wrong),
        }
    }

    /// Definitions of releases on a day that an evaluation knew which covers `applied`.
    pub(super) fn judged_by(&self, day: Day, applied: &Applied) -> BTreeMap<String, Definition> {
        let known = applied.get(DEFINED).copied().unwrap_or(0);
        let mut said: Vec<_> = self
            .said
            .concern(day)
            .filter(|(number, ..)| *number <= known)
            .map(|(_, at, said)| (at, said))
            .collect();
        said.sort_by_key(|((log, seq), (_, change))| (change.from, log.day, LogPosition::of(log.lane, *seq)));
        let mut by = self.definitions.clone();
        for (_, (release, change)) in said {
            by.entry(release.clone()).and_modify(|known| *known = change.on(known));
        }
        by
    }

    /// Release events of a log up to a segment that are not recorded.
    pub(super) fn unrecorded(&self, log: &LogId, until: u64) -> Vec<String> {
        let of_log = self.said.defined.keys().filter(|(of, seq)| of == log && *seq < until);
        let missing = of_log.filter(|place| !self.said.recorded.contains(place));
        missing.map(|(log, seq)| format!("{log}: the definition of segment {seq} is not recorded")).collect()
    }

    /// Definitions that an evaluation of a day lacks, unless its events are gone.
    pub(super) fn undefined(&self, workspace: &Id, day: Day, evaluation: &Applied) -> Option<String> {
        if self.items.contains_key(&key::expired(workspace, day)) {
            return None;
        }
        let last = self.said.concern(day).map(|(number, ..)| number).last().unwrap_or(0);
        let known = evaluation.get(DEFINED).copied().unwrap_or(0);
        (known != last).then(|| format!("the evaluation of {day} knows {known} definitions of {last}"))
    }

    /// Checks that the live releases are the ones that the last event of each model names.
    pub(super) fn not_live(&self, workspace: &Id) -> Option<String> {
        let mut promoted = self.said.promoted.clone();
        promoted.sort_by_key(|one| one.at);
        let mut live = BTreeMap::<String, String>::new();
        for one in promoted {
            if one.is_live {
                live.insert(one.model, one.release);
            } else if live.get(&one.model) == Some(&one.release) {
                live.remove(&one.model);
            }
        }
        let recorded = recorded_live(self.items.get(&key::live(workspace, ENVIRONMENT)).map(|one| &one.item));
        (recorded != live).then(|| format!("{recorded:?} is recorded as live, not {live:?}"))
    }
}

/// The live release of each model, as an item says.
fn recorded_live(item: Option<&Item>) -> BTreeMap<String, String> {
    let live = item.and_then(|item| item.map("live").ok()).into_iter().flatten();
    let release = |value: &Value| match value {
        Value::M(fields) => match fields.get("release") {
            Some(Value::S(release)) => release.clone(),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    live.map(|(model, value)| (model.clone(), release(value))).collect()
}
