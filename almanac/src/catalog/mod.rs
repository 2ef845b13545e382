//! Commands on the catalog.

pub(crate) mod args;
mod define;
mod entity;
mod release;

use ::catalog::{Service, json, new};
use catalog::{AnyEntity, ListOptions, Role, WorkspacePage};
use comfy_table::{CellAlignment, Table as TextTable, presets};
use event::{Clock, Error, Kind};
use log::key::{Counted, EntityKind};
use serde_json::json;

use self::{
    args::{
        ConfigurationCommand, CountArgs, CounterArgs, CounterCommand, GroupCommand, ListArgs, ModelCommand,
        ReleaseCommand, RootCommand, WorkspaceCommand,
    },
    entity::{change, parse_attributes, print_json, read},
};
use crate::{
    cli::ShowFormat,
    config::Config,
    named::{self, needed},
    open,
};

/// The catalog of a table that is there.
async fn existing(config: &Config) -> anyhow::Result<Service> {
    Ok(Service::new(open::existing(config).await?, Clock::system()))
}

/// Says what was created: in words, or as JSON.
fn created(any: &AnyEntity, name: &str, format: ShowFormat) {
    match format {
        ShowFormat::Json => print_json(&json::any(any)),
        ShowFormat::Table => println!("{} {name} is {}", any.at().kind(), any.at()),
    }
}

/// Commands on what stands by itself: categories, users, groups, systems.
pub(crate) async fn root(config: &Config, kind: EntityKind, command: RootCommand) -> anyhow::Result<()> {
    match command {
        RootCommand::Create { name, noted } => {
            let service = Service::new(open::create(config).await?, Clock::system());
            let attributes = parse_attributes(noted.attributes.as_deref())?;
            let new = new::NewRoot { name: name.clone(), attributes };
            let any = new.create(kind, service.catalog(), service.clock().now()).await?;
            created(&any, &name, noted.shown.format);
            Ok(())
        }
        RootCommand::Read(command) => read(&existing(config).await?, kind, command).await,
        RootCommand::Entity(command) => change(&existing(config).await?, kind, command).await,
    }
}

pub(crate) async fn group(config: &Config, command: GroupCommand) -> anyhow::Result<()> {
    let (group, user, is_member) = match command {
        GroupCommand::Root(command) => return root(config, EntityKind::Group, command).await,
        GroupCommand::Members { group, shown } => {
            let service = existing(config).await?;
            let group = service.catalog().resolve(EntityKind::Group, &group).await?;
            let members = service.catalog().memberships(&group).await?;
            match shown.format {
                ShowFormat::Json => print_json(&members.iter().map(json::membership).collect()),
                ShowFormat::Table => {
                    let mut table = aligned(&["user", "id", "since"], &[]);
                    for member in members {
                        let user = service.catalog().get(&member.user).await?;
                        let name = user.entity().name.clone();
                        table.add_row([name, member.user.to_string(), member.since.to_string()]);
                    }
                    print(&table);
                }
            }
            return Ok(());
        }
        GroupCommand::Add { group, user } => (group, user, true),
        GroupCommand::Remove { group, user } => (group, user, false),
    };
    let service = existing(config).await?;
    let (catalog, now) = (service.catalog(), service.clock().now());
    let in_group = catalog.resolve(EntityKind::Group, &group).await?;
    let of_user = catalog.resolve(EntityKind::User, &user).await?;
    match is_member {
        true => catalog.add_member(&in_group, &of_user, now).await?,
        false => catalog.remove_member(&in_group, &of_user, now).await?,
    }
    println!("{user} is {} {group}", if is_member { "in" } else { "not in" });
    Ok(())
}

