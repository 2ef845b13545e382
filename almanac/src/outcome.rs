//! `almanac outcome`: outcomes without a date, and what became of each.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use event::Clock;
use query::{PendingOutcome, PendingPage, PendingRequest, PendingState, PendingWords, Query};
use serde_json::json;

use crate::{
    config::Config,
    open,
    shown::{self, ShowFormat},
};

/// The columns of a table for people.
const MAIN: [&str; 6] = ["key", "observed_at", "arrived_at", "state", "expires_at", "why"];

#[derive(Debug, Subcommand)]
pub(crate) enum OutcomeCommand {
    /// List and count outcomes without a date, and say why each waits.
    Pending(PendingArgs),
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
    /// List only those that are waiting, decided, appended or expired, or any; all are counted.
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
    let OutcomeCommand::Pending(args) = command;
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

/// The outcomes of one page after the other, as many as are listed, and how many there are of all; `next` is where the list goes on.
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
