//! Counts the time of the table ([`store::counted`]): a worker that saw it stand still for a minute of its
//! monotonic clock adds that minute.

use std::time::Duration;

use store::{
    Result, Timestamp,
    counted::{self, CountedTime},
    key,
    table::Query,
};
use tokio::time::Instant;

use crate::worker::Shared;

/// How often a worker looks.
const MINUTE: Duration = Duration::from_secs(60);

/// How many minutes are counted in one go at most, however long nobody counted.
const MOST_MINUTES: u64 = 10;

/// How many workspaces are asked for the latest time that they know when a table's time begins.
const MAX_WITNESSES: usize = 1_000;

/// What a worker has seen of the counted time.
#[derive(Debug)]
pub(crate) struct Counting {
    /// The version that it saw, and when for the first time.
    seen: Option<(i64, Instant)>,
    look_at: Instant,
}

impl Counting {
    pub(crate) fn new() -> Self {
        Self { seen: None, look_at: Instant::now() }
    }

    /// Looks, once a minute, and counts what has passed. `others` are the clocks of the other workers that
    /// are not dead.
    pub(crate) async fn tick(&mut self, shared: &Shared, others: &[Timestamp]) -> Result<()> {
        let now = Instant::now();
        if now < self.look_at {
            return Ok(());
        }
        let clocks = others.iter().copied().chain(shared.table.engine_time());
        let clocks = clocks.fold(shared.now(), Timestamp::min);
        let next = match counted::load(&*shared.table).await? {
            None => CountedTime::first(witnessed(shared).await?.map_or(clocks, |told| told.min(clocks))),
            Some(time) => {
                let since = self.seen.filter(|(ver, _)| *ver == time.ver).map(|(_, since)| since);
                let minutes = since.map_or(0, |since| (now - since).as_secs() / MINUTE.as_secs());
                if minutes == 0 {
                    self.seen = Some((time.ver, since.unwrap_or(now)));
                    self.look_at = self.seen.map_or(now, |(_, since)| since) + MINUTE;
                    return Ok(());
                }
                time.after(minutes.min(MOST_MINUTES) as i64, clocks)
            }
        };
        match next.write(&*shared.table).await {
            Ok(()) => self.seen = Some((next.ver, Instant::now())),
            // Somebody else counts.
            Err(error) if error.is_conflict() => self.seen = None,
            Err(error) => return Err(error),
        }
        self.look_at = now + MINUTE;
        Ok(())
    }
}

/// The latest time that the events tell which are there: when the last segment of the last day of each workspace
/// was appended. So the first worker of a table that is used already is not believed alone.
async fn witnessed(shared: &Shared) -> Result<Option<Timestamp>> {
    let mut latest = None;
    for workspace in shared.catalog.workspaces().await?.iter().take(MAX_WITNESSES) {
        let query = Query::table(key::segments(workspace.id())).backward().limit(1).only(&["appended_at"]);
        let page = shared.table.query(&query).await?;
        let told = page.items.first().and_then(|item| item.int("appended_at").ok());
        latest = latest.max(told.and_then(Timestamp::from_micros));
    }
    Ok(latest)
}
