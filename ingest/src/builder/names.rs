//! What the names in a request mean: a field of the kind, a tag, or nothing.

use std::collections::BTreeSet;

use event::{Kind, fields::TAG_PREFIX};

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
    /// Nowhere: it is left out.
    Ignored,
    /// Nowhere: it is the same in every row and given apart from them.
    Set,
}

/// The rest of a sentence about a column that is given apart from the rows as well.
pub(crate) const IS_SET: &str = "is given by --set as well; leave one of the two out";

/// Where a value goes that every row has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Constant {
    Field(usize),
    PredictedOn,
    /// Into the tag of this name.
    Tag(String),
}

/// The names of a kind, and those that a file has for them.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) kind: Kind,
    known: Vec<(String, Target)>,
    ignores_unknown: bool,
    /// Only these are read.
    selected: Option<BTreeSet<String>>,
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
        Self { kind, known, ignores_unknown: false, selected: None }
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

    /// Leaves out what stands for nothing.
    pub(crate) fn ignore_unknown(&mut self) {
        self.ignores_unknown = true;
    }

    /// Leaves out all that is not of these names.
    ///
    /// # Errors
    /// When one of them stands for nothing.
    pub(crate) fn select(&mut self, names: &[String]) -> Result<(), String> {
        if let Some(name) = names.iter().find(|name| self.find(name).is_none()) {
            return Err(format!("the column `{name}` {}", unknown_field(self.kind)));
        }
        self.selected = Some(names.iter().cloned().collect());
        Ok(())
    }

    /// Where what every row has by the name `field` goes; rows may no longer give it themselves.
    ///
    /// # Errors
    /// When there is no such field or tag.
    pub(crate) fn set(&mut self, field: &str) -> Result<Constant, String> {
        let by_name = self.known.iter().find(|(_, target)| self.name(*target) == Some(field));
        let constant = match by_name.map(|(_, target)| *target) {
            Some(Target::Field(at)) => Constant::Field(at),
            Some(Target::PredictedOn) => Constant::PredictedOn,
            _ => match field.strip_prefix(TAG_PREFIX).filter(|_| self.kind.has_tags()) {
                Some(tag) => Constant::Tag(tag.to_owned()),
                None => return Err(format!("the field `{field}` {}", unknown_field(self.kind))),
            },
        };
        let is_it = |name: &str, target: &Target| match &constant {
            Constant::Field(at) => *target == Target::Field(*at),
            Constant::PredictedOn => *target == Target::PredictedOn,
            Constant::Tag(tag) => matches!(target, Target::Tag(from) if name[*from..] == **tag),
        };
        self.known
            .iter_mut()
            .filter(|(name, target)| is_it(name, target))
            .for_each(|known| known.1 = Target::Set);
        if self.known.iter().all(|(name, _)| name != field) {
            self.known.push((field.to_owned(), Target::Set));
        }
        Ok(constant)
    }

    /// What `name` stands for.
    pub(crate) fn find(&self, name: &str) -> Option<Target> {
        if self.selected.as_ref().is_some_and(|selected| !selected.contains(name)) {
            return Some(Target::Ignored);
        }
        let known = self.known.iter().find(|(known, _)| known == name).map(|(_, target)| *target);
        let is_tag = || self.kind.has_tags() && name.starts_with(TAG_PREFIX);
        let found = known.or_else(|| is_tag().then_some(Target::Tag(TAG_PREFIX.len())));
        found.or_else(|| self.ignores_unknown.then_some(Target::Ignored))
    }

    /// Whether what has this name is left out.
    pub(crate) fn is_ignored(&self, name: &str) -> bool {
        self.find(name) == Some(Target::Ignored)
    }

    /// The field's own name.
    fn name(&self, target: Target) -> Option<&'static str> {
        match target {
            Target::Field(at) => Some(self.kind.fields()[at].name),
            Target::PredictedOn => Some(PREDICTED_ON),
            Target::EventId => Some(EVENT_ID),
            Target::Tags | Target::Tag(_) | Target::Ignored | Target::Set => None,
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
