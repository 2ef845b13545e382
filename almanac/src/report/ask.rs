//! Subject and questions of a report.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use catalog::{LiveSpans, Settings, Workspace, WorkspacePage};
use event::{Day, Error, Period, Timestamp, Window, time::DAY_MICROS};
use log::cut::Cut;
use query::{Answer, Query, Request, What, Words};

use super::{ReportArgs, rows::Rows};
use crate::query::{say_window, window_words};

/// Default window of a report.
const USUAL: &str = "30d";

/// Minimum days of the default reference, before the window.
const LEAST_REFERENCE_DAYS: i32 = 28;

/// Names of periods.
const DAY: &str = "day";
const WEEK: &str = "week";
const MONTH: &str = "month";

/// Maximum days with one point for each day, and with one for each week.
const MOST_DAYS: usize = 45;
const MOST_DAYS_OF_WEEKS: usize = 400;

/// Maximum days of drift with one column for each day, and with one for each week.
const MOST_DRIFT_DAYS: usize = 14;
const MOST_DRIFT_DAYS_OF_WEEKS: usize = 62;

/// Question of a report: its workspace, its days, its releases.
pub(super) struct Ask {
    pub(super) query: Query,
    pub(super) page: WorkspacePage,
    pub(super) settings: Settings,
    pub(super) window: Window,
    /// Reference days of drift and expectations.
    pub(super) reference: Window,
    /// True if the reference is the first half of the window, since there are no predictions before it.
    pub(super) is_first_half: bool,
    /// Period of a point of a chart.
    pub(super) period: &'static str,
    /// Period of a comparison of drift.
    pub(super) drift_period: &'static str,
    pub(super) model: Option<String>,
    pub(super) release: Option<String>,
    pub(super) environment: String,
    /// Times at which each release was live, by environment.
    pub(super) live: BTreeMap<String, LiveSpans>,
    ends: [String; 2],
    reference_word: String,
}

impl Ask {
    /// Reads the arguments, and the workspace's catalog.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong word; errors of the table.
    pub(super) async fn of(query: Query, workspace: &Workspace, args: &ReportArgs) -> anyhow::Result<Self> {
        let mut asked = Words { release: None, ..window_words(&args.window) };
        if asked.from.is_empty() && asked.to.is_empty() && asked.last.is_none() {
            asked.last = Some(query::Last { word: USUAL, now: query.now() });
        }
        let request = Request::parse(What::Evaluations, &asked)?;
        say_window(&request);
        let window = request.window;
        let named = match &args.reference {
            Some(word) => Some(reference_of(&query.catalog().reference_days(workspace.id(), word).await?)?),
            None => None,
        };
        let days = window.days().count();
        let period = match &args.group_by {
            Some(word) => period_of(word)?,
            None => by_length(days, (MOST_DAYS, MOST_DAYS_OF_WEEKS)),
        };
        let page = query.catalog().page(workspace.id()).await?;
        let settings = query.catalog().settings(workspace.id()).await?;
        let ask = Self {
            ends: [window.from().to_string(), window.to().to_string()],
            reference_word: String::new(),
            drift_period: by_length(days, (MOST_DRIFT_DAYS, MOST_DRIFT_DAYS_OF_WEEKS)),
            model: args.model.clone(),
            release: args.window.release.clone(),
            environment: args.environment.clone(),
            live: BTreeMap::new(),
            query,
            page,
            settings,
            window,
            reference: before(window)?,
            is_first_half: false,
            period,
        };
        ask.check()?;
        let (reference, is_first_half) = match named {
            Some(reference) => (reference, false),
            None => ask.usual_reference().await?,
        };
        let reference_word = format!("{}..{}", reference.from(), reference.to());
        let live = ask.lives().await?;
        Ok(Self { live, reference, is_first_half, reference_word, ..ask })
    }

    /// Default reference: the days before the window; if these have no predictions, the first half of the window's days that have
    /// some, marked by `true`.
    async fn usual_reference(&self) -> anyhow::Result<(Window, bool)> {
        if !self.predicted(self.reference).await?.is_empty() {
            return Ok((self.reference, false));
        }
        let days: Vec<Day> = self.predicted(self.window).await?.into_iter().collect();
        match (days.first(), days[..days.len() / 2].last()) {
            (Some(first), Some(last)) => Ok((Window::new(*first, *last)?, true)),
            _ => Ok((self.reference, false)),
        }
    }

    /// Days of a window with predictions.
    async fn predicted(&self, window: Window) -> anyhow::Result<BTreeSet<Day>> {
        let [from, to] = [window.from(), window.to()].map(|day| day.to_string());
        let columns = Some("day,release,predictions");
        let words = Words { from: &from, to: &to, columns, ..self.words() };
        let answer = self.answer(What::Rollups, words).await?;
        let rows = Rows(&answer.frame);
        let found = rows.numbers().filter(|row| rows.count("predictions", *row) > 0);
        Ok(found.map(|row| rows.day(row)).collect())
    }

