//! What the names in a request mean: a field of the kind, a tag, or nothing.

use store::{Kind, event::TAG_PREFIX};

/// The field by which an outcome names the day of its prediction. It is not stored: it says in which
/// log the outcome is.
pub(crate) const PREDICTED_ON: &str = "predicted_on";
/// The field by which a single event names itself, for a retry. It is not stored.
pub(crate) const EVENT_ID: &str = "event_id";
/// The field that holds the tags as an object.
pub(crate) const TAGS: &str = "tags";

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Into the field of this index.
    Field(usize),
    PredictedOn,
    EventId,
    /// Into the tags, as an object of them.
    Tags,
    /// Into one tag, whose name begins at this byte of the name that was given.
    Tag(usize),
}

/// The names of a kind, and those that a file has for them.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) kind: Kind,
    known: Vec<(String, Target)>,
}

impl Names {
    /// The names that the kind itself has.
    pub(crate) fn new(kind: Kind) -> Self {
        let fields = kind.fields().iter().enumerate().map(|(at, field)| (field.name, Target::Field(at)));
        let mut known: Vec<_> = fields.map(|(name, target)| (name.to_owned(), target)).collect();
        if kind == Kind::Outcomes {
            known.push((PREDICTED_ON.to_owned(), Target::PredictedOn));
        }
        if kind.has_tags() {
            known.push((TAGS.to_owned(), Target::Tags));
        }
        known.push((EVENT_ID.to_owned(), Target::EventId));
        Self { kind, known }
    }

    /// Reads the field `field` from `column` and no longer from its own name.
    ///
    /// # Errors
    /// When there is no such field.
    pub(crate) fn rename(&mut self, field: &str, column: &str) -> Result<(), String> {
        let Some(at) = self.known.iter().position(|(_, target)| self.name(*target) == Some(field)) else {
            return Err(format!("the field `{field}` {}", unknown_field(self.kind)));
        };
        let target = self.known[at].1;
        self.known.retain(|(name, known)| *known != target && name != column);
        self.known.push((column.to_owned(), target));
        Ok(())
    }

    /// Reads `column` as a tag of its name.
    ///
    /// # Errors
    /// When events of the kind have no tags.
    pub(crate) fn tag(&mut self, column: &str) -> Result<(), String> {
        if !self.kind.has_tags() {
            return Err(format!("{} have no tags", self.kind));
        }
        self.known.retain(|(name, _)| name != column);
        self.known.push((column.to_owned(), Target::Tag(0)));
        Ok(())
    }

    /// What `name` stands for.
    pub(crate) fn find(&self, name: &str) -> Option<Target> {
        let known = self.known.iter().find(|(known, _)| known == name).map(|(_, target)| *target);
        let is_tag = || self.kind.has_tags() && name.starts_with(TAG_PREFIX);
        known.or_else(|| is_tag().then_some(Target::Tag(TAG_PREFIX.len())))
    }

    /// The field's own name.
    fn name(&self, target: Target) -> Option<&'static str> {
        match target {
            Target::Field(at) => Some(self.kind.fields()[at].name),
            Target::PredictedOn => Some(PREDICTED_ON),
            Target::EventId => Some(EVENT_ID),
            Target::Tags | Target::Tag(_) => None,
        }
    }
}

/// The rest of a sentence that begins with an unknown name.
pub(crate) fn unknown_field(kind: Kind) -> String {
    let mut names: Vec<&str> = kind.fields().iter().map(|field| field.name).collect();
    if kind == Kind::Outcomes {
        names.push(PREDICTED_ON);
    }
    if kind.has_tags() {
        names.push("tags (or tag.NAME)");
    }
    format!("is not known; {kind} have {}", names.join(", "))
}
