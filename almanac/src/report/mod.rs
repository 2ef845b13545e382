//! `almanac report`: one page on the performance of the models of a workspace.
//!
//! [`Ask`] defines the subject of the page. Its [`sections`] run queries as `almanac query` does, so metrics on the page equal those
//! of a query; [`page`] makes HTML of them.

mod page;
mod sections;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::Context;
use catalog::{LiveSpans, Model, Settings, Workspace, WorkspacePage};
use clap::Args;
use event::{Day, Error, Timestamp, Window};
use log::read_version::ReadVersion;
use plot::Chart;
use query::{Dataset, Last, Params, Query, Request};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use self::{page::Section, sections::Subject};
use crate::{
    answer::write_whole,
    config::Config,
    open,
    operations::say_days,
    plot::{RELEASE, rows},
};

/// Maximum tries to make a report while events come.
const MAX_TRIES: usize = 3;

/// Default window of a report.
const USUAL: &str = "30d";

/// Minimum days of the default reference, before the window.
const LEAST_REFERENCE_DAYS: usize = 28;

/// Maximum days with one point for each day, and with one for each week: of charts, and of drift.
const POINTS: (usize, usize) = (45, 400);
const DRIFT_POINTS: (usize, usize) = (14, 62);

/// Which days are read, of what.
#[derive(Debug, Args)]
struct WindowArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// The first day, as YYYY-MM-DD (UTC).
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// The last day, which is included.
    #[arg(long, value_name = "DAY")]
    to: Option<String>,
    /// Instead of --from and --to: the last days or weeks, with today, such as 7d or 2w.
    #[arg(long, conflicts_with_all = ["from", "to"], value_name = "TIME")]
    last: Option<String>,
    /// Only this release.
    #[arg(long)]
    release: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "  almanac report -w flights/nyc --from 2013-04-01 --to 2013-12-31 --reference 2013-04-01..2013-05-31 -o report.html"
)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    window: WindowArgs,
    /// Only releases of this model.
    #[arg(long)]
    model: Option<String>,
    /// The environment whose live release is compared with other releases.
    #[arg(long, value_name = "NAME", default_value = "production")]
    environment: String,
    /// The days that drift is measured from, and whose outcomes say what a score means, as FROM..TO; by default as many days before the
    /// window as it has, and 28 at least, or where these have no predictions the first half of the days of the window that have some.
    #[arg(long, value_name = "DAYS")]
    reference: Option<String>,
    /// Of how many days a point of a chart is: day, week, month or quarter; by default what gives the charts up to about sixty points.
    #[arg(long, value_name = "PERIOD")]
    period: Option<String>,
    /// Only these sections, with commas between: live, metrics, compared, logged, gates, expected, drift, slices, maturity, alerts.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    sections: Vec<String>,
    /// Print to standard error what the page was read from.
    #[arg(long)]
    show_read_version: bool,
    /// Write to this file instead of the terminal: a page (.html), or its charts as one image (.svg).
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl WindowArgs {
    fn words(&self, now: Timestamp) -> Params<'_> {
        Params {
            from: self.from.as_deref().unwrap_or_default(),
            to: self.to.as_deref().unwrap_or_default(),
            last: self.last.as_deref().map(|word| Last { word, now }),
            ..Params::default()
        }
    }
}

pub(crate) async fn command(config: &Config, args: &ReportArgs) -> anyhow::Result<()> {
    let ending =
        args.output.as_ref().map(|path| path.extension().and_then(|end| end.to_str()).unwrap_or_default());
    if let (Some(path), false) = (&args.output, matches!(ending, None | Some("html" | "htm" | "svg"))) {
        let message = "the name of a report ends with .html, or with .svg for its charts alone";
        return Err(Error::invalid(format!("{}: {message}", path.display())).into());
    }
    let subjects = sections::subjects(&args.sections)?;
    let query = open::to_ask(config).await?;
    let workspace = query.catalog().workspace(&args.window.workspace).await?;
    let ask = Ask::of(query, &workspace, args).await?;
    let (read_version, sections) = settled(&ask, &subjects).await?;
    if args.show_read_version {
        eprintln!("read-version: {read_version}");
    }
    let text = match ending {
        Some("svg") => {
            let charts: Vec<Chart> = sections.into_iter().flat_map(|section| section.charts).collect();
            plot::stacked(&charts)
        }
        _ => {
            let title = format!("{}: {} to {}", ask.page.workspace.path, ask.window.from(), ask.window.to());
            page::page(&title, &facts(&ask, &read_version)?, &sections)
        }
    };
    write_whole(args.output.as_deref(), &text)
}

