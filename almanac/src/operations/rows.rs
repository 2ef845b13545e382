//! Commands whose answers are rows: tables, files, explanations and charts of them.

use std::io::Cursor;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use event::{Timestamp, Window};
use hyper::{
    HeaderMap,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue, TE},
};
use log::segment_item::CLOSED_AFTER_SECONDS;
use polars_io::{SerReader, ipc::IpcStreamReader};
use query::Format;

use super::{FORMAT, Given, WORKSPACE, described::Described, request, say_days, verbs::Verb};
use crate::{
    answer::{Shown, say_warnings},
    client::{Client, next_page},
    config::Config,
    exit::Exit,
    plot::PlotArgs,
};

const AS_OF: &str = "as-of";
const COLUMNS: &str = "columns";
const EXPLAIN: &str = "explain";
const INTERVAL: &str = "interval";
const READ_VERSION: &str = "read-version";
const SHOW_READ_VERSION: &str = "show-read-version";

/// Fields that a chart sets itself, or has no use for.
const NOT_OF_CHARTS: [&str; 3] = [COLUMNS, EXPLAIN, "snapshot"];

pub(super) fn is_chart(verb: &Verb) -> bool {
    verb.words.starts_with("plot ")
}

/// Fields that are no options of a command.
pub(super) fn hidden(verb: &Verb) -> &'static [&'static str] {
    if is_chart(verb) { &NOT_OF_CHARTS } else { &[] }
}

/// Adds the options of how rows are shown.
pub(super) fn with_options(verb: &Verb, described: &Described, command: Command) -> Command {
    // Options that are added bring a text on the whole command.
    let about = command.get_about().cloned().unwrap_or_default();
    let long = command.get_long_about().cloned().unwrap_or_default();
    if is_chart(verb) {
        return PlotArgs::augment_args(command).about(about).long_about(long);
    }
    let command = Shown::augment_args(command).about(about).long_about(long);
    let says = "Print to standard error what the answer was read from";
    let show_read_version =
        Arg::new(SHOW_READ_VERSION).long(SHOW_READ_VERSION).action(ArgAction::SetTrue).help(says);
    if described.fields.iter().any(|field| field.option == READ_VERSION) {
        command.arg(show_read_version)
    } else {
        command
    }
}

