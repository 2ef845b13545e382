//! Sections of the page: each requests rows and turns them into sentences, charts and tables.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{
    Evidence, MAX_LISTED, Measured, PromotionGates, Release, ToMeasure,
    http::{approval_json, gates_json, standing_json},
};
use event::{Day, Error, Period};
use fold::{
    AnyMetric,
    maturity::AGES,
    metric::{self, LoggedStatistic},
};
use query::{Dataset, Params};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Ask, page::Section};
use crate::{
    output::cell,
    plot::{RELEASE, lines},
};

/// Sections: their texts, and the columns that they show.
const SECTIONS: &str = include_str!("sections.toml");

/// A section as declared.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) introduction: String,
    /// Text of a section without data.
    pub(super) lack: String,
    #[serde(default)]
    pub(super) columns: String,
}

/// Columns of evaluations, which several sections need; the ends of intervals are made of their metrics.
const METRICS: &str = "day,release,predictions,labelled,accuracy,accuracy_low,accuracy_high,auc,brier,log_loss,f1,macro_f1,mae,\
                       mae_low,mae_high,rmse,bias,value_per_prediction";

/// Metrics that have an interval, by one of which releases are followed if the workspace has no primary metric.
const USUAL: [&str; 2] = ["accuracy", "mae"];

/// Maximum releases that are compared, evaluated or drawn, logged metrics, and slices that are drawn.
const FEW: usize = 5;
/// Maximum columns and periods of drift, and slices.
const MANY: usize = 20;

/// Minimum completeness of a complete day.
const COMPLETE: f64 = 0.9;

/// Ages that are drawn, the last by all that is known.
const DRAWN_AGES: [&str; 5] = ["1h", "1d", "7d", "30d", LATEST];
const LATEST: &str = "latest";

/// Reads the wanted sections, or all, in order.
///
/// # Errors
/// `Invalid`, naming a wrong one.
pub(super) fn subjects(wanted: &[String]) -> anyhow::Result<Vec<Subject>> {
    let mut sections: BTreeMap<String, Vec<Subject>> = toml::from_str(SECTIONS)?;
    let mut sections = sections.remove("section").unwrap_or_default();
    let names: Vec<String> = sections.iter().map(|section| section.name.clone()).collect();
    if let Some(wrong) = wanted.iter().find(|name| !names.contains(name)) {
        let names = names.join(", ");
        return Err(Error::invalid(format!("sections: `{wrong}` is none of {names}")).into());
    }
    sections.retain(|section| wanted.is_empty() || wanted.contains(&section.name));
    Ok(sections)
}

/// Makes the sections.
pub(super) async fn sections<'a>(ask: &Ask, subjects: &'a [Subject]) -> anyhow::Result<Vec<Section<'a>>> {
    let is_of_metrics = |of: &Subject| ["metrics", "compared", "slices"].contains(&of.name.as_str());
    let evaluated = match subjects.iter().any(is_of_metrics) {
        true => Evaluated::of(ask).await?,
        false => Evaluated::default(),
    };
    let mut sections = Vec::new();
    for subject in subjects {
        let mut section = Section::new(subject);
        match subject.name.as_str() {
            "live" => live(ask, &mut section),
            "metrics" => metrics(ask, &mut section, &evaluated)?,
            "compared" => compared(ask, &mut section, &evaluated).await?,
            "logged" => logged_metrics(ask, &mut section).await?,
            "gates" => gates(ask, &mut section).await?,
            "expected" => expected(ask, &mut section).await?,
            "drift" => drift(ask, &mut section).await?,
            "slices" => slices(ask, &mut section, &evaluated).await?,
            "maturity" => maturity(ask, &mut section).await?,
            _ => alerts(ask, &mut section).await?,
        }
        section.finish(&ask.reference);
        sections.push(section);
    }
    Ok(sections)
}

/// Text of a column of a row.
fn text<'a>(row: &'a Value, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_default()
}

/// Rows with this text in a column.
fn only(rows: &[Value], column: &str, is: &str) -> Vec<Value> {
    rows.iter().filter(|row| text(row, column) == is).cloned().collect()
}

/// Different texts of a column, in order.
fn names<'a>(rows: &'a [Value], column: &str) -> BTreeSet<&'a str> {
    rows.iter().filter_map(|row| row[column].as_str()).collect()
}

