//! Meaning of the names in a request: a field of the kind, a member of a family, or nothing.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use event::{Kind, fields::Family, plain::nearest};

use super::rules;
use crate::{file::Mapping, limits::MAX_FIELDS};

/// Field by which an outcome names the day of its prediction. It is not stored: it chooses the log of the outcome.
pub(crate) const PREDICTED_ON: &str = "predicted_on";
/// Field by which a single event names itself, for a retry. It is not stored.
pub(crate) const EVENT_ID: &str = "event_id";

/// Options that name fields and columns of a file.
const MAP: &str = "--map";
const SET: &str = "--set";
const TAG: &str = "--tag";
const FEATURE: &str = "--feature";
const SELECT: &str = "--select";
const KNOWN_AT: &str = "--known-at";

/// Target of the value of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Field of this index; behind the fields of the kind comes the time at which the event was known.
    Field(usize),
    PredictedOn,
    EventId,
    /// Members of this family, as an object of them.
    Family(usize),
    /// One member of this family; its name begins at this byte of the given name.
    Member(usize, usize),
    /// All places of the column that options name, at this index of [`Names::asked`].
    Asked(usize),
    /// No place: it is left out.
    Ignored,
    /// No place: it is the same in every row and given apart from them.
    Set,
}

/// Rest of a sentence about a column that is given apart from the rows as well.
pub(crate) const IS_SET: &str = "is given by --set as well; leave one of the two out";

/// Place to which a column or a value of all rows goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnTarget {
    Field(usize),
    PredictedOn,
    EventId,
    /// Member of this family and name.
    Member(usize, String),
}

/// Column that options name.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) column: String,
    /// First option that names it.
    option: &'static str,
    /// All places to which it goes.
    pub(crate) targets: Vec<ColumnTarget>,
}

/// Names of a kind, and the names that a file has for them.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) kind: Kind,
    known: Vec<(String, Target)>,
    pub(crate) asked: Vec<Asked>,
    ignores_unknown: bool,
    /// Fields that are read from columns of other names, with those names.
    moved: Vec<(String, String)>,
    /// Names to read; all, when `None`.
    selected: Option<BTreeSet<String>>,
    /// Names that were looked up, if options name columns.
    seen: RefCell<BTreeSet<String>>,
}

impl Names {
    /// Creates the names of the kind itself.
    pub(crate) fn new(kind: Kind) -> Self {
        let fields = kind.sent_fields().iter().enumerate().map(|(at, field)| (field.name, Target::Field(at)));
        let mut known: Vec<_> = fields.map(|(name, target)| (name.to_owned(), target)).collect();
        if kind == Kind::Outcomes {
            known.push((PREDICTED_ON.to_owned(), Target::PredictedOn));
        }
        let families = kind.families().iter().enumerate();
        known.extend(families.map(|(at, family)| (family.name.to_owned(), Target::Family(at))));
        known.push((EVENT_ID.to_owned(), Target::EventId));
        Self {
            kind,
            known,
            asked: Vec::new(),
            ignores_unknown: false,
            moved: Vec::new(),
            selected: None,
            seen: RefCell::default(),
        }
    }

    /// Creates the names of a file by its mapping. Each field is read from one column, by its own name unless an option gives
    /// another; a column goes to each field and member that is read from it.
    ///
    /// # Errors
    /// Fails when an option names a missing field, or two options contradict each other.
    pub(crate) fn of(kind: Kind, mapping: &Mapping) -> Result<Self, String> {
        let mut names = Self::new(kind);
        let own = Self::new(kind);
        let mut taken: Vec<(&str, ColumnTarget)> = Vec::new();
        let fields = mapping.set.iter().map(|(field, _)| (SET, field, None));
        let fields = fields.chain(mapping.renames.iter().map(|(field, column)| (MAP, field, Some(column))));
        for (option, field, column) in fields {
            let target = own.target(field)?;
            if let Some((before, _)) = taken.iter().find(|(_, known)| *known == target) {
                return Err(match *before == option {
                    true => format!("{option}: `{field}` is given twice"),
                    false => {
                        format!("`{field}` is given by {before} and by {option}; leave one of the two out")
                    }
                });
            }
            names.known.retain(|(name, _)| name != field);
            match column {
                Some(column) => {
                    names.moved.push((field.clone(), column.clone()));
                    names.ask(MAP, column, target.clone());
                }
                None if target == ColumnTarget::EventId => {
                    return Err(format!("the field `{field}` {}", unknown_field(kind, None)));
                }
                None => names.known.push((field.clone(), Target::Set)),
            }
            taken.push((option, target));
        }
        for (option, columns) in [(TAG, &mapping.tags), (FEATURE, &mapping.features)] {
            let noun = option.trim_start_matches('-');
            for column in columns {
                let family = names.family(|family| family.noun == noun);
                let family = family.ok_or_else(|| format!("{kind} have no {noun}s"))?;
                names.own(option, column);
                names.ask(option, column, names.member_target(family, column));
            }
        }
        if let Some(column) = &mapping.known_at {
            names.own(KNOWN_AT, column);
            names.ask(KNOWN_AT, column, ColumnTarget::Field(kind.sent_fields().len()));
        }
        names.ignores_unknown = mapping.ignore_extra;
        names.select(&mapping.select)?;
        Ok(names)
    }

