//! `almanac alert`: rules that watch numbers of a workspace, the days on which they would have fired, and deliveries to webhooks.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use catalog::{
    AlertRule, AlertRuleBody, Catalog, Webhook,
    http::{alert_rule_json, delivery_json, standing_json, test_window},
};
use clap::{Args, Subcommand};
use event::{Clock, Day, Error, Id};
use fold::alert::Transition;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    config::Config,
    in_toml,
    named::InWorkspace,
    open,
    shown::{ShowFormat, Shown, show, show_one},
};

/// Maximum bytes of a file of rules.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// What there is for alert rules.
#[derive(Debug, Subcommand)]
pub(crate) enum AlertCommand {
    /// Create or change the rules and webhooks of a TOML file, all or none; what is not in it stays.
    Apply {
        /// The file: a table [[rule]] for each rule, and [[webhook]] for each webhook.
        file: PathBuf,
        /// The workspace, as category/name or by id.
        #[arg(long, short)]
        workspace: String,
    },
    /// List the rules of a workspace.
    List {
        #[command(flatten)]
        workspace: InWorkspace,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show a rule.
    #[command(alias = "get")]
    Show {
        /// The rule.
        name: String,
        /// The workspace, as category/name or by id.
        #[arg(long, short)]
        workspace: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// Delete a rule, or a webhook.
    Delete {
        /// The rule.
        name: String,
        /// Delete the webhook of this name instead; what was still to be posted to it is given up.
        #[arg(long)]
        webhook: bool,
        /// The workspace, as category/name or by id.
        #[arg(long, short)]
        workspace: String,
    },
    /// List when rules began to fire and were resolved, the latest days first.
    Events(SpanArgs),
    /// List the webhooks of a workspace.
    Webhooks {
        #[command(flatten)]
        workspace: InWorkspace,
        #[command(flatten)]
        shown: Shown,
    },
    /// List what was or is to be posted to webhooks, the latest days first.
    Deliveries(SpanArgs),
    /// Try a rule on days that are over: when it would have fired, by what is known now. Nothing is written.
    Test(TestArgs),
}

/// The days of which something is listed.
#[derive(Debug, Args)]
pub(crate) struct SpanArgs {
    #[command(flatten)]
    workspace: InWorkspace,
    /// The first day that was judged, as YYYY-MM-DD (UTC).
    #[arg(long)]
    from: Option<Day>,
    /// The last day.
    #[arg(long)]
    to: Option<Day>,
    /// The most that are listed, 1 to 1000.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    shown: Shown,
}

/// On what a rule is tried.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// The rule.
    name: String,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// Take the rule from this TOML file instead of the workspace.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// The first day, as YYYY-MM-DD (UTC); 29 days before the last one when it is not given.
    #[arg(long)]
    from: Option<Day>,
    /// The last day; yesterday when it is not given.
    #[arg(long)]
    to: Option<Day>,
    /// Print every day, not only those on which the rule fires or is resolved.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    shown: Shown,
}

/// A file of rules.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    rule: Vec<AlertRuleBody>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    webhook: Vec<Webhook>,
}

/// The rules and webhooks of a TOML file.
fn rules_of(path: &Path) -> anyhow::Result<RulesFile> {
    let at = || path.display().to_string();
    let bytes = fs::metadata(path).with_context(at)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(Error::too_large(format!("{}: a file of rules has at most 1 MiB", at())).into());
    }
    let text = fs::read_to_string(path).with_context(at)?;
    Ok(toml::from_str(&text).map_err(|error| Error::invalid(in_toml::problem(path, &text, &error)))?)
}

impl SpanArgs {
    /// Workspace, first day and last day.
    async fn span(&self, catalog: &Catalog) -> anyhow::Result<(Id, Day, Day)> {
        let workspace = catalog.workspace(&self.workspace).await?;
        let to = self.to.unwrap_or_else(|| Clock::system().now().day());
        Ok((workspace.id().clone(), self.from.unwrap_or(Day::FIRST), to))
    }
}