/// Row with the number that is farthest from zero in a column, that number, and the period of the row in a sentence.
fn farthest<'a>(rows: &'a [Value], column: &str, period: &str) -> Option<(&'a Value, f64, String)> {
    let numbers = rows.iter().filter_map(|row| Some((row, row[column].as_f64()?)));
    let (row, number) = numbers.max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()))?;
    let day = text(row, "day");
    let when = if period == "day" { format!("on {day}") } else { format!("in the {period} of {day}") };
    Some((row, number, when))
}

fn live(ask: &Ask, section: &mut Section<'_>) {
    let lives = ask.lives();
    for row in lives.iter().filter(|row| row["until"].is_null()) {
        let [environment, model, release, since] =
            ["environment", "model", RELEASE, "since"].map(|column| text(row, column));
        section.brief.push(format!("{release} of {model} is live in {environment} since {since}."));
    }
    let caption = "Releases that were live in these days; without an end, when they ended";
    section.table(caption, section.columns, &lives);
}

/// Evaluations of the window, for several sections.
#[derive(Default)]
struct Evaluated {
    rows: Vec<Value>,
    warnings: Vec<String>,
    columns: String,
    /// Metric by which releases are followed.
    followed: Option<String>,
}

impl Evaluated {
    async fn of(ask: &Ask) -> anyhow::Result<Self> {
        let primary = ask.settings.primary_metric.as_ref().map(|primary| &primary.metric);
        // A logged metric has a section of its own.
        let primary = primary.filter(|metric| metric.logged().is_none()).map(AnyMetric::name);
        let mut columns: Vec<&str> = METRICS.split(',').collect();
        columns.extend(primary.filter(|primary| !columns.contains(primary)));
        let is_end = |column: &str| column.ends_with("_low") || column.ends_with("_high");
        let asked = columns.iter().copied().filter(|column| !is_end(column)).collect::<Vec<_>>().join(",");
        let words = Params { columns: Some(&asked), ..ask.by_period() };
        let (mut rows, warnings) = ask.rows(Dataset::Evaluations, words).await?;
        for row in &mut rows {
            for metric in USUAL {
                let (low, high) = interval(row, metric).unzip();
                row[format!("{metric}_low")] = low.into();
                row[format!("{metric}_high")] = high.into();
            }
        }
        let has_numbers = |metric: &&str| rows.iter().any(|row| row[*metric].is_number());
        let followed = primary.into_iter().chain(USUAL).find(has_numbers).map(str::to_owned);
        Ok(Self { followed, rows, warnings, columns: columns.join(",") })
    }
}

/// Interval of a metric that is a share or a mean of single predictions, so that the metric itself determines it.
fn interval(row: &Value, metric: &str) -> Option<(f64, f64)> {
    let (value, n) = (row[metric].as_f64()?, row["labelled"].as_u64()?);
    let size = n as f64;
    let evidence = match metric {
        "accuracy" => metric::Evidence::Share { right: (value * size).round() as u64, n },
        _ => metric::Evidence::Mean { n, sum: size * value, squares: size * row["rmse"].as_f64()?.powi(2) },
    };
    evidence.interval()
}

fn metrics(ask: &Ask, section: &mut Section<'_>, evaluated: &Evaluated) -> anyhow::Result<()> {
    let Evaluated { rows, warnings, columns, followed } = evaluated;
    section.warnings.extend(warnings.iter().cloned());
    if !rows.is_empty() && rows.iter().all(|row| row["labelled"] == 0) {
        section.lack("No outcome has come yet for the predictions of these days, so nothing can be judged.");
    }
    for metric in followed.as_deref().into_iter().chain(["auc"]).collect::<BTreeSet<_>>() {
        let title = format!("{metric} by {}", ask.period);
        section.chart(title, lines(rows, &[RELEASE], &[metric])?, ask.marks());
    }
    let made = match ask.period.as_str() {
        "day" => "as they are stored of each day",
        _ => "made of all events of a period, and no means of days",
    };
    section.table(&format!("Metrics by {} and release, {made}", ask.period), columns, rows);
    Ok(())
}

