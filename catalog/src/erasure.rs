//! Erasures: keys of events that are removed from a workspace, and refused from then on.
//!
//! An erasure is an item with its task and its progress; the projector carries it out. The same transaction stores the
//! digests of its keys, by which ingest refuses events of them ([`ErasedKeys`]). The item has the keys themselves until
//! no other data has them.
//!
//! A workspace has one erasure at a time, so one process at a time rewrites its segments.

mod item;
mod keys;
mod reviews;

use event::{Error, Id, Result, Timestamp, fields::MAX_REASON_BYTES};
use log::key;
use table::{Index, Query, Write, query_all, unless_overtaken};

use self::keys::Known;
pub use self::{
    item::{Erasure, ErasurePhase, LeftOfErasure, MAX_UNREADABLE},
    keys::{ErasedKeys, MAX_ERASED_KEYS},
};
use super::{Catalog, create::BUSY};

/// Maximum keys of one erasure.
pub const MAX_ERASURE_KEYS: usize = 100;

/// Maximum erasures in a list: the latest.
pub const MAX_ERASURES: usize = 100;

/// Time after the beginning of an erasure from which no event of its keys is stored, in seconds:
/// [`CACHED_SECONDS`](super::CACHED_SECONDS) until every ingest service refuses them, and 10 until each earlier write
/// has ended.
pub const ERASURE_WAIT_SECONDS: u64 = super::CACHED_SECONDS as u64 + 11;

impl Catalog {
    /// Begins to erase keys of a workspace, `with_values` or without: from now on events of them are refused. Returns the same
    /// erasure if it is already going on.
    ///
    /// # Errors
    /// `Invalid`, when there are no keys, or too many, or one that no event can have, or the reason is missing or has a key in
    /// it; `Conflict`, while other keys are being erased; `TooLarge`, when too many were; those of the table.
    pub async fn begin_erasure(
        &self,
        workspace: &Id,
        (keys, with_values): (&[String], bool),
        reason: &str,
        now: Timestamp,
    ) -> Result<Erasure> {
        check_keys(keys)?;
        check_reason(reason, keys)?;
        let mut tries = BUSY.tries();
        loop {
            tries.next().await?;
            let known = Known::load(&*self.table, workspace).await?;
            if let Some(open) = &known.open {
                let going = self.erasure(workspace, open).await?;
                return match keys.iter().all(|key| going.keys.contains_key(key)) {
                    true if going.with_values == with_values => Ok(going),
                    true => Err(Error::conflict(format!(
                        "these keys are being erased {} their values ({open}), and after that nothing is found by them: carry it out as it was begun",
                        if with_values { "without" } else { "with" }
                    ))),
                    false => Err(Error::conflict(format!(
                        "other keys are being erased in this workspace ({open}); begin when that is done"
                    ))),
                };
            }
            let erasure = Erasure::new(workspace, (keys, with_values), reason, now);
            let mut writes = vec![erasure.put()];
            writes.extend(known.with(&*self.table, workspace, keys, &erasure.id).await?);
            if unless_overtaken(self.table.transact(writes).await)?.is_some() {
                return Ok(erasure);
            }
        }
    }

    /// Reads an erasure by its id.
    ///
    /// # Errors
    /// `NotFound`; those of the table.
    pub async fn erasure(&self, workspace: &Id, id: &Id) -> Result<Erasure> {
        let item = self.table.get(&key::erasure(workspace, id)).await?;
        let missing = || Error::not_found(format!("there is no erasure `{id}` in this workspace"));
        Erasure::from_item(&item.ok_or_else(missing)?)
    }

