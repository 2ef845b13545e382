//! Content of an export: a whole table, or one workspace with the principals that have roles there.

use std::collections::{BTreeMap, BTreeSet};

use event::{Id, Result};
use log::key::{self, EntityId, OfMoved};
use table::{Item, Scan, engine::Whole, text};

use super::manifest::Sum;

/// Role of an item in a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Restored unchanged.
    Own,
    /// Item of a user, a group or a system, or the guard of its name: restored if it is absent.
    Person,
    /// Item of a workspace, or the guard of its name: restored last, in the category of that name.
    Root,
}

impl Part {
    /// Returns the part of an item in an export of a workspace or of a whole table. `None`, if it belongs to neither.
    pub(super) fn of(workspace: Option<&Id>, item: &Item) -> Option<Self> {
        if key::stays_behind(&item.key) {
            return None;
        }
        let Some(workspace) = workspace else { return Some(Self::Own) };
        let says = |name, id: &Id| item.optional_text(name) == Some(id.as_str());
        match OfMoved::of(workspace, &item.key) {
            OfMoved::Own | OfMoved::With(_) => Some(Self::Own),
            OfMoved::Pointer => says("workspace", workspace).then_some(Self::Own),
            OfMoved::Root => Some(Self::Root),
            OfMoved::RootGuard => says("id", workspace).then_some(Self::Root),
            OfMoved::Person(_) | OfMoved::PersonGuard(_) => Some(Self::Person),
            OfMoved::Other => None,
        }
    }

    /// Returns the user, group or system of an item that belongs to one.
    pub(super) fn person(workspace: &Id, item: &Item) -> Option<EntityId> {
        match OfMoved::of(workspace, &item.key) {
            OfMoved::Person(person) | OfMoved::With(person) => Some(person),
            OfMoved::PersonGuard(kind) => {
                EntityId::new(kind, Id::parse(item.optional_text("id")?).ok()?, None)
            }
            _ => None,
        }
    }
}

/// Gives all items of a table, or of one of its workspaces, with their lines: unchanged items as they are read, then all others.
/// Users, groups and systems are included if they have data in the workspace.
///
/// # Errors
/// Errors of the table and of `to`.
pub(super) async fn each(
    whole: &dyn Whole,
    workspace: Option<&Id>,
    mut to: impl AsyncFnMut(Part, &Item, &str) -> Result<()>,
) -> Result<()> {
    let (mut roots, mut wanted) = (Vec::new(), BTreeSet::new());
    let mut people: BTreeMap<EntityId, Vec<(Item, String)>> = BTreeMap::new();
    let mut scan = Scan::default();
    loop {
        let page = whole.page(&scan).await?;
        for item in page.items {
            let Some(part) = Part::of(workspace, &item) else { continue };
            let line = text::line(&item)?;
            let person = workspace.and_then(|workspace| Part::person(workspace, &item));
            match (part, person) {
                (Part::Own, person) => {
                    to(part, &item, &line).await?;
                    wanted.extend(person);
                }
                (Part::Person, Some(person)) => people.entry(person).or_default().push((item, line)),
                (Part::Person, None) => {}
                (Part::Root, _) => roots.push((item, line)),
            }
        }
        match page.next {
            Some(next) => scan.after = Some(next),
            None => break,
        }
    }
    let mut give = async |part, mut lines: Vec<(Item, String)>| {
        lines.sort_by(|(one, _), (other, _)| one.key.cmp(&other.key));
        for (item, line) in &lines {
            to(part, item, line).await?;
        }
        Ok(())
    };
    for (_, lines) in people.into_iter().filter(|(person, _)| wanted.contains(person)) {
        give(Part::Person, lines).await?;
    }
    give(Part::Root, roots).await
}

/// Sums the lasting items that are restored unchanged.
pub(super) async fn sum(whole: &dyn Whole, workspace: Option<&Id>) -> Result<Sum> {
    let mut sum = Sum::default();
    each(whole, workspace, async |part, item: &Item, line: &str| {
        if part == Part::Own {
            sum.add(item, line);
        }
        Ok(())
    })
    .await?;
    Ok(sum)
}
