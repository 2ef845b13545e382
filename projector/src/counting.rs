//! Counts the time of the table ([`log::counted`]): a worker that saw it stand still for a minute of its monotonic clock adds
//! that minute.

use std::time::Duration;

use event::{Result, Timestamp};
use log::{
    counted::{self, CountedTime},
    key,
};
use table::Query;
use tokio::time::Instant;

use crate::shared::Shared;

/// Time between two looks of a worker.
const MINUTE: Duration = Duration::from_secs(60);

/// Maximum number of minutes counted at once, however long no worker has counted.
const MOST_MINUTES: u32 = 10;

/// Maximum number of workspaces whose latest known time is read when a table's time begins.
const MAX_WITNESSES: usize = 1_000;

/// State of a worker's view of the counted time.
#[derive(Debug)]
pub(crate) struct Counting {
    /// Version that it saw, and the instant at which it first saw it.
    seen: Option<(i64, Instant)>,
    look_at: Instant,
}

impl Counting {
    pub(crate) fn new() -> Self {
        Self { seen: None, look_at: Instant::now() }
    }

    /// Looks once a minute, and counts the time passed. `others` are the clocks of the other workers that are not dead.
    pub(crate) async fn tick(&mut self, shared: &Shared, others: &[Timestamp]) -> Result<()> {
        let now = Instant::now();
        if now < self.look_at {
            return Ok(());
        }
        let clocks = others.iter().copied().chain(shared.table.engine_time());
        let clocks = clocks.fold(shared.now(), Timestamp::min);
        let (next, counted_to) = match counted::load(&*shared.table).await? {
            None => {
                let told = witnessed(shared).await?;
                (CountedTime::first(told.map_or(clocks, |told| told.min(clocks))), now)
            }
            Some(time) => {
                let since = self.seen.filter(|(ver, _)| *ver == time.ver).map(|(_, since)| since);
                let since = since.unwrap_or(now);
                let minutes = ((now - since).as_secs() / MINUTE.as_secs()) as u32;
                if minutes == 0 {
                    self.seen = Some((time.ver, since));
                    self.look_at = since + MINUTE;
                    return Ok(());
                }
                // The rest of the last minute is counted with the next, unless there was a long pause.
                let counted_to = if minutes > MOST_MINUTES { now } else { since + MINUTE * minutes };
                (time.after(i64::from(minutes.min(MOST_MINUTES)), clocks), counted_to)
            }
        };
        self.look_at = counted_to + MINUTE;
        match next.write(&*shared.table).await {
            Ok(()) => self.seen = Some((next.ver, counted_to)),
            // Another worker counts.
            Err(error) if error.is_conflict() => self.seen = None,
            Err(error) => {
                self.look_at = now;
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Latest time known from events: the time at which the last segment of the last day of each workspace was appended. So the clock
/// of the first worker of a used table is not trusted alone.
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
