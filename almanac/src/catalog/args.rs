//! The command line of the catalog.

use catalog::Action;
use clap::{Args, Subcommand};

use super::define::DefineArgs;
use crate::{
    cli::ShowFormat,
    life::LifeCommand,
    named::{InWorkspace, One},
    retention::KeepCommand,
    settings::SettingsCommand,
};

/// How something is printed.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// How to print it.
    #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
    pub(crate) format: ShowFormat,
}

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
    #[command(flatten)]
    pub(crate) shown: Shown,
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

#[derive(Debug, Subcommand)]
pub(crate) enum RootCommand {
    /// Create one.
    Create {
        /// Its name.
        name: String,
        #[command(flatten)]
        noted: Noted,
    },
    #[command(flatten)]
    Read(ReadCommand),
    #[command(flatten)]
    Entity(EntityCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Put a user into a group.
    Add {
        /// The group.
        group: String,
        /// The user.
        user: String,
    },
    /// Remove a user from a group.
    Remove {
        /// The group.
        group: String,
        /// The user.
        user: String,
    },
    /// List the members of a group.
    Members {
        /// The group.
        group: String,
        #[command(flatten)]
        shown: Shown,
    },
    #[command(flatten)]
    Root(RootCommand),
}

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
    /// Give a role on a workspace. Roles are recorded, but not enforced yet.
    Grant {
        /// The workspace, as category/name or by id; not with -w.
        #[arg(value_name = "WORKSPACE")]
        first: Option<String>,
        /// Who: user:NAME, group:NAME or system:NAME.
        #[arg(value_name = "PRINCIPAL")]
        second: Option<String>,
        /// reader, writer or owner.
        #[arg(value_name = "ROLE")]
        third: Option<String>,
        /// The workspace, instead of naming it first.
        #[arg(long, short)]
        workspace: Option<String>,
    },
    /// Remove a role.
    Revoke {
        /// The workspace, as category/name or by id; not with -w.
        #[arg(value_name = "WORKSPACE")]
        first: Option<String>,
        /// Who: user:NAME, group:NAME or system:NAME.
        #[arg(value_name = "PRINCIPAL")]
        second: Option<String>,
        /// The workspace, instead of naming it first.
        #[arg(long, short)]
        workspace: Option<String>,
    },
    /// List the roles on a workspace.
    Grants {
        #[command(flatten)]
        workspace: InWorkspace,
        #[command(flatten)]
        shown: Shown,
    },
    #[command(flatten)]
    Entity(EntityCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Change how the predictions of all releases of a model are judged, from a day on. Earlier days
    /// keep their figures, later ones are evaluated again.
    Define(DefineArgs),
    /// Create a model.
    Create {
        /// The model's name.
        name: String,
        /// The workspace, as category/name or by id.
        #[arg(long, short)]
        workspace: String,
        /// binary, multiclass or regression.
        #[arg(long, default_value = "binary")]
        task: String,
        /// The label whose probability is the score of a binary model (1 when it is not given).
        #[arg(long)]
        positive_label: Option<String>,
        #[command(flatten)]
        noted: Noted,
    },
    #[command(flatten)]
    Read(ReadCommand),
    #[command(flatten)]
    Entity(EntityCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigurationCommand {
    /// Create a configuration.
    Create {
        /// Its name.
        name: String,
        /// The workspace, as category/name or by id.
        #[arg(long, short)]
        workspace: String,
        #[command(flatten)]
        noted: Noted,
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
    /// The first day of the data that it was trained on.
    #[arg(long, value_name = "DAY")]
    pub(crate) snapshot_from: Option<String>,
    /// The last day of it.
    #[arg(long, value_name = "DAY")]
    pub(crate) snapshot_to: Option<String>,
    /// A metric from training time. May be repeated.
    #[arg(long = "metric", value_name = "NAME=NUMBER")]
    pub(crate) metrics: Vec<String>,
    /// Who made it.
    #[arg(long)]
    pub(crate) author: Option<String>,
    /// Its attributes, as a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) attributes: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseCommand {
    #[command(flatten)]
    Life(LifeCommand),
    /// Change how the predictions of a release are judged, from a day on.
    #[command(name = Action::Define.name())]
    Define(DefineArgs),
    /// Register a release of a model. What it is made of never changes.
    #[command(visible_alias = Action::Register.name())]
    Create(Box<ReleaseArgs>),
    #[command(flatten)]
    Read(ReadCommand),
    #[command(flatten)]
    Entity(EntityCommand),
}

/// Which counter.
#[derive(Debug, Args)]
pub(crate) struct CounterArgs {
    /// The type of the entity: category, workspace, model, configuration, release, user, group or system.
    pub(crate) kind: String,
    /// The entity, by id or path.
    pub(crate) entity: String,
    /// The counter's name.
    pub(crate) name: String,
}

/// How much.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) counter: CounterArgs,
    /// The amount.
    #[arg(default_value_t = 1)]
    pub(crate) by: i64,
    /// A name for this change: repeated with the same key, it counts once.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CounterCommand {
    /// Add to a counter and print its new value.
    Inc(CountArgs),
    /// Subtract from a counter and print its new value.
    Dec(CountArgs),
    /// Print a counter.
    Get(CounterArgs),
}
