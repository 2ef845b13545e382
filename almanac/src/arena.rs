//! `almanac arena`: pairs of releases that people compare, by both predictions for one key.

use std::sync::Arc;

use catalog::{AnsweredBy, Catalog, ReviewPolicy, ReviewSpec, Verdict, guest_reviewer, http::review_json};
use clap::{Args, Subcommand};
use event::{Day, Window};
use log::audit::current;
use query::Query;
use serde_json::Value;
use table::Table;

use crate::{
    config::Config,
    named::InWorkspace,
    open,
    review::{NextArgs, OneReview, delete, make, next, say},
    shown::{ShowFormat, Shown, show, show_one},
};

/// What there is for arenas.
#[derive(Debug, Subcommand)]
pub(crate) enum ArenaCommand {
    /// Make an arena: pick what pairs of releases predicted of the same, for people to compare. The same words give the same items.
    Create(Box<CreateArgs>),
    /// Pick more for an arena: pairs of releases that are live by now, and predictions of later days.
    Refresh {
        #[command(flatten)]
        one: OneReview,
        /// The last day that is read; that of the arena when it is not given.
        #[arg(long)]
        to: Option<Day>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Take the next pair of an arena: of the two releases with the fewest votes. Until you vote or the time is over it is the same one.
    Next(NextArgs),
    /// Vote on the pair that one has; the vote is appended as two metrics, one of each release.
    Vote(VoteArgs),
    /// Take the next pair for somebody without an account, and print the link by which it can be voted on, once.
    Link {
        /// By which name the guest is known.
        guest: String,
        #[command(flatten)]
        next: NextArgs,
    },
    /// List the arenas of a workspace.
    List {
        #[command(flatten)]
        workspace: InWorkspace,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show an arena, or its pairs with their wins, losses and ties.
    #[command(alias = "get")]
    Show {
        #[command(flatten)]
        one: OneReview,
        /// Show its pairs, in the place of what it asks for.
        #[arg(long)]
        pairs: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// Rank the releases of an arena by its votes: their strength, with a 95 percent interval.
    #[command(alias = "leaderboard")]
    Ranking(RankingArgs),
    /// Delete an arena. Its pairs are served no more; votes that were appended stay.
    Delete {
        #[command(flatten)]
        one: OneReview,
    },
}

/// An arena to be made.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    one: OneReview,
    /// The first day of the predictions, as YYYY-MM-DD (UTC).
    #[arg(long)]
    from: Day,
    /// The last day.
    #[arg(long)]
    to: Day,
    /// The releases that are compared, with commas between; those that are live when they are served, without it.
    #[arg(long, value_delimiter = ',')]
    releases: Vec<String>,
    /// Only releases of this model that are live.
    #[arg(long)]
    model: Option<String>,
    /// How many keys of each pair are picked at most; 100 by the number of judges without it.
    #[arg(long)]
    n: Option<u32>,
    /// How many people judge the same key of a pair.
    #[arg(long, default_value_t = 1)]
    judges: u32,
    /// The tags that are shown, with commas between; all without it.
    #[arg(long, value_delimiter = ',')]
    tags: Vec<String>,
    /// What chance begins with.
    #[arg(long, default_value_t = 0)]
    seed: u32,
    #[command(flatten)]
    shown: Shown,
}

/// A vote.
#[derive(Debug, Args)]
pub(crate) struct VoteArgs {
    #[command(flatten)]
    one: OneReview,
    /// The number of the item.
    #[arg(long)]
    item: u32,
    /// Which side is better: left, right, or tie when neither is.
    #[arg(long, required_unless_present = "skip", conflicts_with = "skip")]
    vote: Option<String>,
    /// Give it back without a vote; you are not shown it again.
    #[arg(long)]
    skip: bool,
    #[command(flatten)]
    shown: Shown,
}

/// How releases rank.
#[derive(Debug, Args)]
pub(crate) struct RankingArgs {
    #[command(flatten)]
    one: OneReview,
    /// As it was known at this time, an instant or a day that stands for its beginning: read from the votes in the log.
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) async fn command(config: &Config, command: ArenaCommand) -> anyhow::Result<()> {
    let table = open::existing(config).await?;
    let catalog = Catalog::new(Arc::clone(&table));
    match command {
        ArenaCommand::Create(args) => create(table, *args).await?,
        ArenaCommand::Refresh { one, to, shown: Shown { format } } => {
            let query = open::asking(config, table);
            let workspace = query.catalog().workspace(&one.workspace).await?;
            let (review, warnings) = query.refresh_arena(&workspace, &one.name, to).await?;
            warn(&warnings);
            show_one(&review_json(&review, None), format);
        }
        ArenaCommand::Next(args) => {
            let reviewer = current().principal.clone();
            next(table, &args, &reviewer, false).await?;
        }
        ArenaCommand::Link { guest, next: args } => {
            next(table, &args, &guest_reviewer(&guest)?, true).await?;
        }
        ArenaCommand::Vote(VoteArgs { one, item, vote, skip: _, shown: Shown { format } }) => {
            let verdict =
                vote.map(|vote| serde_json::from_value(vote.into()).map(Verdict::Vote)).transpose()?;
            let by = AnsweredBy::Reviewer(current().principal.clone());
            say(table, (&one, item), (&by, verdict), format).await?;
        }
        ArenaCommand::List { workspace, shown: Shown { format } } => {
            let workspace = catalog.workspace(&workspace).await?;
            let mut arenas = catalog.reviews(workspace.id()).await?;
            arenas.retain(|review| review.spec.is_arena());
            let rows: Vec<Value> = arenas.iter().map(|review| review_json(review, None)).collect();
            show(&["name", "from", "to", "items", "judges", "created_at", "created_by"], &rows, format);
        }
        ArenaCommand::Show { one, pairs, shown: Shown { format } } => {
            let (workspace, review) = one.of(&catalog).await?;
            review.check_arena()?;
            if pairs {
                let ranking = open::asking(config, table).rank_arena(&workspace, &one.name, None).await?;
                let columns = ["release", "against", "wins", "losses", "ties", "items", "live"];
                show(&columns, rows_of(&ranking.to_json(), "pairs"), format);
            } else {
                show_one(&review_json(&review, None), format);
            }
        }
        ArenaCommand::Ranking(args) => rank(&open::asking(config, table), &args).await?,
        ArenaCommand::Delete { one } => delete(&catalog, &one, "arena").await?,
    }
    Ok(())
}

fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
}

fn rows_of<'a>(told: &'a Value, name: &str) -> &'a [Value] {
    told[name].as_array().map_or(&[], Vec::as_slice)
}