pub(crate) async fn workspace(config: &Config, command: WorkspaceCommand) -> anyhow::Result<()> {
    match command {
        WorkspaceCommand::Create { path, noted } => {
            let service = Service::new(open::create(config).await?, Clock::system());
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
            let page = service.catalog().page_with_counts(at.id()).await?;
            match shown.format {
                ShowFormat::Json => print_json(&json::workspace_page(&page)),
                ShowFormat::Table => show(&page),
            }
        }
        WorkspaceCommand::Grant { first, second, third, workspace } => {
            let (workspace, [principal, role]) = named::after(workspace, first, [second, third])?;
            let (principal, role) = (needed(principal, "who gets the role")?, needed(role, "the role")?);
            let service = existing(config).await?;
            let role = Role::parse(&role)?;
            let at = service.catalog().resolve(EntityKind::Workspace, &workspace).await?;
            let to = service.principal(&principal).await?;
            service.catalog().grant(&at, &to, role, service.clock().now()).await?;
            println!("{principal} is {} of {workspace}", role.name());
        }
        WorkspaceCommand::Revoke { first, second, workspace } => {
            let (workspace, [principal]) = named::after(workspace, first, [second])?;
            let principal = needed(principal, "who loses the role")?;
            let service = existing(config).await?;
            let at = service.catalog().resolve(EntityKind::Workspace, &workspace).await?;
            let of = service.principal(&principal).await?;
            service.catalog().revoke(&at, &of).await?;
            println!("{principal} has no role on {workspace}");
        }
        WorkspaceCommand::Grants { workspace, shown } => {
            let service = existing(config).await?;
            let at = service.catalog().resolve(EntityKind::Workspace, &workspace).await?;
            let grants = service.catalog().grants(&at).await?;
            match shown.format {
                ShowFormat::Json => print_json(&grants.iter().map(json::grant).collect()),
                ShowFormat::Table => {
                    let mut table = aligned(&["principal", "type", "role", "since"], &[]);
                    for grant in grants {
                        let who = service.catalog().get(&grant.principal).await?.entity().name.clone();
                        let kind = grant.principal.kind().name().to_owned();
                        table.add_row([who, kind, grant.role.name().to_owned(), grant.since.to_string()]);
                    }
                    print(&table);
                }
            }
        }
        WorkspaceCommand::Keep(command) => crate::retention::command(config, command).await?,
        WorkspaceCommand::Settings(command) => crate::settings::command(config, command).await?,
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
    let all = service.catalog().workspaces().await?;
    if let ShowFormat::Json = asked.shown.format {
        print_json(&json!({ "workspaces": all.iter().map(json::workspace).collect::<Vec<_>>() }));
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

pub(crate) async fn model(config: &Config, command: ModelCommand) -> anyhow::Result<()> {
    let service = existing(config).await?;
    match command {
        ModelCommand::Create { name, workspace, task, positive_label, noted } => {
            let attributes = parse_attributes(noted.attributes.as_deref())?;
            let (catalog, now) = (service.catalog(), service.clock().now());
            let any = match attributes {
                // The same model again is left as it is.
                None => {
                    let task = event::Task::parse(&task, positive_label.as_deref())?;
                    let workspace = catalog.workspace(&workspace).await?;
                    AnyEntity::Model(catalog.ensure_model(workspace.id(), &name, &task, now).await?)
                }
                attributes => {
                    let name = name.clone();
                    let new = new::NewModel { workspace, name, task, positive_label, attributes };
                    new.create(catalog, now).await?
                }
            };
            let AnyEntity::Model(model) = &any else { return Ok(()) };
            created(&any, &format!("{name} ({})", model.task), noted.shown.format);
            Ok(())
        }
        ModelCommand::Define(args) => define::model(config, args).await,
        ModelCommand::Read(command) => read(&service, EntityKind::Model, command).await,
        ModelCommand::Entity(command) => change(&service, EntityKind::Model, command).await,
    }
}

pub(crate) async fn configuration(config: &Config, command: ConfigurationCommand) -> anyhow::Result<()> {
    let service = existing(config).await?;
    match command {
        ConfigurationCommand::Create { name, workspace, noted } => {
            let attributes = parse_attributes(noted.attributes.as_deref())?;
            let new = new::NewConfiguration { workspace, name: name.clone(), attributes };
            let any = new.create(service.catalog(), service.clock().now()).await?;
            created(&any, &name, noted.shown.format);
            Ok(())
        }
        ConfigurationCommand::Read(command) => read(&service, EntityKind::Configuration, command).await,
        ConfigurationCommand::Entity(command) => change(&service, EntityKind::Configuration, command).await,
    }
}

pub(crate) async fn release(config: &Config, command: ReleaseCommand) -> anyhow::Result<()> {
    match command {
        ReleaseCommand::Life(command) => crate::life::command(config, command).await,
        ReleaseCommand::Define(args) => define::release(config, args).await,
        ReleaseCommand::Create(args) => release::create(config, *args).await,
        ReleaseCommand::Read(command) => read(&existing(config).await?, EntityKind::Release, command).await,
        ReleaseCommand::Entity(command) => {
            change(&existing(config).await?, EntityKind::Release, command).await
        }
    }
}

pub(crate) async fn counter(config: &Config, command: CounterCommand) -> anyhow::Result<()> {
    let service = existing(config).await?;
    let of = async |counter: &CounterArgs| {
        service.catalog().resolve(EntityKind::parse(&counter.kind)?, &counter.entity).await
    };
    let add = async |args: CountArgs, by: Option<i64>| {
        let by = by.ok_or_else(|| Error::invalid("the change is too large"))?;
        let at = of(&args.counter).await?;
        service.catalog().count(&at, &args.counter.name, by, args.idempotency_key.as_deref()).await
    };
    let value = match command {
        CounterCommand::Inc(args) => {
            let by = Some(args.by);
            add(args, by).await?
        }
        CounterCommand::Dec(args) => {
            let by = args.by.checked_neg();
            add(args, by).await?
        }
        CounterCommand::Get(counter) => {
            service.catalog().counter(&of(&counter).await?, &counter.name).await?
        }
    };
    println!("{value}");
    Ok(())
}

fn show(page: &WorkspacePage) {
    let workspace = &page.workspace;
    let at = AnyEntity::Workspace(workspace.clone()).at();
    println!("{}  {at}  created {}\n", workspace.path, workspace.entity.created_at);
    let mut models = aligned(&["model", "task"], &[]);
    for model in &page.models {
        models.add_row([model.entity.name.clone(), model.task.to_string()]);
    }
    print(&models);
    let kinds = Kind::ALL.map(|kind| kind.name());
    let header: Vec<&str> =
        ["release", "model", "configuration", "environment"].into_iter().chain(kinds).collect();
    let mut releases = aligned(&header, &[4, 5, 6, 7]);
    let counts = |counted: &Counted| {
        let counts = page.counts.get(counted).cloned().unwrap_or_default();
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

/// A table with this header, and these columns aligned to the right.
pub(crate) fn aligned(header: &[&str], right: &[usize]) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    for &column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints a table without blanks at the end of lines.
pub(crate) fn print(table: &TextTable) {
    table.lines().for_each(|line| println!("{}", line.trim_end()));
}