async fn compared(ask: &Ask, section: &mut Section<'_>, evaluated: &Evaluated) -> anyhow::Result<()> {
    let predicted = names(&evaluated.rows, RELEASE);
    for model in ask.models().map(|model| model.entity.name.as_str()) {
        let releases = ask.page.releases.iter().rev().filter(|release| release.model == model);
        let mut releases: Vec<&str> = releases.map(|release| release.entity.name.as_str()).collect();
        // In a report of one release, any other may be its counterpart.
        releases.retain(|name| ask.release.is_some() || predicted.contains(name));
        let champion = ask.champion(model).filter(|name| releases.contains(name));
        let Some(first) = champion.or(releases.first().copied()) else { continue };
        let is_asked =
            |other: &&str| ask.release.as_deref().is_none_or(|asked| asked == first || asked == *other);
        let others = releases.into_iter().filter(|other| *other != first).filter(is_asked);
        for (number, other) in others.take(FEW).enumerate() {
            if number == 0 && ask.champion(model).is_none() {
                let environment = &ask.environment;
                section.say(&format!(
                    "No release of {model} was live in {environment} when the window ended; the newest is compared with other ones."
                ));
            }
            compare(ask, section, [first, other]).await?;
        }
    }
    Ok(())
}

async fn compare(ask: &Ask, section: &mut Section<'_>, pair: [&str; 2]) -> anyhow::Result<()> {
    let [release, against] = pair.map(Some);
    let columns = format!("{},measure,n_so_far", section.columns);
    let words = Params { release, against, columns: Some(&columns), ..ask.by_period() };
    let rows = section.rows(ask, Dataset::HeadToHead, words).await?;
    let [release, against] = pair;
    let Some(last) = rows.last() else {
        section.lack(&format!(
            "Nothing judges {release} and {against} on the same prediction: they share no key with an outcome."
        ));
        return Ok(());
    };
    let verdict = verdict(last, pair);
    section.say(&verdict);
    section.brief.push(verdict);
    let day = text(last, "decided_at").parse::<Day>();
    let mark = day.map(|day| (day.start(), format!("decided on {day}")));
    let title = format!("Advantage of {release} over {against} so far, by {}", text(last, "measure"));
    section.chart(title, lines(&rows, &[], &["advantage_so_far"])?, mark.into_iter().collect());
    section.table(&format!("{release} against {against} by {}", ask.period), section.columns, &rows);
    Ok(())
}

/// States the better release of both, and the certainty.
fn verdict(last: &Value, [release, against]: [&str; 2]) -> String {
    let of = ["measure", "n_so_far", "advantage_so_far", "low_so_far", "high_so_far", "winner", "decided_at"];
    let [measure, n, advantage, low, high, winner, decided] = of.map(|column| cell(&last[column]));
    let told = format!(
        "By {measure} the advantage of {release} is {advantage} so far, of {n} predictions that both made"
    );
    if last["winner"].is_null() {
        return format!(
            "It is not decided whether {release} or {against} is better. {told}; its bounds are {low} to {high}."
        );
    }
    let loser = if winner == release { against } else { release };
    let number = |column: &str| last[column].as_f64().unwrap_or_default();
    let bounds = match (number("low_so_far")..=number("high_so_far")).contains(&number("advantage_so_far")) {
        true => format!("Its bounds are {low} to {high}."),
        false => format!(
            "That is outside of its bounds, {low} to {high}, which take for granted that predictions stay as they were; these did not."
        ),
    };
    format!("{winner} is better than {loser}: decided on {decided}. {told}. {bounds}")
}

async fn logged_metrics(ask: &Ask, section: &mut Section<'_>) -> anyhow::Result<()> {
    let words =
        Params { by: Some("metric"), columns: Some(section.columns), change: Some("day"), ..ask.words() };
    let mut rows = section.rows(ask, Dataset::Rollups, words).await?;
    // Rows without a release are totals of all.
    rows.retain(|row| row[RELEASE].is_string() || ask.is_whole());
    let primary = ask.settings.primary_metric.as_ref().and_then(|primary| primary.metric.logged());
    let mut names: Vec<&str> = names(&rows, "metric").into_iter().collect();
    // The primary metric is the first.
    names.sort_by_key(|name| primary.is_none_or(|of| of.metric() != *name));
    for name in names.iter().take(FEW) {
        let of = primary.filter(|of| of.metric() == *name).map(|of| of.statistic());
        let statistic = of.unwrap_or(LoggedStatistic::Mean).name();
        let (rows, value) = (only(&rows, "metric", name), format!("value_{statistic}"));
        let lines = lines(&rows, &[RELEASE], &[&value])?;
        section.chart(format!("{name}: {statistic} by day"), lines, ask.marks());
        section.table(
            &format!("{name} by day"),
            &format!("day,release,metrics,{value},{value}_change"),
            &rows,
        );
    }
    if let more @ 1.. = names.len().saturating_sub(FEW) {
        section.say(&format!(
            "{more} more are logged; the command almanac query rollups --group-by metric shows them."
        ));
    }
    Ok(())
}

