//! Following a log: first stored events, then new ones. Each answer holds some segments, whole, and names the read version up to which
//! everything has been answered; the next request continues from that read version.
//!
//! So a follower sees every event at least once, and again if it did not note the read version. Events of a day come in the order of their
//! logs, so those of a key come in their order. Warnings name the data that will never come: segments that an operator skipped or
//! that cannot be read, and days that expired before they were read.

mod page;
mod watch;

use std::time::Duration;

use event::{Day, Error, Id, Kind, Result};
use log::read_version::ReadVersion;
use tokio::time::Instant;

pub(crate) use self::watch::Watches;
use self::{page::Page, watch::Watch};
use crate::{
    Answer, Query,
    answer::Held,
    events::{self, Wanted},
    request::{Dataset, Params, Request},
};

/// Name in metrics.
pub(crate) const NAME: &str = "follow";

/// Maximum wait of a request, in seconds.
pub const MAX_WAIT_SECONDS: u32 = 30;

/// Default number of rows of an answer. It ends behind the segment with which it reaches the number.
pub const DEFAULT_ROWS: usize = 10_000;
/// Maximum number of rows of an answer. See [`DEFAULT_ROWS`].
pub const MAX_ROWS: usize = 100_000;

/// The events to follow, and the position to start from.
#[derive(Clone, Debug)]
pub struct Follow {
    /// The events and their columns. Its days are ignored.
    request: Request,
    kind: Kind,
    /// Only days from this one on.
    from: Day,
    /// Only events that are not in this read version.
    after: Option<ReadVersion>,
    /// Time to wait for events if there are none.
    wait: Duration,
    /// Approximate maximum number of rows of an answer.
    rows: usize,
}

/// The parameters of following a log, as text.
#[derive(Clone, Debug, Default)]
pub struct FollowParams<'a> {
    /// The events and their columns: `release`, `columns`, `filter`, `tag`, `key` and `sample`.
    pub words: Params<'a>,
    /// The first day; by default the first of all, or that of the read version.
    pub from: Option<&'a str>,
    /// The read version of the answer before.
    pub after: Option<&'a str>,
    /// Seconds to wait for events if there are none; none by default.
    pub wait: Option<&'a str>,
    /// Approximate maximum number of rows of an answer.
    pub limit: Option<&'a str>,
}

/// Some events of a followed log.
#[derive(Debug)]
pub struct Followed {
    /// The rows, and the read version up to which everything has been answered.
    pub answer: Answer,
    /// Number of segments that follow, as far as is known.
    pub behind: u64,
}

impl Follow {
    /// Parses the parameters of following a log.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub fn parse(kind: Kind, words: &FollowParams<'_>) -> Result<Self> {
        let named = |name: &str, error: Error| Error::invalid(format!("{name}: {error}"));
        let from =
            words.from.map(|day| day.parse::<Day>().map_err(|error| named("from", error))).transpose()?;
        let after =
            words.after.map(str::parse::<ReadVersion>).transpose().map_err(|error| named("after", error))?;
        let wait = within("wait", words.wait, 0, MAX_WAIT_SECONDS as usize)?.unwrap_or_default();
        let rows = within("limit", words.limit, 1, MAX_ROWS)?.unwrap_or(DEFAULT_ROWS);
        let day = Day::FIRST.to_string();
        let asked = Params { from: &day, to: &day, ..words.words.clone() };
        let request = Request::parse(Dataset::Events(kind), &asked)?;
        let from = from.unwrap_or(Day::FIRST);
        Ok(Self { request, kind, from, after, wait: Duration::from_secs(wait as u64), rows })
    }

    /// Continues behind a read version.
    #[must_use]
    pub fn after(self, read_version: ReadVersion) -> Self {
        Self { after: Some(read_version), ..self }
    }

    /// Returns true if a read version has other heads than the one to continue from, or there is none to continue from.
    pub fn is_before(&self, read_version: &ReadVersion) -> bool {
        self.after.as_ref().is_none_or(|after| after.heads != read_version.heads)
    }

    /// Returns the kind of events followed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the read version to continue from.
    fn begin(&self, workspace: &Id) -> Result<ReadVersion> {
        let Some(after) = &self.after else { return Ok(ReadVersion::begin(workspace, self.kind, self.from)) };
        if after.workspace != *workspace {
            return Err(Error::invalid(format!(
                "after: the read version is of the workspace {}",
                after.workspace
            )));
        }
        if after.kinds != [self.kind].into() {
            return Err(Error::invalid(format!(
                "after: the read version is not of {} alone",
                self.kind.name()
            )));
        }
        let mut read_version = after.clone();
        if self.from > read_version.window.from() {
            read_version.heads.retain(|log, _| log.day >= self.from);
            read_version.left_out.retain(|(log, _)| log.day >= self.from);
            read_version.window = event::Window::of(self.from).until(read_version.window.to());
        }
        Ok(read_version)
    }
}

