//! Following a log: first what is stored, then what comes. Each answer holds some segments, whole, and names the cut up to
//! which everything has been answered; with it the next request goes on.
//!
//! So who follows sees every event at least once: again what it asked for and did not note. Events of a day come in
//! the order of their logs, so those of a key come in their order. What can never come any more is told: segments that an
//! operator skipped or that cannot be read, and days that expired before they were read.

mod page;
mod watch;

use std::time::Duration;

use event::{Day, Error, Id, Kind, Result};
use log::cut::Cut;
use tokio::time::Instant;

pub(crate) use self::watch::Watches;
use self::{page::Page, watch::Watch};
use crate::{
    Answer, Query,
    answer::Held,
    events::{self, Wanted},
    request::{Request, What, Words},
};

/// What is measured of it has this name.
pub(crate) const NAME: &str = "follow";

/// The longest wait of a request, in seconds.
pub const MAX_WAIT_SECONDS: u32 = 30;

/// How many rows an answer has when nothing else is said, and at most. It ends behind the segment with which it has so
/// many.
pub const DEFAULT_ROWS: usize = 10_000;
/// See [`DEFAULT_ROWS`].
pub const MAX_ROWS: usize = 100_000;

/// What is followed, and from where on.
#[derive(Clone, Debug)]
pub struct Follow {
    /// Which events, of which columns. Its days mean nothing.
    request: Request,
    kind: Kind,
    /// Only days from this one on.
    from: Day,
    /// Everything that is not in this cut.
    after: Option<Cut>,
    /// How long to wait for events when there are none.
    wait: Duration,
    /// About how many rows an answer has at most.
    rows: usize,
}

/// The same as it was written.
#[derive(Clone, Debug, Default)]
pub struct FollowWords<'a> {
    /// Which events, and their columns: `release`, `columns`, `filter`, `tag`, `key` and `sample`.
    pub words: Words<'a>,
    /// The first day; the first of all, or that of the cut, when it is not given.
    pub from: Option<&'a str>,
    /// The cut of the answer before.
    pub after: Option<&'a str>,
    /// How many seconds to wait for events when there are none; none by default.
    pub wait: Option<&'a str>,
    /// About how many rows an answer has at most.
    pub limit: Option<&'a str>,
}

/// Some events of a log that is followed.
#[derive(Debug)]
pub struct Followed {
    /// The rows, and the cut up to which everything has been answered.
    pub answer: Answer,
    /// How many segments come behind it, as far as is known.
    pub behind: u64,
}

impl Follow {
    /// Reads what is followed.
    ///
    /// # Errors
    /// `Invalid`, saying which word is wrong.
    pub fn parse(kind: Kind, words: &FollowWords<'_>) -> Result<Self> {
        let named = |name: &str, error: Error| Error::invalid(format!("{name}: {error}"));
        let from =
            words.from.map(|day| day.parse::<Day>().map_err(|error| named("from", error))).transpose()?;
        let after = words.after.map(str::parse::<Cut>).transpose().map_err(|error| named("after", error))?;
        let wait = within("wait", words.wait, 0, MAX_WAIT_SECONDS as usize)?.unwrap_or_default();
        let rows = within("limit", words.limit, 1, MAX_ROWS)?.unwrap_or(DEFAULT_ROWS);
        let day = Day::FIRST.to_string();
        let asked = Words { from: &day, to: &day, ..words.words.clone() };
        let request = Request::parse(What::Events(kind), &asked)?;
        let from = from.unwrap_or(Day::FIRST);
        Ok(Self { request, kind, from, after, wait: Duration::from_secs(wait as u64), rows })
    }

    /// The same, going on behind a cut.
    #[must_use]
    pub fn after(self, cut: Cut) -> Self {
        Self { after: Some(cut), ..self }
    }

    /// Whether a cut goes on behind where this one begins.
    pub fn is_before(&self, cut: &Cut) -> bool {
        self.after.as_ref().is_none_or(|after| after.heads != cut.heads)
    }

