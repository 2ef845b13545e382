//! Table that records each change of watched items, in the transaction of the change.

use std::{collections::BTreeMap, fmt::Debug, ops::Deref, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use event::{Clock, Error, ErrorKind, Result, Timestamp};
use futures::future::try_join_all;
use table::{
    Changes, Condition, Item, Key, Page, Policy, Position, Query, Shard, Table, Write, unless_overtaken,
};

use super::{
    Author, Record, author,
    chain::{self, Head},
    record::{difference, full},
    subject::Subject,
};
use crate::key::{self, AuditLog, MAX_SEQ};

/// Maximum number of tries of a change whose number in an audit log another writer takes.
const ATTEMPTS: usize = 200;

/// Table that adds the record to each change of watched items, in one transaction. All other calls pass through.
///
/// Before a change it reads the present item, and the last record of the audit log. A record of another writer in between makes the
/// transaction fail, and it begins again; so the value before in a record is always right, as long as all changes of watched
/// items come this way.
#[derive(Clone, Debug)]
pub struct Audited<T> {
    below: T,
}

impl Audited<Arc<dyn Table>> {
    /// Wraps a shared table.
    pub fn shared(table: Arc<dyn Table>) -> Arc<dyn Table> {
        Arc::new(Self { below: table })
    }
}

impl<'a> Audited<&'a dyn Table> {
    /// Wraps a borrowed table.
    pub fn over(table: &'a dyn Table) -> Self {
        Self { below: table }
    }
}

/// Content of a record beside its place.
struct Said {
    audit_log: AuditLog,
    action: String,
    object: String,
    name: Option<String>,
    before: Option<String>,
    after: Option<String>,
}

impl Said {
    fn record(self, author: &Author, head: &Head, now: Timestamp) -> Result<Record> {
        if head.seq == MAX_SEQ {
            return Err(full(&self.audit_log));
        }
        let Self { audit_log, action, object, name, before, after } = self;
        let (seq, previous) = (head.seq + 1, head.digest);
        // A clock that is behind does not bring records out of their order.
        let at = head.at.max(now);
        let author = author.clone();
        Ok(Record { audit_log, seq, at, author, action, object, name, before, after, previous })
    }
}

/// Returns the time of a record: that of the engine, which all writers of an audit log share. With each writer's own clock, one that
/// is ahead would date all later records, since none is dated before the one before it.
fn time_of(table: &dyn Table) -> Timestamp {
    table.engine_time().unwrap_or_else(|| Clock::system().now())
}

/// Records an event that changes no item, such as refused attempts.
///
/// # Errors
/// Errors of the table.
pub async fn note(
    table: &dyn Table,
    audit_log: &AuditLog,
    author: &Author,
    (action, object): (&str, &str),
    after: Option<String>,
) -> Result<()> {
    let mut tries = policy().tries();
    loop {
        tries.next().await?;
        let said = Said {
            audit_log: audit_log.clone(),
            action: action.to_owned(),
            object: object.to_owned(),
            name: None,
            before: None,
            after: after.clone(),
        };
        let head = chain::head(table, audit_log).await?;
        let record = said.record(author, &head, time_of(table))?;
        if unless_overtaken(table.put(record.to_item(), Condition::Absent).await)?.is_some() {
            return Ok(());
        }
    }
}

fn policy() -> Policy<'static> {
    Policy { attempts: ATTEMPTS, pauses: true, kind: ErrorKind::Throttled, ..Policy::of(&"an audit log") }
}

/// Holder of the numbers of the records of a transaction that seems to have failed.
enum Standing {
    /// These records themselves: it succeeded, and its answer was lost.
    Own,
    /// Other records.
    Others,
    /// No record: the transaction failed for another reason.
    Nobody,
}

