//! Commands on runs.

use ::catalog::Service;
use catalog::{HistoryPage, NewRunBody, Run, RunChange, RunChangeBody, RunQuery, Texts, Workspace};
use clap::{Args, Subcommand};
use event::Error;
use log::key;
use serde_json::{Value, json};
use table::Cursor;

use super::existing;
use crate::{
    config::Config,
    named::InWorkspace,
    shown::{ShowFormat, Shown, print_json, show, show_one},
};

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Create a run, and print its id. Metrics name the run by it.
    Create(NewArgs),
    /// List runs with their parameters and the latest values of their metrics.
    List(ListArgs),
    /// Show a run with the latest values of its metrics.
    Show {
        #[command(flatten)]
        one: OneRun,
        #[command(flatten)]
        shown: Shown,
    },
    /// End a run.
    End {
        #[command(flatten)]
        one: OneRun,
        /// How it ended: finished, failed or killed.
        #[arg(long, default_value = "finished")]
        status: String,
        /// When it ended; now, when it is not given.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Set tags of a run, or remove them.
    Tag {
        #[command(flatten)]
        one: OneRun,
        /// A tag to set. May be repeated.
        #[arg(long, value_name = "NAME=TEXT")]
        set: Vec<String>,
        /// A tag to remove. May be repeated.
        #[arg(long, value_name = "NAME")]
        unset: Vec<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show all values of a metric of a run, in the order in which they were appended.
    History {
        #[command(flatten)]
        one: OneRun,
        /// The metric.
        #[arg(long, short)]
        metric: String,
        /// The most values to show.
        #[arg(long, default_value_t = 10_000)]
        limit: usize,
        /// Continue from the cursor that a page ended with.
        #[arg(long)]
        cursor: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
}

/// A run to be created.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    #[command(flatten)]
    workspace: InWorkspace,
    /// The experiment; created when it is new.
    #[arg(long, short)]
    experiment: Option<String>,
    /// What to call it; several runs may have one name.
    #[arg(long)]
    name: Option<String>,
    /// A parameter. May be repeated.
    #[arg(long = "param", value_name = "NAME=TEXT")]
    params: Vec<String>,
    /// A tag. May be repeated.
    #[arg(long = "tag", value_name = "NAME=TEXT")]
    tags: Vec<String>,
    /// The run that it is a part of.
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,
    /// The snapshot of data that it uses.
    #[arg(long)]
    snapshot: Option<String>,
    /// When it began; now, when it is not given.
    #[arg(long, value_name = "TIME")]
    started_at: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

/// Which runs.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    workspace: InWorkspace,
    /// Only runs of this experiment.
    #[arg(long, short)]
    experiment: Option<String>,
    /// The most to list.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Continue a list from the cursor that it ended with.
    #[arg(long)]
    cursor: Option<String>,
    /// The oldest first.
    #[arg(long)]
    oldest_first: bool,
    #[command(flatten)]
    shown: Shown,
}

/// One run.
#[derive(Debug, Args)]
pub(crate) struct OneRun {
    /// The run, by its id.
    run: String,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
}

pub(crate) async fn command(config: &Config, command: RunCommand) -> anyhow::Result<()> {
    let service = existing(config).await?;
    match command {
        RunCommand::Create(args) => create(&service, args).await?,
        RunCommand::List(args) => list(&service, args).await?,
        RunCommand::Show { one, shown } => {
            let (_, run) = find(&service, &one).await?;
            let run = service.catalog().run_with_metrics(&run.workspace, &run.id).await?;
            show_one(&run.to_json(), shown.format);
        }
        RunCommand::End { one, status, at, shown } => {
            let body = RunChangeBody { status: Some(status), ended_at: at, ..RunChangeBody::default() };
            let change = body.change()?;
            if change.status.is_some_and(|status| !status.is_end()) {
                return Err(Error::invalid("a run ends as finished, failed or killed").into());
            }
            changed(&service, &one, change, shown.format).await?;
        }
        RunCommand::Tag { one, set, unset, shown } => {
            let set = texts(&set)?.into_iter().map(|(name, text)| (name, Some(text)));
            let tags = set.chain(unset.into_iter().map(|name| (name, None))).collect();
            let body = RunChangeBody { tags: Some(tags), ..RunChangeBody::default() };
            changed(&service, &one, body.change()?, shown.format).await?;
        }
        RunCommand::History { one, metric, limit, cursor, shown } => {
            let (_, run) = find(&service, &one).await?;
            let now = service.clock().now();
            let page =
                service.catalog().metric_history(&run, &metric, (limit, cursor.as_deref()), now).await?;
            history(&page, shown.format);
        }
    }
    Ok(())
}

async fn find(service: &Service, one: &OneRun) -> anyhow::Result<(Workspace, Run)> {
    let workspace = service.catalog().workspace(&one.workspace).await?;
    let run = service.catalog().run_named(workspace.id(), &one.run).await?;
    Ok((workspace, run))
}

/// Reads `NAME=TEXT`.
fn texts(words: &[String]) -> Result<Texts, Error> {
    let text = |word: &String| {
        let wrong = || Error::invalid(format!("`{word}` is not of the form NAME=TEXT"));
        word.split_once('=').map(|(name, text)| (name.to_owned(), text.to_owned())).ok_or_else(wrong)
    };
    words.iter().map(text).collect()
}

async fn create(service: &Service, args: NewArgs) -> anyhow::Result<()> {
    let workspace = service.catalog().workspace(&args.workspace).await?;
    let body = NewRunBody {
        experiment: args.experiment,
        name: args.name,
        started_at: args.started_at,
        parent: args.parent,
        snapshot: args.snapshot,
        params: Some(texts(&args.params)?),
        tags: Some(texts(&args.tags)?),
        ..NewRunBody::default()
    };
    let run = service.catalog().create_run(workspace.id(), body.run()?, service.clock().now()).await?;
    match args.shown.format {
        ShowFormat::Json => print_json(&run.to_json()),
        ShowFormat::Table => println!("{}", run.id),
    }
    Ok(())
}

async fn list(service: &Service, args: ListArgs) -> anyhow::Result<()> {
    let workspace = service.catalog().workspace(&args.workspace).await?;
    let asked = RunQuery {
        experiment: args.experiment.as_deref().map(key::experiment_id),
        limit: args.limit,
        after: args.cursor.as_deref().map(Cursor::from_text).transpose()?,
        newest_first: !args.oldest_first,
    };
    let page = service.catalog().runs(workspace.id(), &asked).await?;
    let next = page.next.map(|cursor| cursor.to_text());
    let runs: Vec<Value> = page.runs.iter().map(catalog::RunWithMetrics::to_json).collect();
    match args.shown.format {
        ShowFormat::Json => print_json(&json!({ "runs": runs, "next_cursor": next })),
        ShowFormat::Table => {
            let rows: Vec<Value> = runs.into_iter().map(in_words).collect();
            let columns = ["id", "experiment", "name", "status", "started_at", "params", "metrics"];
            show(&columns, &rows, ShowFormat::Table);
            if let Some(next) = next {
                println!("\nthere may be more: --cursor {next}");
            }
        }
    }
    Ok(())
}

/// Row of the table: the names and values of the first few parameters and metrics.
fn in_words(mut run: Value) -> Value {
    run["params"] = pairs(&run["params"], plain).into();
    run["metrics"] = pairs(&run["metrics"], |latest| plain(&latest["value"])).into();
    run
}

fn pairs(all: &Value, text: impl Fn(&Value) -> String) -> String {
    const SHOWN: usize = 4;
    let all = all.as_object().into_iter().flatten();
    let mut words: Vec<String> = all.map(|(name, value)| format!("{name}={}", text(value))).collect();
    if words.len() > SHOWN {
        let more = words.len() - SHOWN;
        words.truncate(SHOWN);
        words.push(format!("and {more} more"));
    }
    words.join(" ")
}

fn plain(value: &Value) -> String {
    value.as_f64().map_or_else(|| value.as_str().unwrap_or_default().to_owned(), query::number_text)
}

async fn changed(
    service: &Service,
    one: &OneRun,
    change: RunChange,
    format: ShowFormat,
) -> anyhow::Result<()> {
    let (workspace, run) = find(service, one).await?;
    let now = service.clock().now();
    let run = service.catalog().change_run(workspace.id(), &run.id, &change, now).await?;
    show_one(&run.to_json(), format);
    Ok(())
}

fn history(page: &HistoryPage, format: ShowFormat) {
    let body = page.to_json();
    match format {
        ShowFormat::Json => print_json(&body),
        ShowFormat::Table => {
            let points = body["points"].as_array().cloned().unwrap_or_default();
            show(&["step", "at", "value"], &points, ShowFormat::Table);
            if let Some(next) = &page.next {
                println!("\nthere may be more: --cursor {next}");
            }
        }
    }
}
