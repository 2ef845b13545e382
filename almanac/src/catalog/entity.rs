//! Commands shared by all types of entities.

use ::catalog::{Service, http, json, new::Change};
use catalog::{ListOptions, Sight};
use clap::{Args, Subcommand};
use event::Error;
use log::key::EntityKind;
use serde_json::{Map, Value, json};
use table::Cursor;

use crate::{
    named::{One, after, needed},
    shown::{ShowFormat, Shown, aligned, print, print_json, show, show_one},
};

/// Attributes of something new.
#[derive(Debug, Args)]
pub(crate) struct Noted {
    /// Its attributes, as a JSON object; `{"$set": ["a"]}` is a set.
    #[arg(long, value_name = "JSON")]
    pub(crate) attributes: Option<String>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// Which entities.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The entity they belong to: a category or a workspace; for releases a workspace or a model.
    #[arg(long)]
    pub(crate) of: Option<String>,
    /// The workspace that they are in.
    #[arg(long, short, conflicts_with = "of")]
    pub(crate) workspace: Option<String>,
    /// The most to list.
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
    /// Continue a list from the cursor that it ended with.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    /// Only what was created at this instant (or the beginning of this day) or later.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only what was created before this instant.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// The newest first.
    #[arg(long)]
    pub(crate) newest_first: bool,
    /// Only these fields, with commas between, also attributes.NAME for a single attribute; id and name always.
    #[arg(long, value_name = "FIELDS")]
    pub(crate) fields: Option<String>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

impl ListArgs {
    /// Requested fields.
    pub(super) fn fields(&self, kind: EntityKind) -> Result<Option<Vec<String>>, Error> {
        let fields = self.fields.as_deref().map(|fields| json::parse_fields(kind, fields));
        fields.transpose().map_err(|error| Error::invalid(format!("--fields: {error}")))
    }
}

/// The condition of a change.
#[derive(Debug, Args)]
pub(crate) struct IfVersion {
    /// Only if it has this version; `show` prints the version.
    #[arg(long, value_name = "N")]
    pub(crate) if_version: Option<i64>,
}

/// What every entity can do.
#[derive(Debug, Subcommand)]
pub(crate) enum EntityCommand {
    /// Change attributes.
    Update {
        #[command(flatten)]
        one: One,
        /// Set an attribute to a JSON value (anything else is taken as text). May be repeated.
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
        /// Remove an attribute. May be repeated.
        #[arg(long, value_name = "NAME")]
        unset: Vec<String>,
        #[command(flatten)]
        condition: IfVersion,
        #[command(flatten)]
        shown: Shown,
    },
    /// Rename it. A release keeps its name.
    Rename {
        /// Which one, by id or path, or by its name and -w; of a workspace not with -w.
        #[arg(value_name = "ENTITY")]
        first: Option<String>,
        /// The new name.
        #[arg(value_name = "NAME")]
        second: Option<String>,
        /// The workspace that it is in, or, for commands on workspaces, the one itself.
        #[arg(long, short)]
        workspace: Option<String>,
        #[command(flatten)]
        condition: IfVersion,
        #[command(flatten)]
        shown: Shown,
    },
    /// Archive it: it takes no more children, and may be deleted with those it has.
    Archive {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        shown: Shown,
    },
    /// Undo archiving.
    Unarchive {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        shown: Shown,
    },
    /// Delete it. What has children or events must be archived first, and is deleted with its children;
    /// events stay.
    Delete {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        condition: IfVersion,
    },
}

/// Listing and showing.
#[derive(Debug, Subcommand)]
pub(crate) enum ReadCommand {
    /// List them by the time they were created.
    List(ListArgs),
    /// Show one.
    Show {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        shown: Shown,
    },
}

/// Parses a JSON object of attributes.
pub(super) fn parse_attributes(text: Option<&str>) -> Result<Option<Map<String, Value>>, Error> {
    let parse = |text: &str| {
        serde_json::from_str(text)
            .map_err(|error| Error::invalid("--attributes should be a JSON object").because(error))
    };
    text.map(parse).transpose()
}

pub(super) async fn read(service: &Service, kind: EntityKind, command: ReadCommand) -> anyhow::Result<()> {
    match command {
        ReadCommand::List(asked) => list(service, kind, asked).await,
        ReadCommand::Show { one, shown } => {
            let at = service.catalog().resolve(kind, &one.path(kind)?).await?;
            let (_, value) = http::page(service, &at, &Sight::Everything, false).await?;
            show_one(&value, shown.format);
            Ok(())
        }
    }
}

pub(super) async fn list(service: &Service, kind: EntityKind, asked: ListArgs) -> anyhow::Result<()> {
    let of = match (&asked.workspace, kind.parent()) {
        (Some(workspace), Some(EntityKind::Workspace)) => Some(workspace),
        (Some(_), _) => {
            let message = format!("{} are not in a workspace; leave -w out", kind.plural());
            return Err(Error::invalid(message).into());
        }
        (None, _) => asked.of.as_ref(),
    };
    let parent = match (of, kind.parent()) {
        (Some(of), _) => Some(service.parent(kind, of).await?),
        (None, None) => None,
        (None, Some(_)) => {
            let message = format!("--of (or -w) is missing: name what the {} belong to", kind.plural());
            return Err(Error::invalid(message).into());
        }
    };
    let fields = asked.fields(kind)?;
    let options = ListOptions {
        limit: asked.limit,
        after: asked.cursor.as_deref().map(Cursor::from_text).transpose()?,
        since: asked.since.as_deref().map(http::instant).transpose()?,
        until: asked.until.as_deref().map(http::instant).transpose()?,
        newest_first: asked.newest_first,
        only: fields.as_deref().map(ListOptions::read_for),
    };
    let mut listed = service.catalog().list(kind, parent.as_ref(), &options).await?;
    service.catalog().name_parts(&mut listed.entities).await?;
    let next = listed.next.map(|cursor| cursor.to_text());
    let entities = || listed.entities.iter().map(|any| json::only(json::any(any), fields.as_deref()));
    if let ShowFormat::Json = asked.shown.format {
        print_json(&json!({ kind.plural(): entities().collect::<Vec<_>>(), "next_cursor": next }));
        return Ok(());
    }
    if let Some(fields) = &fields {
        show_fields(&entities().collect::<Vec<_>>(), fields);
        say_more(next.as_deref());
        return Ok(());
    }
    let mut table = aligned(&[kind.name(), "id", "created", "archived", "version"], &[4]);
    for any in &listed.entities {
        let entity = any.entity();
        table.add_row([
            entity.name.clone(),
            any.at().to_string(),
            entity.created_at.to_string(),
            entity.archived_at.map_or_else(|| "-".into(), |at| at.to_string()),
            entity.version.to_string(),
        ]);
    }
    print(&table);
    say_more(next.as_deref());
    Ok(())
}

fn say_more(next: Option<&str>) {
    if let Some(next) = next {
        println!("\nthere may be more: --cursor {next}");
    }
}

/// Prints some fields of entities, a row each.
pub(super) fn show_fields(entities: &[Value], fields: &[String]) {
    let more = fields.iter().map(String::as_str).filter(|field| !["id", "name"].contains(field));
    let columns: Vec<&str> = ["name", "id"].into_iter().chain(more).collect();
    let value = |entity: &Value, column: &str| match column.strip_prefix(json::ATTRIBUTE_PREFIX) {
        Some(attribute) => entity["attributes"][attribute].clone(),
        None => entity[column].clone(),
    };
    let row = |entity: &Value| {
        let cells = columns.iter().map(|column| ((*column).to_owned(), value(entity, column)));
        Value::Object(cells.collect())
    };
    show(&columns, &entities.iter().map(row).collect::<Vec<_>>(), ShowFormat::Table);
}

/// Reads `NAME=VALUE`; the value is JSON or else a text.
fn assignment(text: &str) -> Result<(String, Value), Error> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Error::invalid(format!("`{text}` is not of the form NAME=VALUE")))?;
    Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
}