async fn gates(ask: &Ask, section: &mut Section<'_>) -> anyhow::Result<()> {
    let gated = ask.models().filter_map(|model| Some((&model.entity, model.gates.as_ref()?)));
    let releases = ask.page.releases.iter().filter(|release| ask.has(&release.entity.name));
    let (mut declared, mut judged, environment) = (Vec::new(), Vec::new(), ask.environment.as_str());
    for (model, gates) in gated {
        declared.push(gates_json(&model.name, Some(gates)));
        let champion = ask.champion(&model.name).filter(|_| gates.hold_in(environment));
        let of_model = releases.clone().rev().filter(|release| release.model_id == model.id);
        let others = of_model.filter(|release| Some(release.entity.name.as_str()) != champion);
        for release in others.take(FEW).filter(|_| gates.hold_in(environment)) {
            let name = &release.entity.name;
            let why = failed(ask, gates, (release, champion)).await?;
            let passes = if why.is_empty() { "yes" } else { "no" };
            if why.is_empty() {
                section.brief.push(format!("{name} of {} passes the gates of {environment}.", model.name));
            }
            judged.push(json!({ RELEASE: name, "model": model.name, "passes": passes, "why not": why }));
        }
    }
    section.table("Promotion gates", section.columns, &declared);
    let caption = format!("Releases that could be live in {environment}");
    section.table(&caption, "release,model,passes,why not", &judged);
    let of = |release: &Release| {
        let each = release.approvals.iter();
        each.map(|approval| approval_json(&release.entity.name, approval)).collect::<Vec<_>>()
    };
    let approvals: Vec<Value> = releases.flat_map(of).collect();
    section.table("Approvals", "release,environment,principal,at,note", &approvals);
    Ok(())
}

/// Reasons why a release would not pass if nobody in particular made it live at the end of the window.
async fn failed(
    ask: &Ask,
    gates: &PromotionGates,
    (release, champion): (&Release, Option<&str>),
) -> anyhow::Result<String> {
    let window = gates.window(ask.until())?;
    let of = ToMeasure {
        window,
        release: release.entity.name.clone(),
        champion: champion.map(str::to_owned),
        metric: gates.champion.as_ref().map(|of| of.metric.metric.clone()),
        is_of_completeness: gates.completeness.is_some(),
    };
    let measured = match gates.need_metrics() {
        true => ask.query.measure_promotion(ask.page.workspace.id(), &of).await?,
        false => Measured::default(),
    };
    let failed = gates.judge(&Evidence {
        environment: &ask.environment,
        window,
        measured,
        champion,
        requester: "nobody",
        created_by: Some(&release.created_by),
        approvals: &release.approvals,
    });
    let failed = failed.into_iter().map(|failed| format!("{}: {}", failed.gate, failed.reason));
    Ok(failed.collect::<Vec<_>>().join("; "))
}

async fn expected(ask: &Ask, section: &mut Section<'_>) -> anyhow::Result<()> {
    let words = Params { reference: Some(&ask.reference), columns: Some(section.columns), ..ask.by_period() };
    let rows = section.rows(ask, Dataset::Estimates, words).await?;
    for release in names(&rows, RELEASE).into_iter().take(FEW) {
        let rows = only(&rows, RELEASE, release);
        let lines = lines(&rows, &[], &["accuracy_expected", "accuracy"])?;
        section.chart(format!("Accuracy of {release}: expected and realised"), lines, Vec::new());
        section.brief.extend(farthest(&rows, "accuracy_gap", &ask.period).map(|(_, gap, when)| {
            let (size, side) = (cell(&gap.abs().into()), if gap < 0.0 { "below" } else { "above" });
            format!("The accuracy of {release} was {size} {side} what was expected of it {when}, which is the farthest.")
        }));
    }
    section.table(&format!("Expected and realised by {} and release", ask.period), section.columns, &rows);
    Ok(())
}

