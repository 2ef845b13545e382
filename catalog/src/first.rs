//! The first definition of a release, which also binds its name to its model.
//!
//! It is written with the release, before any event can name it. A release that events name is *used*: ingest
//! says so before it appends the first of them. (The event that registers it does not count.) From then on the name belongs to that model for good, whatever becomes of
//! the release in the catalog: its events stay in the log and are judged by its definitions, so the name may
//! not come to mean something else. A name that was never used is free when its release is deleted.

use event::{Definition, Error, Id, Result};
use log::key::{self, EntityId};
use table::{Condition, Item, Policy, Update, Write, unless_overtaken};

use super::{AnyEntity, Catalog, Definitions, Model, Release, definition};

/// Version of the items.
const ITEM_VERSION: i64 = 1;

/// The attribute of one whose release is used.
const USED: &str = "used";

/// The model of a release name, and how its predictions were judged from the beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct First {
    /// The model, by the name that it had.
    pub model: String,
    /// The model.
    pub model_id: Id,
    /// How its predictions were judged.
    pub definition: Definition,
    /// Whether events may name it.
    pub is_used: bool,
}

impl First {
    pub(super) fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        Ok(Self {
            model: item.text("model")?.to_owned(),
            model_id: Id::parse(item.text("model_id")?)?,
            definition: definition::definition(item)?,
            is_used: item.attributes.contains_key(USED),
        })
    }

    fn to_item(&self, workspace: &Id, release: &str) -> Item {
        let item = Item::new(key::first_definition(workspace, release))
            .with("v", ITEM_VERSION)
            .with("model", self.model.as_str())
            .with("model_id", self.model_id.as_str());
        let item = definition::with_definition(item, &self.definition);
        if self.is_used { item.with(USED, 1) } else { item }
    }

    /// That of a release of a model.
    fn of(model: &Model) -> Self {
        Self {
            model: model.entity.name.clone(),
            model_id: model.entity.id.clone(),
            definition: model.definition.clone(),
            is_used: false,
        }
    }

    /// The name is unused, and it is still that of this model.
    fn unused(&self) -> Condition {
        let same = Condition::Equals("model_id", self.model_id.as_str().into());
        Condition::All(vec![same, Condition::Without(USED)])
    }

    /// Refuses a name that belongs to another model.
    ///
    /// # Errors
    /// `Conflict`, when events name it.
    pub fn check(&self, release: &str, model: &Id) -> Result<()> {
        if !self.is_used || self.model_id == *model {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "the name `{release}` stays with the model that it had (`{}`): there may be events of it, and they are judged \
             by that; give the new release another name, or change how the old one is judged with \
             `almanac release define`",
            self.model
        )))
    }
}

/// What is written with a new release: its first definition, or the demand that the one of an earlier release of
/// this name and model stays.
fn binding(known: Option<&First>, new: &First, workspace: &Id, release: &str) -> Result<Write> {
    let item = new.to_item(workspace, release);
    Ok(match known {
        None => Write::Put(item, Condition::Absent),
        Some(known) => {
            known.check(release, &new.model_id)?;
            match known.is_used {
                true => Write::Check(item.key, Condition::Exists),
                false => Write::Put(item, known.unused()),
            }
        }
    })
}

impl Catalog {
    async fn first_of(&self, workspace: &Id, release: &str) -> Result<Option<First>> {
        let item = self.table.get(&key::first_definition(workspace, release)).await?;
        item.as_ref().map(First::from_item).transpose()
    }

    /// The first definition that a release of the catalog has by its model as that is now.
    async fn first_by_model(&self, release: &Release) -> Result<Option<First>> {
        Ok(self.model_of(release).await?.as_ref().map(First::of))
    }

    async fn model_of(&self, release: &Release) -> Result<Option<Model>> {
        let at = EntityId::Model(release.workspace.clone(), release.model_id.clone());
        let Some(item) = self.table.get(&at.key()).await? else { return Ok(None) };
        Ok(match AnyEntity::from_item(&item)? {
            AnyEntity::Model(model) => Some(model),
            _ => None,
        })
    }

    /// What binds the name of a new release to its model, as that is at this moment.
    ///
    /// # Errors
    /// `Conflict`, when the name belongs to another model; `NotFound`, when the model is gone, or has another name than the release gives it.
    pub(super) async fn bind(&self, any: &AnyEntity) -> Result<Vec<Write>> {
        let AnyEntity::Release(release) = any else { return Ok(Vec::new()) };
        let model = self.model_of(release).await?.filter(|model| model.entity.name == release.model);
        let model = model.ok_or_else(|| super::no_model(&release.model))?;
        let name = &release.entity.name;
        let known = self.first_of(&release.workspace, name).await?;
        let unchanged = Condition::Equals("ver", model.entity.version.into());
        let at = EntityId::Model(model.workspace.clone(), model.entity.id.clone());
        let on = release.details.tuned_on.as_ref();
        let on = on.map(|on| EntityId::Snapshot(model.workspace.clone(), on.id.clone()));
        if let Some(on) = &on {
            self.get(on).await?;
        }
        let is_there = on.map(|on| Write::Check(on.key(), Condition::Exists));
        let writes = vec![
            binding(known.as_ref(), &First::of(&model), &release.workspace, name)?,
            Write::Check(at.key(), unchanged),
        ];
        Ok(writes.into_iter().chain(is_there).collect())
    }

    /// What sets the name of a release free that is deleted, unless it was used: then the name stays with
    /// its model.
    pub(super) async fn unbind(&self, known: &AnyEntity) -> Result<Option<Write>> {
        let AnyEntity::Release(release) = known else { return Ok(None) };
        let (workspace, name) = (&release.workspace, &release.entity.name);
        Ok(match self.first_of(workspace, name).await? {
            Some(first) if !first.is_used => {
                Some(Write::Delete(key::first_definition(workspace, name), first.unused()))
            }
            _ => None,
        })
    }

    /// Whether events may name a release.
    pub(super) async fn is_used(&self, release: &Release) -> Result<bool> {
        let first = self.first_of(&release.workspace, &release.entity.name).await?;
        Ok(first.is_some_and(|first| first.is_used))
    }

    /// Notes that events are going to name a release. From now on its name belongs to its model.
    ///
    /// # Errors
    /// `Conflict`, when the name belongs to another model; those of the table.
    pub async fn use_release(&self, workspace: &Id, release: &Release) -> Result<()> {
        let name = &release.entity.name;
        let what = format!("the release `{name}`");
        let mut tries = Policy::of(&what).tries();
        loop {
            tries.next().await?;
            let known = self.first_of(workspace, name).await?;
            let write = match known {
                Some(first) if first.is_used => return first.check(name, &release.model_id),
                Some(first) if first.model_id == release.model_id => {
                    let item = key::first_definition(workspace, name);
                    Write::Update(Update::new(item, first.unused()).set(USED, 1))
                }
                other => {
                    let new = self.first_by_model(release).await?;
                    let new = new.ok_or_else(|| super::no_model(&release.model))?;
                    let condition = other.map_or(Condition::Absent, |other| other.unused());
                    Write::Put(First { is_used: true, ..new }.to_item(workspace, name), condition)
                }
            };
            if unless_overtaken(self.table.transact(vec![write]).await)?.is_some() {
                return Ok(());
            }
        }
    }

    /// The definitions of a workspace.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn definitions(&self, workspace: &Id) -> Result<Definitions> {
        Definitions::load(&*self.table, workspace).await
    }
}