/// Makes the sections, all of one state of the logs, and returns them with its read version.
async fn settled<'a>(ask: &Ask, subjects: &'a [Subject]) -> anyhow::Result<(ReadVersion, Vec<Section<'a>>)> {
    let mut before = ask.read_version().await?;
    for _ in 0..MAX_TRIES {
        let sections = sections::sections(ask, subjects).await?;
        let after = ask.read_version().await?;
        if (&before.heads, &before.left_out) == (&after.heads, &after.left_out) {
            return Ok((before, sections));
        }
        before = after;
    }
    Err(Error::unavailable(
        "events came each time while the report was made; ask for a window that has ended",
    )
    .into())
}

/// Facts at the head of the page. They contain no clock, so equal logs give equal bytes once projections cover them.
fn facts(ask: &Ask, read_version: &ReadVersion) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut facts = vec![
        ("Workspace", ask.page.workspace.path.clone()),
        ("Days", format!("{} to {} (UTC), by {}", ask.window.from(), ask.window.to(), ask.period)),
        ("Reference", ask.reference.replace("..", " to ")),
    ];
    facts.extend(ask.model.clone().map(|model| ("Model", model)));
    facts.extend(ask.release.clone().map(|release| ("Release", release)));
    // The state of the logs is the read version without its instant.
    let timeless = ReadVersion { as_of: Timestamp::default(), ..read_version.clone() };
    let digest = Sha256::digest(timeless.to_bytes()?);
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let segments: u64 = read_version.heads.values().sum();
    facts.push((
        "Read version",
        format!("{segments} segments of {} logs, sha256:{digest}", read_version.heads.len()),
    ));
    Ok(facts)
}

/// Question of a report: its workspace, its days, its releases.
struct Ask {
    query: Query,
    page: WorkspacePage,
    settings: Settings,
    window: Window,
    /// Ends of the window.
    ends: [String; 2],
    /// Reference days of drift and expectations.
    reference: String,
    /// Period of a point of a chart.
    period: String,
    /// Period of a comparison of drift.
    drift_period: &'static str,
    model: Option<String>,
    release: Option<String>,
    environment: String,
    /// Times at which each release was live, by environment.
    live: BTreeMap<String, LiveSpans>,
}

impl Ask {
    /// Reads the arguments, and the workspace's catalog.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong word; errors of the table.
    async fn of(query: Query, workspace: &Workspace, args: &ReportArgs) -> anyhow::Result<Self> {
        let reference = query.reference_days(&args.window.workspace, args.reference.as_deref()).await?;
        let mut asked = Params { reference: reference.as_deref(), ..args.window.words(query.now()) };
        if asked.from.is_empty() && asked.to.is_empty() && asked.last.is_none() {
            asked.last = Some(Last { word: USUAL, now: query.now() });
        }
        let request = Request::parse(Dataset::Drift, &asked)?;
        if let Some([from, to]) = &request.last {
            say_days(from, to);
        }
        let window = request.window;
        let days = window.days().count();
        let period = args.period.clone().unwrap_or_else(|| by_length(days, POINTS).to_owned());
        if !["day", "week", "month", "quarter"].contains(&period.as_str()) {
            return Err(
                Error::invalid(format!("period: `{period}` is none of day, week, month, quarter")).into()
            );
        }
        let catalog = query.catalog();
        let mut ask = Self {
            ends: [window.from(), window.to()].map(|day| day.to_string()),
            reference: request
                .reference
                .map(|days| format!("{}..{}", days.from(), days.to()))
                .unwrap_or_default(),
            period,
            drift_period: by_length(days, DRIFT_POINTS),
            model: args.model.clone(),
            release: args.window.release.clone(),
            environment: args.environment.clone(),
            live: BTreeMap::new(),
            page: catalog.page(workspace.id()).await?,
            settings: catalog.settings(workspace.id()).await?,
            window,
            query,
        };
        ask.check()?;
        if request.reference.is_none() {
            ask.reference = ask.usual_reference(days.max(LEAST_REFERENCE_DAYS)).await?;
        }
        for environment in ask.page.live.keys() {
            let (catalog, id) = (ask.query.catalog(), ask.page.workspace.id());
            let spans = catalog.live_spans(id, environment, ask.until(), None).await?;
            ask.live.insert(environment.clone(), spans);
        }
        Ok(ask)
    }

