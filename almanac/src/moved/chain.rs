//! Incremental exports: the order of a row of exports, and its total content.

use std::collections::{HashMap, HashSet};

use event::{Error, Result};
use sha2::{Digest, Sha256};
use table::{Item, Key, text};

use super::{
    files::{SORTS, Sort},
    manifest::{FileOf, Manifest, hex},
    shelf::Shelf,
};
use crate::depot::Depot;

/// Digest of a key or a line, unique in practice.
type Mark = [u8; 16];

fn mark(bytes: &[u8]) -> Mark {
    let mut mark = Mark::default();
    mark.copy_from_slice(&Sha256::digest(bytes)[..16]);
    mark
}

fn mark_of(key: &Key) -> Mark {
    mark(format!("{}\0{}", key.pk, key.sk).as_bytes())
}

/// An export with its place.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) shelf: Shelf,
    pub(super) manifest: Manifest,
    /// SHA-256 of the text of the manifest.
    pub(super) digest: String,
}

impl Link {
    /// Reads the manifest of an export.
    ///
    /// # Errors
    /// A failure to read it; errors of [`Manifest::parse`].
    async fn read(shelf: Shelf) -> Result<Self> {
        let text = shelf.manifest().await?;
        let manifest = Manifest::parse(&text)?;
        Ok(Self { shelf, manifest, digest: hex(&Sha256::digest(&text)) })
    }

    /// Files of a sort.
    pub(super) fn files(&self, sort: Sort) -> impl Iterator<Item = &FileOf> {
        self.manifest.files.iter().filter(move |file| sort.names(&file.name))
    }
}

/// Reads the exports of these folders or prefixes, named in any order: the newest first, then its base, and so on to a whole one.
///
/// # Errors
/// `Invalid`, when they do not form one such row; errors of [`Manifest::parse`].
pub(super) async fn read(depots: &[Depot], region: Option<&str>) -> Result<Vec<Link>> {
    let mut left: HashMap<String, Link> = HashMap::new();
    for depot in depots {
        let link = Link::read(Shelf::open(depot, region).await?).await?;
        if let Some(other) = left.insert(link.digest.clone(), link) {
            let message = format!("{} and {depot} hold the same export", other.shelf);
            return Err(Error::invalid(message));
        }
    }
    let bases: HashSet<String> = left.values().filter_map(|link| link.manifest.base.clone()).collect();
    if let Some(base) = bases.iter().find(|base| !left.contains_key(*base)) {
        let of = left.values().find(|link| link.manifest.base.as_ref() == Some(base));
        return Err(Error::invalid(format!(
            "{} holds only what changed since an earlier export, whose manifest has the SHA-256 {base}; name its folder too",
            of.map(|link| link.shelf.to_string()).unwrap_or_default()
        )));
    }
    let mut newest = left.values().filter(|link| !bases.contains(&link.digest));
    let (first, second) = (newest.next(), newest.next());
    let mut next = first.filter(|_| second.is_none()).map(|link| link.digest.clone());
    let mut row: Vec<Link> = Vec::new();
    while let Some(link) = next.and_then(|digest| left.remove(&digest)) {
        next = link.manifest.base.clone();
        row.push(link);
    }
    let of = |link: &Link| link.manifest.workspace.as_ref().map(|named| named.id.clone());
    if let Some(other) = row.iter().find(|link| of(link) != of(&row[0])) {
        let message = format!("{} and {} are not of the same workspace", row[0].shelf, other.shelf);
        return Err(Error::invalid(message));
    }
    match left.is_empty() {
        true => Ok(row),
        false => Err(Error::invalid(
            "these exports are not one row: one of them must be whole, and every other one must go on from one of them",
        )),
    }
}

/// Keys seen in a row of exports, which are read from the newest to the oldest: each key counts once, as in the newest export.
#[derive(Debug, Default)]
pub(super) struct Newest(HashSet<Mark>);

impl Newest {
    /// Notes a key; returns true the first time, for its newest item.
    pub(super) fn takes(&mut self, key: &Key) -> bool {
        self.0.insert(mark_of(key))
    }
}

/// Content of a row of exports: digests of lines by digests of keys. It takes 32 bytes an item plus the overhead of a hash map.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<Mark, Mark>);

impl Known {
    /// Reads the content of a row, the newest first.
    ///
    /// # Errors
    /// A file that cannot be read, or differs from the manifest.
    pub(super) async fn of(row: &[Link]) -> Result<Self> {
        let (mut newest, mut known) = (Newest::default(), Self::default());
        for link in row {
            for file in &link.manifest.files {
                link.shelf.check(file).await?;
            }
            for (sort, file) in
                SORTS.into_iter().flat_map(|sort| link.files(sort).map(move |file| (sort, file)))
            {
                for line in link.shelf.lines(file).await? {
                    let line = line?;
                    let item = text::item(&line)?;
                    if newest.takes(&item.key) && sort != Sort::Gone {
                        known.0.insert(mark_of(&item.key), mark(line.as_bytes()));
                    }
                }
            }
        }
        Ok(known)
    }

    /// Removes an item; returns true if it is unchanged. Keys that remain in the end have been deleted.
    pub(super) fn takes_out(&mut self, item: &Item, line: &str) -> bool {
        self.0.remove(&mark_of(&item.key)) == Some(mark(line.as_bytes()))
    }

    /// Gives the remaining keys of the row.
    ///
    /// # Errors
    /// Errors of `to`; a file that cannot be read.
    pub(super) async fn left(
        mut self,
        row: &[Link],
        mut to: impl AsyncFnMut(&Key) -> Result<()>,
    ) -> Result<()> {
        let of = |link| {
            [Sort::Segments, Sort::Items].map(|sort| Link::files(link, sort).map(move |file| (link, file)))
        };
        for (link, file) in row.iter().flat_map(of).flatten() {
            // Usually no keys remain.
            if self.0.is_empty() {
                return Ok(());
            }
            for line in link.shelf.lines(file).await? {
                let item = text::item(&line?)?;
                if self.0.remove(&mark_of(&item.key)).is_some() {
                    to(&item.key).await?;
                }
            }
        }
        Ok(())
    }
}
