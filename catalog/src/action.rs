//! Actions on a release, in one table.
//!
//! The table defines commands, routes, the OpenAPI document, the check of release events and the reserved names of
//! workspaces.

use serde::{Deserialize, Serialize};

/// Action of a release event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Makes a release known.
    Register,
    /// Makes the release the live one of its model in an environment.
    Promote,
    /// Makes the release the live one again, because the one before it was no good.
    Rollback,
    /// Takes the release out of the live ones of an environment.
    Retire,
    /// Changes how its predictions are judged, from a day on ([`super::Definitions`]).
    Define,
}

/// Effect of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Creates the release in the catalog when it is new.
    Registers,
    /// Makes the release live in an environment, in the place of the one before.
    GoesLive,
    /// Takes the release out of the live ones of an environment.
    EndsLive,
    /// Changes the definition by which predictions of the release are judged.
    Defines,
}

/// Row of the table.
struct Declared {
    /// Name in events, and as a command.
    name: &'static str,
    /// State of the release afterwards.
    past: &'static str,
    /// Path under a workspace to which it is posted, if it has one.
    segment: Option<&'static str>,
    /// Effect of the action.
    effect: Effect,
}

const fn declared(
    name: &'static str,
    past: &'static str,
    segment: Option<&'static str>,
    effect: Effect,
) -> Declared {
    Declared { name, past, segment, effect }
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 5] = [Self::Register, Self::Promote, Self::Rollback, Self::Retire, Self::Define];

    /// Row of the action in the table.
    const fn declared(self) -> Declared {
        match self {
            // A release is created as all entities are, at `/v1/releases`.
            Self::Register => declared("register", "registered", None, Effect::Registers),
            Self::Promote => declared("promote", "promoted", Some("promotions"), Effect::GoesLive),
            Self::Rollback => declared("rollback", "rolled back", Some("rollbacks"), Effect::GoesLive),
            Self::Retire => declared("retire", "retired", Some("retirements"), Effect::EndsLive),
            Self::Define => declared("define", "defined", Some("definitions"), Effect::Defines),
        }
    }

    /// Name in events, and as a command: `promote`.
    pub fn name(self) -> &'static str {
        self.declared().name
    }

    /// State of the release afterwards: `promoted`.
    pub fn past(self) -> &'static str {
        self.declared().past
    }

    /// Path under a workspace to which it is posted, if it has one: `promotions`.
    pub fn segment(self) -> Option<&'static str> {
        self.declared().segment
    }

    /// Effect of the action.
    pub fn effect(self) -> Effect {
        self.declared().effect
    }

    /// Returns whether it changes the live release, and so must name an environment.
    pub fn is_of_live(self) -> bool {
        matches!(self.effect(), Effect::GoesLive | Effect::EndsLive)
    }

    /// Actions that change the live release.
    pub fn of_live() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|action| action.is_of_live())
    }

    /// Finds the action of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn actions_round_trip_by_name_with_unique_segments() {
        let mut segments = BTreeSet::new();
        for action in Action::ALL {
            assert_eq!(Action::from_name(action.name()), Some(action));
            assert!(action.segment().is_none_or(|segment| segments.insert(segment)), "{action:?}");
        }
        assert_eq!(Action::from_name("promotions"), None);
        assert_eq!(
            Action::of_live().map(Action::past).collect::<Vec<_>>(),
            ["promoted", "rolled back", "retired"]
        );
    }
}