pub(crate) async fn command(config: &Config, command: AlertCommand) -> anyhow::Result<()> {
    let catalog = Catalog::new(open::existing(config).await?);
    match command {
        AlertCommand::Apply { file, workspace } => {
            let RulesFile { rule, webhook } = rules_of(&file)?;
            let workspace = catalog.workspace(&workspace).await?;
            let now = Clock::system().now();
            let applied = catalog.apply_alerts(workspace.id(), rule, webhook, now).await?;
            applied.webhooks.iter().for_each(|webhook| println!("webhook {} is applied", webhook.name));
            applied.rules.iter().for_each(|rule| println!("alert rule {} is applied", rule.name()));
            applied.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        }
        AlertCommand::List { workspace, shown: Shown { format } } => {
            let workspace = catalog.workspace(&workspace).await?;
            let rules = catalog.alert_rules(workspace.id()).await?;
            let judged = catalog.judged_rules(workspace.id()).await?;
            let rows: Vec<Value> =
                rules.iter().map(|rule| row(rule, standing_json(rule, &judged), format)).collect();
            show(&["name", "watches", "of", "fires", "for", "state", "judged_day"], &rows, format);
        }
        AlertCommand::Show { name, workspace, shown: Shown { format } } => {
            let workspace = catalog.workspace(&workspace).await?;
            show_one(&alert_rule_json(&catalog.alert_rule(workspace.id(), &name).await?), format);
        }
        AlertCommand::Delete { name, webhook: true, workspace } => {
            let workspace = catalog.workspace(&workspace).await?;
            catalog.delete_webhook(workspace.id(), &name).await?;
            println!("webhook {name} is deleted");
        }
        AlertCommand::Delete { name, webhook: false, workspace } => {
            let workspace = catalog.workspace(&workspace).await?;
            catalog.delete_alert_rule(workspace.id(), &name).await?;
            println!("alert rule {name} is deleted");
        }
        AlertCommand::Events(args) => {
            let (workspace, from, to) = args.span(&catalog).await?;
            let transitions = catalog.transitions(&workspace, from, to, args.limit).await?;
            let rows: Vec<Value> = transitions.iter().map(|rule_transition| json!(rule_transition)).collect();
            show(&["day", "rule", "what", "text", "at"], &rows, args.shown.format);
        }
        AlertCommand::Webhooks { workspace, shown: Shown { format } } => {
            let workspace = catalog.workspace(&workspace).await?;
            let webhooks = catalog.alerts(workspace.id()).await?.webhooks;
            let rows: Vec<Value> = webhooks.iter().map(|webhook| json!(webhook)).collect();
            show(&["name", "url", "url_from", "format", "secret", "digest", "time_zone"], &rows, format);
        }
        AlertCommand::Deliveries(args) => {
            let (workspace, from, to) = args.span(&catalog).await?;
            let deliveries = catalog.deliveries(&workspace, from, to, args.limit).await?;
            let rows: Vec<Value> = deliveries.iter().map(delivery_json).collect();
            show(
                &["day", "of", "rule", "webhook", "state", "tries", "why", "next_at"],
                &rows,
                args.shown.format,
            );
        }
        AlertCommand::Test(args) => test(&catalog, args).await?,
    }
    Ok(())
}

/// Row of a rule in a list: in words for the table, whole for JSON.
fn row(rule: &AlertRule, whole: Value, format: ShowFormat) -> Value {
    let body = &rule.body;
    if let ShowFormat::Json = format {
        return whole;
    }
    let limits = [("above", body.above), ("below", body.below), ("moved", body.moved)];
    let fires = limits.into_iter().find_map(|(name, limit)| Some(format!("{name} {}", limit?)));
    let by = body.by.as_deref().unwrap_or("24:00");
    let live = body.model.as_ref().zip(body.environment.as_ref());
    let of = body.release.clone().or_else(|| live.map(|(model, place)| format!("{model} in {place}")));
    json!({
        "name": body.name,
        "watches": rule.watched.named(),
        "of": of.unwrap_or_else(|| "the workspace".to_owned()),
        "fires": fires.unwrap_or_else(|| format!("at {by}")),
        "for": rule.rule.for_days,
        "state": whole["state"],
        "judged_day": whole["judged_day"],
    })
}

async fn test(catalog: &Catalog, args: TestArgs) -> anyhow::Result<()> {
    let now = Clock::system().now();
    let workspace = catalog.workspace(&args.workspace).await?;
    let rule = match &args.rules {
        None => catalog.alert_rule(workspace.id(), &args.name).await?,
        Some(file) => {
            let found = rules_of(file)?.rule.into_iter().find(|body| body.name == args.name);
            let missing =
                || Error::not_found(format!("{}: there is no rule `{}`", file.display(), args.name));
            AlertRule::of(catalog.with_days(workspace.id(), found.ok_or_else(missing)?).await?, now)?
        }
    };
    let window = test_window(args.from, args.to, now)?;
    let days = catalog.test_alert_rule(workspace.id(), &rule, window, now).await?;
    let wanted = days.iter().filter(|day| args.all || day.transition.is_some());
    let rows: Vec<Value> = wanted.map(|day| json!(day)).collect();
    let fired = days.iter().filter(|day| day.transition == Some(Transition::Fires)).count();
    show(&["day", "value", "n", "measured", "state", "transition"], &rows, args.shown.format);
    if let ShowFormat::Table = args.shown.format {
        println!("it would have fired on {fired} of {} days", days.len());
    }
    Ok(())
}
