//! `almanac review`: predictions that people judge, one at a time.

use std::sync::Arc;

use catalog::{
    AnsweredBy, Catalog, DEFAULT_LEASE_SECONDS, Review, ReviewPolicy, ReviewSpec, Verdict,
    http::{answered_json, asked_json, given_json, results_json, review_json},
};
use clap::{Args, Subcommand};
use event::{Clock, Day, Error, Id, Result, Window};
use ingest::Ingest;
use log::{audit::current, key::ReviewItemId};
use query::Query;
use serde_json::{Value, json};
use table::Table;

use crate::{
    config::Config,
    named::InWorkspace,
    open, promotion,
    shown::{ShowFormat, Shown, show, show_one},
};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// What there is for reviews.
#[derive(Debug, Subcommand)]
pub(crate) enum ReviewCommand {
    /// Make a review: pick predictions that people are to judge. The same words give the same items.
    Create(Box<CreateArgs>),
    /// Take the next item of a review. Until it is answered or the time is over it is the same one.
    Next(NextArgs),
    /// Answer the item that one has; the answer is appended as an outcome.
    Answer(AnswerArgs),
    /// Take the next item for somebody without an account, and print the link by which it can be judged, once.
    Link {
        /// By which name the guest is known.
        guest: String,
        #[command(flatten)]
        next: NextArgs,
    },
    /// List the reviews of a workspace.
    List {
        #[command(flatten)]
        workspace: InWorkspace,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show a review, with how many of its items are answered.
    #[command(alias = "get")]
    Show {
        #[command(flatten)]
        one: OneReview,
        /// Show its items, with their answers, in the place of what it asks for.
        #[arg(long)]
        items: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show what a reviewer answered, and how often releases had said the same.
    Mine(MineArgs),
    /// Delete a review. Its items are served no more; outcomes that were appended stay.
    Delete {
        #[command(flatten)]
        one: OneReview,
    },
}

/// A review in a workspace.
#[derive(Debug, Args)]
pub(crate) struct OneReview {
    /// Its name.
    pub(crate) name: String,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
}

/// A review to be made.
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
    /// random, uncertain (the closest to their threshold first), disagree (what releases differ most on first), or segment (as
    /// many of each value of a tag).
    #[arg(long, default_value = "random")]
    policy: String,
    /// How many predictions are picked at most, 1 to 1000.
    #[arg(long, default_value_t = 100)]
    n: u32,
    /// What chance begins with.
    #[arg(long, default_value_t = 0)]
    seed: u32,
    /// Only predictions of releases of this model.
    #[arg(long)]
    model: Option<String>,
    /// Only predictions of this release.
    #[arg(long)]
    release: Option<String>,
    /// With --policy segment: the tag of which each value is picked alike.
    #[arg(long, value_name = "TAG")]
    by: Option<String>,
    /// The labels that an answer may have, with commas between; any without it.
    #[arg(long, value_delimiter = ',')]
    labels: Vec<String>,
    /// Pick predictions as well that have an outcome.
    #[arg(long)]
    with_outcomes: bool,
    #[command(flatten)]
    shown: Shown,
}

/// Which item is taken, and for how long.
#[derive(Debug, Args)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    one: OneReview,
    /// For how many seconds it is had.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_LEASE_SECONDS)]
    lease: i64,
    #[command(flatten)]
    shown: Shown,
}

/// What is said of an item.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    one: OneReview,
    /// The number of the item.
    #[arg(long)]
    item: u32,
    /// What class it is.
    #[arg(long, required_unless_present_any = ["value", "skip"], conflicts_with_all = ["value", "skip"])]
    label: Option<String>,
    /// What number it is.
    #[arg(long, conflicts_with = "skip", allow_negative_numbers = true)]
    value: Option<f64>,
    /// Give it back without an answer; you are not shown it again.
    #[arg(long)]
    skip: bool,
    #[command(flatten)]
    shown: Shown,
}

