//! Writes of one request inside of the transaction of a group.

use event::{Error, Result, Timestamp};
use rusqlite::Connection;

use super::{
    fault::Attempt,
    feed,
    row::{self, Row},
};
use crate::{Condition, Key, Update, Write, check};

/// Checked and encoded write.
#[derive(Debug)]
pub(super) enum Prepared {
    Put(Row, Condition),
    Delete(Key, Condition),
    Check(Key, Condition),
    Update(Update),
}

impl Prepared {
    /// Checks and encodes a write.
    ///
    /// # Errors
    /// `Invalid`, when it can never be made.
    pub(super) fn new(write: Write) -> Result<Self> {
        check::check_write(&write)?;
        Ok(match write {
            Write::Put(item, condition) => Prepared::Put(Row::new(item)?, condition),
            Write::Delete(key, condition) => Prepared::Delete(key, condition),
            Write::Check(key, condition) => Prepared::Check(key, condition),
            Write::Add(key, name, amount) => {
                Prepared::Update(Update::new(key, Condition::Exists).add(&name, amount))
            }
            Write::Update(update) => Prepared::Update(update),
        })
    }

    /// Key of the item that is written or checked.
    pub(super) fn key(&self) -> &Key {
        match self {
            Prepared::Put(row, _) => row.key(),
            Prepared::Delete(key, _) | Prepared::Check(key, _) => key,
            Prepared::Update(change) => &change.key,
        }
    }
}

/// Step of a request, taken once all its conditions hold.
enum Step {
    Put(Row),
    Delete(Key),
}

/// Makes all `writes` or refuses them all. Their keys differ, so no write can change the condition of another one: all conditions
/// are checked first, and a refusal has nothing to undo.
pub(super) fn apply(connection: &Connection, writes: Vec<Prepared>, now: Timestamp) -> Attempt<()> {
    let mut steps = Vec::with_capacity(writes.len());
    for write in writes {
        match write {
            Prepared::Put(row, condition) => {
                demand(connection, row.key(), &condition, now)?;
                steps.push(Step::Put(row));
            }
            Prepared::Delete(key, condition) => {
                demand(connection, &key, &condition, now)?;
                steps.push(Step::Delete(key));
            }
            Prepared::Check(key, condition) => demand(connection, &key, &condition, now)?,
            Prepared::Update(change) => steps.push(Step::Put(updated(connection, &change, now)?)),
        }
    }
    for step in steps {
        match step {
            Step::Put(row) => {
                row.write(connection)?;
                feed::record(connection, row.key(), now)?;
            }
            Step::Delete(key) => {
                if row::remove(connection, &key)? {
                    feed::record(connection, &key, now)?;
                }
            }
        }
    }
    Ok(())
}

fn demand(connection: &Connection, key: &Key, condition: &Condition, now: Timestamp) -> Attempt<()> {
    let attribute = |name: &str| {
        let item = row::load(connection, key, now, Some(&[name.to_owned()]))?;
        Attempt::Ok(item.map(|mut item| item.attributes.remove(name)))
    };
    let (holds, wrong) = match condition {
        Condition::None => return Ok(()),
        Condition::All(conditions) => {
            return conditions.iter().try_for_each(|condition| demand(connection, key, condition, now));
        }
        Condition::Absent => (!row::exists(connection, key, now)?, "exists already"),
        Condition::Exists => (row::exists(connection, key, now)?, "does not exist"),
        Condition::Equals(name, value) => {
            (attribute(name)?.flatten().is_some_and(|found| found == *value), "has changed")
        }
        Condition::Without(name) => (attribute(name)?.is_some_and(|found| found.is_none()), "has changed"),
    };
    if holds { Ok(()) } else { Err(Error::conflict(format!("item {key} {wrong}")).into()) }
}

fn updated(connection: &Connection, change: &Update, now: Timestamp) -> Attempt<Row> {
    let key = &change.key;
    let Some(mut item) = row::load(connection, key, now, None)? else {
        return Err(Error::conflict(format!("item {key} does not exist")).into());
    };
    demand(connection, key, &change.condition, now)?;
    change.apply(&mut item)?;
    Ok(Row::new(item)?)
}
