//! Commands on releases.

use ::catalog::{Service, json, new::NewRelease};
use catalog::{Action, parse_secret};
use clap::{Args, Subcommand};
use event::{Clock, Error};
use ingest::Ingest;
use log::key::EntityKind;
use serde_json::{Value, json};

use super::{
    baseline::{self, BaselineCommand},
    define::{self, DefineArgs},
    entity::{EntityCommand, ReadCommand, change, parse_attributes, read},
    existing,
};
use crate::{
    config::Config,
    life::{self, LifeCommand},
    named::One,
    open,
    shown::{ShowFormat, Shown, show},
};

#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseCommand {
    #[command(flatten)]
    Life(LifeCommand),
    /// Change how the predictions of a release are judged, from a day on.
    #[command(name = Action::Define.name())]
    Define(DefineArgs),
    /// Name days that a release is measured from.
    #[command(subcommand)]
    Baseline(BaselineCommand),
    /// Register a release of a model. What it is made of never changes.
    #[command(visible_alias = Action::Register.name())]
    Create(Box<ReleaseArgs>),
    /// Show what two releases are made of where they differ.
    Diff {
        /// One, by id or path, or by its name and -w.
        #[arg(value_name = "RELEASE")]
        one: String,
        /// The other one, likewise.
        #[arg(value_name = "OTHER")]
        other: String,
        /// The workspace that they are in, where they are named by name.
        #[arg(long, short)]
        workspace: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
    #[command(flatten)]
    Read(ReadCommand),
    #[command(flatten)]
    Entity(EntityCommand),
}

/// A release to be registered.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The release's name.
    pub(crate) name: String,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// The model that it is a version of.
    #[arg(long, short)]
    pub(crate) model: String,
    /// The configuration that it was made with.
    #[arg(long)]
    pub(crate) configuration: Option<String>,
    /// The environment that it is made for.
    #[arg(long)]
    pub(crate) environment: Option<String>,
    /// A remark.
    #[arg(long)]
    pub(crate) note: Option<String>,
    /// The commit of the code.
    #[arg(long)]
    pub(crate) commit: Option<String>,
    /// Where the trained model is.
    #[arg(long, value_name = "URI")]
    pub(crate) artefact_uri: Option<String>,
    /// Its digest, such as sha256:9f86d081...
    #[arg(long, value_name = "DIGEST")]
    pub(crate) artefact_digest: Option<String>,
    /// The snapshot that it was tuned on, by name; its days are those of the data that it was trained on.
    #[arg(long, conflicts_with_all = ["snapshot_from", "snapshot_to"], value_name = "NAME")]
    pub(crate) snapshot: Option<String>,
    /// The first day of the data that it was trained on.
    #[arg(long, value_name = "DAY")]
    pub(crate) snapshot_from: Option<String>,
    /// The last day of it.
    #[arg(long, value_name = "DAY")]
    pub(crate) snapshot_to: Option<String>,
    /// A metric from training time. May be repeated.
    #[arg(long = "metric", value_name = "NAME=NUMBER")]
    pub(crate) metrics: Vec<String>,
    /// The run that trained it: its latest metrics and its parameters are noted with the release.
    #[arg(long, value_name = "RUN")]
    pub(crate) from_run: Option<String>,
    /// A secret that it needs, by name and version; never what it is. May be repeated.
    #[arg(long = "secret", value_name = "NAME@VERSION")]
    pub(crate) secrets: Vec<String>,
    /// Who made it.
    #[arg(long)]
    pub(crate) author: Option<String>,
    /// Its attributes, as a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) attributes: Option<String>,
}

pub(crate) async fn command(config: &Config, command: ReleaseCommand) -> anyhow::Result<()> {
    match command {
        ReleaseCommand::Life(command) => life::command(config, command).await,
        ReleaseCommand::Baseline(command) => baseline::command(config, command).await,
        ReleaseCommand::Define(args) => define::release(config, args).await,
        ReleaseCommand::Create(args) => create(config, *args).await,
        ReleaseCommand::Diff { one, other, workspace, shown } => {
            diff(&existing(config).await?, [one, other], workspace, shown.format).await
        }
        ReleaseCommand::Read(command) => read(&existing(config).await?, EntityKind::Release, command).await,
        ReleaseCommand::Entity(command) => {
            change(&existing(config).await?, EntityKind::Release, command).await
        }
    }
}

/// Fields of every entity, in which two releases always differ.
const OWN: [&str; 6] = ["id", "name", "created_at", "updated_at", "archived_at", "version"];

/// Prints the fields in which two releases differ.
async fn diff(
    service: &Service,
    named: [String; 2],
    workspace: Option<String>,
    format: ShowFormat,
) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for name in named {
        let path = One::new(Some(name), workspace.clone()).path(EntityKind::Release)?;
        let at = service.catalog().resolve(EntityKind::Release, &path).await?;
        found.push(json::any(&service.catalog().show(&at).await?));
    }
    let differing = json::fields(EntityKind::Release).into_iter().filter(|field| {
        !OWN.contains(field) && found.iter().any(|value| value.get(field) != found[0].get(field))
    });
    let rows =
        differing.map(|field| json!({ "field": field, "one": found[0][field], "other": found[1][field] }));
    show(&["field", "one", "other"], &rows.collect::<Vec<Value>>(), format);
    Ok(())
}

/// Creates a release in the catalog, and appends its event to the log.
async fn create(config: &Config, args: ReleaseArgs) -> anyhow::Result<()> {
    let ingest = Ingest::new(open::existing(config).await?, Clock::system());
    let new = asked(args)?;
    let workspace = ingest.catalog().workspace(&new.workspace).await?;
    let new = new.with_run(ingest.catalog(), workspace.id()).await?;
    let created = ingest.create_release(&workspace, new.spec()?).await?;
    let state = if created.was_registered { "registered already" } else { "registered" };
    println!("release {} is {state}", created.release.entity.name);
    Ok(())
}

fn asked(args: ReleaseArgs) -> Result<NewRelease, Error> {
    let metrics = args.metrics.iter().map(|text| {
        let wrong = || Error::invalid(format!("`{text}` is not of the form NAME=NUMBER"));
        let (name, number) = text.split_once('=').ok_or_else(wrong)?;
        Ok((name.to_owned(), serde_json::from_str(number).map_err(|_| wrong())?))
    });
    let secrets = args.secrets.iter().map(|text| parse_secret(text));
    Ok(NewRelease {
        secrets: Some(secrets.collect::<Result<_, Error>>()?),
        metrics: Some(metrics.collect::<Result<_, Error>>()?),
        attributes: parse_attributes(args.attributes.as_deref())?,
        workspace: args.workspace,
        name: args.name,
        model: args.model,
        configuration: args.configuration,
        environment: args.environment,
        commit: args.commit,
        artefact_uri: args.artefact_uri,
        artefact_digest: args.artefact_digest,
        snapshot: args.snapshot,
        snapshot_from: args.snapshot_from,
        snapshot_to: args.snapshot_to,
        from_run: args.from_run,
        notes: args.note,
        author: args.author,
    })
}