/// Whose answers are shown, and of which days.
#[derive(Debug, Args)]
pub(crate) struct MineArgs {
    #[command(flatten)]
    workspace: InWorkspace,
    /// Whose answers, such as user:ann; your own without it.
    #[arg(long)]
    reviewer: Option<String>,
    /// The first day; six days before the last one when it is not given.
    #[arg(long)]
    from: Option<Day>,
    /// The last day; today when it is not given.
    #[arg(long)]
    to: Option<Day>,
    /// Show by release how often it had said the same, in the place of the answers.
    #[arg(long)]
    results: bool,
    #[command(flatten)]
    shown: Shown,
}

impl OneReview {
    /// Returns the id of its workspace, and the review.
    pub(crate) async fn of(&self, catalog: &Catalog) -> Result<(Id, Review)> {
        let workspace = catalog.workspace(&self.workspace).await?;
        let review = catalog.review(workspace.id(), &self.name).await?;
        Ok((workspace.id().clone(), review))
    }
}

pub(crate) async fn command(config: &Config, command: ReviewCommand) -> anyhow::Result<()> {
    let table = open::existing(config).await?;
    let catalog = Catalog::new(Arc::clone(&table));
    match command {
        ReviewCommand::Create(args) => create(table, *args).await?,
        ReviewCommand::Next(args) => {
            let reviewer = current().principal.clone();
            next(table, &args, &reviewer, false).await?;
        }
        ReviewCommand::Link { guest, next: args } => {
            next(table, &args, &catalog::guest_reviewer(&guest)?, true).await?;
        }
        ReviewCommand::Answer(args) => {
            let by = AnsweredBy::Reviewer(current().principal.clone());
            let said = (!args.skip).then(|| Verdict::read(args.label, args.value, None)).transpose()?;
            say(table, (&args.one, args.item), (&by, said), args.shown.format).await?;
        }
        ReviewCommand::List { workspace, shown: Shown { format } } => {
            let workspace = catalog.workspace(&workspace).await?;
            let rows: Vec<Value> = catalog
                .reviews(workspace.id())
                .await?
                .iter()
                .map(|review| review_json(review, None))
                .collect();
            show(&["name", "policy", "from", "to", "items", "created_at", "created_by"], &rows, format);
        }
        ReviewCommand::Show { one, items: false, shown: Shown { format } } => {
            let (workspace, review) = one.of(&catalog).await?;
            let progress = catalog.review_progress(&workspace, &review).await?;
            show_one(&review_json(&review, Some(progress)), format);
        }
        ReviewCommand::Show { one, items: true, shown: Shown { format } } => {
            let (workspace, review) = one.of(&catalog).await?;
            let items = catalog.review_items(&workspace, &review.id).await?;
            let rows: Vec<Value> = items
                .iter()
                .map(|item| {
                    let answer = item.answer.as_ref();
                    let said = answer.map(|answer| match &answer.verdict {
                        Verdict::Label(label) => json!(label),
                        Verdict::Value(value) => json!(value),
                        Verdict::Vote(vote) => json!(vote.name()),
                    });
                    json!({
                        "item": item.id.number,
                        "key": item.key,
                        "predicted_at": item.predicted_at.to_string(),
                        "answer": said,
                        "answered_by": answer.map(|answer| &answer.reviewer),
                        "answered_at": answer.map(|answer| answer.at.to_string()),
                    })
                })
                .collect();
            show(&["item", "key", "predicted_at", "answer", "answered_by", "answered_at"], &rows, format);
        }
        ReviewCommand::Mine(args) => mine(&catalog, &args).await?,
        ReviewCommand::Delete { one } => delete(&catalog, &one, "review").await?,
    }
    Ok(())
}

/// Deletes a review or an arena.
pub(crate) async fn delete(catalog: &Catalog, one: &OneReview, what: &str) -> Result<()> {
    let workspace = catalog.workspace(&one.workspace).await?;
    catalog.delete_review(workspace.id(), &one.name).await?;
    println!("the {what} {} is deleted", one.name);
    Ok(())
}

