//! What the names in a request mean: a field of the kind, a member of a family, or nothing.

use std::collections::BTreeSet;

use event::{Kind, fields::Family};

/// The field by which an outcome names the day of its prediction. It is not stored: it says in which
/// log the outcome is.
pub(crate) const PREDICTED_ON: &str = "predicted_on";
/// The field by which a single event names itself, for a retry. It is not stored.
pub(crate) const EVENT_ID: &str = "event_id";

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Into the field of this index.
    Field(usize),
    PredictedOn,
    EventId,
    /// Into the members of this family, as an object of them.
    Family(usize),
    /// Into one member of this family; its name begins at this byte of the name that was given.
    Member(usize, usize),
    /// Into that member which stands at this index of [`Names::named`].
    Named(usize),
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
    /// Into the member of this family and name.
    Member(usize, String),
}

/// The names of a kind, and those that a file has for them.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) kind: Kind,
    known: Vec<(String, Target)>,
    /// The family and name of each member that is read from a column of another name.
    pub(crate) named: Vec<(usize, String)>,
    ignores_unknown: bool,
    /// Only these are read.
    selected: Option<BTreeSet<String>>,
}

impl Names {
    /// The names that the kind itself has.
    pub(crate) fn new(kind: Kind) -> Self {
        let fields = kind.sent_fields().iter().enumerate().map(|(at, field)| (field.name, Target::Field(at)));
        let mut known: Vec<_> = fields.map(|(name, target)| (name.to_owned(), target)).collect();
        if kind == Kind::Outcomes {
            known.push((PREDICTED_ON.to_owned(), Target::PredictedOn));
        }
        let families = kind.families().iter().enumerate();
        known.extend(families.map(|(at, family)| (family.name.to_owned(), Target::Family(at))));
        known.push((EVENT_ID.to_owned(), Target::EventId));
        Self { kind, known, named: Vec::new(), ignores_unknown: false, selected: None }
    }

    /// Reads the field `field` from `column` and no longer from its own name.
    ///
    /// # Errors
    /// When there is no such field.
    pub(crate) fn rename(&mut self, field: &str, column: &str) -> Result<(), String> {
        if let Some((family, skipped)) = self.member(field) {
            self.name_member(family, &field[skipped..], column);
            return Ok(());
        }
        let Some(at) = self.known.iter().position(|(_, target)| self.name(*target) == Some(field)) else {
            return Err(format!("the field `{field}` {}", unknown_field(self.kind)));
        };
        let target = self.known[at].1;
        self.known.retain(|(name, known)| *known != target && name != column);
        self.known.push((column.to_owned(), target));
        Ok(())
    }

    /// Reads `column` as a member of its name of the family that is called by `noun`.
    ///
    /// # Errors
    /// When events of the kind have no such family.
    pub(crate) fn own_member(&mut self, noun: &str, column: &str) -> Result<(), String> {
        let Some(family) = self.family(|family| family.noun == noun) else {
            return Err(format!("{} have no {noun}s", self.kind));
        };
        self.known.retain(|(name, _)| name != column);
        self.known.push((column.to_owned(), Target::Member(family, 0)));
        Ok(())
    }

    /// Reads a member of a family from `column`. A file that has its own column as well gives it twice.
    fn name_member(&mut self, family: usize, member: &str, column: &str) {
        self.known.retain(|(name, _)| name != column);
        self.known.push((column.to_owned(), Target::Named(self.named.len())));
        self.named.push((family, member.to_owned()));
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
            _ => match self.member(field) {
                Some((family, skipped)) => Constant::Member(family, field[skipped..].to_owned()),
                None => return Err(format!("the field `{field}` {}", unknown_field(self.kind))),
            },
        };
        let is_it = |name: &str, target: &Target| match &constant {
            Constant::Field(at) => *target == Target::Field(*at),
            Constant::PredictedOn => *target == Target::PredictedOn,
            Constant::Member(family, member) => {
                matches!(target, Target::Member(of, from) if of == family && name[*from..] == **member)
            }
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
        let member = || self.member(name).map(|(family, skipped)| Target::Member(family, skipped));
        let found = known.or_else(member);
        found.or_else(|| self.ignores_unknown.then_some(Target::Ignored))
    }

    /// The index of the first family that is such.
    fn family(&self, is_such: impl Fn(&Family) -> bool) -> Option<usize> {
        self.kind.families().iter().position(is_such)
    }

    /// The family whose prefix a name has, and how long that is. What follows may be no name.
    fn member(&self, name: &str) -> Option<(usize, usize)> {
        let family = self.family(|family| name.starts_with(family.prefix))?;
        Some((family, self.kind.families()[family].prefix.len()))
    }

    /// Whether what has this name is left out.
    pub(crate) fn is_ignored(&self, name: &str) -> bool {
        self.find(name) == Some(Target::Ignored)
    }

    /// The field's own name.
    fn name(&self, target: Target) -> Option<&'static str> {
        match target {
            Target::Field(at) => Some(self.kind.sent_fields()[at].name),
            Target::PredictedOn => Some(PREDICTED_ON),
            Target::EventId => Some(EVENT_ID),
            Target::Family(_) | Target::Member(..) | Target::Named(_) | Target::Ignored | Target::Set => None,
        }
    }
}

/// The rest of a sentence that begins with an unknown name.
pub(crate) fn unknown_field(kind: Kind) -> String {
    let mut names: Vec<String> = kind.sent_fields().iter().map(|field| field.name.to_owned()).collect();
    if kind == Kind::Outcomes {
        names.push(PREDICTED_ON.to_owned());
    }
    let families = kind.families().iter();
    names.extend(families.map(|family| format!("{} (or {})", family.name, family.columns_are_called())));
    format!("is not known; {kind} have {}", names.join(", "))
}