pub(super) async fn change(
    service: &Service,
    kind: EntityKind,
    command: EntityCommand,
) -> anyhow::Result<()> {
    let (entity, change, if_version, shown) = match command {
        EntityCommand::Update { one, set, unset, condition, shown } => {
            let set = set.iter().map(|text| assignment(text)).collect::<Result<Vec<_>, _>>()?;
            let unset = unset.into_iter().map(|name| (name, Value::Null));
            let attributes = Some(set.into_iter().chain(unset).collect());
            (one.path(kind)?, Change { attributes, ..Change::default() }, condition.if_version, shown)
        }
        EntityCommand::Rename { first, second, workspace, condition, shown } => {
            let (entity, name) = match kind {
                EntityKind::Workspace => {
                    let (entity, [name]) = after(workspace, first, [second])?;
                    (entity, name)
                }
                _ => (One::new(first, workspace).path(kind)?, second),
            };
            let name = Some(needed(name, "the new name")?);
            (entity, Change { name, ..Change::default() }, condition.if_version, shown)
        }
        EntityCommand::Archive { one, shown } => {
            (one.path(kind)?, Change { archived: Some(true), ..Change::default() }, None, shown)
        }
        EntityCommand::Unarchive { one, shown } => {
            (one.path(kind)?, Change { archived: Some(false), ..Change::default() }, None, shown)
        }
        EntityCommand::Delete { one, condition } => {
            let entity = one.path(kind)?;
            let at = service.catalog().resolve(kind, &entity).await?;
            if matches!(kind, EntityKind::Category | EntityKind::Workspace) {
                eprintln!("waiting some seconds until no service appends to it any more");
            }
            service.catalog().delete(&at, condition.if_version, service.clock().now()).await?;
            println!("deleted the {kind} {entity}");
            return Ok(());
        }
    };
    let at = service.catalog().resolve(kind, &entity).await?;
    let any = service.catalog().change(&at, &change.patch()?, if_version, service.clock().now()).await?;
    show_one(&json::any(&any), shown.format);
    Ok(())
}
