//! What a report is of, and how it asks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use catalog::{LiveSpans, Settings, Workspace, WorkspacePage};
use event::{Day, Error, Period, Timestamp, Window, time::DAY_MICROS};
use log::cut::Cut;
use query::{Answer, Query, Request, What, Words};

use super::{ReportArgs, rows::Rows};
use crate::query::{say_window, window_words};

/// The window of a report for which none is named.
const USUAL: &str = "30d";

/// How many days before the window are its reference at least, unless others are named.
const LEAST_REFERENCE_DAYS: i32 = 28;

/// Names of periods.
const DAY: &str = "day";
const WEEK: &str = "week";
const MONTH: &str = "month";

/// Up to how many days each has a point of its own, and up to how many each week.
const MOST_DAYS: usize = 45;
const MOST_DAYS_OF_WEEKS: usize = 400;

/// The same of drift, of which each period is a column of a table.
const MOST_DRIFT_DAYS: usize = 14;
const MOST_DRIFT_DAYS_OF_WEEKS: usize = 62;

/// A question of a report: of which workspace, which days, which releases.
pub(super) struct Ask {
    pub(super) query: Query,
    pub(super) page: WorkspacePage,
    pub(super) settings: Settings,
    pub(super) window: Window,
    /// The days that drift and expectations are measured from.
    pub(super) reference: Window,
    /// Whether these are the first half of the window, since there is nothing before it.
    pub(super) is_first_half: bool,
    /// Of how many days a point of a chart is.
    pub(super) period: &'static str,
    /// Of how many days a comparison of drift is.
    pub(super) drift_period: &'static str,
    pub(super) model: Option<String>,
    pub(super) release: Option<String>,
    pub(super) environment: String,
    /// By environment, when each release was live.
    pub(super) live: BTreeMap<String, LiveSpans>,
    ends: [String; 2],
    reference_word: String,
}

impl Ask {
    /// Reads what is asked for, and what the catalog says of it.
    ///
    /// # Errors
    /// `Invalid`, saying which word is wrong; those of the table.
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

    /// The reference where none is named: the days before the window; or, where these have no predictions, the first half of
    /// its days that have some, which it says.
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

    /// The days of a window with predictions.
    async fn predicted(&self, window: Window) -> anyhow::Result<BTreeSet<Day>> {
        let [from, to] = [window.from(), window.to()].map(|day| day.to_string());
        let columns = Some("day,release,predictions");
        let words = Words { from: &from, to: &to, columns, ..self.words() };
        let answer = self.answer(What::Rollups, words).await?;
        let rows = Rows(&answer.frame);
        let found = rows.numbers().filter(|row| rows.count("predictions", *row) > 0);
        Ok(found.map(|row| rows.day(row)).collect())
    }

    /// Checks that what narrows the report is there.
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

    /// When each release was live, in all environments, as it is known now.
    async fn lives(&self) -> anyhow::Result<BTreeMap<String, LiveSpans>> {
        let mut lives = BTreeMap::new();
        let (catalog, id) = (self.query.catalog(), self.page.workspace.id());
        for environment in self.page.live.keys() {
            let spans = catalog.live_spans(id, environment, self.until(), None).await?;
            lives.insert(environment.clone(), spans);
        }
        Ok(lives)
    }

    /// The end of the window.
    pub(super) fn until(&self) -> Timestamp {
        let last = self.window.to();
        last.next().map_or(last.start(), Day::start)
    }

    /// The releases that are told of, oldest first, each with its model.
    pub(super) fn releases(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.page.releases.iter();
        let all = all.map(|release| (release.entity.name.as_str(), release.model.as_str()));
        all.filter(|(name, model)| {
            self.release.as_ref().is_none_or(|asked| asked == name)
                && self.model.as_ref().is_none_or(|asked| asked == model)
        })
    }

    /// Whether the report is about a release; one that is not registered is of no model.
    pub(super) fn has(&self, release: &str) -> bool {
        match self.model {
            Some(_) => self.releases().any(|(name, _)| name == release),
            None => self.release.as_ref().is_none_or(|asked| asked == release),
        }
    }

    /// The release of a model that was live in the environment at the end of the window.
    pub(super) fn champion(&self, model: &str) -> Option<&str> {
        let spans = self.live.get(&self.environment)?;
        let is_live = |spans: &Vec<(Timestamp, Option<Timestamp>)>| spans.iter().any(|(_, to)| to.is_none());
        let is_of =
            |name: &str| self.page.releases.iter().any(|of| of.entity.name == name && of.model == model);
        let live = spans.iter().find(|(name, spans)| is_of(name) && is_live(spans));
        live.map(|(name, _)| name.as_str())
    }

    /// The workspace, as commands name it.
    pub(super) fn path(&self) -> &str {
        &self.page.workspace.path
    }

    /// The reference, as commands name it.
    pub(super) fn reference(&self) -> &str {
        &self.reference_word
    }

    /// The words of a question about the window.
    pub(super) fn words(&self) -> Words<'_> {
        let [from, to] = &self.ends;
        Words { from, to, release: self.release.as_deref(), ..Words::default() }
    }

    /// The same with the reference, by period.
    pub(super) fn words_from_reference<'a>(&'a self, period: &'a str) -> Words<'a> {
        Words { reference: Some(&self.reference_word), group_by: Some(period), ..self.words() }
    }

    pub(super) async fn answer(&self, what: What, words: Words<'_>) -> anyhow::Result<Answer> {
        let request = Request::parse(what, &words)?;
        let answer = self.query.run(self.page.workspace.id(), &request).await;
        answer.with_context(|| format!("the {} of {} cannot be read", what.name(), self.path()))
    }

    /// How far the logs of the window and its reference reach now.
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

/// Days as `FROM..TO`, or one day.
fn reference_of(word: &str) -> Result<Window, Error> {
    let words = Words { from: "2000-01-01", to: "2000-01-01", reference: Some(word), ..Words::default() };
    let request = Request::parse(What::Drift, &words)?;
    request.reference.ok_or_else(|| Error::invalid("reference: name days, such as 2013-04-01..2013-05-31"))
}

/// As many days before a window as it has, but not too few.
fn before(window: Window) -> Result<Window, Error> {
    let days = window.to().number() - window.from().number() + 1;
    let back = |days: i32| {
        let micros = i64::from(window.from().number() - days) * DAY_MICROS;
        Timestamp::from_micros(micros).map_or(Day::FIRST, Timestamp::day)
    };
    let [from, to] = [back(days.max(LEAST_REFERENCE_DAYS)), back(1)];
    Window::new(from.max(Day::FIRST), to.max(Day::FIRST))
}