async fn create(table: Arc<dyn Table>, args: CreateArgs) -> anyhow::Result<()> {
    let spec = ReviewSpec {
        model: args.model,
        policy: ReviewPolicy::Pairs,
        n: args.n,
        seed: args.seed,
        releases: args.releases,
        judges: args.judges,
        tags: args.tags,
        ..ReviewSpec::new(Window::new(args.from, args.to)?)
    };
    make(table, &args.one, spec, args.shown.format).await
}

async fn rank(query: &Query, args: &RankingArgs) -> anyhow::Result<()> {
    let workspace = query.catalog().workspace(&args.one.workspace).await?;
    let ranking = query.rank_arena(workspace.id(), &args.one.name, args.as_of.as_deref()).await?;
    warn(&ranking.warnings);
    let told = ranking.to_json();
    if let ShowFormat::Json = args.shown.format {
        show_one(&told, args.shown.format);
        return Ok(());
    }
    let columns = ["release", "strength", "lower", "upper", "wins", "losses", "ties"];
    show(&columns, rows_of(&told, "releases"), args.shown.format);
    let has_votes = ranking.tallies.iter().any(|tally| tally.votes() > 0);
    if has_votes && !ranking.ranking.is_connected {
        eprintln!(
            "note: not every release won against every other one, directly or over others; how far some are apart rests on the prior alone"
        );
    }
    Ok(())
}
