//! Plan of the leases that a worker should take, computed from its view alone.

use std::collections::{BTreeMap, BTreeSet};

use table::{Position, Shard};

use crate::{
    heartbeat::Life,
    lease::{Lease, SWEEP},
};

/// View of a worker.
pub(crate) struct View<'a> {
    /// Id of the worker.
    pub(crate) me: &'a str,
    /// Stream of the shards.
    pub(crate) stream: &'a str,
    /// Shards of the stream.
    pub(crate) shards: &'a [Shard],
    /// Leases of the stream, by shard.
    pub(crate) leases: &'a BTreeMap<String, Lease>,
    /// Number of other workers that may be alive.
    pub(crate) others: usize,
    /// State of life of a worker, as known to this one.
    pub(crate) life: &'a dyn Fn(&str) -> Life,
}

/// Plan of a worker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Leases to write: the new lease, and the epoch that it demands.
    pub(crate) takes: Vec<(Lease, i64)>,
    /// Shards to read without a lease, since their owner may be gone: then nothing waits for the three periods after which that
    /// is certain.
    pub(crate) along: BTreeSet<String>,
}

impl View<'_> {
    /// Makes the plan: first claim shards that no worker has, up to an even share; if there are none, take one lease from the
    /// worker with the most.
    pub(crate) fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        self.plan_sweep(&mut plan);
        let open: Vec<&Shard> = self.shards.iter().filter(|shard| !self.is_done(&shard.id)).collect();
        let workers = self.others + 1;
        let most = open.len().div_ceil(workers);
        let mut mine = open.iter().filter(|shard| self.owner(&shard.id) == Some(self.me)).count();
        let mut held = BTreeMap::<&str, usize>::new();
        let mut had_free = false;
        for shard in &open {
            match self.owner(&shard.id) {
                Some(owner) if owner == self.me => {}
                Some(owner) if (self.life)(owner) != Life::Dead => {
                    *held.entry(owner).or_default() += 1;
                    if (self.life)(owner) == Life::Unknown {
                        plan.along.insert(shard.id.clone());
                    }
                }
                _ => {
                    had_free = true;
                    if mine < most {
                        mine += 1;
                        plan.takes.push(self.take(shard));
                    }
                }
            }
        }
        if !had_free {
            plan.takes.extend(self.steal(&open, &held, mine));
        }
        plan
    }

    fn owner(&self, shard: &str) -> Option<&str> {
        self.leases.get(shard)?.owner.as_deref()
    }

    fn is_done(&self, shard: &str) -> bool {
        self.leases.get(shard).is_some_and(|lease| lease.is_done)
    }

    fn take(&self, shard: &Shard) -> (Lease, i64) {
        match self.leases.get(&shard.id) {
            Some(lease) => (lease.passed_to(Some(self.me)), lease.epoch),
            None => {
                // All changes of a shard are still to come if its parent is read.
                let follows = shard.parent.as_ref().is_some_and(|parent| self.leases.contains_key(parent));
                (Lease::first(shard, self.stream, self.me, follows.then_some(Position::Oldest)), 0)
            }
        }
    }

    /// Takes one lease of the worker with the most, if it has at least two more.
    fn steal(&self, open: &[&Shard], held: &BTreeMap<&str, usize>, mine: usize) -> Option<(Lease, i64)> {
        let (richest, count) = held.iter().max_by_key(|(_, count)| **count)?;
        if *count < mine + 2 {
            return None;
        }
        let shard = open.iter().find(|shard| self.owner(&shard.id) == Some(*richest))?;
        Some(self.take(shard))
    }

    fn plan_sweep(&self, plan: &mut Plan) {
        let is_free = match self.owner(SWEEP) {
            Some(owner) => owner != self.me && (self.life)(owner) == Life::Dead,
            None => true,
        };
        if is_free {
            plan.takes.push(self.take(&Shard { id: SWEEP.to_owned(), parent: None }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: &str, parent: Option<&str>) -> Shard {
        Shard { id: id.into(), parent: parent.map(str::to_owned) }
    }

    fn leases(owners: &[(&str, Option<&str>)]) -> BTreeMap<String, Lease> {
        let lease = |(id, owner): &(&str, Option<&str>)| {
            let first = Lease::first(&shard(id, None), "s", "x", None);
            ((*id).to_owned(), Lease { owner: owner.map(str::to_owned), ..first })
        };
        owners.iter().map(lease).collect()
    }

    /// Shards that worker `me` takes, and those that it reads along; `live` are the other workers.
    fn plan(
        shards: &[Shard],
        leases: &BTreeMap<String, Lease>,
        live: &[(&str, Life)],
    ) -> (Vec<String>, BTreeSet<String>) {
        let life = |worker: &str| {
            live.iter().find(|(name, _)| *name == worker).map_or(Life::Dead, |(_, life)| *life)
        };
        let view = View { me: "me", stream: "s", shards, leases, others: live.len(), life: &life };
        let plan = view.plan();
        let takes = plan.takes.iter().map(|(lease, _)| lease.shard.clone());
        (takes.filter(|shard| shard != SWEEP).collect(), plan.along)
    }

    fn four() -> Vec<Shard> {
        ["1", "2", "3", "4"].map(|id| shard(id, None)).into()
    }

    #[test]
    fn one_worker_takes_everything_and_two_share_evenly() {
        assert_eq!(plan(&four(), &BTreeMap::new(), &[]).0, ["1", "2", "3", "4"]);
        assert_eq!(plan(&four(), &BTreeMap::new(), &[("b", Life::Alive)]).0, ["1", "2"]);
    }

    #[test]
    fn dead_workers_leases_are_taken_and_unknown_followed() {
        let owned = leases(&[("1", Some("dead")), ("2", Some("b")), ("3", Some("c")), ("4", None)]);
        let (takes, along) = plan(&four(), &owned, &[("b", Life::Unknown), ("c", Life::Alive)]);
        assert_eq!(takes, ["1", "4"]);
        assert_eq!(along, BTreeSet::from(["2".to_owned()]));
    }

    #[test]
    fn leases_are_stolen_singly_from_busier_workers() {
        let all = leases(&[("1", Some("b")), ("2", Some("b")), ("3", Some("b")), ("4", Some("b"))]);
        assert_eq!(plan(&four(), &all, &[("b", Life::Alive)]).0, ["1"]);
        let even = leases(&[("1", Some("b")), ("2", Some("me"))]);
        assert!(plan(&four()[..2], &even, &[("b", Life::Alive)]).0.is_empty());
        let odd = leases(&[("1", Some("b")), ("2", Some("b")), ("3", Some("me"))]);
        assert!(plan(&four()[..3], &odd, &[("b", Life::Alive)]).0.is_empty());
    }

    #[test]
    fn child_shard_starts_at_its_oldest_change() {
        let shards = [shard("1", None), shard("2", Some("1")), shard("3", Some("gone"))];
        let mut owned = leases(&[("1", Some("me"))]);
        owned.get_mut("1").unwrap().is_done = true;
        let life = |_: &str| Life::Dead;
        let view = View { me: "me", stream: "s", shards: &shards, leases: &owned, others: 0, life: &life };
        let takes = view.plan().takes;
        let checkpoint = |id: &str| {
            takes.iter().find(|(lease, _)| lease.shard == id).map(|(lease, _)| lease.checkpoint.clone())
        };
        assert_eq!(checkpoint("1"), None, "it is read to its end");
        assert_eq!(checkpoint("2"), Some(Some(Position::Oldest)));
        assert_eq!(checkpoint("3"), Some(None));
    }

    #[test]
    fn the_sweep_has_one_worker() {
        let life = |worker: &str| if worker == "b" { Life::Alive } else { Life::Dead };
        let takes = |owner| {
            let owned = leases(&[(SWEEP, Some(owner))]);
            View { me: "me", stream: "s", shards: &[], leases: &owned, others: 1, life: &life }.plan().takes
        };
        assert!(takes("me").is_empty() && takes("b").is_empty());
        let (lease, epoch) = &takes("dead")[0];
        assert_eq!((lease.shard.as_str(), lease.epoch, *epoch), (SWEEP, 2, 1));
    }
}
