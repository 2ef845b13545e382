//! Time of an analyst's query: from a request to a polars frame in Python, over HTTP in each format and by the
//! command line, beside polars reading the same days from Parquet on the same disk; and a group-by in SQL.

use anyhow::{Context as _, ensure};
use polars::prelude::ChunkAgg;
use query::{Sql, SqlParams};
use tokio::time::Instant;

use super::{frames::all_days, window::WEEK};
use crate::{
    context::{Context, Opened},
    line::Line,
    peer,
    rounds::{Found, Readings, Side, interleave},
    samples::Samples,
    service::{Service, WORKSPACE},
};

/// Number of timed runs of a statement in a round, after one untimed.
const TIMES: usize = 3;

/// Form of the answer: its name, and the lines of all columns and of three.
type Form = (&'static str, [&'static str; 2]);

/// Forms in which a frame comes over HTTP.
const FORMS: [Form; 5] = [
    ("ipc-stream", ["analyst-arrow", "analyst-arrow-three"]),
    ("ipc-stream-lz4", ["analyst-lz4", "analyst-lz4-three"]),
    ("parquet", ["analyst-parquet", "analyst-parquet-three"]),
    ("csv", ["analyst-csv", "analyst-csv-three"]),
    ("ndjson", ["analyst-ndjson", "analyst-ndjson-three"]),
];

/// Programs that produce a frame by themselves: name, description of the line, and the lines of all columns and of
/// three.
const PROGRAMS: [(&str, &str, [&str; 2]); 2] = [
    ("almanac query", "almanac query to a file to a frame", ["analyst-cli", "analyst-cli-three"]),
    ("Python client", "the Python client to a frame", ["analyst-client", "analyst-client-three"]),
];

/// Lines of the rates of text.
const RATES: [(&str, &str); 2] = [("csv", "analyst-csv/rate"), ("ndjson", "analyst-ndjson/rate")];

/// Columns of an answer: their names in scripts of peers, and in a request.
const COLUMNS: [(&str, Option<&str>); 2] = [("all", None), ("key,score,label", Some("key,score,label"))];

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (at, columns) in COLUMNS.into_iter().enumerate() {
        lines.extend(frames(context, at, columns)?);
    }
    lines.extend(group_by(context)?);
    Ok(lines)
}

/// Returns the first and the last day of a window.
fn ends(context: &Context, (first, last): (usize, usize)) -> [String; 2] {
    [first, last].map(|day| context.data.day(day).to_string())
}