async fn drift(ask: &Ask, section: &mut Section<'_>) -> anyhow::Result<()> {
    let (reference, period) = (ask.reference.as_str(), ask.drift_period);
    let by = |period| Params { reference: Some(reference), period: Some(period), ..ask.words() };
    let mut rows = section.rows(ask, Dataset::Drift, by("all")).await?;
    rows.truncate(MANY + 1);
    // The first row counts the predictions themselves.
    let Some((_, columns)) = rows.split_first().filter(|(all, _)| all["n_reference"] != 0) else {
        return Ok(());
    };
    let place = |name: &str| columns.iter().position(|row| text(row, "column") == name);
    let mut by_period = section.rows(ask, Dataset::Drift, by(period)).await?;
    by_period.retain(|row| place(text(row, "column")).is_some());
    section.brief.extend(farthest(&by_period, "js_distance", period).map(|(row, distance, when)| {
        let (column, distance) = (text(row, "column"), cell(&distance.into()));
        format!("{column} moved most: {when} its Jensen-Shannon distance from {reference} was {distance}.")
    }));
    let mut lines = lines(&by_period, &["column"], &["js_distance"])?;
    lines.sort_by_key(|line| place(&line.name));
    let distances = lines.iter().map(|line| {
        let days = line.points.iter().map(|point| (point.at.day().to_string(), json!(point.value)));
        let name = ("column".to_owned(), json!(line.name));
        days.chain([name]).collect()
    });
    let distances: Vec<Value> = distances.collect();
    let days: Vec<&str> = names(&by_period, "day").into_iter().collect();
    let days = days[days.len().saturating_sub(MANY)..].join(",");
    section.chart(format!("Distance from {reference} by {period}"), lines, Vec::new());
    let of = ask.release.as_ref().map_or("all predictions of the workspace", |release| release);
    section.table(&format!("All days of {of} against {reference}"), section.columns, &rows);
    section.table(&format!("Jensen-Shannon distance by {period}"), &format!("column,{days}"), &distances);
    Ok(())
}

async fn slices(ask: &Ask, section: &mut Section<'_>, evaluated: &Evaluated) -> anyhow::Result<()> {
    let Some(metric) = evaluated.followed.as_deref() else {
        section.lack("No metric is known of these days yet by which slices could be ranked.");
        return Ok(());
    };
    let words = |pairs| Params { metric: Some(metric), pairs, ..ask.words() };
    let mut rows = section.rows(ask, Dataset::Slices, words(true)).await?;
    if rows.is_empty() {
        // Pairs come from events, which may have expired; stored metrics of single dimensions remain.
        rows = section.rows(ask, Dataset::Slices, words(false)).await?;
    }
    let Some(worst) = rows.first() else { return Ok(()) };
    let [release, slice, value, whole] = [RELEASE, "slice", "value", "whole"].map(|of| cell(&worst[of]));
    section.brief.push(format!(
        "{metric} of {release} is worst for {slice}: {value} where all its predictions have {whole}."
    ));
    let key = |row: &Value| [RELEASE, "slice"].map(|of| text(row, of).to_owned());
    let single = rows.iter().filter(|row| row["dimensions"] == 1);
    let drawn: Vec<[String; 2]> = single.take(FEW).map(key).collect();
    let mut by_period = Vec::new();
    for part in Period::parse(&ask.period)?.parts(ask.window).into_iter().filter(|_| !drawn.is_empty()) {
        let [from, to] = [part.from(), part.to()].map(|day| day.to_string());
        let words = Params { from: &from, to: &to, ..words(false) };
        by_period.extend(ask.rows(Dataset::Slices, words).await?.0);
    }
    by_period.retain(|row| drawn.contains(&key(row)));
    let title = format!("How far the {metric} of the worst slices is from that of all, by {}", ask.period);
    section.chart(title, lines(&by_period, &["slice", RELEASE], &["gap"])?, Vec::new());
    let caption =
        format!("The worst slices of {}, by how far their {metric} is from that of all", rows.len());
    section.table(&caption, section.columns, &rows[..rows.len().min(MANY)]);
    Ok(())
}

