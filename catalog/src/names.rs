//! Present names: references to entities hold their ids, and a release also the names that its model and configuration had when
//! it was made, so a reader that shows it looks up their present names.

use std::collections::{BTreeMap, BTreeSet};

use event::{Error, Id, Result};
use futures::future::try_join_all;
use log::key::EntityId;

use super::{AnyEntity, Catalog, RankedRelease, Release};

/// Present names by id; the path of a workspace.
pub type Names = BTreeMap<Id, String>;

/// Number of names looked up side by side.
const READS_AT_ONCE: usize = 16;

impl Release {
    /// Takes the names of its model, configuration and snapshot from `names`, if they are there.
    pub(super) fn take_names(&mut self, names: &Names) {
        if let Some(name) = names.get(&self.model_id) {
            self.model.clone_from(name);
        }
        if let Some(name) = self.configuration_id.as_ref().and_then(|id| names.get(id)) {
            self.configuration = Some(name.clone());
        }
        if let Some(on) = &mut self.details.tuned_on
            && let Some(name) = names.get(&on.id)
        {
            on.name.clone_from(name);
        }
    }

    /// Model, configuration and snapshot of the release.
    fn parts(&self) -> impl Iterator<Item = EntityId> {
        let model = EntityId::Model(self.workspace.clone(), self.model_id.clone());
        let configuration = self.configuration_id.clone();
        let configuration = configuration.map(|id| EntityId::Configuration(self.workspace.clone(), id));
        let snapshot = self.details.tuned_on.as_ref();
        let snapshot = snapshot.map(|on| EntityId::Snapshot(self.workspace.clone(), on.id.clone()));
        [Some(model), configuration, snapshot].into_iter().flatten()
    }
}

impl Catalog {
    /// Reads an entity; a release with the present names of its model and configuration.
    ///
    /// # Errors
    /// `NotFound`, when it does not exist.
    pub async fn show(&self, at: &EntityId) -> Result<AnyEntity> {
        let mut entity = self.get(at).await?;
        self.name_parts(std::slice::from_mut(&mut entity)).await?;
        Ok(entity)
    }

    /// Puts the present names of their models and configurations into releases: a read of each model and configuration.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn name_parts(&self, entities: &mut [AnyEntity]) -> Result<()> {
        let mut releases: Vec<&mut Release> = entities
            .iter_mut()
            .filter_map(|any| if let AnyEntity::Release(release) = any { Some(release) } else { None })
            .collect();
        let names = self.names(releases.iter().flat_map(|release| release.parts())).await?;
        releases.iter_mut().for_each(|release| release.take_names(&names));
        Ok(())
    }

    /// Puts the present names of their models into the releases of a leaderboard: a read of each model.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn name_models(&self, workspace: &Id, leaderboard: &mut [RankedRelease]) -> Result<()> {
        let models = leaderboard.iter().map(|of| EntityId::Model(workspace.clone(), of.model_id.clone()));
        let names = self.names(models).await?;
        for of in leaderboard {
            if let Some(name) = names.get(&of.model_id) {
                of.model.clone_from(name);
            }
        }
        Ok(())
    }

    /// Reads the names of those entities that exist: a read of each.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn names(&self, of: impl IntoIterator<Item = EntityId>) -> Result<Names> {
        let name = async |at: &EntityId| {
            let found = self.find(at).await?;
            Ok::<_, Error>(found.map(|found| (at.id().clone(), found.full_name().to_owned())))
        };
        let distinct: Vec<EntityId> = of.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let mut names = Names::new();
        for some in distinct.chunks(READS_AT_ONCE) {
            names.extend(try_join_all(some.iter().map(name)).await?.into_iter().flatten());
        }
        Ok(names)
    }
}