    /// Finds the place of the field or member called `field`.
    ///
    /// # Errors
    /// Fails when there is no such field or member.
    pub(crate) fn target(&self, field: &str) -> Result<ColumnTarget, String> {
        let known = self.known.iter().find(|(name, _)| name == field).map(|(_, target)| *target);
        let target = known.and_then(|target| self.column_target(field, target));
        target.or_else(|| self.column_target(field, self.by_prefix(field)?)).ok_or_else(|| {
            let names = self.known.iter().filter(|(_, target)| !matches!(target, Target::Family(_)));
            let close = nearest(field, names.map(|(name, _)| name.as_str()));
            format!("the field `{field}` {}", unknown_field(self.kind, close))
        })
    }

    /// Place of a column for which `target` was found; `None` if it has no place or several.
    pub(crate) fn column_target(&self, name: &str, target: Target) -> Option<ColumnTarget> {
        Some(match target {
            Target::Field(at) => ColumnTarget::Field(at),
            Target::PredictedOn => ColumnTarget::PredictedOn,
            Target::EventId => ColumnTarget::EventId,
            Target::Member(family, skipped) => self.member_target(family, &name[skipped..]),
            Target::Family(_) | Target::Asked(_) | Target::Ignored | Target::Set => return None,
        })
    }

    fn member_target(&self, family: usize, name: &str) -> ColumnTarget {
        let rule = self.kind.families()[family].name_rule;
        ColumnTarget::Member(family, rules::plain(rule, name).into_owned())
    }

    /// Reads `column` as `target`, besides its present targets.
    fn ask(&mut self, option: &'static str, column: &str, target: ColumnTarget) {
        let at = self.asked.iter().position(|asked| asked.column == column).unwrap_or_else(|| {
            self.asked.push(Asked { column: column.to_owned(), option, targets: Vec::new() });
            self.asked.len() - 1
        });
        let targets = &mut self.asked[at].targets;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }

    /// Reads `column` as the field of its own name, when no other option names it.
    fn own(&mut self, option: &'static str, column: &str) {
        if self.asked.iter().any(|asked| asked.column == column) {
            return;
        }
        let own = self.known.iter().find(|(name, _)| name == column);
        if let Some(target) = own.and_then(|(_, target)| self.column_target(column, *target)) {
            self.ask(option, column, target);
        }
    }

    /// Leaves out all other names, when `names` is not empty.
    ///
    /// # Errors
    /// Fails when one of them has no meaning, or another option names one more.
    fn select(&mut self, names: &[String]) -> Result<(), String> {
        if names.is_empty() {
            return Ok(());
        }
        if let Some(name) = names.iter().find(|name| self.meaning(name).is_none()) {
            return Err(format!("{SELECT}: the column `{name}` {}", self.unknown(name, self.nearest(name))));
        }
        if let Some(asked) = self.asked.iter().find(|asked| !names.contains(&asked.column)) {
            let Asked { column, option, .. } = asked;
            return Err(format!("{option} names the column `{column}`, which {SELECT} leaves out"));
        }
        self.selected = Some(names.iter().cloned().collect());
        Ok(())
    }

