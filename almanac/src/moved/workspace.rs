//! `almanac restore` of one workspace, into a table that may hold others.
//!
//! The workspace's own items are restored first, segments before all else, and the item of the workspace itself last: until then
//! the workspace cannot be found. Nobody else writes its own items during the restore, so items not noted as stored were left by
//! a killed restore, and are deleted before it begins again.

use catalog::Catalog;
use event::{Clock, Error, Id, Result};
use log::{
    expired,
    key::{self, EntityId},
    layout::{self, LAYOUT},
};
use projector::heartbeat::heartbeats;
use table::{Condition, Item, Key, Scan, Table, engine::Whole, text};

use super::{
    chain::{Link, Newest},
    files::Sort,
    manifest::{Manifest, Named},
    part::{Part, sum},
    restore::{Marker, in_order, left, write},
};
use crate::{config::Config, open, progress::Progress, upgrade::is_alive};

/// Restores the workspace of a row of exports, the newest first.
///
/// # Errors
/// `Invalid`, when the table holds the workspace, or another one of its path, or is in an older layout; `Conflict`, while
/// projectors are at work, and when a name belongs to another principal there; `Corrupt`, when the restored items differ from the
/// exported ones; errors of the table.
pub(super) async fn restore(config: &Config, row: &[Link], named: &Named) -> Result<()> {
    let (store, clock) = (&config.store.value, Clock::system());
    let [Link { manifest, digest, .. }, ..] = row else {
        return Err(Error::invalid("no folder of an export is named"));
    };
    if named.layout > LAYOUT {
        return Err(Error::invalid(format!(
            "the workspace is of layout {}, this Almanac knows up to {LAYOUT}; use the one that exported it, or a newer one",
            named.layout
        )));
    }
    let id = Id::parse(&named.id)?;
    let held = Held::read(row, &id).await?;
    let table = open::to_write(config).await?;
    let whole = open::whole(config).await?;
    let catalog = Catalog::new(table.clone());
    let marker = Marker::load(&*table, key::restored_workspace(&id)).await?;
    if catalog.find(&EntityId::Workspace(id.clone())).await?.is_some() {
        return match marker.filter(|marker| marker.is_of(digest)) {
            Some(marker) => {
                // The workspace was added last, after the comparison.
                marker.done(&*table).await?;
                println!("{store}: the workspace {} was restored before; nothing was changed", named.path);
                Ok(())
            }
            None => Err(Error::invalid(format!(
                "the table holds the workspace {} already; a restore overwrites nothing",
                named.path
            ))),
        };
    }
    check(&*table, &clock).await?;
    for item in held.entities() {
        catalog.check_adoptable(item).await.map_err(explained)?;
    }
    let mut marker = claim((&*table, &*whole), &id, digest, marker).await?;
    if marker.files == 0 {
        clear((&*table, &*whole), &id).await?;
    }
    store_files(&*table, row, (&id, &mut marker), &clock).await?;
    let files: usize = in_order(row).iter().map(Vec::len).sum();
    compare((&*table, &*whole), (&id, manifest), &mut marker, files as i64).await?;
    // This precedes the workspace's own item, so after a failure the next call repeats it.
    expired::forget_notice(&*table, &id).await?;
    for item in held.entities() {
        catalog.adopt(item, clock.now()).await?;
    }
    marker.done(&*table).await?;
    println!(
        "{store}: the workspace {} with {} events in {} items, as they were at {}",
        named.path, manifest.events, manifest.items, manifest.at
    );
    if named.layout < LAYOUT {
        println!(
            "{store}: it came from layout {}; `almanac upgrade` writes again what is in an older form",
            named.layout
        );
    }
    Ok(())
}

/// Compares the stored items with the exported ones, once: the marker notes that by one more than the number of files. Then
/// deletes the items that belong to the time of another table.
async fn compare(
    (table, whole): (&dyn Table, &dyn Whole),
    (workspace, manifest): (&Id, &Manifest),
    marker: &mut Marker,
    files: i64,
) -> Result<()> {
    if marker.files > files {
        return Ok(());
    }
    let found = sum(whole, Some(workspace)).await?;
    if found == manifest.lasting {
        marker.files = files + 1;
        return marker.put(table, Condition::Exists).await;
    }
    marker.files = 0;
    marker.put(table, Condition::Exists).await?;
    Err(Error::corrupt(format!(
        "the workspace is not what was exported: {} lasting items instead of {}, or others; did a projector write to it meanwhile? Called \
         again, it begins from the start",
        found.items, manifest.lasting.items
    )))
}

/// Items that are added to the catalog last: users, groups and systems, then the workspace.
struct Held {
    people: Vec<Item>,
    root: Item,
}

