//! Writes digests: the activity of a workspace in its last days, for webhooks that want it at a time of each day. All
//! pages of a digest are deliveries ([`crate::deliver`]) of one transaction, under the condition that its webhook has
//! none for the day yet. So there is one a day, through all crashes and restarts, and each try posts the same.

use std::{collections::BTreeMap, time::Duration};

use catalog::{
    Catalog, Follow, FollowersOf, MAX_DIGEST_PAGES, MAX_FOLLOWERS, Webhook, digest_deliveries, digest_source,
};
use event::{Day, Id, Result, Timestamp};
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
    let workspaces = catalog.watched_workspaces().await?;
    tell_each(table, catalog, &workspaces, now).await?.into_values().sum()
}

/// Writes the due digests of one workspace.
///
/// # Errors
/// As [`tell`].
pub async fn tell_in(table: &dyn Table, catalog: &Catalog, workspace: &Id, now: Timestamp) -> Result<u64> {
    tell_each(table, catalog, std::slice::from_ref(workspace), now).await?.into_values().sum()
}

/// Writes the due digests of some workspaces; returns the number of each in which one was due, or its error.
async fn tell_each(
    table: &dyn Table,
    catalog: &Catalog,
    workspaces: &[Id],
    now: Timestamp,
) -> Result<BTreeMap<Id, Result<u64>>> {
    let mut due = BTreeMap::new();
    for workspace in workspaces {
        let found = due_in(table, catalog, workspace, now).await;
        if !matches!(&found, Ok(found) if found.is_empty()) {
            due.insert(workspace.clone(), found);
        }
    }
    let mut followers: BTreeMap<Id, Followers> =
        due.keys().map(|id| (id.clone(), Followers::default())).collect();
    let mut after = None;
    while !due.is_empty() {
        let page = catalog.digest(after).await?;
        for (user, follows) in page.users {
            for Follow { followed, .. } in follows {
                let of = followers.get_mut(followed.workspace());
                of.into_iter().for_each(|of| of.add(&user, followed.clone()));
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut written = BTreeMap::new();
    for (workspace, due) in due {
        let followers = followers.remove(&workspace).unwrap_or_default();
        let telling = async { tell_some(table, catalog, (&workspace, due?), followers, now).await };
        let of = telling.await;
        written.insert(workspace, of);
    }
    Ok(written)
}

/// Finds the webhooks of a workspace whose digests are due and not written yet, each with the last day of its digest.
async fn due_in(
    table: &dyn Table,
    catalog: &Catalog,
    workspace: &Id,
    now: Timestamp,
) -> Result<Vec<(Webhook, Day)>> {
    let mut due = Vec::new();
    for webhook in catalog.alerts(workspace).await?.webhooks {
        let Some(day) = webhook.digest_due(now) else { continue };
        let first = key::delivery(workspace, day, &digest_source(1), &webhook.name);
        if table.get(&first).await?.is_none() {
            due.push((webhook, day));
        }
    }
    Ok(due)
}

/// Writes digests of a workspace; returns their number, without those that another process has written meanwhile.
async fn tell_some(
    table: &dyn Table,
    catalog: &Catalog,
    (workspace, due): (&Id, Vec<(Webhook, Day)>),
    followers: Followers,
    now: Timestamp,
) -> Result<u64> {
    let named: Vec<FollowersOf> = followers.named.into_iter().collect();
    let mut written = 0;
    for (webhook, day) in due {
        // A workspace that is gone has no digest.
        let Some(week) = catalog.week_of(workspace, day, now).await? else { return Ok(written) };
        let pages = digest_deliveries(&webhook, &week, (&named, followers.more), now);
        let writes = pages.iter().map(|page| Write::Put(page.to_item(workspace), Condition::Absent));
        if unless_overtaken(table.transact(writes.collect()).await)?.is_some() {
            tracing::info!(%workspace, webhook = webhook.name, %day, "a digest is told");
            written += 1;
        }
    }
    Ok(written)
}

impl Shared {
    /// Writes the due digests of all workspaces; a failure becomes a dead letter of the workspace.
    async fn tell_all(&self) -> Result<()> {
        let workspaces = self.catalog.watched_workspaces().await?;
        for (workspace, written) in tell_each(&*self.table, &self.catalog, &workspaces, self.now()).await? {
            self.noted(&workspace, OfWorkspace::Digests, std::future::ready(written)).await?;
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
            written => written?,
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