/// Measures a week as a frame, in every form.
fn frames(
    context: &Context,
    at: usize,
    (named, columns): (&'static str, Option<&str>),
) -> anyhow::Result<Vec<Line>> {
    let rows = (WEEK.0..=WEEK.1).map(|day| context.data.rows_of(day)).sum::<usize>().to_string();
    let [from, to] = ends(context, WEEK);
    let folder = &context.stored()?.folder;
    let service = Service::start_on(&context.place, folder, &[])?;
    let path = Service::path("predictions");
    let of_columns = columns.map(|columns| format!("&columns={columns}")).unwrap_or_default();
    let url = format!("http://{}{path}?from={from}&to={to}{of_columns}", service.address);
    let run = |script, args: &[&str]| peer::run(&context.place, script, args);
    let file = context.place.fresh("analyst")?.join("week.arrow");
    let (file, data) = (file.to_string_lossy().into_owned(), folder.to_string_lossy().into_owned());
    let program = context.place.almanac.to_string_lossy().into_owned();
    let query = ["--data", &data, "query", "predictions", "-w", WORKSPACE, "--from", &from, "--to", &to];
    let mut command = vec![rows.as_str(), &file, &program];
    command.extend(query.into_iter().chain(["--output", &file]));
    command.extend(columns.iter().flat_map(|columns| ["--columns", columns]));
    let address = format!("http://{}", service.address);
    let mut call = vec![address.as_str(), WORKSPACE, &from, &to, &rows];
    call.extend(columns);
    let parquet = context.parquet()?.0.to_string_lossy().into_owned();
    let mut sides: Vec<Side<'_>> = Vec::new();
    for (form, _) in FORMS {
        let (url, rows) = (&url, &rows);
        sides.push(Side::new(form, move || run("analyst_http.py", &[url, form, rows])));
    }
    sides.push(Side::new(PROGRAMS[0].0, || run("analyst_cli.py", &command)));
    sides.push(Side::new(PROGRAMS[1].0, || run("analyst_client.py", &call)));
    sides.push(Side::new("polars", || {
        let found = run("polars_window.py", &[&parquet, &from, &to, named])?;
        ensure!(
            found.get("rows").is_some_and(|found| found.to_string() == rows),
            "it read other rows: {found:?}"
        );
        Ok(found)
    }));
    let found = interleave(context.rounds, sides);
    let peer = ("polars on Parquet", &found[FORMS.len() + PROGRAMS.len()]);
    let of = |words: &str| format!("{words}, {}", if at == 0 { "all columns" } else { "3 columns" });
    let mut lines: Vec<Line> = FORMS
        .iter()
        .zip(&found)
        .map(|((form, ids), found)| {
            Line::of(ids[at], of(&format!("{form} to a frame")), ("ms", "ms"), found, peer)
        })
        .collect();
    lines.extend(
        PROGRAMS
            .iter()
            .zip(&found[FORMS.len()..])
            .map(|((_, words, ids), found)| Line::of(ids[at], of(words), ("ms", "ms"), found, peer)),
    );
    lines.extend(on_the_way(at, of, &found)?);
    service.stop();
    Ok(lines)
}

/// Returns the lines of the time to the first byte, and of the rate of text.
fn on_the_way(at: usize, of: impl Fn(&str) -> String, found: &[Found]) -> anyhow::Result<Vec<Line>> {
    let first = ["analyst-first", "analyst-first-three"][at];
    let mut lines =
        vec![Line::alone(first, of("first byte of ipc-stream"), "ms", found[0].samples("first_ms"))];
    for (form, id) in RATES.into_iter().filter(|_| at == 0) {
        let place =
            FORMS.iter().position(|(name, _)| *name == form).context("a form that is not measured")?;
        let rate = found[place].samples("mb_per_s");
        lines.push(Line::alone(id, of(form), "MB/s", rate));
    }
    Ok(lines)
}

/// Measures the mean score of each day and release over all days.
fn group_by(context: &Context) -> anyhow::Result<Vec<Line>> {
    let opened = context.open(context.stored()?)?;
    let [from, to] = ends(context, all_days(context));
    let statement = format!(
        "select day, release, count(*) as n, avg(score) as score from predictions where day between '{from}' and '{to}' group by day, release"
    );
    let sql = Sql::parse(&SqlParams { statement: &statement, ..SqlParams::default() })?;
    let parquet = context.parquet()?.0.to_string_lossy().into_owned();
    let of_peer = |engine: &'static str| {
        let args = [engine, &parquet, &from, &to].map(str::to_owned);
        Side::new(engine, move || {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            peer::run(&context.place, "group_by.py", &args)
        })
    };
    let sides =
        vec![Side::new("Almanac", || grouped(context, &opened, &sql)), of_peer("polars"), of_peer("chdb")];
    let found = interleave(context.rounds, sides);
    let same = |at: usize| -> Result<(), String> {
        for name in ["groups", "rows", "total"] {
            let (ours, theirs) = (found[0].samples(name)?.median(), found[at].samples(name)?.median());
            if (ours - theirs).abs() > 1e-9 * ours.abs().max(1.0) {
                return Err(format!("they do not agree on {name}: {ours} and {theirs}"));
            }
        }
        Ok(())
    };
    let lines = [(1, "group-by/polars", "polars on Parquet"), (2, "group-by/chdb", "chDB on Parquet")];
    Ok(lines
        .map(|(at, id, peer)| {
            let work = format!("{} days grouped by day and release, in SQL", context.data.days());
            let line = Line::of(id, work, ("ms", "ms"), &found[0], (peer, &found[at]));
            Line { figures: line.figures.and_then(|figures| same(at).map(|()| figures)), ..line }
        })
        .into())
}

/// Times a statement; also returns the totals of its answer that a peer must match.
fn grouped(context: &Context, opened: &Opened, sql: &Sql) -> anyhow::Result<Readings> {
    let run =
        || context.runtime.block_on(opened.query.sql(&opened.workspace, sql)).map(|answer| answer.frame);
    let frame = run()?;
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let began = Instant::now();
        drop(run()?);
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let counts = frame.column("n")?.cast(&polars::prelude::DataType::Float64)?;
    let rows = counts.f64()?.sum().unwrap_or_default();
    let total = (frame.column("score")?.f64()? * counts.f64()?).sum().unwrap_or_default();
    let ms = Samples::new(times).median();
    let named = [("ms", ms), ("groups", frame.height() as f64), ("rows", rows), ("total", total)];
    Ok(named.map(|(name, value)| (name.to_owned(), value)).into())
}