async fn create(table: Arc<dyn Table>, args: CreateArgs) -> anyhow::Result<()> {
    let spec = ReviewSpec {
        model: args.model,
        release: args.release,
        policy: policy(&args.policy)?,
        by: args.by,
        n: Some(args.n),
        seed: args.seed,
        labels: args.labels,
        with_outcomes: args.with_outcomes,
        ..ReviewSpec::new(Window::new(args.from, args.to)?)
    };
    make(table, &args.one, spec, args.shown.format).await
}

fn policy(name: &str) -> Result<ReviewPolicy> {
    serde_json::from_value(name.into()).map_err(|error| Error::invalid(format!("policy: {error}")))
}

/// Creates a review or an arena, and prints it.
pub(crate) async fn make(
    table: Arc<dyn Table>,
    one: &OneReview,
    spec: ReviewSpec,
    format: ShowFormat,
) -> anyhow::Result<()> {
    let query = Query::new(table, Clock::system());
    let workspace = query.catalog().workspace(&one.workspace).await?;
    let (review, warnings) = query.create_review(&workspace, &one.name, spec).await?;
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    show_one(&review_json(&review, None), format);
    Ok(())
}

/// Takes the next item for a reviewer, and prints it.
pub(crate) async fn next(
    table: Arc<dyn Table>,
    args: &NextArgs,
    reviewer: &str,
    shows_link: bool,
) -> anyhow::Result<()> {
    let ingest = promotion::ingest(table, Clock::system());
    let (workspace, review) = args.one.of(ingest.catalog()).await?;
    let Some(served) = ingest.next_of((&workspace, &review), (reviewer, args.lease)).await? else {
        println!("nothing is left of the review {} for {reviewer}", review.name);
        return Ok(());
    };
    let mut told = asked_json(&review, &served.item);
    if shows_link {
        told["link"] = served.link.text().into();
    }
    let table = matches!(args.shown.format, ShowFormat::Table);
    // In the table the two sides of an arena are two fields.
    if let Some(sides) = told.as_object_mut().filter(|_| table).and_then(|told| told.remove("sides")) {
        told["left"] = sides[0].clone();
        told["right"] = sides[1].clone();
    }
    show_one(&told, args.shown.format);
    Ok(())
}

/// Stores a verdict on an item, or gives the item back, and prints the result.
pub(crate) async fn say(
    table: Arc<dyn Table>,
    (one, item): (&OneReview, u32),
    (by, verdict): (&AnsweredBy, Option<Verdict>),
    format: ShowFormat,
) -> anyhow::Result<()> {
    let ingest = Ingest::new(table, Clock::system());
    let (workspace, review) = one.of(ingest.catalog()).await?;
    let at = ReviewItemId { workspace, review: review.id, number: item };
    let Some(verdict) = verdict else {
        ingest.catalog().give_back(&at, by, ingest.clock().now()).await?;
        println!("the item {item} is given back");
        return Ok(());
    };
    let answered = ingest.answer(&at, by, verdict).await?;
    show_one(&answered_json(&answered.item, answered.is_appended, answered.is_repeat), format);
    Ok(())
}

async fn mine(catalog: &Catalog, args: &MineArgs) -> anyhow::Result<()> {
    let workspace = catalog.workspace(&args.workspace).await?;
    let to = args.to.unwrap_or_else(|| Clock::system().now().day());
    let from = args.from.unwrap_or_else(|| to.start().plus_seconds(-6 * DAY_SECONDS).day());
    let reviewer = args.reviewer.clone().unwrap_or_else(|| current().principal.clone());
    if from > to {
        return Err(Error::invalid("from: the first day is after the last one").into());
    }
    let span = (from.start(), to.start().plus_seconds(DAY_SECONDS));
    let answers = catalog.given_answers(workspace.id(), &reviewer, span).await?;
    if args.results {
        show(&["release", "answers", "agree", "differ"], &results_json(&answers).0, args.shown.format);
    } else {
        let rows: Vec<Value> = answers.iter().map(given_json).collect();
        show(&["answered_at", "key", "predicted_at", "label", "value", "vote"], &rows, args.shown.format);
    }
    Ok(())
}