/// Runs a command whose answer is rows.
///
/// # Errors
/// The problem that the operation answers, also when it breaks off; errors of writing.
pub(super) async fn run(
    config: &Config,
    (verb, described): (&Verb, &'static Described),
    mut given: Given,
    matches: &ArgMatches,
) -> anyhow::Result<Exit> {
    if is_chart(verb) {
        return draw(config, (verb, described), given, matches).await;
    }
    let shown = Shown::from_arg_matches(matches)?;
    let explains = given.get(EXPLAIN).is_some_and(|value| value == &["true"]);
    let (format, media) = match explains {
        true => (Format::IpcStream, shown.media_of_explanation()?),
        false => (shown.format()?, "*/*"),
    };
    given.insert(FORMAT.to_owned(), vec![format.name().to_owned()]);
    let client = Client::new(config, false).await?;
    let asked = |given: &Given| {
        let mut asked = request(verb, described, given)?;
        asked.headers_mut().insert(ACCEPT, HeaderValue::from_static(media));
        asked.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        Ok::<_, anyhow::Error>(asked)
    };
    if explains {
        let answer = client.send(asked(&given)?).await?;
        say(&answer.headers, described, &given);
        return shown
            .write_text(&match answer.is_json() {
                true => format!("{:#}\n", answer.json()?),
                false => String::from_utf8_lossy(&answer.body).into_owned(),
            })
            .map(|()| Exit::Done);
    }
    let (mut head, mut body) = client.open(asked(&given)?).await?.into_parts();
    if matches.try_get_one(SHOW_READ_VERSION).ok().flatten() == Some(&true) {
        let mut stated = text(&head.headers, "almanac-read-version").map(str::to_owned);
        if stated.as_ref().is_some_and(|stated| stated.starts_with("omitted")) {
            // It is too long for a header. Asked for alone it may be a later one, so the rows are read again, of that one.
            let read_version = alone(&client, (verb, described), &given).await?;
            given.retain(|name, _| name.replace('_', "-") != AS_OF);
            let field = described.fields.iter().find(|field| field.option == READ_VERSION);
            given.extend(field.map(|field| (field.name.clone(), vec![read_version.clone()])));
            (head, body) = client.open(asked(&given)?).await?.into_parts();
            stated = Some(read_version);
        }
        match stated {
            Some(read_version) => eprintln!("read-version: {read_version}"),
            None => eprintln!("no read version: stored metrics are not read from the log; --as-of reads it"),
        }
    }
    say(&head.headers, described, &given);
    shown.write(&head.headers, body).await?;
    Ok(Exit::Done)
}

/// Asks for the read version of an answer alone, however long it is.
async fn alone(
    client: &Client,
    (verb, described): (&Verb, &'static Described),
    given: &Given,
) -> anyhow::Result<String> {
    let mut given = given.clone();
    given.insert(FORMAT.to_owned(), vec![READ_VERSION.to_owned()]);
    let answer = client.send(request(verb, described, &given)?).await?;
    Ok(String::from_utf8_lossy(&answer.body).trim().to_owned())
}

/// Draws a chart of the rows of an answer.
async fn draw(
    config: &Config,
    (verb, described): (&Verb, &'static Described),
    mut given: Given,
    matches: &ArgMatches,
) -> anyhow::Result<Exit> {
    let args = PlotArgs::from_arg_matches(matches)?;
    args.check()?;
    let what = verb.words.rsplit(' ').next().unwrap_or_default();
    given.insert(FORMAT.to_owned(), vec![Format::IpcStream.name().to_owned()]);
    if given.remove(INTERVAL).is_some_and(|value| value == ["true"]) {
        let by = given.get("group-by").map(|by| by.join(",")).unwrap_or_default();
        given.insert(COLUMNS.to_owned(), vec![args.columns(&by)]);
    }
    let client = Client::new(config, false).await?;
    let answer = client.send(request(verb, described, &given)?).await?;
    say(&answer.headers, described, &given);
    let window = window(&answer.headers).map(|(from, to)| (from.to_owned(), to.to_owned()));
    let end = |name: &str| given.get(name).map(|values| values.concat());
    let window = window.or_else(|| end("from").zip(end("to")));
    let window = window.map(|(from, to)| Window::new(from.parse()?, to.parse()?)).transpose()?;
    let frame = IpcStreamReader::new(Cursor::new(answer.body)).finish()?;
    let workspace = given.get(WORKSPACE).map(|values| values.concat()).unwrap_or_default();
    args.draw((what, &workspace), window, frame)?;
    Ok(Exit::Done)
}

/// The value of a header.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The days of an answer that were not named.
fn window(headers: &HeaderMap) -> Option<(&str, &str)> {
    text(headers, "almanac-window")?.split_once('/')
}

/// Prints to standard error what the headers of rows say of them.
fn say(headers: &HeaderMap, described: &Described, given: &Given) {
    let is_table = text(headers, CONTENT_TYPE.as_str()).is_some_and(|media| media.starts_with("text/plain"));
    if let Some((from, to)) = window(headers).filter(|_| is_table || given.contains_key("last")) {
        say_days(from, to);
    }
    let instant = |text: &str| Timestamp::parse_or_day(text).ok();
    let asked = ["as-of", "as_of"].into_iter().find_map(|name| instant(given.get(name)?.first()?));
    let as_of = text(headers, "almanac-as-of").and_then(instant);
    if let Some(as_of) = as_of.filter(|as_of| asked.is_some_and(|asked| asked > *as_of)) {
        eprintln!(
            "as of {as_of}, the last closed instant: the last {CLOSED_AFTER_SECONDS} s may still change"
        );
    }
    say_warnings(headers);
    match next_page(headers) {
        Some(Ok(after)) => eprintln!("there is more: --after {after}"),
        Some(Err(bytes)) => {
            eprintln!("there is more, but its --after is too long ({bytes} bytes): ask for fewer days");
        }
        None => {}
    }
    let may_differ = given.contains_key("group-by") || described.field("group-by").is_none();
    if let Some(source) = text(headers, "almanac-source").filter(|_| may_differ) {
        eprintln!("source: {source}");
    }
}