    /// Reads the latest erasures of a workspace, the last one first: [`MAX_ERASURES`] at most.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn erasures(&self, workspace: &Id) -> Result<Vec<Erasure>> {
        let mut query = Query::table(key::erasures(workspace)).backward().limit(MAX_ERASURES);
        let mut erasures = Vec::new();
        loop {
            let page = self.table.query(&query).await?;
            erasures.extend(page.items.iter().map(Erasure::from_item).collect::<Result<Vec<_>>>()?);
            match page.next {
                Some(next) if erasures.len() < MAX_ERASURES => query.after = Some(next),
                _ => break,
            }
        }
        erasures.truncate(MAX_ERASURES);
        Ok(erasures)
    }

    /// Reads the erasures of all workspaces that are not done: the workspace and the id of each.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn open_erasures(&self) -> Result<Vec<(Id, Id)>> {
        let query = Query::index(Index::Gsi1, key::OPEN_ERASURES).only(&["v"]);
        let items = query_all(&*self.table, query).await?;
        Ok(items.iter().filter_map(|item| key::parse_erasure(&item.key)).collect())
    }

    /// Writes the progress of an erasure, together with `others`. Returns false if another process was quicker.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn move_erasure(&self, erasure: &mut Erasure, others: Vec<Write>) -> Result<bool> {
        let mut writes = vec![erasure.next()];
        writes.extend(others);
        let written = unless_overtaken(self.table.transact(writes).await)?.is_some();
        erasure.ver += i64::from(written);
        Ok(written)
    }

    /// Writes the progress of an erasure, and records if events of the workspace are being rewritten from now on and if an
    /// erasure is open.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn turn_erasure(&self, erasure: &mut Erasure, is_rewriting: bool) -> Result<bool> {
        let known = Known::load(&*self.table, &erasure.workspace).await?;
        let is_open = erasure.phase.is_open();
        self.move_erasure(erasure, vec![known.turned(&erasure.workspace, is_rewriting, is_open)]).await
    }

    /// Marks that an erasure is being worked on.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn touch_erasure(&self, erasure: &Erasure) -> Result<()> {
        let update =
            table::Update::new(key::erasure(&erasure.workspace, &erasure.id), table::Condition::Exists);
        unless_overtaken(self.table.transact(vec![Write::Update(update.add("beats", 1))]).await).map(drop)
    }

    /// Reads the keys that were erased in a workspace; returns `known`, if it is still complete.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn erased_keys(
        &self,
        workspace: &Id,
        known: Option<std::sync::Arc<ErasedKeys>>,
    ) -> Result<std::sync::Arc<ErasedKeys>> {
        ErasedKeys::load(&*self.table, workspace, known).await
    }
}

fn check_keys(keys: &[String]) -> Result<()> {
    if keys.is_empty() || keys.len() > MAX_ERASURE_KEYS {
        return Err(Error::invalid(format!(
            "1 to {MAX_ERASURE_KEYS} keys are erased at once, not {}",
            keys.len()
        )));
    }
    for key in keys {
        let most = event::fields::MAX_KEY_BYTES;
        if key.is_empty() || key.len() > most {
            return Err(Error::invalid(format!(
                "a key has 1 to {most} bytes; one of these has {}",
                key.len()
            )));
        }
        if event::pseudonym::is_pseudonym(key) {
            return Err(Error::invalid("one of these is a pseudonym: its key is erased already"));
        }
    }
    Ok(())
}

/// Refuses a reason that is empty, too long, or contains a key: it stays for good, also in the audit log.
fn check_reason(reason: &str, keys: &[String]) -> Result<()> {
    if reason.trim().is_empty() || reason.len() > MAX_REASON_BYTES {
        return Err(Error::invalid(format!("the reason has 1 to {MAX_REASON_BYTES} bytes, and says why")));
    }
    match keys.iter().any(|key| key.len() > 3 && reason.contains(key.as_str()) || reason.trim() == key) {
        true => Err(Error::invalid("the reason has a key in it, and stays; say it without")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erasure_check_refuses_bad_keys_and_revealing_reasons() {
        let keys = |keys: &[&str]| check_keys(&keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
        assert!(keys(&["loan-1", "ü"]).is_ok());
        for wrong in [&[][..], &[""], &[&"x".repeat(257)], &["erased~x"], &["k"; MAX_ERASURE_KEYS + 1]] {
            assert!(keys(wrong).is_err(), "{wrong:?}");
        }
        let reason = |reason: &str| check_reason(reason, &["loan-17".to_owned(), "a".to_owned()]);
        assert!(reason("asked for by letter 9").is_ok());
        for wrong in ["", " ", "letter of loan-17", "a", &"x".repeat(MAX_REASON_BYTES + 1)] {
            assert!(reason(wrong).is_err(), "{wrong}");
        }
    }
}
