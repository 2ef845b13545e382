//! `almanac model define` and `almanac release define`: the judgement of predictions, from a day on.

use catalog::{AnyEntity, Workspace};
use clap::Args;
use event::{Clock, Error, Said};
use ingest::{
    Ingest,
    definitions::{DefinedRelease, NewDefinition},
};
use log::key::{EntityId, EntityKind};

use crate::{config::Config, open};

/// How predictions are judged, from a day on.
#[derive(Debug, Args)]
pub(crate) struct DefineArgs {
    /// Which one, by path (category/workspace/name), or by id.
    pub(crate) entity: String,
    /// What the predictions say: binary, multiclass or regression.
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// The label whose probability is the score of a binary model.
    #[arg(long, value_name = "LABEL")]
    pub(crate) positive_label: Option<String>,
    #[command(flatten)]
    pub(crate) judging: JudgingArgs,
    /// The first day for which this holds; today when it is not given.
    #[arg(long, value_name = "DAY")]
    pub(crate) from: Option<String>,
    /// A remark.
    #[arg(long)]
    pub(crate) note: Option<String>,
}

/// What may be said of how predictions are judged, whatever their task.
#[derive(Debug, Args)]
pub(crate) struct JudgingArgs {
    /// The least score of a prediction without a label that counts as positive.
    #[arg(long, value_name = "SCORE")]
    pub(crate) threshold: Option<f64>,
    /// What a prediction of a binary model gains (tp, tn) and costs (fp, fn), such as tp=10,fp=2,fn=50; what is not named is
    /// 0. none takes them away.
    #[arg(long)]
    pub(crate) costs: Option<String>,
    /// The share of real numbers that predicted intervals are to hold, such as 0.8; 0 when it is not known.
    #[arg(long, value_name = "SHARE")]
    pub(crate) interval_level: Option<f64>,
    /// A tag or feature by which evaluations are stored beside by release: tag.NAME, or feature.NAME:EDGE:EDGE with the
    /// numbers at which new bins begin. Up to 8, with commas between; none takes them away.
    #[arg(long = "split", value_name = "COLUMN", value_delimiter = ',')]
    pub(crate) splits: Vec<String>,
    /// A figure of its own, NAME=EXPRESSION: an aggregate in SQL over the columns of joined, such as
    /// late=avg(abs(value - outcome_value)). It may be given several times; NAME=none takes one away.
    #[arg(long = "figure", value_name = "NAME=EXPRESSION", value_parser = figure)]
    pub(crate) figures: Vec<(String, String)>,
}

fn figure(text: &str) -> Result<(String, String), String> {
    let (name, expression) = text.split_once('=').ok_or("it is not of the form NAME=EXPRESSION")?;
    Ok((name.trim().to_owned(), expression.to_owned()))
}

impl JudgingArgs {
    /// Definition that the arguments make.
    pub(crate) fn said(self) -> NewDefinition {
        let Self { threshold, costs, interval_level, splits, figures } = self;
        let splits = (!splits.is_empty()).then_some(splits);
        let each = |(name, expression)| (name, Some(expression));
        let figures = (!figures.is_empty()).then(|| figures.into_iter().map(each).collect());
        NewDefinition { threshold, costs, interval_level, splits, figures, ..NewDefinition::default() }
    }
}

/// Defines the judgement of all releases of a model.
pub(super) async fn model(config: &Config, args: DefineArgs) -> anyhow::Result<()> {
    let ingest = Ingest::new(open::existing(config).await?, Clock::system());
    let (workspace, name) = named(&ingest, EntityKind::Model, &args.entity).await?;
    say(&ingest.define_model(&workspace, &name, &definition(args)?).await?);
    Ok(())
}

/// Defines the judgement of a release.
pub(super) async fn release(config: &Config, args: DefineArgs) -> anyhow::Result<()> {
    let ingest = Ingest::new(open::existing(config).await?, Clock::system());
    let (workspace, name) = named(&ingest, EntityKind::Release, &args.entity).await?;
    say(&ingest.define_release(&workspace, &name, &definition(args)?).await?);
    Ok(())
}

fn definition(args: DefineArgs) -> Result<NewDefinition, Error> {
    let from = args.from.as_deref().map(str::parse).transpose()?;
    let DefineArgs { task, positive_label, judging, note, .. } = args;
    Ok(NewDefinition { task, positive_label, from, note, ..judging.said() })
}

/// Returns the workspace of an entity, and its name.
async fn named(ingest: &Ingest, kind: EntityKind, entity: &str) -> anyhow::Result<(Workspace, String)> {
    let catalog = ingest.catalog();
    let at = catalog.resolve(kind, entity).await?;
    let name = catalog.get(&at).await?.entity().name.clone();
    let within = at.workspace().ok_or_else(|| Error::corrupt(format!("`{at}` is in no workspace")))?;
    match catalog.get(&EntityId::Workspace(within.clone())).await? {
        AnyEntity::Workspace(workspace) => Ok((workspace, name)),
        other => Err(Error::corrupt(format!("`{}` is no workspace", other.at())).into()),
    }
}

/// Fields of a definition that are printed with the task and the day.
const IN_TASK: [&str; 3] = ["task", "positive_label", "effective_from"];

fn say(defined: &[DefinedRelease]) {
    if defined.is_empty() {
        println!("nothing changes: the releases are judged like this already, or there are none");
    }
    for (release, definition) in defined {
        let from = definition.from.map_or_else(String::new, |day| format!(" from {day} on"));
        let own = definition.said().into_iter().filter(|(name, _)| !IN_TASK.contains(name));
        let own: String = own
            .map(|(name, said)| match said {
                // Figures stand one on a line.
                Said::Text(text) => format!(", {name} {}", text.replace('\n', "; ")),
                Said::Number(number) => format!(", {name} {number}"),
            })
            .collect();
        println!("release {release}: {}{own}{from}", definition.task);
    }
    if !defined.is_empty() {
        println!("`almanac up` evaluates the days from then on again");
    }
}
