//! What every type of entity can do on the command line.

use ::catalog::{Service, http, json, new::Change};
use catalog::ListOptions;
use event::Error;
use log::key::EntityKind;
use serde_json::{Map, Value, json};
use table::Cursor;

use super::{
    aligned,
    args::{EntityCommand, ListArgs, ReadCommand},
    print,
};
use crate::{
    cli::ShowFormat,
    named::{One, after, needed},
};

/// A JSON object of attributes.
pub(super) fn parse_attributes(text: Option<&str>) -> Result<Option<Map<String, Value>>, Error> {
    let parse = |text: &str| {
        serde_json::from_str(text)
            .map_err(|error| Error::invalid("--attributes should be a JSON object").because(error))
    };
    text.map(parse).transpose()
}

pub(super) fn print_json(value: &Value) {
    println!("{value:#}");
}

/// A value in a table: texts as they are.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Prints what is known of one: a line a field, or JSON.
fn show_one(value: &Value, format: ShowFormat) {
    if let ShowFormat::Json = format {
        return print_json(value);
    }
    let mut table = aligned(&["field", "value"], &[]);
    for (name, value) in value.as_object().into_iter().flatten() {
        table.add_row([name.clone(), cell(value)]);
    }
    print(&table);
}

pub(super) async fn read(service: &Service, kind: EntityKind, command: ReadCommand) -> anyhow::Result<()> {
    match command {
        ReadCommand::List(asked) => list(service, kind, asked).await,
        ReadCommand::Show { one, shown } => {
            let at = service.catalog().resolve(kind, &one.path(kind)?).await?;
            let value = match kind {
                EntityKind::User => json::user_page(&service.catalog().user_page(at.id()).await?),
                _ => json::any(&service.catalog().show(&at).await?),
            };
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
    let options = ListOptions {
        limit: asked.limit,
        after: asked.cursor.as_deref().map(Cursor::from_text).transpose()?,
        since: asked.since.as_deref().map(http::instant).transpose()?,
        until: asked.until.as_deref().map(http::instant).transpose()?,
        newest_first: asked.newest_first,
        only: None,
    };
    let mut listed = service.catalog().list(kind, parent.as_ref(), &options).await?;
    service.catalog().name_parts(&mut listed.entities).await?;
    let next = listed.next.map(|cursor| cursor.to_text());
    if let ShowFormat::Json = asked.shown.format {
        let entities: Vec<Value> = listed.entities.iter().map(json::any).collect();
        print_json(&json!({ kind.plural(): entities, "next_cursor": next }));
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
    if let Some(next) = next {
        println!("\nthere may be more: --cursor {next}");
    }
    Ok(())
}

/// Reads `NAME=VALUE`, where the value is JSON or else a text.
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
