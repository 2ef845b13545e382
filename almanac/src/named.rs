//! Names of workspaces and their entities in commands. One rule for all: a workspace is the first word or `-w`; an entity in a
//! workspace is named by its whole path, or by its name and `-w`.

use std::ops::Deref;

use catalog::Catalog;
use clap::Args;
use event::Error;
use log::key::{EntityKind, parse_id};

/// The workspace of a command: its first word, or `-w`.
#[derive(Debug, Args)]
pub(crate) struct InWorkspace {
    /// The workspace, as category/name or by id.
    #[arg(value_name = "WORKSPACE", required_unless_present = "workspace")]
    first: Option<String>,
    /// The workspace, instead of naming it first.
    #[arg(long, short, conflicts_with = "first")]
    workspace: Option<String>,
}

impl Deref for InWorkspace {
    type Target = str;

    fn deref(&self) -> &str {
        self.workspace.as_deref().or(self.first.as_deref()).unwrap_or_default()
    }
}

/// One entity: its path or id, or its name and `-w`.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// Which one, by id or path, or by its name and -w.
    #[arg(value_name = "ENTITY", required_unless_present = "workspace")]
    entity: Option<String>,
    /// The workspace that it is in, or, for commands on workspaces, the one itself.
    #[arg(long, short)]
    workspace: Option<String>,
}

impl One {
    /// Takes the words of a command.
    pub(crate) fn new(entity: Option<String>, workspace: Option<String>) -> Self {
        Self { entity, workspace }
    }

    /// Path for the look-up.
    ///
    /// # Errors
    /// `Invalid`, when `-w` is missing, or does not fit the kind of entity.
    pub(crate) fn path(self, kind: EntityKind) -> Result<String, Error> {
        let wrong = |why: &str| Err(Error::invalid(why.to_owned()));
        match (kind.parent(), self.entity, self.workspace) {
            (_, Some(entity), None) => Ok(entity),
            (Some(EntityKind::Workspace), Some(entity), Some(workspace)) => {
                Ok(format!("{workspace}/{entity}"))
            }
            (Some(EntityKind::Workspace), None, _) => wrong(&format!("name the {kind} as well as -w")),
            (Some(EntityKind::Category), None, Some(workspace)) => Ok(workspace),
            (Some(EntityKind::Category), Some(_), Some(_)) => wrong("the workspace is named twice"),
            (_, _, Some(_)) => wrong(&format!("a {kind} is not in a workspace; leave -w out")),
            (_, None, None) => wrong(&format!("name the {kind}")),
        }
    }
}

/// Returns the workspace and the words after it: with `-w`, the first word is the first after it.
///
/// # Errors
/// `Invalid`, when the workspace is missing, or there is a word too many.
pub(crate) fn after<const N: usize>(
    workspace: Option<String>,
    first: Option<String>,
    words: [Option<String>; N],
) -> Result<(String, [Option<String>; N]), Error> {
    match (workspace, first) {
        (None, Some(first)) => Ok((first, words)),
        (None, None) => Err(Error::invalid("the workspace is missing; name it first, or with -w")),
        (Some(workspace), first) => {
            let mut words = words;
            if words.last().is_some_and(Option::is_some) {
                return Err(Error::invalid(
                    "one argument too many: with -w, do not name the workspace first",
                ));
            }
            words.rotate_right(1);
            words[0] = first;
            Ok((workspace, words))
        }
    }
}

/// Returns a required word.
///
/// # Errors
/// `Invalid`, when it is missing.
pub(crate) fn needed(word: Option<String>, what: &str) -> Result<String, Error> {
    word.ok_or_else(|| Error::invalid(format!("{what} is missing")))
}

/// Returns the workspace and the name of a release that is named by its path, or by its name and `-w`.
///
/// # Errors
/// `Invalid`, when its workspace is not given; errors of the look-up.
pub(crate) async fn release(
    catalog: &Catalog,
    name: &str,
    workspace: Option<&str>,
) -> Result<(String, String), Error> {
    if let Some(workspace) = workspace {
        return Ok((workspace.to_owned(), name.to_owned()));
    }
    if !name.contains('/') && parse_id(name).is_none() {
        let message =
            format!("in which workspace is `{name}`? Add -w, or name it as category/workspace/name");
        return Err(Error::invalid(message));
    }
    let at = catalog.resolve(EntityKind::Release, name).await?;
    let found = catalog.get(&at).await?;
    let workspace = at.workspace().map(ToString::to_string).unwrap_or_default();
    Ok((workspace, found.entity().name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds also if the name of one entity is the id of another.
    #[test]
    fn named_entity_is_resolved_within_its_workspace() {
        for entity in ["churn", "m_2NBs0tD5Ihm2PVFzM3kZvMYdQX9", "2NBs0tD5Ihm2PVFzM3kZvMYdQX9"] {
            let one = One::new(Some(entity.to_owned()), Some("credit/prod".to_owned()));
            assert_eq!(one.path(EntityKind::Model).unwrap(), format!("credit/prod/{entity}"));
            let one = One::new(Some(entity.to_owned()), None);
            assert_eq!(one.path(EntityKind::Model).unwrap(), entity);
        }
    }

    #[test]
    fn workspace_flag_shifts_positional_arguments() {
        let some = |text: &str| Some(text.to_owned());
        let words = after(None, some("credit/prod"), [some("a"), some("b")]).unwrap();
        assert_eq!(words, ("credit/prod".to_owned(), [some("a"), some("b")]));
        assert_eq!(after(some("credit/prod"), some("a"), [some("b"), None]).unwrap(), words);
        assert!(after(some("credit/prod"), some("a"), [some("b"), some("c")]).is_err());
        assert!(after(None, None, [None]).is_err());
    }
}
