//! Free counters: named whole numbers on any entity.

use std::collections::BTreeMap;

use event::{Error, ErrorKind, Result, id::check_name};
use log::key::{self, EntityId};
use serde::Deserialize;
use serde_json::json;
use table::{Change, Item, Policy, Query, check, item::Value, query_all, update};

use super::Catalog;

const ITEM_VERSION: i64 = 1;

/// Number of the latest changes of a counter whose idempotency keys are remembered.
pub const MAX_REMEMBERED: usize = 100;

/// Maximum bytes of an idempotency key.
pub const MAX_KEY_BYTES: usize = 256;

impl Catalog {
    /// Adds `by` to a counter, which is 0 before its first change, and returns its value after that. A change repeated under the
    /// same idempotency key is not made twice: the first answer is returned again, as long as it is among the latest
    /// [`MAX_REMEMBERED`] changes of the counter.
    ///
    /// # Errors
    /// `NotFound`, when the entity does not exist; `Invalid`, when the name or the key is not valid, or the sum is too large;
    /// `Conflict`, when another change has the same key, or too many come at a time.
    pub async fn count(
        &self,
        of: &EntityId,
        name: &str,
        by: i64,
        idempotency_key: Option<&str>,
    ) -> Result<i64> {
        check_name(name)?;
        if idempotency_key.is_some_and(|key| key.is_empty() || key.len() > MAX_KEY_BYTES) {
            return Err(Error::invalid(format!("an idempotency key has 1 to {MAX_KEY_BYTES} bytes")));
        }
        self.get(of).await?;
        let key = key::free_counter(of, name);
        let policy = Policy {
            attempts: 200,
            pauses: true,
            kind: ErrorKind::Conflict,
            // A change with a key is known by that key.
            once: idempotency_key.is_none(),
            ..Policy::of(&"the counter")
        };
        update(&*self.table, &key, policy, async |known| {
            let before = known.unwrap_or_else(|| empty(key.clone()));
            if let Some(answer) = answered(&before, idempotency_key, by)? {
                return Ok(Change::Leave(answer));
            }
            let sum = check::sum(&key, "n", before.attributes.get("n"), by)?;
            let mut latest = before.list("latest")?.to_vec();
            latest
                .extend(idempotency_key.map(|key| Value::record(&json!({ "key": key, "by": by, "n": sum }))));
            latest.drain(..latest.len().saturating_sub(MAX_REMEMBERED));
            Ok(Change::Put(before.with("n", sum).with("latest", latest), sum))
        })
        .await
    }

    /// Reads the value of a counter; 0 when nothing was counted.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn counter(&self, of: &EntityId, name: &str) -> Result<i64> {
        check_name(name)?;
        match self.table.get(&key::free_counter(of, name)).await? {
            Some(item) => value(&item),
            None => Ok(0),
        }
    }

    /// Reads all counters of an entity, by name.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn counters(&self, of: &EntityId) -> Result<BTreeMap<String, i64>> {
        let items = query_all(&*self.table, Query::table(key::free_counters(of))).await?;
        let named = items.iter().filter_map(|item| {
            let (_, name) = key::parse_free_counter(&item.key.sk)?;
            Some(value(item).map(|value| (name.to_owned(), value)))
        });
        named.collect()
    }
}

fn empty(key: table::Key) -> Item {
    Item::new(key).with("v", ITEM_VERSION).with("n", 0).with("latest", Vec::<Value>::new())
}

/// Decodes the value of a counter.
pub(super) fn value(item: &Item) -> Result<i64> {
    item.check_version(ITEM_VERSION)?;
    item.int("n")
}

/// Change with an idempotency key, and the value after it.
#[derive(Deserialize)]
struct Counted {
    key: String,
    by: i64,
    n: i64,
}

/// Returns the earlier answer to this key.
fn answered(item: &Item, idempotency_key: Option<&str>, by: i64) -> Result<Option<i64>> {
    let Some(wanted) = idempotency_key else { return Ok(None) };
    for Counted { key, by: was, n } in item.field::<Vec<Counted>>("latest")? {
        if key == wanted {
            return match was == by {
                true => Ok(Some(n)),
                false => Err(Error::conflict(format!(
                    "the idempotency key `{wanted}` was used for a change by {was}, not by {by}"
                ))),
            };
        }
    }
    Ok(None)
}