    /// Checks that the named model and release exist.
    fn check(&self) -> Result<(), Error> {
        let models = self.page.models.iter().map(|model| model.entity.name.as_str()).collect::<Vec<_>>();
        let releases = self.releases().map(|(name, _)| name).collect::<Vec<_>>();
        for (kind, asked, there) in [("model", &self.model, models), ("release", &self.release, releases)] {
            if let Some(asked) = asked.as_ref().filter(|asked| !there.contains(&asked.as_str())) {
                let there = there.join(", ");
                return Err(Error::invalid(format!("{kind}: there is no `{asked}`; there are: {there}")));
            }
        }
        Ok(())
    }

    /// Default reference: so many days before the window; if these have no predictions, the first half of the window's days that
    /// have some.
    async fn usual_reference(&self, days: usize) -> anyhow::Result<String> {
        let first = self.window.from().start();
        let back = |days: usize| first.plus_seconds(-86_400 * days as i64).day().max(Day::FIRST).to_string();
        let (from, to) = (back(days), back(1));
        if !self.predicted(&from, &to).await?.is_empty() {
            return Ok(format!("{from}..{to}"));
        }
        let days: Vec<String> = self.predicted(&self.ends[0], &self.ends[1]).await?.into_iter().collect();
        let (from, to) = days.first().zip(days[..days.len() / 2].last()).unwrap_or((&from, &to));
        Ok(format!("{from}..{to}"))
    }

    /// Days with predictions from one day to another.
    async fn predicted(&self, from: &str, to: &str) -> anyhow::Result<BTreeSet<String>> {
        let words = Params { from, to, columns: Some("day,release,predictions"), ..self.words() };
        let (rows, _) = self.rows(Dataset::Rollups, words).await?;
        let rows = rows.iter().filter(|row| row["predictions"].as_u64() > Some(0));
        Ok(rows.filter_map(|row| row["day"].as_str().map(str::to_owned)).collect())
    }

    /// Returns true if the report is of the whole workspace.
    fn is_whole(&self) -> bool {
        self.model.is_none() && self.release.is_none()
    }

    /// End of the window.
    fn until(&self) -> Timestamp {
        let last = self.window.to();
        last.next().map_or(last.start(), Day::start)
    }

    /// Models of the report.
    fn models(&self) -> impl Iterator<Item = &Model> {
        self.page.models.iter().filter(|model| self.model.as_ref().is_none_or(|of| *of == model.entity.name))
    }

    /// Releases of the report, oldest first, each with its model.
    fn releases(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.page.releases.iter();
        let all = all.map(|release| (release.entity.name.as_str(), release.model.as_str()));
        all.filter(|(_, model)| self.model.as_ref().is_none_or(|asked| asked == model))
    }

    /// Returns whether the report covers a release; an unregistered one has no model.
    fn has(&self, release: &str) -> bool {
        let is_of_model = self.model.is_none() || self.releases().any(|(name, _)| name == release);
        is_of_model && self.release.as_ref().is_none_or(|asked| asked == release)
    }

    /// Release of a model that was live in the environment at the end of the window.
    fn champion(&self, model: &str) -> Option<&str> {
        let is_of =
            |name: &str| self.page.releases.iter().any(|of| of.entity.name == name && of.model == model);
        let mut spans = self.live.get(&self.environment)?.iter();
        let live = spans.find(|(name, spans)| is_of(name) && spans.iter().any(|(_, to)| to.is_none()));
        live.map(|(name, _)| name.as_str())
    }

    /// Releases of the report that were live in the window, with their times.
    fn lives(&self) -> Vec<Value> {
        let begin = self.window.from().start();
        let mut found: Vec<Value> = Vec::new();
        for (environment, spans) in &self.live {
            for (release, model) in self.releases().filter(|(release, _)| self.has(release)) {
                let spans = spans.get(release).into_iter().flatten();
                let spans = spans.filter(|(_, until)| until.is_none_or(|until| until > begin));
                found.extend(spans.map(|(since, until)| {
                    let until = until.map(|until| until.to_string());
                    json!({ "environment": environment, "model": model, RELEASE: release, "since": since.to_string(), "until": until })
                }));
            }
        }
        let order = ["environment", "model", "since", RELEASE];
        found.sort_by_key(|row| order.map(|column| row[column].to_string()));
        found
    }

