//! Consumers: programs that follow the log of a workspace, each with its committed read version.

use std::collections::{BTreeMap, BTreeSet};

use event::{Error, Id, Kind, Result, Timestamp, id::check_name};
use futures::{StreamExt, TryStreamExt, stream};
use log::{
    audit::{self, Author},
    key,
    key::LogId,
    known::Known,
    read_version::ReadVersion,
    scan,
};
use serde::{Deserialize, Serialize};
use table::{Change, Condition, Item, Policy, Query, query_all, unless_overtaken, update};

use super::Catalog;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Maximum consumers of a workspace.
pub const MAX_CONSUMERS: usize = 1_000;

/// Maximum consumers of a workspace created by one principal.
pub const MAX_CONSUMERS_OF_ONE: usize = 100;

/// Maximum bytes of a stored read version: about a hundred thousand logs.
const MAX_READ_VERSION_BYTES: usize = 300 * 1024;

/// Number of logs read side by side.
const LOGS_AT_ONCE: usize = 8;

/// Consumer of events of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// Name, which no other consumer of the workspace has.
    #[serde(skip_serializing)]
    pub name: String,
    /// Read version up to which it has read; of one kind.
    pub read_version: ReadVersion,
    /// Principal that created it, the only one that commits for it.
    pub created_by: String,
    /// Time of its first commit.
    pub created_at: Timestamp,
    /// Time of its last commit.
    pub committed_at: Timestamp,
}

/// Lag of a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerLag {
    /// Number of segments that it has not read.
    pub segments: u64,
    /// Time at which the oldest of them was appended.
    pub since: Option<Timestamp>,
}

impl Consumer {
    /// Error that a workspace has no consumer of this name.
    pub(crate) fn missing(name: &str) -> Error {
        Error::not_found(format!("there is no consumer `{name}` in this workspace"))
    }

    /// Kind of events that it follows.
    pub fn kind(&self) -> Option<Kind> {
        self.read_version.kinds.first().copied()
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.to_record_with(ITEM_VERSION, [("name", &item.key.sk)])
    }

    fn to_item(&self) -> Result<Item> {
        let item = Item::record(key::consumer(&self.read_version.workspace, &self.name), ITEM_VERSION, self);
        let letters = item.text("read_version")?.len();
        if letters > MAX_READ_VERSION_BYTES {
            return Err(Error::too_large(format!(
                "the read version has {letters} letters, and a consumer keeps {MAX_READ_VERSION_BYTES}; follow from a later day on"
            )));
        }
        Ok(item)
    }
}

/// Returns whether the rights of an author are known. The user of the machine, and callers of a service without tokens,
/// may do everything.
/// everything.
fn is_known(principal: &str) -> bool {
    principal == "preset" || principal.starts_with("user:") || principal.starts_with("system:")
}

impl Consumer {
    /// Returns the consumer if the author may commit for it.
    ///
    /// # Errors
    /// `Conflict`, when it belongs to another principal.
    fn of(self, author: &Author) -> Result<Self> {
        let Self { name, created_by, .. } = &self;
        if !is_known(&author.principal) || *created_by == author.principal {
            return Ok(self);
        }
        if *created_by == Author::anonymous().principal {
            return Ok(Self { created_by: author.principal.clone(), ..self });
        }
        Err(Error::conflict(format!(
            "the consumer `{name}` belongs to {created_by}, and only that commits for it; take another name, or have who maintains the \
             workspace delete it"
        )))
    }
}