    /// Checks that the named model, release and environment exist.
    fn check(&self) -> Result<(), Error> {
        let models: Vec<&str> = self.page.models.iter().map(|model| model.entity.name.as_str()).collect();
        if let Some(model) = self.model.as_deref().filter(|model| !models.contains(model)) {
            let there = models.join(", ");
            return Err(Error::invalid(format!("model: there is no `{model}`; there are: {there}")));
        }
        if let Some(release) = &self.release
            && !self.releases().any(|(name, _)| name == release)
        {
            let there = self.page.releases.iter().map(|release| release.entity.name.as_str());
            let there = there.collect::<Vec<_>>().join(", ");
            return Err(Error::invalid(format!("release: there is no `{release}`; there are: {there}")));
        }
        Ok(())
    }

    /// Times at which each release was live, in all environments, as known now.
    async fn lives(&self) -> anyhow::Result<BTreeMap<String, LiveSpans>> {
        let mut lives = BTreeMap::new();
        let (catalog, id) = (self.query.catalog(), self.page.workspace.id());
        for environment in self.page.live.keys() {
            let spans = catalog.live_spans(id, environment, self.until(), None).await?;
            lives.insert(environment.clone(), spans);
        }
        Ok(lives)
    }

    /// End of the window.
    pub(super) fn until(&self) -> Timestamp {
        let last = self.window.to();
        last.next().map_or(last.start(), Day::start)
    }

    /// Releases of the report, oldest first, each with its model.
    pub(super) fn releases(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.page.releases.iter();
        let all = all.map(|release| (release.entity.name.as_str(), release.model.as_str()));
        all.filter(|(name, model)| {
            self.release.as_ref().is_none_or(|asked| asked == name)
                && self.model.as_ref().is_none_or(|asked| asked == model)
        })
    }

    /// Returns whether the report covers a release; an unregistered one has no model.
    pub(super) fn has(&self, release: &str) -> bool {
        match self.model {
            Some(_) => self.releases().any(|(name, _)| name == release),
            None => self.release.as_ref().is_none_or(|asked| asked == release),
        }
    }

    /// Release of a model that was live in the environment at the end of the window.
    pub(super) fn champion(&self, model: &str) -> Option<&str> {
        let spans = self.live.get(&self.environment)?;
        let is_live = |spans: &Vec<(Timestamp, Option<Timestamp>)>| spans.iter().any(|(_, to)| to.is_none());
        let is_of =
            |name: &str| self.page.releases.iter().any(|of| of.entity.name == name && of.model == model);
        let live = spans.iter().find(|(name, spans)| is_of(name) && is_live(spans));
        live.map(|(name, _)| name.as_str())
    }

    /// Path of the workspace in commands.
    pub(super) fn path(&self) -> &str {
        &self.page.workspace.path
    }

    /// Reference in commands.
    pub(super) fn reference(&self) -> &str {
        &self.reference_word
    }

    /// Parameters of a question about the window.
    pub(super) fn words(&self) -> Words<'_> {
        let [from, to] = &self.ends;
        Words { from, to, release: self.release.as_deref(), ..Words::default() }
    }

    /// Parameters of a question about the window and the reference, by period.
    pub(super) fn words_from_reference<'a>(&'a self, period: &'a str) -> Words<'a> {
        Words { reference: Some(&self.reference_word), group_by: Some(period), ..self.words() }
    }

    pub(super) async fn answer(&self, what: What, words: Words<'_>) -> anyhow::Result<Answer> {
        let request = Request::parse(what, &words)?;
        let answer = self.query.run(self.page.workspace.id(), &request).await;
        answer.with_context(|| format!("the {} of {} cannot be read", what.name(), self.path()))
    }

    /// Current cut of the window and its reference.
    pub(super) async fn cut(&self) -> anyhow::Result<Cut> {
        let from = self.window.from().min(self.reference.from()).to_string();
        let to = self.window.to().max(self.reference.to()).to_string();
        let request = Request::parse(What::Joined, &Words { from: &from, to: &to, ..Words::default() })?;
        Ok(self.query.cut(self.page.workspace.id(), &request).await?)
    }
}

fn by_length(days: usize, (most_days, most_days_of_weeks): (usize, usize)) -> &'static str {
    match days {
        days if days <= most_days => DAY,
        days if days <= most_days_of_weeks => WEEK,
        _ => MONTH,
    }
}

fn period_of(word: &str) -> Result<&'static str, Error> {
    let found = Period::NAMED.into_iter().map(|(name, _)| name).find(|name| *name == word);
    let found = found.filter(|name| !["hour", "all"].contains(name));
    found.ok_or_else(|| Error::invalid(format!("group-by: `{word}` is none of day, week, month, quarter")))
}

/// Parses days as `FROM..TO`, or one day.
fn reference_of(word: &str) -> Result<Window, Error> {
    let words = Words { from: "2000-01-01", to: "2000-01-01", reference: Some(word), ..Words::default() };
    let request = Request::parse(What::Drift, &words)?;
    request.reference.ok_or_else(|| Error::invalid("reference: name days, such as 2013-04-01..2013-05-31"))
}

/// Days before a window: as many as it has, but at least the minimum.
fn before(window: Window) -> Result<Window, Error> {
    let days = window.to().number() - window.from().number() + 1;
    let back = |days: i32| {
        let micros = i64::from(window.from().number() - days) * DAY_MICROS;
        Timestamp::from_micros(micros).map_or(Day::FIRST, Timestamp::day)
    };
    let [from, to] = [back(days.max(LEAST_REFERENCE_DAYS)), back(1)];
    Window::new(from.max(Day::FIRST), to.max(Day::FIRST))
}