    /// Finds the meaning of `name`, and records that the file has it.
    pub(crate) fn find(&self, name: &str) -> Option<Target> {
        if self.expects_columns() {
            let mut seen = self.seen.borrow_mut();
            if !seen.contains(name) && (seen.len() < MAX_FIELDS || self.is_expected(name)) {
                seen.insert(name.to_owned());
            }
        }
        match self.selected.as_ref().is_some_and(|selected| !selected.contains(name)) {
            true => Some(Target::Ignored),
            false => self.meaning(name),
        }
    }

    fn meaning(&self, name: &str) -> Option<Target> {
        let asked = || {
            let at = self.asked.iter().position(|asked| asked.column == name)?;
            Some(match self.asked[at].targets.as_slice() {
                [ColumnTarget::Field(field)] => Target::Field(*field),
                [ColumnTarget::PredictedOn] => Target::PredictedOn,
                [ColumnTarget::EventId] => Target::EventId,
                [ColumnTarget::Member(family, member)] if member == name => Target::Member(*family, 0),
                _ => Target::Asked(at),
            })
        };
        let known = || self.known.iter().find(|(known, _)| known == name).map(|(_, target)| *target);
        let found = asked().or_else(known).or_else(|| self.by_prefix(name));
        found.or_else(|| self.ignores_unknown.then_some(Target::Ignored))
    }

    /// Returns whether options name columns that the file must have.
    fn expects_columns(&self) -> bool {
        !self.asked.is_empty() || self.selected.is_some()
    }

    fn is_expected(&self, name: &str) -> bool {
        self.asked.iter().any(|asked| asked.column == name)
            || self.selected.as_ref().is_some_and(|selected| selected.contains(name))
    }

    /// Columns that options name and that were not found so far, each with its message; none before anything was looked up.
    pub(crate) fn lacking(&self) -> BTreeMap<String, String> {
        let seen = self.seen.borrow();
        if seen.is_empty() {
            return BTreeMap::new();
        }
        let asked = self.asked.iter().map(|asked| (&asked.column, asked.option));
        let all = asked.chain(self.selected.iter().flatten().map(|name| (name, SELECT)));
        let lacking = all.filter(|(column, _)| !seen.contains(*column)).map(|(column, option)| {
            let others = seen.iter().map(String::as_str).filter(|name| !self.is_expected(name));
            let close = nearest(column, others).map(|name| format!("; did you mean `{name}`?"));
            let said = format!(
                "{option} names the column `{column}`, which is not in it{}",
                close.unwrap_or_default()
            );
            (column.clone(), said)
        });
        lacking.collect()
    }

    /// Name of the kind that is nearest to `column`.
    pub(crate) fn nearest(&self, column: &str) -> Option<&str> {
        nearest(column, self.known.iter().map(|(name, _)| name.as_str()))
    }

    /// Rest of a sentence about a column without meaning, whose nearest name is `close`.
    pub(crate) fn unknown(&self, column: &str, close: Option<&str>) -> String {
        match self.moved.iter().find(|(field, _)| field == column) {
            Some((_, from)) => format!(
                "holds nothing, since the field of its name is read from `{from}`; name it with {MAP} or {TAG}, or leave it out"
            ),
            None => unknown_field(self.kind, close),
        }
    }

    /// Index of the first family for which `is_such` holds.
    fn family(&self, is_such: impl Fn(&Family) -> bool) -> Option<usize> {
        self.kind.families().iter().position(is_such)
    }

    /// Finds the member whose family's prefix a name has. The rest may be no valid name.
    fn by_prefix(&self, name: &str) -> Option<Target> {
        let family = self.family(|family| name.starts_with(family.prefix))?;
        Some(Target::Member(family, self.kind.families()[family].prefix.len()))
    }

    /// Returns whether the value of this name is left out.
    pub(crate) fn is_ignored(&self, name: &str) -> bool {
        self.find(name) == Some(Target::Ignored)
    }
}

/// Rest of a sentence that begins with an unknown name, whose nearest name is `close`.
pub(crate) fn unknown_field(kind: Kind, close: Option<&str>) -> String {
    let mut names: Vec<String> = kind.sent_fields().iter().map(|field| field.name.to_owned()).collect();
    if kind == Kind::Outcomes {
        names.push(PREDICTED_ON.to_owned());
    }
    let families = kind.families().iter();
    names.extend(families.map(|family| format!("{} (or {})", family.name, family.columns_are_called())));
    let close = close.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
    format!("is not known; {close}{kind} have {}", names.join(", "))
}