impl<T> Audited<T>
where
    T: Deref<Target: Table> + Debug + Send + Sync,
{
    /// Describes the changes of the watched items.
    async fn said(&self, watched: &[(&Write, Subject)]) -> Result<Vec<Said>> {
        let befores = watched.iter().map(|(write, _)| self.below.get(write.key()));
        let befores = try_join_all(befores).await?;
        let mut said = Vec::new();
        for ((write, subject), before) in watched.iter().zip(befores) {
            let after = match write {
                Write::Put(item, _) => Some(item.clone()),
                Write::Update(update) => match before.clone() {
                    Some(mut item) => {
                        update.apply(&mut item)?;
                        Some(item)
                    }
                    // The write fails.
                    None => None,
                },
                Write::Delete(..) => None,
                Write::Check(..) | Write::Add(..) => continue,
            };
            let Some((was, is)) = difference(before.as_ref(), after.as_ref()) else { continue };
            let Some(known) = after.as_ref().or(before.as_ref()) else { continue };
            said.push(Said {
                audit_log: subject.audit_log(before.is_some() && after.is_some()),
                action: subject.action(before.as_ref(), after.as_ref()),
                object: subject.object(known),
                name: subject.named(known),
                before: was,
                after: is,
            });
        }
        Ok(said)
    }

    /// Gives the descriptions their numbers.
    async fn records(&self, said: Vec<Said>, author: &Author) -> Result<Vec<Record>> {
        let mut heads = BTreeMap::<AuditLog, Head>::new();
        let mut records = Vec::with_capacity(said.len());
        for said in said {
            let audit_log = said.audit_log.clone();
            let head = match heads.get(&audit_log) {
                Some(head) => head.clone(),
                None => chain::head(self, &audit_log).await?,
            };
            let record = said.record(author, &head, time_of(self))?;
            heads.insert(audit_log, Head { seq: record.seq, at: record.at, digest: record.digest() });
            records.push(record);
        }
        Ok(records)
    }

    async fn standing(&self, records: &[Record]) -> Result<Standing> {
        let found = records.iter().map(async |record| {
            let key = key::audit_record(&record.audit_log, record.seq);
            let found = self.below.get(&key).await?.as_ref().map(Record::from_item).transpose()?;
            Ok::<_, Error>(found.map(|(found, _)| found == *record))
        });
        let found = try_join_all(found).await?;
        Ok(match found.iter().all(|found| *found == Some(true)) {
            true => Standing::Own,
            false if found.iter().any(Option::is_some) => Standing::Others,
            false => Standing::Nobody,
        })
    }
}

#[async_trait]
impl<T> Table for Audited<T>
where
    T: Deref<Target: Table> + Debug + Send + Sync,
{
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.below.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        self.below.query(query).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        match Subject::of_put(&item.key, &condition) {
            Some(_) => self.transact(vec![Write::Put(item, condition)]).await,
            None => self.below.put(item, condition).await,
        }
    }

    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        self.below.put_new(items, within).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        match Subject::of(key) {
            Some(_) => self.transact(vec![Write::Delete(key.clone(), condition)]).await,
            None => self.below.delete(key, condition).await,
        }
    }

    fn item_bytes(&self) -> usize {
        self.below.item_bytes()
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        let watched: Vec<_> =
            writes.iter().filter_map(|write| Some((write, Subject::of_write(write)?))).collect();
        if watched.is_empty() {
            return self.below.transact(writes).await;
        }
        let author = author::current();
        let mut tries = policy().tries();
        loop {
            tries.next().await?;
            let said = self.said(&watched).await?;
            let records = self.records(said, &author).await?;
            let puts = records.iter().map(|record| Write::Put(record.to_item(), Condition::Absent));
            let written = self.below.transact(writes.iter().cloned().chain(puts).collect()).await;
            match written {
                Err(error) if error.is_conflict() => match self.standing(&records).await? {
                    Standing::Own if !records.is_empty() => return Ok(()),
                    Standing::Others => {}
                    Standing::Own | Standing::Nobody => return Err(error),
                },
                written => return written,
            }
        }
    }

    async fn forget_deleted(&self) -> Result<()> {
        self.below.forget_deleted().await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.below.engine_time()
    }

    fn scratch(&self) -> PathBuf {
        self.below.scratch()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.below.shards().await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        self.below.changes(shard, from, wait).await
    }
}
