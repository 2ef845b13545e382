//! `almanac outcome`: outcomes without a date, with their states; settling them again; and the past outcomes of a key.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use event::{Clock, Error, Timestamp, plain::on_one_line};
use ingest::{Became, Ingest, Resettled, Resettling};
use query::{
    HistoryWords, PastOutcome, PendingOutcome, PendingPage, PendingRequest, PendingState, PendingWords, Query,
};
use serde_json::json;

use crate::{
    config::Config,
    open,
    shown::{self, ShowFormat},
};

/// Columns of the table for people.
const MAIN: [&str; 6] = ["key", "observed_at", "arrived_at", "state", "expires_at", "why"];

#[derive(Debug, Subcommand)]
pub(crate) enum OutcomeCommand {
    /// List and count outcomes without a date, and say why each waits.
    Pending(PendingArgs),
    /// Settle outcomes without a date again: what each was decided to judge is withdrawn, and it is appended again and judges what is found now.
    Resettle(ResettleArgs),
    /// Show what was believed of a key and when: its outcomes in the order in which they were appended, and how each stands today.
    History(HistoryArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
A decision about an outcome without a date is final. Where its prediction came later than that, settle it again:\n\n  \
  almanac outcome resettle -w credit/prod --key loan-1\n\n\
Called again, it goes on where it ended. An outcome that waits already is left alone.")]
pub(crate) struct ResettleArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// The key.
    #[arg(long)]
    key: String,
    /// Only the outcome that was observed at this instant; all of the key by default.
    #[arg(long, value_name = "INSTANT")]
    observed_at: Option<String>,
    /// The first day on which it came, as YYYY-MM-DD (UTC); the 100 days up to the last one by default.
    #[arg(long)]
    from: Option<String>,
    /// The last day, which is included; today by default.
    #[arg(long)]
    to: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// The key.
    #[arg(long)]
    key: String,
    /// The first day of its predictions, as YYYY-MM-DD (UTC); the 400 days up to the last one by default.
    #[arg(long)]
    from: Option<String>,
    /// The last day, which is included; today by default.
    #[arg(long)]
    to: Option<String>,
    #[command(flatten)]
    shown: shown::Shown,
}

#[derive(Debug, Args)]
#[command(after_help = "\
An outcome that names neither the instant nor the day of its prediction waits until that is found.\n\n\
  almanac outcome pending -w credit/prod                  # what waits, and how many there are in each state\n  \
  almanac outcome pending -w credit/prod --key loan-1 --state any")]
pub(crate) struct PendingArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// Only outcomes of this key.
    #[arg(long)]
    key: Option<String>,
    /// List only those that are waiting, decided, appended, expired or refused, or any; all are counted.
    #[arg(long, default_value = "waiting")]
    state: String,
    /// The first day on which they came, as YYYY-MM-DD (UTC); the 100 days up to the last one by default.
    #[arg(long)]
    from: Option<String>,
    /// The last day, which is included; today by default.
    #[arg(long)]
    to: Option<String>,
    /// List at most so many, 0 to 1000; 100 by default.
    #[arg(long, value_name = "N")]
    limit: Option<String>,
    /// Go on after what an earlier list ended with.
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    #[command(flatten)]
    shown: shown::Shown,
}

pub(crate) async fn command(config: &Config, command: OutcomeCommand) -> anyhow::Result<()> {
    match command {
        OutcomeCommand::Pending(args) => pending(config, args).await,
        OutcomeCommand::Resettle(args) => resettle(config, args).await,
        OutcomeCommand::History(args) => history(config, args).await,
    }
}

async fn history(config: &Config, args: HistoryArgs) -> anyhow::Result<()> {
    let query = Query::new(open::existing(config).await?, Clock::system());
    let workspace = query.catalog().workspace(&args.workspace).await?;
    let words = HistoryWords { key: &args.key, from: args.from.as_deref(), to: args.to.as_deref() };
    let (past, warnings) = query.outcome_history(workspace.id(), &words).await?;
    warnings.iter().for_each(|warning| eprintln!("almanac: {warning}"));
    let rows: Vec<_> = past.iter().map(PastOutcome::to_json).collect();
    let columns =
        ["appended_at", "day", "predicted_at", "observed_at", "label", "value", "standing", "reason"];
    shown::show(&columns, &rows, args.shown.format);
    Ok(())
}