impl Catalog {
    /// Reads a consumer, if it has committed.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn consumer(&self, workspace: &Id, name: &str) -> Result<Option<Consumer>> {
        check_name(name)?;
        self.table.get(&key::consumer(workspace, name)).await?.as_ref().map(Consumer::from_item).transpose()
    }

    /// Reads the consumers of a workspace, by name.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn consumers(&self, workspace: &Id) -> Result<Vec<Consumer>> {
        let items = query_all(&*self.table, Query::table(key::consumers(workspace))).await?;
        items.iter().map(Consumer::from_item).collect()
    }

    /// Records that a consumer has read everything in a read version; the first commit creates it, and it belongs to the committer. It
    /// never goes back: segments committed before, or by another process of the same name, stay read. Returns its state after the
    /// commit.
    ///
    /// # Errors
    /// `Invalid`, when the name is not valid, or the read version is of another workspace or not of one kind; `Conflict`, when the
    /// consumer follows another kind or belongs to another principal, or there are too many; `TooLarge`, when the read version is; those
    /// of the table.
    pub async fn commit(
        &self,
        workspace: &Id,
        name: &str,
        read_version: &ReadVersion,
        now: Timestamp,
    ) -> Result<Consumer> {
        check_name(name)?;
        if read_version.workspace != *workspace {
            return Err(Error::invalid(format!(
                "the read version is of the workspace {}",
                read_version.workspace
            )));
        }
        if read_version.kinds.len() != 1 {
            return Err(Error::invalid(
                "the read version is not of one kind of events, as those of following are",
            ));
        }
        let (key, author) = (key::consumer(workspace, name), audit::current());
        update(&*self.table, &key, Policy::of(&"a consumer"), async |stored| {
            let stored = stored.as_ref().map(Consumer::from_item).transpose()?;
            let consumer = match stored {
                None => {
                    self.check_room(workspace, &author).await?;
                    let (name, read_version) = (name.to_owned(), read_version.clone());
                    let created_by = author.principal.clone();
                    Consumer { name, read_version, created_by, created_at: now, committed_at: now }
                }
                Some(stored) if stored.read_version.kinds != read_version.kinds => {
                    let kind = stored.kind().map_or("something else", Kind::name);
                    return Err(Error::conflict(format!("the consumer `{name}` follows {kind}")));
                }
                Some(stored) => {
                    let stored = stored.of(&author)?;
                    let committed_at = stored.committed_at.max(now);
                    Consumer { read_version: stored.read_version.and(read_version)?, committed_at, ..stored }
                }
            };
            Ok(Change::Put(consumer.to_item()?, consumer))
        })
        .await
    }

    async fn check_room(&self, workspace: &Id, author: &Author) -> Result<()> {
        let makers = Query::table(key::consumers(workspace)).only(&["created_by"]);
        let makers = query_all(&*self.table, makers).await?;
        let own = makers.iter().filter(|item| item.optional_text("created_by") == Some(&author.principal));
        let (who, most) = match (makers.len(), own.count()) {
            (MAX_CONSUMERS.., _) => ("the workspace", MAX_CONSUMERS),
            (_, MAX_CONSUMERS_OF_ONE..) if is_known(&author.principal) => {
                (author.principal.as_str(), MAX_CONSUMERS_OF_ONE)
            }
            _ => return Ok(()),
        };
        Err(Error::conflict(format!(
            "{who} has {most} consumers already; have who maintains the workspace delete those that nobody uses"
        )))
    }

    /// Deletes a consumer.
    ///
    /// # Errors
    /// `NotFound`, when there is none of this name; those of the table.
    pub async fn delete_consumer(&self, workspace: &Id, name: &str) -> Result<()> {
        check_name(name)?;
        let deleted = self.table.delete(&key::consumer(workspace, name), Condition::Exists).await;
        unless_overtaken(deleted)?.ok_or_else(|| Consumer::missing(name))
    }

    /// Reads the lag of a consumer.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn lag(&self, consumer: &Consumer) -> Result<ConsumerLag> {
        Ok(self.lags(std::slice::from_ref(consumer)).await?.remove(0))
    }

    /// Reads the lag of each consumer of one workspace, in their order. The heads of a kind are read once, however many consumers
    /// follow it, and so is each segment at which some of them stopped.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn lags(&self, consumers: &[Consumer]) -> Result<Vec<ConsumerLag>> {
        let mut known: BTreeMap<Kind, Known> = BTreeMap::new();
        for consumer in consumers {
            let Some(kind) = consumer.kind() else { continue };
            let known = known
                .entry(kind)
                .or_insert_with(|| Known::new(&consumer.read_version.workspace, kind, BTreeMap::new()));
            for (log, seq) in &consumer.read_version.heads {
                known.note(log.clone(), *seq);
            }
        }
        for known in known.values_mut() {
            known.look(&*self.table).await?;
        }
        let behind: Vec<_> = consumers
            .iter()
            .map(|consumer| {
                let known = consumer.kind().and_then(|kind| known.get(&kind));
                known.map_or_else(Vec::new, |known| unread(consumer, known))
            })
            .collect();
        let firsts = self.firsts(behind.iter().flatten().map(|(from, _)| from.clone()).collect()).await?;
        let lag = |behind: &Vec<(Unread, u64)>| {
            // A log known to another consumer may be gone by now.
            let there = behind.iter().filter_map(|(from, count)| Some((firsts.get(from)?, count)));
            ConsumerLag {
                segments: there.clone().map(|(_, count)| count).sum(),
                since: there.map(|(first, _)| *first).min(),
            }
        };
        Ok(behind.iter().map(lag).collect())
    }

    /// Reads the time at which the first segment of each stretch was appended; a stretch that is gone has no entry.
    async fn firsts(&self, stretches: BTreeSet<Unread>) -> Result<BTreeMap<Unread, Timestamp>> {
        let looks: Vec<_> = stretches
            .into_iter()
            .map(async |from| {
                let first = scan::after(&*self.table, &from.0, from.1).await?;
                Ok::<_, Error>(first.map(|segment| (from, segment.appended_at)))
            })
            .collect();
        let firsts: Vec<_> = stream::iter(looks).buffer_unordered(LOGS_AT_ONCE).try_collect().await?;
        Ok(firsts.into_iter().flatten().collect())
    }
}

