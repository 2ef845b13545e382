//! Commands on the catalog.

use comfy_table::{CellAlignment, Table as TextTable, presets};
use ingest::{Ingest, Remember, SubmitError, json::read_json_array};
use serde_json::json;
use store::{
    Clock, Kind,
    catalog::{Catalog, ReleaseSpec, Task, WorkspacePage},
    key::Counted,
};

use crate::{
    cli::{ModelCommand, ReleaseCommand, WorkspaceCommand},
    config::Config,
    life, open, retention, settings,
};

pub(crate) async fn workspace(config: &Config, command: WorkspaceCommand) -> anyhow::Result<()> {
    match command {
        WorkspaceCommand::Create { path } => {
            let catalog = Catalog::new(open::create(config).await?);
            let workspace = catalog.ensure_workspace(&path, Clock::system().now()).await?;
            println!("workspace {} is {}", workspace.path, workspace.id());
        }
        WorkspaceCommand::List => {
            let mut table = aligned(&["workspace", "id", "created"], &[]);
            for workspace in Catalog::new(open::existing(config).await?).workspaces().await? {
                table.add_row([
                    workspace.path.clone(),
                    workspace.id().to_string(),
                    workspace.entity.created_at.day().to_string(),
                ]);
            }
            print(&table);
        }
        WorkspaceCommand::Lanes { workspace, count } => {
            let catalog = Catalog::new(open::existing(config).await?);
            let workspace = catalog.workspace(&workspace).await?;
            let now = Clock::system().now();
            let lanes = match count {
                Some(count) => catalog.set_lanes(workspace.id(), count, now).await?,
                None => catalog.lanes(workspace.id()).await?,
            };
            match now < lanes.since {
                true => println!("{} lanes, from {} on; {} before", lanes.count, lanes.since, lanes.before),
                false => println!("{} lanes", lanes.count),
            }
        }
        WorkspaceCommand::Keep(command) => retention::command(config, command).await?,
        WorkspaceCommand::Settings(command) => settings::command(config, command).await?,
        WorkspaceCommand::Show { workspace } => {
            let catalog = Catalog::new(open::existing(config).await?);
            let workspace = catalog.workspace(&workspace).await?;
            show(&catalog.page(workspace.id()).await?);
        }
    }
    Ok(())
}

pub(crate) async fn model(config: &Config, command: ModelCommand) -> anyhow::Result<()> {
    let ModelCommand::Create { name, workspace, task, positive_label } = command;
    let catalog = Catalog::new(open::existing(config).await?);
    let workspace = catalog.workspace(&workspace).await?;
    let task = Task::parse(&task, positive_label.as_deref())?;
    let model = catalog.ensure_model(workspace.id(), &name, &task, Clock::system().now()).await?;
    println!("model {name} ({}) is {}", model.task, model.entity.id);
    Ok(())
}

pub(crate) async fn release(config: &Config, command: ReleaseCommand) -> anyhow::Result<()> {
    let (name, workspace, model, configuration, environment, note) = match command {
        ReleaseCommand::Life(command) => return life::command(config, command).await,
        ReleaseCommand::Create { name, workspace, model, configuration, environment, note } => {
            (name, workspace, model, configuration, environment, note)
        }
    };
    let ingest = Ingest::new(open::existing(config).await?, Clock::system());
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let now = ingest.clock().now();
    let spec = ReleaseSpec { name, model, configuration, environment };
    let release = ingest.catalog().ensure_release(workspace.id(), &spec, now).await?;
    // The event bears the time of the creation, so that a repeat after a failure is the same event.
    let event = json!([{
        "release": spec.name, "released_at": release.entity.created_at.to_string(), "model": spec.model,
        "action": "register", "configuration": spec.configuration, "environment": spec.environment, "note": note,
    }]);
    let batch = read_json_array(Kind::Releases, event.to_string().as_bytes(), now)?;
    let key = format!("register/{}", spec.name);
    let is_known = match ingest.submit(&workspace, batch, Some(&key), Remember::Forever).await {
        Ok(receipt) => receipt.replayed,
        // The same release with another note.
        Err(SubmitError::Store(error)) if error.is_conflict() => true,
        Err(error) => return Err(error.into()),
    };
    println!("release {} is {}", spec.name, if is_known { "registered already" } else { "registered" });
    Ok(())
}

fn show(page: &WorkspacePage) {
    let workspace = &page.workspace;
    println!("{}  {}  created {}\n", workspace.path, workspace.id(), workspace.entity.created_at);
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
