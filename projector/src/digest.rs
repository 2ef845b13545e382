//! Writes digests: happenings of a workspace in its last days, for the webhooks that want them at a time of each day. The text of
//! a digest and its delivery ([`crate::deliver`]) are one transaction, under the condition that there is none of its webhook and
//! day yet. So there is one a day, through all crashes and restarts, and each try posts the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use catalog::{Catalog, DueDigest, Follow, FollowersOf, MAX_DIGEST_PAGES, MAX_FOLLOWERS};
use event::{Id, Result, Timestamp};
use log::key::{self, Followed, OfWorkspace};
use table::{Condition, Table, Write, unless_overtaken};

use crate::shared::Shared;

/// Time between two searches for due digests.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Maximum followers of a workspace that are known for its digests, which have that many places.
const MAX_NAMED: usize = MAX_FOLLOWERS * MAX_DIGEST_PAGES;

/// Followers of a workspace and its models.
#[derive(Clone, Debug, Default)]
struct Followers {
    /// Named followers, each with its follows there.
    named: BTreeMap<Id, Vec<Followed>>,
    /// Last follower that is not named.
    unnamed: Option<Id>,
    /// Number of followers that are not named.
    more: usize,
}

impl Followers {
    /// Adds a follow of a user. Users come one after the other.
    fn add(&mut self, user: &Id, followed: Followed) {
        if self.named.len() < MAX_NAMED || self.named.contains_key(user) {
            self.named.entry(user.clone()).or_default().push(followed);
        } else if self.unnamed.as_ref() != Some(user) {
            self.unnamed = Some(user.clone());
            self.more += 1;
        }
    }
}

/// Writes all digests that are due by `now`; returns their number. If none is due that takes one query for the workspaces, a read
/// of each, and one of each digest that was written already; else one query more for all follows of users, and the reads of
/// [`Catalog::week_of`] for each workspace.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn tell(table: &dyn Table, catalog: &Catalog, now: Timestamp) -> Result<u64> {
    let mut due = BTreeMap::new();
    for workspace in catalog.watched_workspaces().await? {
        let found = due_in(table, catalog, &workspace, now).await?;
        if !found.is_empty() {
            due.insert(workspace, found);
        }
    }
    let followers = followers(catalog, &due.keys().cloned().collect()).await?;
    let mut told = 0;
    for (workspace, due) in &due {
        told += tell_some(table, catalog, workspace, due, followers.get(workspace), now).await?;
    }
    Ok(told)
}

/// Writes the due digests of one workspace.
///
/// # Errors
/// As [`tell`].
pub async fn tell_in(table: &dyn Table, catalog: &Catalog, workspace: &Id, now: Timestamp) -> Result<u64> {
    let due = due_in(table, catalog, workspace, now).await?;
    let followers = followers(catalog, &due.iter().map(|_| workspace.clone()).collect()).await?;
    tell_some(table, catalog, workspace, &due, followers.get(workspace), now).await
}

/// Finds the digests of a workspace that are due and not written yet.
async fn due_in(
    table: &dyn Table,
    catalog: &Catalog,
    workspace: &Id,
    now: Timestamp,
) -> Result<Vec<DueDigest>> {
    let mut due = Vec::new();
    for webhook in catalog.alerts(workspace).await?.webhooks {
        let Some(digest) = DueDigest::of(&webhook, now) else { continue };
        if table.get(&key::digest(workspace, digest.day, &webhook.name, 1)).await?.is_none() {
            due.push(digest);
        }
    }
    Ok(due)
}

/// Reads the followers of these workspaces and their models: one query of the index of all follows, if there is any workspace.
async fn followers(catalog: &Catalog, workspaces: &BTreeSet<Id>) -> Result<BTreeMap<Id, Followers>> {
    let mut found = BTreeMap::<Id, Followers>::new();
    let mut after = None;
    while !workspaces.is_empty() {
        let page = catalog.digest(after).await?;
        for (user, follows) in page.users {
            for Follow { followed, .. } in follows {
                let workspace = followed.workspace();
                if workspaces.contains(workspace) {
                    found.entry(workspace.clone()).or_default().add(&user, followed);
                }
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}

/// Writes digests of a workspace; returns their number, without those that another process has written meanwhile.
async fn tell_some(
    table: &dyn Table,
    catalog: &Catalog,
    workspace: &Id,
    due: &[DueDigest],
    followers: Option<&Followers>,
    now: Timestamp,
) -> Result<u64> {
    let more = followers.map_or(0, |followers| followers.more);
    let named = followers.into_iter().flat_map(|followers| followers.named.clone());
    let named: Vec<FollowersOf> = named.collect();
    let mut told = 0;
    for digest in due {
        // A workspace that is gone has no digest.
        let Some(week) = catalog.week_of(workspace, digest.day, now).await? else { return Ok(told) };
        // All pages go into one transaction, so that none is missing.
        let writes = digest.told(&week, &named, more, now).into_iter().flat_map(|page| {
            [page.to_item(workspace), page.delivery().to_item(workspace)]
                .map(|item| Write::Put(item, Condition::Absent))
        });
        if unless_overtaken(table.transact(writes.collect()).await)?.is_some() {
            tracing::info!(%workspace, webhook = digest.webhook.name, day = %digest.day, "a digest is told");
            told += 1;
        }
    }
    Ok(told)
}

impl Shared {
    /// Writes the due digests of all workspaces; a failure becomes a dead letter of the workspace.
    async fn tell_all(&self) -> Result<()> {
        let (table, catalog, now) = (&*self.table, &self.catalog, self.now());
        let mut due = BTreeMap::new();
        for workspace in catalog.watched_workspaces().await? {
            match due_in(table, catalog, &workspace, now).await {
                Err(error) if error.may_pass() && !error.is_denied() => return Err(error),
                Ok(found) if found.is_empty() => {}
                found => _ = due.insert(workspace, found),
            }
        }
        let followers = followers(catalog, &due.keys().cloned().collect()).await?;
        for (workspace, due) in due {
            let followers = followers.get(&workspace);
            let telling = async { tell_some(table, catalog, &workspace, &due?, followers, now).await };
            self.noted(&workspace, OfWorkspace::Digests, telling).await?;
        }
        Ok(())
    }
}

/// Writes digests forever, in the one worker that sweeps periodically.
pub(crate) async fn run(shared: &Shared) -> Result<()> {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if !shared.has_sweep_lease() {
            continue;
        }
        match shared.tell_all().await {
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, "the table is not available; digests are told later");
            }
            told => told?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_names_limited_followers_and_counts_the_rest() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let followed = || Followed::Workspace(workspace.clone());
        let mut users: Vec<Id> = (0..MAX_NAMED + 3).map(|_| Id::new(Timestamp::default())).collect();
        users.sort();
        let mut followers = Followers::default();
        for user in &users {
            followers.add(user, followed());
            followers.add(user, followed());
        }
        assert_eq!((followers.named.len(), followers.more), (MAX_NAMED, 3));
        assert!(followers.named.values().all(|follows| follows.len() == 2));
    }
}