    /// Promotions in the environment of the report.
    fn marks(&self) -> Vec<(Timestamp, String)> {
        let live = |row: &Value| {
            let (release, since) = (row[RELEASE].as_str()?, row["since"].as_str()?);
            Some((Timestamp::parse(since).ok()?, format!("{release} live")))
        };
        self.lives().iter().filter(|row| row["environment"] == *self.environment).filter_map(live).collect()
    }

    /// Parameters of a question about the window, and of one by period.
    fn words(&self) -> Params<'_> {
        let [from, to] = &self.ends;
        Params { from, to, release: self.release.as_deref(), ..Params::default() }
    }

    fn by_period(&self) -> Params<'_> {
        Params { period: Some(&self.period), ..self.words() }
    }

    /// Asks for rows, of the releases of the report, and returns them with the warnings of the answer.
    async fn rows(&self, what: Dataset, words: Params<'_>) -> anyhow::Result<(Vec<Value>, Vec<String>)> {
        let request = Request::parse(what, &words)?;
        let answer = self.query.run(self.page.workspace.id(), &request).await;
        let path = &self.page.workspace.path;
        let mut answer = answer.with_context(|| format!("the {} of {path} cannot be read", what.name()))?;
        let mut rows = rows(&mut answer.frame)?;
        rows.retain(|row| row[RELEASE].as_str().is_none_or(|release| self.has(release)));
        Ok((rows, answer.warnings))
    }

    /// Current read version of the window and its reference.
    async fn read_version(&self) -> anyhow::Result<ReadVersion> {
        let (from, to) = self.reference.split_once("..").unwrap_or_default();
        let (from, to) = (from.min(&self.ends[0]), to.max(&self.ends[1]));
        let request = Request::parse(Dataset::Joined, &Params { from, to, ..Params::default() })?;
        Ok(self.query.read_version(self.page.workspace.id(), &request).await?)
    }
}

fn by_length(days: usize, (most_days, most_days_of_weeks): (usize, usize)) -> &'static str {
    match days {
        days if days <= most_days => "day",
        days if days <= most_days_of_weeks => "week",
        _ => "month",
    }
}

#[cfg(test)]
mod tests {
    use ::tests::{
        engine::Engine,
        scene::{NOW, Scene},
        world::at,
    };
    use catalog::{AlertRuleBody, PromotionGates, PromotionGatesBody};
    use event::{Kind, NewDefinition};
    use log::key::{EntityId, EntityKind};
    use plot::{Line, Point};

    use super::{page::page, sections::subjects, *};

    /// Text that a page without escaping would interpret.
    const HOSTILE: &str =
        "\"><script>alert('1')</script><img src=x onerror=alert(2)>&amp;\u{202e}txt.exe\u{0}";
    const EMOJI: &str = "✈️ 👩‍🚀 שלום";

    fn subject() -> Subject {
        Subject { name: "drift".into(), title: "What has changed".into(), ..Subject::default() }
    }

