//! The first definition of a release, which also binds its name to its model.
//!
//! It is written with the release, before any event can name it. A release that events name is *used*: ingest records
//! that before it appends the first of them (apart from the event that registers the release). From then on the name
//! belongs to that model for good: the events stay in the log and are evaluated by its definitions, even after the
//! release is deleted from the catalog. The name of an unused release becomes free when the release is deleted.

use event::{Definition, Error, Id, Result};
use log::key::{self, EntityId};
use table::{Condition, Item, Policy, Update, Write, unless_overtaken};

use super::{AnyEntity, Catalog, Definitions, Model, Release, definition};

/// Version of the items.
const ITEM_VERSION: i64 = 1;

/// Attribute of a used release.
const USED: &str = "used";

/// Model of a release name, and its first definition.
#[derive(Clone, Debug, PartialEq)]
pub struct First {
    /// The model, by its name at that time.
    pub model: String,
    /// The model.
    pub model_id: Id,
    /// The first definition.
    pub definition: Definition,
    /// True if events may name the release.
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

    /// Returns the first definition of a release of a model.
    fn of(model: &Model) -> Self {
        Self {
            model: model.entity.name.clone(),
            model_id: model.entity.id.clone(),
            definition: model.definition.clone(),
            is_used: false,
        }
    }

    /// Condition that the name is unused and still belongs to this model.
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

/// Makes the write that accompanies a new release: its first definition, or the check that the one of an earlier
/// release of this name and model is unchanged.
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

    /// Returns the first definition of a release in the catalog, by the present definition of its model.
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

    /// Makes the writes that bind the name of a new release to its model.
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

    /// Makes the write that frees the name of a deleted release, unless it was used.
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

    /// Returns whether events may name a release.
    pub(super) async fn is_used(&self, release: &Release) -> Result<bool> {
        let first = self.first_of(&release.workspace, &release.entity.name).await?;
        Ok(first.is_some_and(|first| first.is_used))
    }

    /// Marks a release as used, before events name it: from now on its name belongs to its model.
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

    /// Reads the definitions of a workspace.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn definitions(&self, workspace: &Id) -> Result<Definitions> {
        Definitions::load(&*self.table, workspace).await
    }
}