fn within(name: &str, word: Option<&str>, least: usize, most: usize) -> Result<Option<usize>> {
    let number = |word: &str| {
        let number = word.parse().ok().filter(|number| (least..=most).contains(number));
        number
            .ok_or_else(|| Error::invalid(format!("{name}: `{word}` is not a number from {least} to {most}")))
    };
    word.map(number).transpose()
}

impl Query {
    /// Returns the next events of a followed log, as soon as there are some.
    ///
    /// # Errors
    /// `Invalid`, if it names a column or a release that does not exist, or a read version of something else; `TooLarge` and
    /// `Unavailable`, if it takes too much of the bounds; errors of the table.
    pub async fn follow(&self, workspace: &Id, follow: &Follow) -> Result<Followed> {
        let until = Instant::now() + follow.wait;
        self.check_release(workspace, &follow.request).await?;
        let wanted = self.wanted(follow.kind, &follow.request).await?;
        events::check(&wanted)?;
        let read_version = follow.begin(workspace)?;
        let watch = self.watches.over(&self.table, &self.clock, workspace, follow.kind).await?;
        let mut has_looked = self.check_there(&watch, &read_version).await?;
        let mut news = watch.news();
        let mut stays = Page::nothing(&read_version);
        loop {
            news.mark_unchanged();
            let page = self.read_after(&watch, &read_version, &wanted, follow.rows).await?;
            if page.is_news {
                return self.followed(&watch, &wanted, page).await;
            }
            stays.warnings = page.warnings;
            if follow.wait.is_zero() && !has_looked {
                has_looked = true;
                watch.look_at_all().await?;
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.watches.is_closed() {
                return self.followed(&watch, &wanted, stays).await;
            }
            tokio::select! {
                () = watch.wait(&mut news, left) => {}
                () = self.watches.closed() => {}
            }
        }
    }

    /// Continues from the stored read version of a consumer, if there is one.
    ///
    /// # Errors
    /// `Conflict`, if the consumer follows another kind; errors of the table.
    pub async fn of_consumer(&self, workspace: &Id, name: &str, follow: Follow) -> Result<Follow> {
        match self.catalog.consumer(workspace, name).await? {
            None => Ok(follow),
            Some(consumer) if consumer.read_version.kinds == [follow.kind].into() => {
                Ok(follow.after(consumer.read_version))
            }
            Some(consumer) => {
                let kind = consumer.kind().map_or("something else", Kind::name);
                Err(Error::conflict(format!("the consumer `{name}` follows {kind}")))
            }
        }
    }

    /// Checks a request to follow a log, without reading any event.
    ///
    /// # Errors
    /// Errors of [`Query::follow`].
    pub async fn check_follow(&self, workspace: &Id, follow: &Follow) -> Result<()> {
        self.check_release(workspace, &follow.request).await?;
        events::check(&self.wanted(follow.kind, &follow.request).await?)?;
        follow.begin(workspace).map(drop)
    }

    /// Ends all waiting for events: waiting requests are answered, and later ones do not wait.
    pub fn close(&self) {
        self.watches.close();
    }

    /// Returns as soon as waiting has ended for all.
    pub(crate) async fn closed(&self) {
        self.watches.closed().await;
    }

    /// Refuses a read version that is ahead of the table. Returns true if all days were looked at for that.
    async fn check_there(&self, watch: &Watch, read_version: &ReadVersion) -> Result<bool> {
        if watch.ahead(&read_version.heads).is_none() {
            return Ok(false);
        }
        // Another process may have appended the segment.
        watch.look_at_all().await?;
        match watch.ahead(&read_version.heads) {
            None => Ok(true),
            Some((log, seq)) => Err(Error::invalid(format!(
                "after: the read version names the segment {}/{}/{seq}, which is not there; is it of another table, or was the table set back?",
                log.day,
                log.name()
            ))),
        }
    }

    async fn followed(&self, watch: &Watch, wanted: &Wanted, page: Page) -> Result<Followed> {
        let Page { frame, read_version, warnings, held, began, .. } = page;
        let held = match held {
            Some(held) => held,
            None => {
                let (turn, hold) = self.budget.enter(Some(&read_version.workspace)).await?;
                Held { wanted: hold.wanted(), hold, turn: Some(turn) }
            }
        };
        let frame = match frame {
            Some(frame) => frame,
            None => {
                let names = wanted.columns.clone();
                let all = || events::all_names(wanted.kind, &Default::default());
                events::no_rows(wanted.kind, &names.unwrap_or_else(all))?
            }
        };
        let behind = watch.behind(&read_version.heads, read_version.window.from(), read_version.as_of);
        let behind = behind.segments(&read_version.heads);
        let answer = self.answer(NAME, began, frame, (None, None), held).await?;
        Ok(Followed { answer: Answer { read_version: Some(read_version), warnings, ..answer }, behind })
    }
}
