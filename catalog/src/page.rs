//! A workspace, and a user, with everything that belongs to them, each read by one query.

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp, Window};
use log::key::{self, Counted, EntityId, EntityKind};
use table::Item;

use super::{
    ANSWERED_DAYS, Activity, AnsweredReview, AnyEntity, Configuration, Entity, Follow, Grant, LiveState,
    Membership, Model, Release, Snapshot, Workspace, activity, counter, counts::Counts, digest::days_before,
    live,
};

/// Free counters by name.
pub type FreeCounters = BTreeMap<String, i64>;

/// A workspace with its models, configurations, snapshots, releases, grants and free counters.
#[derive(Clone, Debug)]
pub struct WorkspacePage {
    /// The workspace.
    pub workspace: Workspace,
    /// Its models, oldest first.
    pub models: Vec<Model>,
    /// Its configurations, oldest first.
    pub configurations: Vec<Configuration>,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Its releases, oldest first, with the present names of their models and configurations.
    pub releases: Vec<Release>,
    /// Live releases, by environment.
    pub live: BTreeMap<String, LiveState>,
    /// Grants on the workspace.
    pub grants: Vec<Grant>,
    /// Free counters of the workspace and of the entities in it.
    pub counters: BTreeMap<(EntityKind, Id), FreeCounters>,
    /// Numbers of events. They are stored elsewhere, and are here only on request ([`super::Catalog::page_with_counts`]).
    pub counts: Option<Counts>,
}

/// Decodes the entity of an item, if it is one.
fn entity(item: &Item) -> Result<Option<AnyEntity>> {
    EntityId::of_key(&item.key).map(|_| AnyEntity::from_item(item)).transpose()
}

impl WorkspacePage {
    pub(super) fn from_items(items: &[Item]) -> Result<Self> {
        let mut workspace = None;
        let (mut models, mut configurations, mut releases) = (Vec::new(), Vec::new(), Vec::new());
        let mut snapshots = Vec::new();
        let (mut grants, mut counters) = (Vec::new(), BTreeMap::<_, FreeCounters>::new());
        let mut live = BTreeMap::new();
        for item in items {
            match entity(item)? {
                Some(AnyEntity::Workspace(found)) => workspace = Some(found),
                Some(AnyEntity::Model(model)) => models.push(model),
                Some(AnyEntity::Configuration(configuration)) => configurations.push(configuration),
                Some(AnyEntity::Snapshot(snapshot)) => snapshots.push(snapshot),
                Some(AnyEntity::Release(release)) => releases.push(release),
                Some(_) => {}
                // Ignores items that a newer Almanac keeps here.
                None => {
                    grants.extend(Grant::from_item(item)?);
                    if let Some(environment) = key::parse_live(&item.key.sk) {
                        live.insert(environment.to_owned(), live::state_of(item)?);
                    }
                    if let Some((of, name)) = key::parse_free_counter(&item.key.sk) {
                        counters.entry(of).or_default().insert(name.to_owned(), counter::value(item)?);
                    }
                }
            }
        }
        let workspace = workspace.ok_or_else(|| Error::not_found("the workspace does not exist"))?;
        // Ids of one instant have no order of their own.
        models.sort_by(|a: &Model, b| a.entity.by_age(&b.entity));
        configurations.sort_by(|a: &Configuration, b| a.entity.by_age(&b.entity));
        snapshots.sort_by(|a: &Snapshot, b| a.entity.by_age(&b.entity));
        releases.sort_by(|a: &Release, b| a.entity.by_age(&b.entity));
        let parts = models.iter().map(|model| &model.entity);
        let parts = parts.chain(configurations.iter().map(|configuration| &configuration.entity));
        let parts = parts.chain(snapshots.iter().map(|snapshot| &snapshot.entity));
        let names = parts.map(|entity| (entity.id.clone(), entity.name.clone())).collect();
        releases.iter_mut().for_each(|release| release.take_names(&names));
        Ok(Self {
            workspace,
            models,
            configurations,
            snapshots,
            releases,
            live,
            grants,
            counters,
            counts: None,
        })
    }

    /// Number of events of the workspace or a release, by kind.
    pub fn counts_of(&self, counted: &Counted) -> Option<&BTreeMap<String, i64>> {
        self.counts.as_ref()?.get(counted)
    }

    /// Sums the events of each kind over the releases of a model. (A release belongs to one model for good, so nothing more need
    /// be stored.)
    pub fn model_counts(&self, model: &str) -> BTreeMap<String, i64> {
        let mut totals = BTreeMap::<String, i64>::new();
        for release in self.releases.iter().filter(|release| release.model == model) {
            let counts = self.counts_of(&Counted::Release(release.entity.name.clone()));
            counts.into_iter().flatten().for_each(|(kind, n)| *totals.entry(kind.clone()).or_default() += n);
        }
        totals
    }
}

/// User with everything recorded about them.
#[derive(Clone, Debug)]
pub struct UserPage {
    /// The user.
    pub user: Entity,
    /// Groups of the user.
    pub groups: Vec<Membership>,
    /// Roles of their own, without those of their groups.
    pub grants: Vec<Grant>,
    /// Their free counters.
    pub counters: FreeCounters,
    /// Follows, in the order in which they began.
    pub follows: Vec<Follow>,
    /// The week up to today.
    pub week: Window,
    /// Answers in reviews in this week, the last day first.
    pub answered: Vec<AnsweredReview>,
    /// Recent activities, the newest first.
    pub activity: Vec<Activity>,
}

impl UserPage {
    /// Entities that it shows by name.
    pub fn entities(&self) -> impl Iterator<Item = EntityId> {
        let groups = self.groups.iter().map(|one| one.group.clone());
        let grants = self.grants.iter().filter_map(|one| one.scope.entity());
        let follows = self.follows.iter().flat_map(|one| one.followed.entities());
        let answered = self.answered.iter().map(|one| EntityId::Workspace(one.workspace.clone()));
        groups.chain(grants).chain(follows).chain(answered).chain([EntityId::User(self.user.id.clone())])
    }

    pub(super) fn from_items(items: &[Item], now: Timestamp) -> Result<Self> {
        let week = Window::new(days_before(now.day(), ANSWERED_DAYS - 1), now.day())?;
        let mut user = None;
        let (mut groups, mut grants, mut activity) = (Vec::new(), Vec::new(), Vec::new());
        let (mut follows, mut answered) = (Vec::new(), Vec::new());
        let mut counters = FreeCounters::new();
        for item in items {
            match item.key.sk.split('#').next().unwrap_or_default() {
                "u" => user = entity(item)?,
                "g" => groups.extend(Membership::from_item(item)?),
                "grant" => grants.extend(Grant::from_item(item)?),
                "act" => activity.push(item.to_record(activity::ITEM_VERSION)?),
                "follow" => follows.push(Follow::from_item(item)?.1),
                "answered" => answered.push(AnsweredReview::from_item(item)?),
                "n" => {
                    if let Some((_, name)) = key::parse_free_counter(&item.key.sk) {
                        counters.insert(name.to_owned(), counter::value(item)?);
                    }
                }
                _ => {}
            }
        }
        let Some(AnyEntity::User(user)) = user else {
            return Err(Error::not_found("the user does not exist"));
        };
        activity.sort_by_key(|one: &Activity| std::cmp::Reverse(one.at));
        follows.sort();
        answered.retain(|one: &AnsweredReview| week.contains(one.day));
        answered.sort_by_key(|one| std::cmp::Reverse(one.day));
        Ok(Self { user, groups, grants, counters, follows, week, answered, activity })
    }
}