/// Stretch of a log after a sequence.
type Unread = (LogId, u64);

/// Ranges that a consumer has not read, with the number of their segments.
fn unread(consumer: &Consumer, known: &Known) -> Vec<(Unread, u64)> {
    let read_version = &consumer.read_version;
    let logs = known.heads().iter().filter(|(log, _)| log.day >= read_version.window.from());
    let behind = logs.filter_map(|(log, seq)| {
        let read = read_version.heads.get(log).copied().unwrap_or_default();
        (*seq > read).then(|| ((log.clone(), read), seq - read))
    });
    behind.collect()
}

#[cfg(test)]
mod tests {
    use event::Day;

    use super::*;

    /// A later program must read the items of an earlier one.
    #[test]
    fn the_item_of_version_1_stays_readable() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let at = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let day: Day = "2026-06-01".parse().unwrap();
        let log = LogId { workspace: workspace.clone(), day, kind: Kind::Outcomes, lane: 2 };
        let mut read_version = ReadVersion::begin(&workspace, Kind::Outcomes, day);
        read_version.heads.insert(log, 7);
        let created_by = "system:billing".to_owned();
        let consumer =
            Consumer { name: "billing".into(), read_version, created_by, created_at: at, committed_at: at };
        let stored = Item::new(key::consumer(&workspace, "billing"))
            .with("v", 1)
            .with("ver", 5)
            .with("read_version", "AQAyTkJzMHNMQm5KeEVjb0RMZ1ZuUWRKa2hFZ1b6wQIA___d8t__39wBAW8BAG8CBwC6V48S")
            .with("created_by", "system:billing")
            .with("created_at", "2026-06-10T00:00:00Z")
            .with("committed_at", "2026-06-10T00:00:00Z");
        let written = consumer.to_item().unwrap().with("ver", 5);
        assert_eq!(Consumer::from_item(&stored).unwrap(), consumer);
        assert_eq!(written, stored);
    }
}
