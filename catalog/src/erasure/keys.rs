//! Digests of erased keys, made with a secret of the workspace that only the table holds. Without it nobody can test
//! whether a digest is that of a key.

use std::{collections::HashSet, sync::Arc};

use event::{Error, Id, Result, id::random_letters};
use hmac::{Hmac, KeyInit, Mac};
use log::{
    erased::{ErasureEpoch, LAST, OPEN, REWRITING},
    key,
};
use sha2::Sha256;
use table::{Condition, Item, Query, Table, Write, query_all};

/// Version of the item, and of a page of digests.
const ITEM_VERSION: i64 = 1;

/// Bytes of a digest: so many that no two keys share one.
const DIGEST_BYTES: usize = 16;

/// Maximum digests of a page: 64 KiB.
const PAGE_KEYS: usize = 4_096;

/// Maximum keys erased in a workspace.
pub const MAX_ERASED_KEYS: usize = 64 * PAGE_KEYS;

/// Letters of the secret: 256 bits.
const SECRET_LETTERS: usize = 43;

type Digest = [u8; DIGEST_BYTES];

/// The keys that were erased in a workspace.
#[derive(Debug, Default)]
pub struct ErasedKeys {
    /// Number of erased keys.
    count: u64,
    /// Computes digests with the secret of the workspace.
    mac: Option<Hmac<Sha256>>,
    digests: HashSet<Digest>,
}

impl ErasedKeys {
    /// Returns whether no key was erased.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Returns the number of erased keys, which only grows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether a key was erased.
    pub fn has(&self, key: &str) -> bool {
        self.mac.as_ref().is_some_and(|mac| self.digests.contains(&digest(mac, key)))
    }

    /// Reads the erased keys of a workspace: one read, and more if some were erased since `known` was read.
    pub(super) async fn load(
        table: &dyn Table,
        workspace: &Id,
        known: Option<Arc<Self>>,
    ) -> Result<Arc<Self>> {
        let head = Known::load(table, workspace).await?;
        if let Some(known) = known.filter(|known| known.count == head.count) {
            return Ok(known);
        }
        let mut digests = HashSet::new();
        if head.count > 0 {
            for page in query_all(table, Query::table(key::erased_pages(workspace))).await? {
                digests.extend(digests_of(&page)?);
            }
        }
        if (digests.len() as u64) < head.count {
            return Err(Error::corrupt(format!("digests of erased keys of {workspace} are missing")));
        }
        let mac = (head.count > 0).then(|| mac(&head.secret)).transpose()?;
        Ok(Arc::new(Self { count: head.count, mac, digests }))
    }
}

fn mac(secret: &[u8]) -> Result<Hmac<Sha256>> {
    Hmac::new_from_slice(secret).map_err(|_| Error::corrupt("the secret of erased keys is none"))
}

fn digest(mac: &Hmac<Sha256>, key: &str) -> Digest {
    let mut mac = mac.clone();
    mac.update(key.as_bytes());
    let mut digest = Digest::default();
    digest.copy_from_slice(&mac.finalize().into_bytes()[..DIGEST_BYTES]);
    digest
}

fn digests_of(page: &Item) -> Result<Vec<Digest>> {
    page.check_version(ITEM_VERSION)?;
    let bytes = page.bytes("data")?;
    let (digests, rest) = bytes.as_chunks::<DIGEST_BYTES>();
    match rest.is_empty() {
        true => Ok(digests.to_vec()),
        false => Err(page.corrupt("`data` is not digests")),
    }
}

/// Item with the secret and the count of erased keys.
#[derive(Debug, Default)]
pub(super) struct Known {
    epoch: ErasureEpoch,
    /// Number of erased keys.
    count: u64,
    secret: Vec<u8>,
    /// The erasure in progress.
    pub(super) open: Option<Id>,
    /// The erasure begun last.
    last: Option<Id>,
}

