//! Commands on workspaces.

use ::catalog::{Service, http, json, new};
use catalog::{AnyEntity, ListOptions, Sight, WorkspacePage};
use clap::Subcommand;
use event::{Clock, Error, Kind};
use log::key::{Counted, EntityKind};
use serde_json::json;

use super::{
    created,
    entity::{self, EntityCommand, ListArgs, Noted, change, parse_attributes},
    existing,
};
use crate::{
    config::Config,
    named::{self, InWorkspace},
    open,
    retention::{self, KeepCommand},
    settings::{self, SettingsCommand},
    shown::{ShowFormat, Shown, aligned, print, print_json},
};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    #[command(flatten)]
    Keep(KeepCommand),
    #[command(flatten)]
    Settings(SettingsCommand),
    /// Create a workspace, and its category when that is new.
    Create {
        /// The workspace, as category/name.
        path: String,
        #[command(flatten)]
        noted: Noted,
    },
    /// List all workspaces, or those of a category.
    List(ListArgs),
    /// Show or set how many lanes the days of a workspace have.
    ///
    /// Several ingest services append to one day side by side when it has several lanes. A change
    /// counts for days that begin some seconds later; a day that has begun keeps its lanes.
    Lanes {
        /// The workspace, as category/name or by id; not with -w.
        #[arg(value_name = "WORKSPACE")]
        first: Option<String>,
        /// How many lanes, 1 to 16; only shown when it is not given.
        #[arg(value_name = "COUNT")]
        second: Option<String>,
        /// The workspace, instead of naming it first.
        #[arg(long, short)]
        workspace: Option<String>,
    },
    /// Show a workspace with its models, releases and counts.
    Show {
        #[command(flatten)]
        workspace: InWorkspace,
        #[command(flatten)]
        shown: Shown,
    },
    #[command(flatten)]
    Entity(EntityCommand),
}

pub(crate) async fn command(config: &Config, command: WorkspaceCommand) -> anyhow::Result<()> {
    match command {
        WorkspaceCommand::Create { path, noted } => {
            let service = Service::new(open::to_write(config).await?, Clock::system());
            let attributes = parse_attributes(noted.attributes.as_deref())?;
            let new = new::NewWorkspace { path: path.clone(), attributes };
            let any = new.create(service.catalog(), service.clock().now()).await?;
            created(&any, &path, noted.shown.format);
        }
        WorkspaceCommand::List(asked) => workspaces(&existing(config).await?, asked).await?,
        WorkspaceCommand::Lanes { first, second, workspace } => {
            let (workspace, [count]) = named::after(workspace, first, [second])?;
            let wrong = |text: &String| Error::invalid(format!("`{text}` is not a number of lanes"));
            let count = count.map(|text| text.parse::<u8>().map_err(|_| wrong(&text))).transpose()?;
            lanes(&existing(config).await?, &workspace, count).await?
        }
        WorkspaceCommand::Show { workspace, shown } => {
            let service = existing(config).await?;
            let at = service.catalog().resolve(EntityKind::Workspace, &workspace).await?;
            match shown.format {
                ShowFormat::Json => {
                    print_json(&http::page(&service, &at, &Sight::Everything, true).await?.1);
                }
                ShowFormat::Table => show(&service.catalog().page_with_counts(at.id()).await?),
            }
        }
        WorkspaceCommand::Keep(command) => retention::command(config, command).await?,
        WorkspaceCommand::Settings(command) => settings::command(config, command).await?,
        WorkspaceCommand::Entity(command) => {
            change(&existing(config).await?, EntityKind::Workspace, command).await?;
        }
    }
    Ok(())
}

async fn workspaces(service: &Service, asked: ListArgs) -> anyhow::Result<()> {
    let is_of_all = asked.cursor.is_none()
        && asked.since.is_none()
        && asked.until.is_none()
        && !asked.newest_first
        && asked.limit == ListOptions::default().limit;
    if asked.of.is_some() || asked.workspace.is_some() {
        return entity::list(service, EntityKind::Workspace, asked).await;
    }
    if !is_of_all {
        let message = "--of is missing: name the category whose workspaces to list";
        return Err(Error::invalid(message).into());
    }
    let fields = asked.fields(EntityKind::Workspace)?;
    let all = service.catalog().workspaces().await?;
    let shown = || all.iter().map(|one| json::only(json::workspace(one), fields.as_deref()));
    if let ShowFormat::Json = asked.shown.format {
        print_json(&json!({ "workspaces": shown().collect::<Vec<_>>() }));
        return Ok(());
    }
    if let Some(fields) = &fields {
        entity::show_fields(&shown().collect::<Vec<_>>(), fields);
        return Ok(());
    }
    let mut table = aligned(&["workspace", "id", "created"], &[]);
    for workspace in all {
        let created = workspace.entity.created_at.day().to_string();
        table.add_row([workspace.path.clone(), AnyEntity::Workspace(workspace).at().to_string(), created]);
    }
    print(&table);
    Ok(())
}

async fn lanes(service: &Service, workspace: &str, count: Option<u8>) -> anyhow::Result<()> {
    let catalog = service.catalog();
    let workspace = catalog.workspace(workspace).await?;
    match count {
        Some(count) => {
            let lanes = catalog.set_lanes(workspace.id(), count).await?;
            println!("{} lanes for days that begin from now on", lanes.count);
        }
        None => println!("{} lanes", catalog.lanes(workspace.id()).await?.count),
    }
    Ok(())
}

fn show(page: &WorkspacePage) {
    let workspace = &page.workspace;
    let at = AnyEntity::Workspace(workspace.clone()).at();
    println!("{}  {at}  created {}\n", workspace.path, workspace.entity.created_at);
    let mut models = aligned(&["model", "task"], &[]);
    for model in &page.models {
        models.add_row([model.entity.name.clone(), model.definition.task.to_string()]);
    }
    print(&models);
    let kinds = Kind::ALL.map(|kind| kind.name());
    let header: Vec<&str> =
        ["release", "model", "configuration", "environment"].into_iter().chain(kinds).collect();
    let mut releases = aligned(&header, &[4, 5, 6, 7]);
    let counts = |counted: &Counted| {
        let counts = page.counts_of(counted).cloned().unwrap_or_default();
        kinds.map(|kind| counts.get(kind).copied().unwrap_or(0).to_string())
    };
    for release in &page.releases {
        let optional = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let words = [
            release.entity.name.clone(),
            release.model.clone(),
            optional(&release.configuration),
            optional(&release.environment),
        ];
        releases.add_row(words.into_iter().chain(counts(&Counted::Release(release.entity.name.clone()))));
    }
    let all = ["all", "", "", ""].map(str::to_owned);
    releases.add_row(all.into_iter().chain(counts(&Counted::Workspace)));
    println!();
    print(&releases);
}
