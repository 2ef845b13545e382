//! What may happen to a release: the one table of actions.
//!
//! Commands, routes, the OpenAPI document, the check of release events and the names that no workspace may have are
//! derived from it.

/// What a release event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// A release is made known.
    Register,
    /// It becomes the live one of its model in an environment.
    Promote,
    /// The same, because the one before was no good.
    Rollback,
    /// It is not live in an environment any more.
    Retire,
    /// How its predictions are judged changes, from a day on ([`super::Definitions`]).
    Define,
}

/// What an action changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The catalog: the release is created when it is new.
    Registers,
    /// What is live in an environment: the release takes the place of the one before.
    GoesLive,
    /// What is live in an environment: the release is taken out of it.
    EndsLive,
    /// The definition by which predictions of the release are judged.
    Defines,
}

/// A row of the table.
struct Declared {
    /// Its name in events, and as a command.
    name: &'static str,
    /// What has happened to the release afterwards.
    past: &'static str,
    /// The path under a workspace to which it is posted, if it has one.
    segment: Option<&'static str>,
    /// What it changes.
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
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Register, Self::Promote, Self::Rollback, Self::Retire, Self::Define];

    /// The table.
    const fn declared(self) -> Declared {
        match self {
            // It is created where all entities are, at `/v1/releases`.
            Self::Register => declared("register", "registered", None, Effect::Registers),
            Self::Promote => declared("promote", "promoted", Some("promotions"), Effect::GoesLive),
            Self::Rollback => declared("rollback", "rolled back", Some("rollbacks"), Effect::GoesLive),
            Self::Retire => declared("retire", "retired", Some("retirements"), Effect::EndsLive),
            Self::Define => declared("define", "defined", Some("definitions"), Effect::Defines),
        }
    }

    /// Its name in events, and as a command: `promote`.
    pub fn name(self) -> &'static str {
        self.declared().name
    }

    /// What has happened to the release afterwards: `promoted`.
    pub fn past(self) -> &'static str {
        self.declared().past
    }

    /// The path under a workspace to which it is posted, if it has one: `promotions`.
    pub fn segment(self) -> Option<&'static str> {
        self.declared().segment
    }

    /// What it changes.
    pub fn effect(self) -> Effect {
        self.declared().effect
    }

    /// Whether it changes what is live, and so must say in which environment.
    pub fn is_of_live(self) -> bool {
        matches!(self.effect(), Effect::GoesLive | Effect::EndsLive)
    }

    /// Those that change what is live.
    pub fn of_live() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|action| action.is_of_live())
    }

    /// The action of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_action_is_found_by_its_name_and_has_a_path_of_its_own() {
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
