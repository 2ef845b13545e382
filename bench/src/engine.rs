//! Speed of the SQLite engine on this machine: appends of small items from one task and from many, appends of items
//! as long as segments, and scans of those.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use event::Clock;
use table::{Condition, Item, Key, KeyRange, Query, Table, sqlite::SqliteTable};
use tokio::{task::JoinSet, time::Instant};

const SMALL_ITEMS: usize = 10_000;
const LONG_ITEMS: usize = 2_000;
const LONG_BYTES: usize = 170_000;

/// Measures files in `folder`, on the disk to measure, and returns a line for each figure.
///
/// # Errors
/// Fails if a file cannot be written or read.
pub async fn measure(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut report = |what: &str, items, bytes, took| lines.push(line(what, items, bytes, took));
    for tasks in [1, 64] {
        let table = open(folder, &format!("small-{tasks}.db"))?;
        let took = append(&table, tasks, SMALL_ITEMS, 100).await?;
        report(&format!("append 100 B, {tasks} tasks"), SMALL_ITEMS, 100, took);
        let took = get(&table, tasks).await?;
        report(&format!("get 100 B, {tasks} tasks"), SMALL_ITEMS, 100, took);
    }
    for tasks in [1, 8] {
        let table = open(folder, &format!("long-{tasks}.db"))?;
        let took = append(&table, tasks, LONG_ITEMS, LONG_BYTES).await?;
        report(&format!("append 170 kB, {tasks} tasks"), LONG_ITEMS, LONG_BYTES, took);
        for readers in [1, 2] {
            let took = scan(&table, readers, None).await?;
            report(&format!("scan 170 kB, {readers} readers"), LONG_ITEMS, LONG_BYTES, took);
        }
        let took = scan(&table, 1, Some("n")).await?;
        report("scan 170 kB without data", LONG_ITEMS, 0, took);
    }
    Ok(lines)
}

fn open(folder: &Path, name: &str) -> anyhow::Result<Arc<dyn Table>> {
    Ok(Arc::new(SqliteTable::open(&folder.join(name), Clock::system())?))
}

fn key(at: usize) -> Key {
    Key::new("timing", format!("{at:010}"))
}

/// Appends items one by one, as ingest does: under the condition that the key is free, and each awaited before the
/// same task makes the next.
async fn append(
    table: &Arc<dyn Table>,
    tasks: usize,
    items: usize,
    bytes: usize,
) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let table = Arc::clone(table);
        running.spawn(async move {
            for at in (task..items).step_by(tasks) {
                let item =
                    Item::new(key(at)).with("v", 1).with("n", at as i64).with("data", vec![at as u8; bytes]);
                table.put(item, Condition::Absent).await?;
            }
            Ok(())
        });
    }
    join(running).await?;
    Ok(started.elapsed())
}

async fn get(table: &Arc<dyn Table>, tasks: usize) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let table = Arc::clone(table);
        running.spawn(async move {
            for at in (task..SMALL_ITEMS).step_by(tasks) {
                table.get(&key(at)).await?;
            }
            Ok(())
        });
    }
    join(running).await?;
    Ok(started.elapsed())
}

async fn scan(
    table: &Arc<dyn Table>,
    readers: usize,
    only: Option<&'static str>,
) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut running = JoinSet::new();
    let share = LONG_ITEMS / readers;
    for reader in 0..readers {
        let table = Arc::clone(table);
        running.spawn(async move {
            let (from, to) = (key(reader * share), key((reader + 1) * share - 1));
            let mut query = Query::table(KeyRange { pk: from.pk, from: from.sk, to: to.sk });
            query.attributes = only.map(|name| vec![name.to_owned()]);
            let mut found = 0;
            loop {
                let page = table.query(&query).await?;
                found += page.items.len();
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
            assert_eq!(found, share, "a scan finds every item once");
            Ok(())
        });
    }
    join(running).await?;
    Ok(started.elapsed())
}

async fn join(mut running: JoinSet<event::Result<()>>) -> anyhow::Result<()> {
    while let Some(done) = running.join_next().await {
        done.context("a task has panicked")??;
    }
    Ok(())
}

fn line(what: &str, items: usize, bytes: usize, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    let (rate, megabytes) = (items as f64 / seconds, (items * bytes) as f64 / seconds / 1e6);
    format!("{what:<28} {rate:>9.0} items/s {megabytes:>8.1} MB/s")
}
