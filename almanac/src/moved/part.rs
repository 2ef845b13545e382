//! What of a table an export holds: all of it, or one workspace with those who have roles there.

use std::collections::{BTreeMap, BTreeSet};

use event::{Id, Result};
use log::key::{self, EntityId, OfMoved};
use table::{Item, Scan, engine::Whole, text};

use super::manifest::Sum;

/// What an item is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// It comes back as it is.
    Own,
    /// It is the item of a user, a group or a system, or the guard of such a name: it comes back where it is not there.
    Person,
    /// It is the item of a workspace, or the guard of its name: it comes back last, in the category of that name.
    Root,
}

impl Part {
    /// What an item is for, in an export of a workspace or of all of a table. `None`, when it belongs to neither.
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

    /// The user, group or system of an item that is for one.
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

/// Gives all items of a table, or of one of its workspaces, with their lines: what comes back as it is as it is read, then all else. Of users,
/// groups and systems come those who have something of the workspace.
///
/// # Errors
/// Those of the table and of `to`.
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

/// The lasting items that come back as they are.
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
