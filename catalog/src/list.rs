//! Lists: the children of a parent, page by page, by the time of their creation.

use event::{Error, Id, Result, Timestamp};
use log::key::{self, EntityId, EntityKind, Siblings};
use table::{Cursor, Direction, Index, Query};

use super::{AnyEntity, Catalog};

/// Maximum entities in a page.
pub const MAX_PAGE: usize = 1_000;

/// Attributes that every read of an entity needs.
const NEEDED: [&str; 32] = [
    "v",
    "ver",
    "id",
    "name",
    "created_at",
    "updated_at",
    "created_by",
    "archived_at",
    "count_of_workspaces",
    "count_of_models",
    "count_of_configurations",
    "count_of_snapshots",
    "count_of_releases",
    "category",
    "path",
    "task",
    "positive_label",
    "model",
    "configuration",
    "configuration_id",
    "snapshot_id",
    "snapshot_days",
    "environment",
    "what",
    "words",
    "window",
    "columns",
    "as_of",
    "rows",
    "sha256",
    "GSI1PK",
    "GSI1SK",
];

/// Attributes that may be left unread, since they can be large.
pub const OPTIONAL: [&str; 11] = [
    "attributes",
    "metrics",
    "secrets",
    "notes",
    "commit",
    "artefact_uri",
    "artefact_digest",
    "snapshot",
    "author",
    "baselines",
    "read_version",
];

/// Filter of entities, and size of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct ListOptions {
    /// Maximum entities in a page, at most [`MAX_PAGE`].
    pub limit: usize,
    /// Cursor from [`Listed::next`], after which the page begins.
    pub after: Option<Cursor>,
    /// Earliest time of creation, inclusive.
    pub since: Option<Timestamp>,
    /// Latest time of creation, exclusive.
    pub until: Option<Timestamp>,
    /// True for the newest first.
    pub newest_first: bool,
    /// Attributes to read among the [`OPTIONAL`] ones; all when `None`.
    pub only: Option<Vec<String>>,
}

impl ListOptions {
    /// Optional attributes that must be read for these fields.
    pub fn read_for(fields: &[String]) -> Vec<String> {
        let names = fields.iter().filter_map(|field| field.split('.').next());
        names.filter(|name| OPTIONAL.contains(name)).map(str::to_owned).collect()
    }
}

impl Default for ListOptions {
    /// Oldest 100, with all attributes.
    fn default() -> Self {
        Self { limit: 100, after: None, since: None, until: None, newest_first: false, only: None }
    }
}

/// Page of entities.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The entities, in order.
    pub entities: Vec<AnyEntity>,
    /// Cursor of the next page; `None` after the last.
    pub next: Option<Cursor>,
}

impl Catalog {
    /// Reads the entities of a type under a parent, by one query a page. `parent` is the category of workspaces, the workspace of
    /// models and configurations, the workspace or the model of releases.
    ///
    /// # Errors
    /// `Invalid`, when the parent is not of the right type, or a bound is not valid.
    pub async fn list(
        &self,
        kind: EntityKind,
        parent: Option<&EntityId>,
        options: &ListOptions,
    ) -> Result<Listed> {
        if options.limit == 0 || options.limit > MAX_PAGE {
            return Err(Error::invalid(format!("`limit` should be 1 to {MAX_PAGE}")));
        }
        let place = place(kind, parent)?;
        let first = options.since.map(|since| Id::bounds(since).0);
        let last = options.until.map(|until| Id::bounds(until).1);
        let range = place.range(first.as_ref().map(Id::as_str), last.as_ref().map(Id::as_str));
        let only = options
            .only
            .as_ref()
            .map(|only| NEEDED.iter().map(|name| (*name).to_owned()).chain(only.iter().cloned()).collect());
        let query = Query {
            index: if place.is_base { Index::Table } else { Index::Gsi1 },
            direction: if options.newest_first { Direction::Backward } else { Direction::Forward },
            limit: Some(options.limit),
            after: options.after.clone(),
            attributes: only,
            ..Query::table(range)
        };
        let page = self.table.query(&query).await?;
        let mut entities = Vec::with_capacity(page.items.len());
        for item in page.items {
            // Other items may stand in the partition.
            if EntityId::of_key(&item.key).is_some_and(|at| at.kind() == kind) {
                entities.push(AnyEntity::from_item(&item)?);
            }
        }
        // An id holds its time to 4 ms only.
        entities.retain(|any| {
            let at = any.entity().created_at;
            options.since.is_none_or(|since| at >= since) && options.until.is_none_or(|until| at < until)
        });
        Ok(Listed { entities, next: page.next })
    }
}

fn place(kind: EntityKind, parent: Option<&EntityId>) -> Result<Siblings> {
    if let (EntityKind::Release, Some(EntityId::Model(_, model))) = (kind, parent) {
        return Ok(key::releases_of(model));
    }
    key::siblings(kind, parent).ok_or_else(|| {
        let wanted = match (kind, kind.parent()) {
            (EntityKind::Release, _) => "a workspace or a model".to_owned(),
            (_, Some(parent)) => format!("a {parent}"),
            (_, None) => "nothing else".to_owned(),
        };
        Error::invalid(format!("{} belong to {wanted}", kind.plural()))
    })
}