/// Sum of one number over that of another, of the rows that have both.
fn ratio<'a>(rows: &[&'a Value], of: impl Fn(&'a Value) -> Option<(f64, f64)>) -> Option<f64> {
    let both = rows.iter().filter_map(|row| of(row));
    let (top, bottom) = both.fold((0.0, 0.0), |sums, both| (sums.0 + both.0, sums.1 + both.1));
    (bottom > 0.0).then(|| top / bottom)
}

/// Combines rows of maturity by a column and age: the labelled share of the expected labels, over days with an
/// expectation, and metrics that are means of predictions.
fn together(rows: &[Value], column: &str) -> Vec<Value> {
    let place = |row| AGES.iter().position(|age| age.name == text(row, "age")).unwrap_or(AGES.len());
    let mut groups = BTreeMap::<(&str, usize), Vec<&Value>>::new();
    for row in rows {
        groups.entry((text(row, column), place(row))).or_default().push(row);
    }
    let row = |((name, _), rows): (&(&str, usize), &Vec<&Value>)| {
        let labelled: u64 = rows.iter().filter_map(|row| row["labelled"].as_u64()).sum();
        let completeness =
            ratio(rows, |row| Some((row["labelled"].as_f64()?, row["expected_labelled"].as_f64()?)));
        let [accuracy, mae] = USUAL.map(|metric| {
            ratio(rows, |row| {
                let n = row["labelled"].as_f64()?;
                Some((row[metric].as_f64()? * n, n))
            })
        });
        json!({ column: name, "age": rows[0]["age"], "days": rows.len(), "labelled": labelled,
                "completeness": completeness, "accuracy": accuracy, "mae": mae })
    };
    groups.iter().map(row).collect()
}

async fn maturity(ask: &Ask, section: &mut Section<'_>) -> anyhow::Result<()> {
    let words = Params { columns: Some(section.columns), ..ask.words() };
    let mut rows = section.rows(ask, Dataset::Maturity, words).await?;
    if rows.iter().all(|row| row["labelled"] == 0) {
        return Ok(());
    }
    let mut by_day = together(&rows, "day");
    by_day.retain(|row| DRAWN_AGES.contains(&text(row, "age")));
    let lines = lines(&by_day, &["age"], &["completeness"])?;
    section.chart("Share of the truth that had come, by day and its age".to_owned(), lines, Vec::new());
    let ages = together(&rows, RELEASE);
    section.table("All days together, by age", "release,age,days,labelled,completeness,accuracy,mae", &ages);
    let is_early = |row: &Value| row["completeness"].as_f64().is_some_and(|share| share < COMPLETE);
    rows.retain(|row| text(row, "age") == LATEST && is_early(row));
    let caption = "Days that lack more than a tenth of their truth";
    match rows.len() {
        0 => section.say("No day is known to lack more than a tenth of its truth."),
        early => section.brief.push(format!("{caption}: {early}.")),
    }
    section.table(caption, "day,release,completeness,labelled", &rows);
    if ages.iter().any(|row| row["completeness"].is_null()) {
        section.lack("How much will come is told by days that are 30 days old; a window without such days shows counts alone.");
    }
    Ok(())
}

async fn alerts(ask: &Ask, section: &mut Section<'_>) -> anyhow::Result<()> {
    let (catalog, id) = (ask.query.catalog(), ask.page.workspace.id());
    let (rules, judged) = (catalog.alert_rules(id).await?, catalog.judged_rules(id).await?);
    let transitions = catalog.transitions(id, ask.window.from(), ask.window.to(), MAX_LISTED).await?;
    let transitions: Vec<Value> =
        transitions.iter().rev().map(|transition| serde_json::json!(transition)).collect();
    let rules: Vec<Value> = rules.iter().map(|rule| standing_json(rule, &judged)).collect();
    match transitions.len() {
        0 if rules.is_empty() => return Ok(()),
        0 => section.say("No rule began to fire or was resolved on these days."),
        MAX_LISTED => section.brief.push(format!("Alert rules crossed {MAX_LISTED} or more times.")),
        count => section.brief.push(format!("Alert rules crossed {count} times.")),
    }
    let of = if ask.is_whole() { "" } else { " of the whole workspace" };
    section.table(&format!("When rules{of} began to fire and were resolved"), section.columns, &transitions);
    section.table(&format!("Where rules{of} stand"), "name,state,evaluated_day", &rules);
    Ok(())
}
