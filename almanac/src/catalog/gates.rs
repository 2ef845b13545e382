//! `almanac model gates`: conditions that a release of a model must pass before it is made live.

use catalog::{AnyEntity, PromotionGates, PromotionGatesBody, http::gates_json};
use clap::Args;
use event::Error;
use log::key::EntityKind;

use crate::{
    config::Config,
    named::One,
    shown::{Shown, show_one},
};

/// The gates of a model. Without any they are shown.
#[derive(Debug, Args)]
pub(crate) struct GatesArgs {
    /// The model, by path or id, or by its name and -w.
    name: String,
    /// The workspace that it is in.
    #[arg(long, short)]
    workspace: Option<String>,
    /// At least so many predictions of the release are judged.
    #[arg(long, value_name = "N")]
    min_n: Option<u64>,
    /// This figure is as good as that of the live release, such as auc, rmse, custom.NAME or metric.NAME.
    #[arg(long)]
    figure: Option<String>,
    /// Which way the figure is better, max or min; it follows from the figure, and of a custom one or a logged metric it is max.
    #[arg(long, requires = "figure")]
    direction: Option<String>,
    /// By how much the figure may be worse; 0 when it is not given.
    #[arg(long, requires = "figure", allow_negative_numbers = true)]
    margin: Option<f64>,
    /// Of the predictions that will be judged in the end at least this share is, such as 0.9.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    completeness: Option<f64>,
    /// Somebody has approved it who neither created the release nor asks for it to be live.
    #[arg(long)]
    second_person: bool,
    /// How many whole days (UTC) before today are judged, 1 to 31 (7 when it is not given).
    #[arg(long)]
    days: Option<u32>,
    /// For how many days a day must be over to be judged, for outcomes that come late (0 when it is not given).
    #[arg(long, value_name = "DAYS")]
    delay: Option<u32>,
    /// Only in this environment; may be repeated. The gates hold in all when none is given.
    #[arg(long = "environment", value_name = "ENVIRONMENT")]
    environments: Vec<String>,
    /// Take all gates away.
    #[arg(long)]
    none: bool,
    #[command(flatten)]
    shown: Shown,
}

/// Shows the gates of a model, or sets all of them.
pub(super) async fn command(config: &Config, args: GatesArgs) -> anyhow::Result<()> {
    let service = super::existing(config).await?;
    let catalog = service.catalog();
    let path = One::new(Some(args.name), args.workspace).path(EntityKind::Model)?;
    let at = catalog.resolve(EntityKind::Model, &path).await?;
    let body = PromotionGatesBody {
        days: args.days,
        delay: args.delay,
        environments: args.environments,
        min_n: args.min_n,
        figure: args.figure,
        direction: args.direction,
        margin: args.margin,
        completeness: args.completeness,
        second_person: args.second_person,
    };
    let gates = PromotionGates::read(&body)?;
    match (&gates, args.none) {
        (Some(_), true) => {
            return Err(Error::invalid("none: it stands alone, since it takes all gates away").into());
        }
        (Some(_), false) | (None, true) => {
            catalog.set_promotion_gates(&at, gates.as_ref(), true, service.clock().now()).await?;
        }
        (None, false) => {}
    }
    let AnyEntity::Model(model) = catalog.get(&at).await? else { return Ok(()) };
    show_one(&gates_json(&model.entity.name, model.gates.as_ref()), args.shown.format);
    Ok(())
}
