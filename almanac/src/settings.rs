//! `almanac workspace settings|alert`: the metric that ranks releases, and alerts to people.

use catalog::{Alert, Catalog, PrimaryMetric, Quota, Settings, http::quota_json};
use clap::Subcommand;
use event::{Clock, Error, Timestamp};
use serde_json::json;

use crate::{
    config::Config,
    named::{InWorkspace, after, needed},
    open,
    shown::{ShowFormat, Shown, aligned, print, show_one},
};

/// What there is under `workspace` for its settings and alerts.
#[derive(Debug, Subcommand)]
pub(crate) enum SettingsCommand {
    /// Show or change the settings of a workspace.
    Settings {
        #[command(flatten)]
        workspace: InWorkspace,
        /// The figure that releases are ranked by, such as auc, brier, rmse, custom.NAME or metric.NAME; `none` for no leaderboard.
        #[arg(long, value_name = "METRIC")]
        primary_metric: Option<String>,
        /// Which way the metric is better, max or min; follows from it when it is not given (of a custom figure or a logged metric, max).
        #[arg(long, requires = "primary_metric")]
        direction: Option<String>,
        /// Whether to take predictions of releases that are not registered, and register these.
        #[arg(long, value_name = "YES", action = clap::ArgAction::Set)]
        accept_unknown_releases: Option<bool>,
        /// Of which model such releases are; `none` for the only one of the workspace.
        #[arg(long, value_name = "MODEL")]
        model_of_unknown: Option<String>,
        /// Over how many days releases are ranked, 1 to 31 (7 when it is not set).
        #[arg(long, value_name = "DAYS")]
        board_days: Option<u32>,
        /// How many judged predictions a release must have to be ranked (30 when it is not set; of a logged metric, 1 observation).
        #[arg(long, value_name = "N")]
        board_min_n: Option<u32>,
        /// For how many days a day must be over to be among those that releases are ranked over, for outcomes that come late; `none` for
        /// the latest days, as when it is not set.
        #[arg(long, value_name = "DAYS")]
        board_delay: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show or change how much may be appended to a workspace over HTTP.
    Quota {
        #[command(flatten)]
        workspace: InWorkspace,
        /// A limit, or `none` to remove it, such as rows_per_second=100000: requests, rows or bytes, per_second or per_day. May
        /// be repeated.
        #[arg(long = "limit", value_name = "NAME=NUMBER")]
        limits: Vec<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Raise an alert for the followers of the workspace or the model.
    Alert {
        /// The workspace, as category/name or by id; not with -w.
        #[arg(value_name = "WORKSPACE")]
        first: Option<String>,
        /// Its name, such as drift.
        #[arg(value_name = "NAME")]
        second: Option<String>,
        /// Its text.
        #[arg(value_name = "TEXT")]
        third: Option<String>,
        /// The workspace, instead of naming it first.
        #[arg(long, short)]
        workspace: Option<String>,
        /// The model that it is about.
        #[arg(long)]
        model: Option<String>,
        /// When it happened; now when it is not given. The same name at the same instant is the same alert.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
}

pub(crate) async fn command(config: &Config, command: SettingsCommand) -> anyhow::Result<()> {
    let catalog = Catalog::new(open::existing(config).await?);
    match command {
        SettingsCommand::Alert { first, second, third, workspace, model, at } => {
            let (workspace, [name, text]) = after(workspace, first, [second, third])?;
            let (name, text) = (needed(name, "the name of the alert")?, needed(text, "its text")?);
            let workspace = catalog.workspace(&workspace).await?;
            let at = at.as_deref().map(Timestamp::parse).transpose()?;
            let alert = Alert { at: at.unwrap_or_else(|| Clock::system().now()), name, model, text };
            catalog.raise(workspace.id(), &alert).await?;
            println!("alert {} is raised, of {}", alert.name, alert.at);
        }
        SettingsCommand::Quota { workspace, limits, shown: Shown { format } } => {
            let workspace = catalog.workspace(&workspace).await?;
            let change = |quota: &mut Quota| limits.iter().try_for_each(|pair| quota.set_pair(pair));
            let quota = catalog.change_quota(workspace.id(), change).await?;
            show_one(&quota_json(&quota), format);
        }
        SettingsCommand::Settings {
            workspace,
            primary_metric,
            direction,
            accept_unknown_releases,
            model_of_unknown,
            board_days,
            board_min_n,
            board_delay,
            shown: Shown { format },
        } => {
            let workspace = catalog.workspace(&workspace).await?;
            let named = |name: &Option<String>| name.clone().filter(|name| name != "none");
            let delay = named(&board_delay).as_deref().map(delay_of).transpose()?;
            let primary = PrimaryMetric::parse(named(&primary_metric).as_deref(), direction.as_deref())?;
            let change = |settings: &mut Settings| {
                if primary_metric.is_some() {
                    settings.primary_metric.clone_from(&primary);
                }
                if let Some(accept) = accept_unknown_releases {
                    settings.accept_unknown_releases = accept;
                }
                if model_of_unknown.is_some() {
                    settings.model_of_unknown = named(&model_of_unknown);
                }
                settings.board_days = board_days.or(settings.board_days);
                settings.board_min_n = board_min_n.or(settings.board_min_n);
                if board_delay.is_some() {
                    settings.board_delay = delay;
                }
            };
            let settings = catalog.change_settings(workspace.id(), change).await?;
            catalog.rank_by_settings(workspace.id(), Clock::system().now()).await;
            show(&settings, format);
        }
    }
    Ok(())
}

fn delay_of(text: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| {
        Error::invalid(format!("--board-delay: `{text}` is neither a number of days nor `none`"))
    })
}

fn show(settings: &Settings, format: ShowFormat) {
    let primary = settings.primary_metric.as_ref();
    let metric = primary.map(|primary| primary.metric.name());
    let direction = primary.map(|primary| primary.direction.name());
    match format {
        ShowFormat::Json => println!(
            "{}",
            json!({
                "primary_metric": metric, "direction": direction,
                "accept_unknown_releases": settings.accept_unknown_releases,
                "model_of_unknown": settings.model_of_unknown,
                "board_days": settings.days(), "board_min_n": settings.min_n(), "board_delay": settings.board_delay,
            })
        ),
        ShowFormat::Table => {
            let mut table = aligned(
                &[
                    "primary metric",
                    "direction",
                    "days",
                    "least n",
                    "delay",
                    "unknown releases",
                    "model of unknown",
                ],
                &[2, 3, 4],
            );
            let unknown = if settings.accept_unknown_releases { "registered" } else { "refused" };
            let model = settings.model_of_unknown.as_deref().unwrap_or("-");
            let (days, least) = (settings.days().to_string(), settings.min_n().to_string());
            let delay = settings.board_delay.map_or_else(|| "-".to_owned(), |days| days.to_string());
            let (metric, direction) = (metric.unwrap_or("-"), direction.unwrap_or("-"));
            table.add_row([metric, direction, &days, &least, &delay, unknown, model]);
            print(&table);
        }
    }
}