impl Held {
    async fn read(row: &[Link], workspace: &Id) -> Result<Self> {
        let (mut people, mut root, mut newest) = (Vec::new(), None, Newest::default());
        let [_, others] = in_order(row);
        for (link, file) in others {
            for line in link.shelf.lines(file).await? {
                let item = text::item(&line?)?;
                if !newest.takes(&item.key) || Sort::Gone.names(&file.name) {
                    continue;
                }
                // Guards are made again.
                let is_entity = EntityId::of_key(&item.key).is_some();
                match Part::of(Some(workspace), &item) {
                    Some(Part::Person) if is_entity => people.push(item),
                    Some(Part::Root) if is_entity => root = Some(item),
                    Some(Part::Own | Part::Person | Part::Root) => {}
                    None => {
                        let message = format!(
                            "item {} of the export is of something else than the workspace",
                            item.key
                        );
                        return Err(Error::corrupt(message));
                    }
                }
            }
        }
        let root = root.ok_or_else(|| Error::corrupt("the export has no item of its workspace"))?;
        Ok(Self { people, root })
    }

    fn entities(&self) -> impl Iterator<Item = &Item> {
        self.people.iter().chain([&self.root])
    }
}

/// Adds advice to a conflict of names.
fn explained(error: Error) -> Error {
    match error.is_conflict() {
        true => Error::conflict(format!(
            "{error}, and it is another one than that of the export; rename one of the two, such as by `almanac user rename`"
        )),
        false => error,
    }
}

/// Returns the marker of the restore of an absent workspace: the found one, or a new one.
async fn claim(
    (table, whole): (&dyn Table, &dyn Whole),
    workspace: &Id,
    manifest: &str,
    found: Option<Marker>,
) -> Result<Marker> {
    let new = Marker::new(key::restored_workspace(workspace), manifest);
    match found {
        Some(found) if found.is_done => Err(Error::invalid(
            "the workspace was restored into the table, and deleted there; restore it into another table",
        )),
        Some(found) if found.is_of(manifest) => Ok(found),
        // Its items were left by an unfinished restore of another export.
        Some(_) => new.put(table, Condition::Exists).await.map(|()| new),
        None => {
            let mut first = None;
            each_own(whole, workspace, async |key| {
                first.get_or_insert(key);
                Ok(())
            })
            .await?;
            match first {
                Some(key) => Err(Error::invalid(format!(
                    "the table holds something of the workspace, such as item {key}; a restore overwrites nothing"
                ))),
                None => new.put(table, Condition::Absent).await.map(|()| new),
            }
        }
    }
}

/// Refuses a table that an older Almanac, or a projector, may be writing to.
async fn check(table: &dyn Table, clock: &Clock) -> Result<()> {
    if layout::load(table).await?.number < LAYOUT {
        return Err(Error::invalid("the table is in an older layout: call `almanac upgrade` first"));
    }
    let now = clock.now();
    let workers = heartbeats(table).await?;
    let alive: Vec<&str> =
        workers.iter().filter(|worker| is_alive(worker, now)).map(|worker| worker.worker.as_str()).collect();
    match alive.is_empty() {
        true => Ok(()),
        false => Err(Error::conflict(format!(
            "projectors are at work: {}; stop them until the workspace is restored (what is appended meanwhile is projected later), or wait a minute \
             where they are gone",
            alive.join(", ")
        ))),
    }
}

/// Deletes items of a restore that was killed before its first file was stored, or was of another export.
async fn clear((table, whole): (&dyn Table, &dyn Whole), workspace: &Id) -> Result<()> {
    each_own(whole, workspace, async |key| table.delete(&key, Condition::None).await).await
}

/// Gives the keys of the workspace's own items in a table.
async fn each_own(
    whole: &dyn Whole,
    workspace: &Id,
    mut to: impl AsyncFnMut(Key) -> Result<()>,
) -> Result<()> {
    let mut scan = Scan::default();
    loop {
        let page = whole.page(&scan).await?;
        for item in page.items {
            if Part::of(Some(workspace), &item) == Some(Part::Own) {
                to(item.key).await?;
            }
        }
        match page.next {
            Some(next) => scan.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Stores the workspace's own items from the files that are not stored yet.
async fn store_files(
    table: &dyn Table,
    row: &[Link],
    (workspace, marker): (&Id, &mut Marker),
    clock: &Clock,
) -> Result<()> {
    let order = in_order(row);
    let all = order.iter().flatten().map(|(_, file)| file.items).sum();
    let mut progress = Progress::new("restoring", all);
    let (mut done, mut at) = (0, 0);
    for pass in order {
        let mut newest = Newest::default();
        for (link, file) in pass {
            let is_stored = at < marker.files;
            at += 1;
            if row.len() > 1 || !is_stored {
                let items = left(link, file, &mut newest, row.len() > 1).await?;
                let own = |item: &Result<Item>| {
                    item.as_ref().map_or(true, |item| Part::of(Some(workspace), item) == Some(Part::Own))
                };
                let mut items = items.filter(own);
                match is_stored || Sort::Gone.names(&file.name) {
                    true => items.try_for_each(|item| item.map(drop))?,
                    false => write(table, items, (clock.now(), &Condition::None)).await?,
                }
            }
            if !is_stored {
                marker.files = at;
                marker.put(table, Condition::Exists).await?;
            }
            done += file.items;
            progress.at(done, "items");
        }
    }
    progress.finish();
    Ok(())
}