async fn resettle(config: &Config, args: ResettleArgs) -> anyhow::Result<()> {
    let ingest = Ingest::new(open::existing(config).await?, Clock::system());
    let workspace = ingest.catalog().workspace(&args.workspace).await?;
    let of = (args.key.as_str(), args.observed_at.as_deref());
    let days = (args.from.as_deref(), args.to.as_deref());
    let resettling = Resettling::parse(of, days, ingest.clock().now())?;
    let all = ingest.resettle_key(&workspace, &resettling).await?;
    if all.is_empty() {
        return Err(Error::not_found("no outcome without a date of this key came on these days").into());
    }
    let key = on_one_line(&args.key);
    for Resettled { observed_at: at, became } in all {
        match became {
            Became::Again(judged) => {
                let judged: Vec<String> = judged.iter().map(Timestamp::to_string).collect();
                println!(
                    "{key} of {at} no longer judges the {} of {}, and waits until it is found what it judges",
                    if judged.len() == 1 { "prediction" } else { "predictions" },
                    judged.join(", ")
                );
            }
            Became::Waiting => println!("{key} of {at} waits already"),
            Became::Expired => {
                println!("{key} of {at} judges nothing: no prediction was found in time; post it again");
            }
            Became::Refused => {
                println!(
                    "{key} of {at} judges nothing: there are too many predictions; post it again with a later `predicted_since`"
                );
            }
        }
    }
    Ok(())
}

async fn pending(config: &Config, args: PendingArgs) -> anyhow::Result<()> {
    let query = Query::new(open::existing(config).await?, Clock::system());
    let words = PendingWords {
        key: args.key.as_deref(),
        state: Some(args.state.as_str()).filter(|state| *state != "any"),
        from: args.from.as_deref(),
        to: args.to.as_deref(),
        limit: args.limit.as_deref(),
        after: args.after.as_deref(),
    };
    let request = PendingRequest::parse(&words, query.now())?;
    let workspace = query.catalog().workspace(&args.workspace).await?;
    let all = all(&query, workspace.id(), request).await?;
    for warning in &all.warnings {
        eprintln!("almanac: {warning}");
    }
    match args.shown.format {
        ShowFormat::Table => print(&all),
        ShowFormat::Json => shown::print_json(&json!({
            "counts": counts(&all.counts),
            "outcomes": all.outcomes.iter().map(PendingOutcome::to_json).collect::<Vec<_>>(),
            "next": all.next.map(|next| next.to_string()),
        })),
    }
    if let Some(next) = all.next {
        eprintln!("there is more: --after {next}");
    }
    Ok(())
}

/// Reads all pages up to the limit, and the counts of all outcomes; `next` is the start of the remaining list.
async fn all(query: &Query, workspace: &event::Id, request: PendingRequest) -> anyhow::Result<PendingPage> {
    let mut all = PendingPage::default();
    let mut asked = request.clone();
    let mut next = None;
    loop {
        let page = query.pending(workspace, &asked).await?;
        page.counts.into_iter().for_each(|(state, count)| *all.counts.entry(state).or_default() += count);
        let was_listing = asked.limit() > 0;
        all.outcomes.extend(page.outcomes);
        all.warnings.extend(page.warnings);
        let Some(place) = page.next else { break };
        let left = request.limit() - all.outcomes.len();
        if left == 0 && was_listing {
            next = Some(place);
        }
        asked = asked.after(place, left);
    }
    Ok(PendingPage { next, ..all })
}

fn counts(of: &BTreeMap<PendingState, u64>) -> serde_json::Value {
    let count = |state: PendingState| (state.name().to_owned(), of.get(&state).copied().unwrap_or(0).into());
    serde_json::Value::Object(PendingState::ALL.map(count).into_iter().collect())
}

fn print(all: &PendingPage) {
    if !all.outcomes.is_empty() {
        let rows: Vec<_> = all.outcomes.iter().map(PendingOutcome::to_json).collect();
        shown::show(&MAIN, &rows, ShowFormat::Table);
        println!();
    }
    let counted = PendingState::ALL
        .map(|state| format!("{} {}", all.counts.get(&state).copied().unwrap_or(0), state.name()));
    println!("{}", counted.join(", "));
}