    fn hostile(subject: &Subject) -> Section<'_> {
        let at = "2013-06-01".parse::<Day>().unwrap().start();
        let mut section = Section::new(subject);
        section.say(HOSTILE);
        section.lack(HOSTILE);
        section.brief.push(format!("{HOSTILE}{EMOJI}"));
        let points = vec![Point::new(at, Some(1.0), (None, None))];
        let line = Line { name: HOSTILE.into(), points };
        section.chart(HOSTILE.into(), vec![line.clone(), line], vec![(at, HOSTILE.into())]);
        section.table(HOSTILE, &format!("{HOSTILE},n"), &[json!({ HOSTILE: HOSTILE, "n": EMOJI })]);
        section
    }

    #[test]
    fn text_is_text_whatever_it_says() {
        let text = page(HOSTILE, &[("Workspace", HOSTILE.into())], &[hostile(&subject())]);
        for wrong in ["<script", "<img", "onerror=alert(2)>", "\u{0}", "&amp;\u{202e}"] {
            assert!(!text.contains(wrong), "{wrong}: {text}");
        }
        assert!(text.contains("&quot;&gt;&lt;script&gt;alert('1')&lt;/script&gt;") && text.contains(EMOJI));
        // Text stays inside its element: opening and closing tags are equal in number.
        for tag in
            ["section", "h2", "p", "li", "table", "tr", "td", "th", "figure", "svg", "text", "title", "g"]
        {
            let opened =
                text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "{tag}: {text}");
        }
    }

    #[test]
    fn report_page_is_self_contained_and_accessible() {
        let text = page("a", &[], &[hostile(&subject())]);
        for elsewhere in ["http://", "https://", "src=\"", "url(", "@import", "<link"] {
            let found = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(elsewhere), "{elsewhere}: {text}");
        }
        assert!(text.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
        for part in
            ["<h1>", "<h2 id=\"drift\">", "<caption>", "scope=\"col\"", "scope=\"row\"", "role=\"img\""]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        for media in ["prefers-color-scheme:dark", "@media print", "default-src 'none'"] {
            assert!(text.contains(media), "{media}");
        }
    }

    #[test]
    fn long_report_table_shows_its_last_rows() {
        let subject = subject();
        let mut section = Section::new(&subject);
        let rows: Vec<Value> = (0..100).map(|row| json!({ "day": format!("day {row}"), "n": row })).collect();
        section.table("Metrics by day", "day,n,none", &rows);
        let text = page("a", &[], &[section]);
        assert!(text.contains("Metrics by day: the last 60 of 100 rows</caption>"), "{text}");
        assert!(!text.contains(">day 39<") && text.contains(">day 40<") && text.contains(">day 99<"));
        assert!(text.contains("<th scope=\"col\" class=\"n\">n</th>") && !text.contains(">none<"), "{text}");
    }

    #[test]
    fn section_without_content_says_what_lacks() {
        let (lack, introduction) = ("Nothing since REFERENCE.".to_owned(), "Since REFERENCE:".to_owned());
        let subject = Subject { lack, introduction, ..subject() };
        let (mut empty, mut full) = (Section::new(&subject), Section::new(&subject));
        full.say("It rains.");
        [&mut empty, &mut full].into_iter().for_each(|section| {
            section.warnings.insert("days are missing".into());
            section.finish("May");
        });
        let (empty, full) = (page("a", &[], &[empty]), page("a", &[], &[full]));
        assert!(empty.contains("Nothing since May.") && !empty.contains("Since May:"), "{empty}");
        assert!(
            full.contains("<p>Since May:</p>\n<p>It rains.</p>") && !full.contains("Nothing since"),
            "{full}"
        );
        assert!(full.contains("Warning: days are missing."), "{full}");
    }

    #[test]
    fn sections_are_chosen_by_their_names() {
        let names = |names: &[&str]| -> anyhow::Result<Vec<String>> {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Ok(subjects(&names)?.into_iter().map(|subject| subject.name).collect())
        };
        assert_eq!(names(&[]).unwrap().len(), 10);
        assert_eq!(names(&["alerts", "drift"]).unwrap(), ["drift", "alerts"]);
        let wrong = names(&["drift", "all"]).unwrap_err().to_string();
        assert!(
            wrong.contains("sections: `all` is none of live, metrics, compared, logged, gates"),
            "{wrong}"
        );
    }

    #[derive(Debug, clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        args: ReportArgs,
    }

    /// Predictions of three carriers on a day, one of them always wrong, and their outcomes.
    async fn predict(scene: &Scene, day: &str) {
        let prediction = |n: usize| {
            let carrier = ["UA", "AA", "DL"][n % 3];
            json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1",
                    "score": if n.is_multiple_of(2) { 0.9 } else { 0.1 }, "tags": { "carrier": carrier, "size": if n < 30 { "large" } else { "small" } } })
        };
        let outcome = |n: usize| {
            let is_right = n % 3 != 1;
            let label = if n.is_multiple_of(2) == is_right { "1" } else { "0" };
            json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T09:00:00Z"), "label": label })
        };
        let now = format!("{day}T12:00:00Z");
        scene.append(Kind::Predictions, (0..60).map(prediction).collect(), &now).await.unwrap();
        scene.append(Kind::Outcomes, (0..60).map(outcome).collect(), &now).await.unwrap();
    }

    /// Predictions of `v1` and `v2` on a day, with these scores for the true label, and their outcomes.
    async fn predict_both(scene: &Scene, day: &str, sure: [f64; 2]) {
        let of_release = |(release, score): (&str, f64)| -> Vec<Value> {
            let prediction = |n: usize| json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score });
            (0..60).map(prediction).collect()
        };
        let outcome = |n: usize| json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T09:00:00Z"), "label": "1" });
        let now = "2026-06-09T12:00:00Z";
        let predictions = ["v1", "v2"].into_iter().zip(sure).flat_map(of_release).collect();
        scene.append(Kind::Predictions, predictions, now).await.unwrap();
        scene.append(Kind::Outcomes, (0..60).map(outcome).collect(), now).await.unwrap();
    }

    /// Cells of the row of a table that begins with these texts.
    fn row<'a>(page: &'a str, begins: &[&str]) -> Vec<&'a str> {
        let cells = |row: &'a str| -> Vec<&'a str> {
            let row = row.split("</tr>").next().unwrap_or_default();
            let cell = |cell: &'a str| cell.split_once('>').map(|(_, text)| text);
            row.split(['\n'])
                .flat_map(|line| line.split("<t").skip(1))
                .filter_map(cell)
                .map(|text| text.split("</t").next().unwrap_or_default())
                .collect()
        };
        let mut rows = page.split("<tr>").skip(1).map(cells);
        let found = rows.find(|cells| cells.len() >= begins.len() && cells[..begins.len()] == *begins);
        found.unwrap_or_else(|| panic!("no row begins with {begins:?}: {page}"))
    }

    /// Gates of the model, and an approval of the release by its creator.
    async fn gate(scene: &Scene) {
        let catalog = &scene.world.catalog;
        let model = catalog.model_named(scene.id(), "m").await.unwrap();
        let gates = PromotionGatesBody { min_n: Some(1_000), second_person: true, ..Default::default() };
        let gates = PromotionGates::read(&gates).unwrap();
        let model = EntityId::Model(scene.id().clone(), model);
        catalog.set_promotion_gates(&model, gates.as_ref(), true, at(NOW)).await.unwrap();
        let release =
            catalog.resolve(EntityKind::Release, &format!("{}/v1", scene.workspace.path)).await.unwrap();
        catalog.approve(&release, ("production", Some("Read.")), false, at(NOW)).await.unwrap();
    }

    #[tokio::test]
    async fn report_lists_transitions_and_worst_slices() {
        let scene = Scene::on(Engine::Sqlite).await;
        let new = NewDefinition {
            dimensions: Some(vec!["tag.carrier".to_owned(), "tag.size".to_owned()]),
            from: Some("2026-06-01".parse().unwrap()),
            ..NewDefinition::default()
        };
        scene.ingest(at("2026-06-01T00:00:00Z")).define_model(&scene.workspace, "m", &new).await.unwrap();
        let wrong = AlertRuleBody {
            name: "often-wrong".into(),
            metric: Some("accuracy".into()),
            release: Some("v1".into()),
            below: Some(0.8),
            ..AlertRuleBody::default()
        };
        let catalog = &scene.world.catalog;
        catalog.apply_alert_rules(scene.id(), vec![wrong], at("2026-06-01T00:00:00Z")).await.unwrap();
        for day in ["2026-06-01", "2026-06-02"] {
            predict(&scene, day).await;
        }
        scene.project().await;
        gate(&scene).await;
        let judged =
            projector::alert::judge(&*scene.table, catalog, scene.id(), at("2026-06-03T00:01:00Z")).await;
        assert_eq!(judged.unwrap().transitions, 1);

        let words = ["report", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-02"];
        let args = <Parsed as clap::Parser>::try_parse_from(words).unwrap().args;
        let ask = Ask::of(scene.query(at(NOW)), &scene.workspace, &args).await.unwrap();
        assert_eq!(ask.reference, "2026-06-01..2026-06-01", "nothing is before it");
        let later = ["report", "-w", "credit/prod", "--from", "2026-06-02", "--to", "2026-06-02"];
        let later = <Parsed as clap::Parser>::try_parse_from(later).unwrap().args;
        let later = Ask::of(scene.query(at(NOW)), &scene.workspace, &later).await.unwrap();
        assert_eq!(later.reference, "2026-05-05..2026-06-01");
        let names = ["slices", "alerts", "gates", "maturity"].map(str::to_owned);
        let wanted = subjects(&names).unwrap();
        let text = page("a", &[], &sections::sections(&ask, &wanted).await.unwrap());
        let says = "accuracy of v1 on 2026-06-01 is 0.6666666666666666, below 0.8";
        assert_eq!(row(&text, &["2026-06-01", "often-wrong"]), ["2026-06-01", "often-wrong", "fires", says]);
        assert_eq!(row(&text, &["often-wrong"]), ["often-wrong", "firing", "2026-06-02"]);
        let worst = row(&text, &["tag.carrier=AA"]);
        assert_eq!(worst[1..3], ["v1", "40"], "{worst:?}");
        let [value, whole, gap] = [worst[4], worst[5], worst[6]].map(|cell| cell.parse::<f64>().unwrap());
        assert!(value == 0.0 && (whole - 2.0 / 3.0).abs() < 1e-3 && (gap + whole).abs() < 1e-3, "{worst:?}");
        let good = row(&text, &["tag.carrier=UA"])[4].parse::<f64>().unwrap();
        assert_eq!(good, 1.0);
        assert!(text.contains("accuracy of v1 is worst for tag.carrier=AA: 0"), "{text}");
        let pair = row(&text, &["tag.carrier=AA, tag.size=large"]);
        assert_eq!(pair[1..3], ["v1", "20"], "{pair:?}");
        assert!(
            text.contains("How far the accuracy of the worst slices is from that of all, by day"),
            "{text}"
        );
        // For days only eight days old, the expected truth is not known.
        assert!(!text.contains("Share of the truth that had come"), "{text}");
        assert_eq!(row(&text, &["m"])[1..], ["7", "1000", "true"]);
        let failed = row(&text, &["v1", "m", "no"])[3];
        assert!(
            failed.contains("min_n: 120 of its predictions") && failed.contains("second_person: nobody"),
            "{failed}"
        );
        assert_eq!(row(&text, &["v1", "production"])[4], "Read.");
    }

    /// A release that was live in the window but not at its end is no champion, in agreement with the table of live releases.
    #[tokio::test]
    async fn release_retired_in_window_is_no_champion() {
        let scene = Scene::on(Engine::Sqlite).await;
        let change = |action: &str, day: &str| {
            json!({ "release": "v1", "released_at": format!("{day}T00:00:00Z"), "model": "m", "action": action,
                    "environment": "production" })
        };
        let changes = json!([change("promote", "2026-06-01"), change("retire", "2026-06-02")]);
        scene.append(Kind::Releases, changes, "2026-06-03T00:00:00Z").await.unwrap();
        for release in ["v1", "v2"] {
            scene.predict("2026-06-01", release, 0.9).await;
        }
        scene.project().await;
        let words = ["report", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-03"];
        let args = <Parsed as clap::Parser>::try_parse_from(words).unwrap().args;
        let ask = Ask::of(scene.query(at(NOW)), &scene.workspace, &args).await.unwrap();
        let wanted = subjects(&["live", "compared"].map(str::to_owned)).unwrap();
        let text = page("a", &[], &sections::sections(&ask, &wanted).await.unwrap());
        let live = row(&text, &["production", "m", "v1"]);
        assert_eq!(live[3..], ["2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"], "{live:?}");
        let says = "No release of m was live in production when the window ended; the newest is compared with other ones.";
        assert!(text.contains(says), "{text}");
    }

    /// If later days reverse a decision, the page names the release that is better on its last day, and none while the bounds include
    /// zero.
    #[tokio::test]
    async fn report_names_better_release_by_last_day() {
        let scene = Scene::on(Engine::Sqlite).await;
        for number in 1..10 {
            let sure = if number <= 3 { [0.4, 0.9] } else { [0.9, 0.4] };
            predict_both(&scene, &format!("2026-06-0{number}"), sure).await;
        }
        scene.project().await;
        for (to, says) in [
            ("2026-06-05", "v2 is better than v1: decided on 2026-06-01."),
            ("2026-06-08", "It is not decided whether "),
            ("2026-06-09", "v1 is better than v2: decided on 2026-06-09."),
        ] {
            let words = ["report", "-w", "credit/prod", "--from", "2026-06-01", "--to", to];
            let args = <Parsed as clap::Parser>::try_parse_from(words).unwrap().args;
            let ask = Ask::of(scene.query(at(NOW)), &scene.workspace, &args).await.unwrap();
            let wanted = subjects(&["compared".to_owned()]).unwrap();
            let text = page("a", &[], &sections::sections(&ask, &wanted).await.unwrap());
            assert!(text.contains(says), "{says} {text}");
        }
    }
}