impl Known {
    pub(super) async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        let Some(item) = table.get(&key::erased(workspace)).await? else { return Ok(Self::default()) };
        item.check_version(ITEM_VERSION)?;
        Ok(Self {
            epoch: ErasureEpoch::of(&item)?,
            count: item.field("n")?,
            secret: item.bytes("secret")?.to_vec(),
            open: item.field(OPEN)?,
            last: item.field(LAST)?,
        })
    }

    /// Makes the write that replaces the item as it was read.
    fn put(&self, workspace: &Id, is_rewriting: bool) -> Write {
        let item = Item::new(key::erased(workspace))
            .with("v", ITEM_VERSION)
            .with("ver", self.epoch.ver + 1)
            .with("n", self.count as i64)
            .with("secret", self.secret.clone());
        let ids = [(OPEN, &self.open), (LAST, &self.last)];
        let ids = ids.into_iter().filter_map(|(name, id)| Some((name, id.as_ref()?)));
        let item = ids.fold(item, |item, (name, id)| item.with(name, id.as_str()));
        let item = if is_rewriting { item.with(REWRITING, 1) } else { item };
        Write::Put(item, Condition::unchanged(self.epoch.ver))
    }

    /// Makes that write with rewriting begun or ended, and its erasure open or not.
    pub(super) fn turned(mut self, workspace: &Id, is_rewriting: bool, is_open: bool) -> Write {
        self.open = self.open.filter(|_| is_open);
        self.put(workspace, is_rewriting)
    }

    /// Makes the writes that record some keys as erased, and the erasure in progress.
    ///
    /// # Errors
    /// `TooLarge`, when too many were erased; those of the table, and `Corrupt`.
    pub(super) async fn with(
        mut self,
        table: &dyn Table,
        workspace: &Id,
        keys: &[String],
        open: &Id,
    ) -> Result<Vec<Write>> {
        if self.secret.is_empty() {
            self.secret = random_letters(SECRET_LETTERS).into_bytes();
        }
        (self.open, self.last) = (Some(open.clone()), Some(open.clone()));
        let items = query_all(table, Query::table(key::erased_pages(workspace))).await?;
        let pages = items.iter().map(digests_of).collect::<Result<Vec<_>>>()?;
        let known: HashSet<&Digest> = pages.iter().flatten().collect();
        let mac = mac(&self.secret)?;
        let mut new: Vec<Digest> = keys.iter().map(|key| digest(&mac, key)).collect();
        new.sort_unstable();
        new.dedup();
        new.retain(|digest| !known.contains(digest));
        self.count += new.len() as u64;
        if self.count > MAX_ERASED_KEYS as u64 {
            return Err(Error::too_large(format!(
                "at most {MAX_ERASED_KEYS} keys are erased in a workspace"
            )));
        }
        let mut writes = Vec::new();
        let mut at = pages.len().saturating_sub(1);
        while !new.is_empty() {
            let mut page = pages.get(at).cloned().unwrap_or_default();
            let room = PAGE_KEYS.saturating_sub(page.len()).min(new.len());
            page.extend(new.drain(..room));
            if room > 0 {
                let ver = items.get(at).map_or(Ok(0), |item| item.int("ver"))?;
                let item = Item::new(key::erased_page(workspace, at as u32)).with("v", ITEM_VERSION);
                let item = item.with("ver", ver + 1).with("data", page.concat());
                writes.push(Write::Put(item, Condition::unchanged(ver)));
            }
            at += 1;
        }
        writes.push(self.put(workspace, false));
        Ok(writes)
    }
}

#[cfg(test)]
mod tests {
    use event::{Clock, Timestamp};
    use table::sqlite::SqliteTable;

    use super::*;

    /// Digest stored for an erased key, which is refused for good.
    #[test]
    fn golden_digest() {
        let hex: String =
            digest(&mac(b"secret").unwrap(), "loan-17").iter().map(|byte| format!("{byte:02x}")).collect();
        insta::assert_snapshot!(hex, @"e2e3a9f622b2bf4d95fd9e2281fa0285");
    }

    #[tokio::test]
    async fn erased_keys_are_stored_once_across_pages() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let workspace = Id::new(Timestamp::default());
        let note = async |keys: &[String]| {
            let known = Known::load(&table, &workspace).await.unwrap();
            let writes = known.with(&table, &workspace, keys, &workspace).await.unwrap();
            table.transact(writes).await.unwrap();
        };
        let known = ErasedKeys::load(&table, &workspace, None).await.unwrap();
        assert!(known.is_empty() && !known.has("key-0"));
        let keys: Vec<String> = (0..PAGE_KEYS + 10).map(|n| format!("key-{n}")).collect();
        note(&keys[..3]).await;
        note(&keys[1..]).await;
        note(&keys[..5]).await;
        let all = ErasedKeys::load(&table, &workspace, Some(known)).await.unwrap();
        assert_eq!((all.count, all.digests.len()), (keys.len() as u64, keys.len()));
        assert!(keys.iter().all(|key| all.has(key)) && !all.has("key"));
        let again = ErasedKeys::load(&table, &workspace, Some(Arc::clone(&all))).await.unwrap();
        assert!(Arc::ptr_eq(&again, &all), "nothing is read again");
        let pages = query_all(&table, Query::table(key::erased_pages(&workspace))).await.unwrap();
        assert_eq!(pages.len(), 2);
    }
}
