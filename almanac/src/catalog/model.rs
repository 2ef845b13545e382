//! Commands on models.

use ::catalog::new;
use catalog::AnyEntity;
use clap::Subcommand;
use event::NewDefinition;
use log::key::EntityKind;

use super::{
    created,
    define::{self, DefineArgs, JudgingArgs},
    entity::{EntityCommand, Noted, ReadCommand, change, parse_attributes, read},
    existing,
    gates::{self, GatesArgs},
};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Change how the predictions of all releases of a model are judged, from a day on. Earlier days
    /// keep their figures, later ones are evaluated again.
    Define(DefineArgs),
    /// Show or set what a release of a model must pass before it is made live. All gates are set together.
    Gates(GatesArgs),
    /// Create a model.
    Create {
        /// The model's name.
        name: String,
        /// The workspace, as category/name or by id.
        #[arg(long, short)]
        workspace: String,
        /// binary, multiclass or regression.
        #[arg(long, default_value = "binary")]
        task: String,
        /// The label whose probability is the score of a binary model (1 when it is not given).
        #[arg(long)]
        positive_label: Option<String>,
        #[command(flatten)]
        judging: JudgingArgs,
        #[command(flatten)]
        noted: Noted,
    },
    #[command(flatten)]
    Read(ReadCommand),
    #[command(flatten)]
    Entity(EntityCommand),
}

pub(crate) async fn command(config: &Config, command: ModelCommand) -> anyhow::Result<()> {
    let service = existing(config).await?;
    match command {
        ModelCommand::Create { name, workspace, task, positive_label, judging, noted } => {
            let attributes = parse_attributes(noted.attributes.as_deref())?;
            let (catalog, now) = (service.catalog(), service.clock().now());
            let said = NewDefinition { positive_label, ..judging.said() };
            let any = match attributes {
                // An existing model is left as it is.
                None => {
                    let definition = said.first(&task)?;
                    let workspace = catalog.workspace(&workspace).await?.entity.id;
                    let model = catalog.ensure_defined_model(&workspace, &name, &definition, now).await?;
                    AnyEntity::Model(model)
                }
                attributes => {
                    let name = name.clone();
                    let NewDefinition {
                        positive_label,
                        threshold,
                        costs,
                        interval_level,
                        splits,
                        figures,
                        ..
                    } = said;
                    let new = new::NewModel {
                        workspace,
                        name,
                        task,
                        positive_label,
                        threshold,
                        costs,
                        interval_level,
                        splits,
                        figures,
                        attributes,
                    };
                    new.create(catalog, now).await?
                }
            };
            let AnyEntity::Model(model) = &any else { return Ok(()) };
            created(&any, &format!("{name} ({})", model.definition.task), noted.shown.format);
            Ok(())
        }
        ModelCommand::Define(args) => define::model(config, args).await,
        ModelCommand::Gates(args) => gates::command(config, args).await,
        ModelCommand::Read(command) => read(&service, EntityKind::Model, command).await,
        ModelCommand::Entity(command) => change(&service, EntityKind::Model, command).await,
    }
}