    /// Which kind of events is followed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Behind which cut it goes on.
    fn begin(&self, workspace: &Id) -> Result<Cut> {
        let Some(after) = &self.after else { return Ok(Cut::begin(workspace, self.kind, self.from)) };
        if after.workspace != *workspace {
            return Err(Error::invalid(format!("after: the cut is of the workspace {}", after.workspace)));
        }
        if after.kinds != [self.kind].into() {
            return Err(Error::invalid(format!("after: the cut is not of {} alone", self.kind.name())));
        }
        let mut cut = after.clone();
        if self.from > cut.window.from() {
            cut.heads.retain(|log, _| log.day >= self.from);
            cut.left_out.retain(|(log, _)| log.day >= self.from);
            cut.window = event::Window::of(self.from).until(cut.window.to());
        }
        Ok(cut)
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
    /// The next events of a log that is followed; as soon as there are some, when there are none yet.
    ///
    /// # Errors
    /// `Invalid`, when it names a column or a release that does not exist, or a cut of something else; `TooLarge` and
    /// `Unavailable`, when it takes too much of the bounds; those of the table.
    pub async fn follow(&self, workspace: &Id, follow: &Follow) -> Result<Followed> {
        let until = Instant::now() + follow.wait;
        self.check_release(workspace, &follow.request).await?;
        let wanted = self.wanted(follow.kind, &follow.request).await?;
        events::check(&wanted)?;
        let cut = follow.begin(workspace)?;
        let watch = self.watches.over(&self.table, &self.clock, workspace, follow.kind).await?;
        let mut has_looked = self.check_there(&watch, &cut).await?;
        let mut news = watch.news();
        let mut stays = Page::nothing(&cut);
        loop {
            news.mark_unchanged();
            let page = self.read_after(&watch, &cut, &wanted, follow.rows).await?;
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

    /// Where a consumer goes on.
    ///
    /// # Errors
    /// `Conflict`, when the consumer follows another kind; those of the table.
    pub async fn of_consumer(&self, workspace: &Id, name: &str, follow: Follow) -> Result<Follow> {
        match self.catalog.consumer(workspace, name).await? {
            None => Ok(follow),
            Some(consumer) if consumer.cut.kinds == [follow.kind].into() => Ok(follow.after(consumer.cut)),
            Some(consumer) => {
                let kind = consumer.kind().map_or("something else", Kind::name);
                Err(Error::conflict(format!("the consumer `{name}` follows {kind}")))
            }
        }
    }

    /// Checks what is followed, without reading any event.
    ///
    /// # Errors
    /// As [`Query::follow`].
    pub async fn check_follow(&self, workspace: &Id, follow: &Follow) -> Result<()> {
        self.check_release(workspace, &follow.request).await?;
        events::check(&self.wanted(follow.kind, &follow.request).await?)?;
        follow.begin(workspace).map(drop)
    }

    /// Ends all waiting for events: requests that wait are answered, and later ones do not wait.
    pub fn close(&self) {
        self.watches.close();
    }

    /// Returns when nobody is to wait any longer.
    pub(crate) async fn closed(&self) {
        self.watches.closed().await;
    }

    /// Refuses a cut that knows more than the table. Whether all days were looked at for that.
    async fn check_there(&self, watch: &Watch, cut: &Cut) -> Result<bool> {
        if watch.ahead(&cut.heads).is_none() {
            return Ok(false);
        }
        // Another process may have appended it.
        watch.look_at_all().await?;
        match watch.ahead(&cut.heads) {
            None => Ok(true),
            Some((log, seq)) => Err(Error::invalid(format!(
                "after: the cut names the segment {}/{}/{seq}, which is not there; is it of another table, or was the table set back?",
                log.day,
                log.name()
            ))),
        }
    }

    async fn followed(&self, watch: &Watch, wanted: &Wanted, page: Page) -> Result<Followed> {
        let Page { frame, cut, warnings, held, began, .. } = page;
        let held = match held {
            Some(held) => held,
            None => {
                let (turn, hold) = self.budget.enter(Some(&cut.workspace)).await?;
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
        let behind = watch.behind(&cut.heads, cut.window.from(), cut.as_of);
        let behind = behind.segments(&cut.heads);
        let answer = self.answer(NAME, began, frame, (None, None), held).await?;
        Ok(Followed { answer: Answer { cut: Some(cut), warnings, ..answer }, behind })
    }
}
