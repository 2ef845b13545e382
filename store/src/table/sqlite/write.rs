//! Making the writes of one request inside of the transaction of a group.

use rusqlite::Connection;

use super::{
    fault::Outcome,
    feed,
    row::{self, Row},
};
use crate::{
    Error, Result, Timestamp,
    item::{Number, Value},
    key::Key,
    table::{Condition, Write, check},
};

/// A write, checked and encoded.
#[derive(Debug)]
pub(super) enum Prepared {
    Put(Row, Condition),
    Delete(Key, Condition),
    Check(Key, Condition),
    Add(Key, String, i64),
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
            Write::Add(key, name, amount) => Prepared::Add(key, name, amount),
        })
    }
}

/// What to do once every condition of a request holds.
enum Step {
    Put(Row),
    Delete(Key),
}

/// Makes all `writes` or refuses them all. Their keys differ, so no write can change what another
/// one demands: all conditions are looked at first, and a refusal has nothing to undo.
pub(super) fn apply(connection: &Connection, writes: Vec<Prepared>, now: Timestamp) -> Outcome<()> {
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
            Prepared::Add(key, name, amount) => {
                steps.push(Step::Put(add(connection, &key, name, amount, now)?))
            }
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

fn demand(connection: &Connection, key: &Key, condition: &Condition, now: Timestamp) -> Outcome<()> {
    let (holds, wrong) = match condition {
        Condition::None => return Ok(()),
        Condition::Absent => (!row::exists(connection, key, now)?, "exists already"),
        Condition::Exists => (row::exists(connection, key, now)?, "does not exist"),
        Condition::Equals(name, value) => {
            let name = [(*name).to_owned()];
            let item = row::load(connection, key, now, Some(&name))?;
            let equal = item.is_some_and(|item| item.attributes.get(&name[0]) == Some(value));
            (equal, "has changed")
        }
    };
    if holds { Ok(()) } else { Err(Error::conflict(format!("item {key} {wrong}")).into()) }
}

fn add(connection: &Connection, key: &Key, name: String, amount: i64, now: Timestamp) -> Outcome<Row> {
    let Some(mut item) = row::load(connection, key, now, None)? else {
        return Err(Error::conflict(format!("item {key} does not exist")).into());
    };
    let wrong = |what| Error::invalid(format!("item {key}: attribute `{name}` {what}"));
    let before = match item.attributes.get(&name) {
        None => 0,
        Some(value) => check::whole(value).ok_or_else(|| wrong("is not a whole number"))?,
    };
    let sum = before.checked_add(amount).ok_or_else(|| wrong("would be too large"))?;
    item.attributes.insert(name, Value::N(Number::from(sum)));
    Ok(Row::new(item)?)
}
