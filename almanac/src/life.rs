//! `almanac release promote|approve|rollback|retire|live|history|leaderboard`: the life of releases.

use catalog::{Action, Happening, HistoryOf, Override, ReleaseChange};
use clap::Subcommand;
use event::{Clock, Error, Timestamp};
use query::{BoardWords, Query};
use serde_json::{Value, json};
use table::Cursor;

use crate::{
    config::Config,
    named::{InWorkspace, release},
    open,
    promotion::{self, ApproveArgs},
    shown::{ShowFormat, Shown, show},
};

/// What there is under `release` besides `create`.
#[derive(Debug, Subcommand)]
pub(crate) enum LifeCommand {
    /// Make a release the live one of its model in an environment, if it passes the gates of the model.
    #[command(name = Action::Promote.name())]
    Promote {
        /// The release, by path or id, or by its name and -w.
        name: String,
        /// The workspace that it is in.
        #[arg(long, short)]
        workspace: Option<String>,
        /// Where, such as production.
        #[arg(long)]
        environment: String,
        /// A remark.
        #[arg(long)]
        note: Option<String>,
        /// Why it is to be live although it does not pass the gates of its model. The audit trail keeps that.
        #[arg(long = "override", value_name = "REASON")]
        overridden: Option<String>,
    },
    /// Approve that a release is live in an environment, in your name. The gate of a second person asks for it.
    Approve(ApproveArgs),
    /// Make the release live that was live in an environment before.
    #[command(name = Action::Rollback.name())]
    Rollback {
        #[command(flatten)]
        workspace: InWorkspace,
        /// Where, such as production.
        #[arg(long)]
        environment: String,
        /// The model; need not be given where only one is live.
        #[arg(long, short)]
        model: Option<String>,
        /// The release to go back to, instead of the one before.
        #[arg(long, value_name = "RELEASE")]
        to: Option<String>,
        /// A remark.
        #[arg(long)]
        note: Option<String>,
    },
    /// Take a release out of an environment, or out of all in which it is live.
    #[command(name = Action::Retire.name())]
    Retire {
        /// The release, by path or id, or by its name and -w.
        name: String,
        /// The workspace that it is in.
        #[arg(long, short)]
        workspace: Option<String>,
        /// Only there.
        #[arg(long)]
        environment: Option<String>,
        /// A remark.
        #[arg(long)]
        note: Option<String>,
    },
    /// Show which releases are live, or were at an instant.
    Live {
        #[command(flatten)]
        workspace: InWorkspace,
        /// Only there.
        #[arg(long)]
        environment: Option<String>,
        /// At this instant, such as 2013-06-14T10:00:00Z; now when it is not given.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show what happened in a workspace, to a model or in an environment, the latest first.
    History {
        #[command(flatten)]
        workspace: InWorkspace,
        /// Only in this environment.
        #[arg(long, conflicts_with = "model")]
        environment: Option<String>,
        /// Only of this model.
        #[arg(long, short)]
        model: Option<String>,
        /// The most to show.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Continue from the cursor that the page before ended with.
        #[arg(long)]
        cursor: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Rank releases by the primary metric of the workspace: those that are live, those of a day, or those of a window by any
    /// figure.
    Leaderboard {
        #[command(flatten)]
        workspace: InWorkspace,
        /// All that were judged on this day (UTC).
        #[arg(long)]
        day: Option<String>,
        /// All that were judged from this day on (UTC), by a figure of all days together.
        #[arg(long, requires = "to", conflicts_with = "day")]
        from: Option<String>,
        /// The last day of the window.
        #[arg(long, requires = "from")]
        to: Option<String>,
        /// Of a window: the figure to rank by, instead of the primary metric.
        #[arg(long, requires = "from")]
        figure: Option<String>,
        /// Of a window: which way that figure is better, max or min; it follows from the figure, and of a custom one or a logged metric it is max.
        #[arg(long, requires = "figure")]
        direction: Option<String>,
        /// Of a window: with fewer judged predictions a release stands behind, instead of what is set.
        #[arg(long, requires = "from")]
        min_n: Option<u64>,
        /// Of a window: judge only what was live in this environment when it predicted.
        #[arg(long, requires = "from")]
        environment: Option<String>,
        /// Of a window: judge by what had been appended by this instant (or by the beginning of this day).
        #[arg(long, value_name = "TIME", requires = "from")]
        as_of: Option<String>,
        /// The most to show.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        shown: Shown,
    },
}

pub(crate) async fn command(config: &Config, command: LifeCommand) -> anyhow::Result<()> {
    match command {
        LifeCommand::Live { workspace, environment, at, shown: Shown { format } } => {
            live(config, &workspace, environment, at.as_deref(), format).await
        }
        LifeCommand::History { workspace, environment, model, limit, cursor, shown: Shown { format } } => {
            let of = (environment.as_deref(), model.as_deref());
            history(config, &workspace, of, (limit, cursor.as_deref()), format).await
        }
        LifeCommand::Leaderboard {
            workspace,
            day,
            from,
            to,
            figure,
            direction,
            min_n,
            environment,
            as_of,
            limit,
            shown: Shown { format },
        } => {
            let window = from.as_deref().zip(to.as_deref()).map(|(from, to)| BoardWords {
                from,
                to,
                figure: figure.as_deref(),
                direction: direction.as_deref(),
                min_n,
                environment: environment.as_deref(),
                as_of: as_of.as_deref(),
            });
            leaderboard(config, &workspace, day.as_deref(), window, limit, format).await
        }
        LifeCommand::Approve(args) => promotion::approve(config, args).await,
        change => self::change(config, change).await,
    }
}

/// Changes the live release, and prints the change.
async fn change(config: &Config, command: LifeCommand) -> anyhow::Result<()> {
    let ingest = promotion::ingest(open::existing(config).await?, Clock::system());
    let changes: Vec<ReleaseChange> = match command {
        LifeCommand::Promote { name, workspace, environment, note, overridden } => {
            let (workspace, name) = release(ingest.catalog(), &name, workspace.as_deref()).await?;
            let workspace = ingest.catalog().workspace(&workspace).await?;
            // Access to the table itself includes all rights.
            let overridden = overridden.as_deref().map(|reason| Override { reason, is_by_admin: true });
            let note = note.as_deref();
            let change = ingest.promote_despite(&workspace, &name, &environment, note, overridden).await?;
            change.into_iter().collect()
        }
        LifeCommand::Rollback { workspace, environment, model, to, note } => {
            let workspace = ingest.catalog().workspace(&workspace).await?;
            let (model, to, note) = (model.as_deref(), to.as_deref(), note.as_deref());
            ingest.roll_back(&workspace, &environment, model, to, note).await?.into_iter().collect()
        }
        LifeCommand::Retire { name, workspace, environment, note } => {
            let (workspace, name) = release(ingest.catalog(), &name, workspace.as_deref()).await?;
            let workspace = ingest.catalog().workspace(&workspace).await?;
            ingest.retire(&workspace, &name, environment.as_deref(), note.as_deref()).await?
        }
        LifeCommand::Live { .. }
        | LifeCommand::History { .. }
        | LifeCommand::Leaderboard { .. }
        | LifeCommand::Approve(_) => Vec::new(),
    };
    if changes.is_empty() {
        println!("it is live already");
    }
    for change in changes {
        let place = change.environment.as_deref().unwrap_or("-");
        let to = if change.action == Action::Rollback { " to" } else { "" };
        println!("{}{to} {} in {place} at {}", change.action.past(), change.release, change.at);
    }
    Ok(())
}

async fn live(
    config: &Config,
    workspace: &str,
    environment: Option<String>,
    at: Option<&str>,
    format: ShowFormat,
) -> anyhow::Result<()> {
    let query = Query::new(open::existing(config).await?, Clock::system());
    let catalog = query.catalog();
    let workspace = catalog.workspace(workspace).await?;
    let at = at.map(Timestamp::parse).transpose()?;
    let states = match (environment, at) {
        (Some(environment), at) => {
            let at = at.unwrap_or_else(|| Clock::system().now());
            let state = catalog.live_at(workspace.id(), &environment, at).await?;
            [(environment, state)].into_iter().collect()
        }
        (None, Some(at)) => catalog.all_live_at(workspace.id(), at).await?,
        (None, None) => catalog.live_now(workspace.id()).await?,
    };
    let rows = states.into_iter().flat_map(|(environment, state)| {
        state.into_iter().map(move |(model, live)| {
            let since = live.since.to_string();
            json!({ "environment": environment, "model": model, "release": live.release, "since": since })
        })
    });
    show(&["environment", "model", "release", "since"], &rows.collect::<Vec<_>>(), format);
    Ok(())
}

async fn history(
    config: &Config,
    workspace: &str,
    (environment, model): (Option<&str>, Option<&str>),
    (limit, cursor): (usize, Option<&str>),
    format: ShowFormat,
) -> anyhow::Result<()> {
    let query = Query::new(open::existing(config).await?, Clock::system());
    let catalog = query.catalog();
    let workspace = catalog.workspace(workspace).await?;
    let model = match model {
        Some(model) => Some(catalog.model_named(workspace.id(), model).await?),
        None => None,
    };
    let of = match (environment, &model) {
        (Some(environment), _) => HistoryOf::Environment(environment),
        (None, Some(model)) => HistoryOf::Model(model),
        (None, None) => HistoryOf::Workspace,
    };
    let cursor = cursor.map(Cursor::from_text).transpose()?;
    let page = catalog.history(workspace.id(), of, limit, cursor).await?;
    let rows: Vec<Value> = page.happenings.iter().map(happening).collect();
    show(&["at", "what", "about", "model", "environment", "note"], &rows, format);
    if let Some(next) = page.next {
        eprintln!("there is more; continue with --cursor {}", next.to_text());
    }
    Ok(())
}

/// Row of a happening.
pub(crate) fn happening(of: &Happening) -> Value {
    json!({
        "at": of.at.to_string(), "what": of.what, "about": of.about, "model": of.model,
        "environment": of.environment, "note": of.note,
    })
}

async fn leaderboard(
    config: &Config,
    workspace: &str,
    day: Option<&str>,
    window: Option<BoardWords<'_>>,
    limit: usize,
    format: ShowFormat,
) -> anyhow::Result<()> {
    let query = Query::new(open::existing(config).await?, Clock::system());
    let workspace = query.catalog().workspace(workspace).await?;
    let day: Option<event::Day> = day.map(str::parse).transpose()?;
    let ranked = match (day, window) {
        (_, Some(window)) => Some(query.leaderboard_of_window(workspace.id(), &window, limit).await?),
        (Some(day), None) => Some(query.leaderboard_of(workspace.id(), day, limit).await?),
        (None, None) => None,
    };
    if let Some((primary, places)) = ranked {
        let metric = primary.metric.name();
        let rows = (1..).zip(places).map(|(place, of)| {
            let (labelled, record) = of.judged.unzip();
            json!({
                "place": of.is_ranked.then_some(place), "release": of.release, metric: of.value, "n": of.n,
                "labelled": labelled, "wins": record.map(|of| of.wins),
                "losses": record.map(|of| of.losses), "ties": record.map(|of| of.ties),
            })
        });
        show(
            &["place", "release", metric, "n", "labelled", "wins", "losses", "ties"],
            &rows.collect::<Vec<_>>(),
            format,
        );
        return Ok(());
    }
    if query.catalog().settings(workspace.id()).await?.primary_metric.is_none() {
        let message = "the workspace has no primary metric to rank by; `almanac workspace settings` sets one";
        return Err(Error::invalid(message).into());
    }
    let ranked = query.leaderboard(workspace.id(), limit).await?;
    let rows = (1..).zip(ranked).filter_map(|(place, of)| {
        let ranked = of.ranked?;
        Some(json!({
            "place": ranked.is_ranked.then_some(place), "release": of.release, "model": of.model,
            "metric": ranked.metric, "value": ranked.value, "n": ranked.n, "days": ranked.days, "day": ranked.day.to_string(),
            "environments": ranked.environments.join(" "),
        }))
    });
    let columns = ["place", "release", "model", "metric", "value", "n", "days", "day", "environments"];
    show(&columns, &rows.collect::<Vec<_>>(), format);
    Ok(())
}
