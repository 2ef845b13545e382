//! Commands that call one operation of the API. Their options, help and answers come from the operation's description in the
//! OpenAPI document; [`verbs`] lists their words.

mod described;
mod rows;
pub(crate) mod tools;
mod verbs;

use std::{collections::BTreeMap, fs, io, path::Path};

use anyhow::Context;
use axum::body::Bytes;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, Subcommand, builder::EnumValueParser};
use event::Error;
use http_body_util::Full;
use hyper::{Method, Request};
use log::key::EntityKind;
use serde_json::{Map, Number, Value, json};

use self::{
    described::{At, Described, Field, described, value_of},
    verbs::{GROUPS, Verb, verbs},
};
use crate::{
    client::{Answer, Client},
    config::{Config, file::toml_problem},
    exit::Exit,
    output::{ShowFormat, Shown, cell, columns, is_single, print_json, show, show_one},
};

/// Option for the workspace of an operation.
const WORKSPACE: &str = "workspace";
/// Options of a field `attributes` that is changed.
const SET: &str = "set";
const UNSET: &str = "unset";
const FORMAT: &str = "format";
/// Option for the fields of a list.
const FIELDS: &str = "fields";
/// Column of what has no column of its own.
const REST: &str = "settings";
/// Word for a release.
const RELEASE: &str = "release";
/// Word or option for a file with the body of a request.
const BODY: &str = "body";
/// Help of it.
const BODY_HELP: &str = "A TOML or JSON file with the fields of what is sent, or - for the standard input";

/// Flag of [`SCOPED`] operations for roles on the server.
const SERVER: &str = "server";
/// Operations that change roles. Their scope is always named, so that none is changed on the server because `-w` was forgotten.
const SCOPED: [&str; 2] = ["grant", "revoke"];

const TOO_MANY: &str = "one argument too many: with -w, do not name the workspace as a word";

/// Ids of positional words.
const WORDS: [&str; 4] = ["word 1", "word 2", "word 3", "word 4"];

/// Words that name nothing within a workspace.
const BY_THEMSELVES: [&str; 7] = ["user", "principal", "group", "system", "category", "type", "sql"];

/// Adds the commands to those of `command`, beside what its groups have.
pub(crate) fn with_commands(command: Command) -> Command {
    let all = described();
    verbs().fold(command, |command, verb| add(command, (0, verb.words), verb.command(&all[verb.operation])))
}

/// Adds a command whose words begin at `from` to its group, which is made with its first command.
fn add(command: Command, (from, words): (usize, &'static str), verb: Command) -> Command {
    let Some(end) = words[from..].find(' ').map(|at| from + at) else {
        return command.subcommand(verb);
    };
    let (first, group) = (&words[from..end], &words[..end]);
    let command = match command.find_subcommand(first).is_some() {
        true => command,
        false => {
            let says = GROUPS.iter().find(|(name, _)| *name == group).map_or("", |(_, says)| says);
            command.subcommand(
                Command::new(first).about(says).subcommand_required(true).arg_required_else_help(true),
            )
        }
    };
    command.mut_subcommand(first, |group| add(group, (end + 1, words), verb))
}

/// Finds the command that was called, and its matches.
pub(crate) fn called(matches: &ArgMatches) -> Option<(&'static Verb, &ArgMatches)> {
    let (mut words, mut at) = (Vec::new(), matches);
    while let Some((word, inner)) = at.subcommand() {
        words.push(word);
        at = inner;
    }
    verb(&words.join(" ")).map(|verb| (verb, at))
}

fn verb(words: &str) -> Option<&'static Verb> {
    verbs().find(|verb| verb.words == words)
}

impl Verb {
    /// The command, with its positional words and options.
    fn command(&self, described: &'static Described) -> Command {
        let name = self.words.rsplit(' ').next().unwrap_or_default();
        let options: Vec<&Field> = self.options().collect();
        let long = format!("{}\n\n{}", described.summary, described.description);
        let mut command = Command::new(name).about(&*described.summary);
        command = command.long_about(self.said(&options, long.trim_end()));
        let is_in_workspace = self.is_in_workspace(described);
        for (word, id) in self.takes.iter().zip(WORDS) {
            let (name, is_optional) = optional(word);
            let field = self.described().find_map(|one| one.field(name));
            let (shown, says) = match (name, field) {
                (BODY, _) => ("FILE", BODY_HELP.to_owned()),
                (_, Some(field)) => (&*field.shown, self.said(&options, &field.says)),
                (name, None) => (name, String::new()),
            };
            // With -w the words move up.
            let is_required = !is_optional && !is_in_workspace;
            command = command.arg(Arg::new(id).value_name(shown).help(says).required(is_required));
        }
        if is_in_workspace {
            let says = "The workspace, as category/name or by id, where it is not named first";
            command = command.arg(Arg::new(WORKSPACE).long(WORKSPACE).short('w').help(says));
        }
        let takes_body = self.described().any(|one| one.has_body);
        let is_option = takes_body && !self.takes.iter().any(|word| optional(word).0 == BODY);
        if is_option {
            let body = Arg::new(BODY).long(BODY).value_name("FILE").help(BODY_HELP);
            command = command.arg(body.hide_short_help(true));
        }
        for field in &options {
            let is_required = field.is_required && self.or.is_empty();
            let option = match (is_required, takes_body && field.at == At::Body) {
                (true, true) if is_option => field.option(false).required_unless_present(BODY),
                // A word names the body.
                (true, true) => field.option(false),
                _ => field.option(is_required),
            };
            command = command.arg(option.help(self.said(&options, &field.says)));
        }
        if SCOPED.contains(&self.operation) {
            let server = Arg::new(SERVER).long(SERVER).action(ArgAction::SetTrue);
            let scope = ArgGroup::new("scope").args([WORKSPACE, "category", SERVER]).required(true);
            command = command.arg(server.help("The role on the whole server")).group(scope);
        }
        if self.changes_attributes(described) {
            let set = Arg::new(SET).long(SET).value_name("NAME=VALUE").action(ArgAction::Append);
            let unset = Arg::new(UNSET).long(UNSET).value_name("NAME").action(ArgAction::Append);
            command = command
                .arg(set.help(
                    "Set an attribute to a JSON value; anything else is taken as text. May be repeated",
                ))
                .arg(unset.help("Remove an attribute. May be repeated"));
        }
        if described.field(FORMAT).is_some() {
            return rows::with_options(self, described, command);
        }
        let format = Arg::new(FORMAT).long(FORMAT).default_value("table");
        command.arg(format.help("Format of the output").value_parser(EnumValueParser::<ShowFormat>::new()))
    }

    /// A text of the document on this command: its options in the place of fields, and its words as they are shown.
    fn said(&self, options: &[&Field], text: &str) -> String {
        let called = |name: &str| {
            let field = options.iter().find(|field| field.name == name);
            let is_word = self.takes.iter().any(|word| optional(word).0 == name);
            match (name, field) {
                (WORKSPACE, _) if is_word => format!("--{WORKSPACE}"),
                (FORMAT, _) if !rows::is_chart(self) => format!("--{FORMAT}"),
                (_, Some(field)) => format!("--{}", field.option),
                (_, None) if is_word => name.to_uppercase(),
                (_, None) => name.to_owned(),
            }
        };
        let (mut said, mut parts) = (String::new(), text.split('`').enumerate().peekable());
        while let Some((at, part)) = parts.next() {
            // A right has no option, even where a field has its name.
            let is_right =
                said.contains("Needs ") && parts.peek().is_some_and(|(_, next)| next.starts_with(" on "));
            said += &if at % 2 == 0 || is_right { part.to_owned() } else { called(part) };
        }
        said
    }

    /// The operations that it may call, the first choice first.
    fn described(&self) -> impl Iterator<Item = &'static Described> {
        let all = described();
        std::iter::once(&self.operation).chain(self.or).map(|id| &all[*id])
    }

    /// The first operation with all of its path. One that sets something also needs a value to set, if another reads it.
    fn chosen(&self, given: &Given) -> &'static Described {
        let is_given = |field: &Field| given.contains_key(&field.name);
        let is_word = |field: &Field| self.takes.contains(&field.name.as_str());
        let may_read = self.described().any(|one| one.method == Method::GET);
        let fits = |one: &&Described| {
            let has_path = one.fields.iter().filter(|field| field.at == At::Path).all(is_given);
            let sets = given.contains_key(BODY)
                || one.fields.iter().any(|field| field.at == At::Body && is_given(field) && !is_word(field));
            has_path && (!one.has_body || !may_read || sets)
        };
        self.described().find(fits).unwrap_or(&described()[self.operation])
    }

    /// Fields that are given as options.
    fn options(&self) -> impl Iterator<Item = &'static Field> {
        let first = &described()[self.operation];
        let changes_attributes = self.changes_attributes(first);
        let mut named = vec![WORKSPACE, FORMAT];
        named.extend(self.takes.iter().map(|word| optional(word).0));
        named.extend(self.fixed.iter().map(|(name, _)| *name));
        named.extend(changes_attributes.then_some("attributes"));
        named.extend(first.workspace_field());
        named.extend(rows::hidden(self));
        let fields = self.described().flat_map(|one| &one.fields).filter(move |field| {
            let is_new = !named.contains(&field.name.as_str());
            named.push(&field.name);
            is_new
        });
        fields.collect::<Vec<_>>().into_iter()
    }

    fn changes_attributes(&self, described: &Described) -> bool {
        described.method == Method::PATCH && described.field("attributes").is_some()
    }

    fn is_in_workspace(&self, described: &Described) -> bool {
        let names_one = self.takes.iter().any(|word| names_within_workspace(optional(word).0));
        described.workspace_field().is_some() || names_one
    }
}

/// True for the name of a type of entities that are in a workspace.
fn names_within_workspace(name: &str) -> bool {
    let kind = EntityKind::ALL.into_iter().find(|kind| kind.name() == name);
    kind.and_then(EntityKind::parent) == Some(EntityKind::Workspace)
}

/// Name of a positional word, and whether it may be missing.
fn optional(word: &str) -> (&str, bool) {
    word.strip_suffix('?').map_or((word, false), |name| (name, true))
}

/// Values by the names of fields, as they were typed.
type Given = BTreeMap<String, Vec<String>>;

/// Runs a command.
///
/// # Errors
/// `Invalid`, for a word or an option that cannot be taken; the problem that the operation answers, about options.
pub(crate) async fn run(config: &Config, verb: &Verb, matches: &ArgMatches) -> anyhow::Result<Exit> {
    let given = given(verb, matches)?;
    let done = call(config, verb, given.clone(), matches).await;
    done.map_err(|error| {
        let refused = error.downcast_ref::<Error>();
        let text = refused
            .and_then(|refused| Some((refused.kind(), of_option(verb, &given, &refused.to_string())?)));
        text.map_or(error, |(kind, text)| Error::new(kind, text).into())
    })
}

/// Names the option or the word in a message that begins with a field. A field of a file keeps its name.
fn of_option(verb: &Verb, given: &Given, message: &str) -> Option<String> {
    let (path, why) = message.split_once(": ")?;
    let (name, within) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
    let is_it = |known: &str| known.replace('_', "-") == name.replace('_', "-");
    let within = match within.strip_prefix('.') {
        Some(within) => format!("{within}: "),
        None => String::new(),
    };
    if verb.takes.iter().any(|word| is_it(optional(word).0)) {
        return Some(format!("{}: {within}{why}", name.to_uppercase()));
    }
    let field = verb.options().find(|field| is_it(&field.name))?;
    let is_of_file = given.contains_key(BODY) && !given.contains_key(&field.name);
    (!is_of_file).then(|| format!("--{}: {within}{why}", field.option))
}

/// Calls the operation of a command, and prints its answer.
async fn call(config: &Config, verb: &Verb, mut given: Given, matches: &ArgMatches) -> anyhow::Result<Exit> {
    let described = verb.chosen(&given);
    let unused = verb
        .options()
        .find(|field| given.contains_key(&field.name) && described.field(&field.name).is_none());
    if let Some(field) = unused {
        let message = format!("--{} has no effect on this; leave it out", field.option);
        return Err(Error::invalid(message).into());
    }
    if given.contains_key(BODY) && !described.has_body {
        return Err(Error::invalid("nothing is sent here, so a body has no effect; leave it out").into());
    }
    if described.field(FORMAT).is_some() {
        return rows::run(config, (verb, described), given, matches).await;
    }
    // Entities without a parent may be the first of all.
    let is_root = described.method == Method::POST && described.workspace_field().is_none();
    let client = Client::new(config, is_root && verb.words.ends_with(" create")).await?;
    if verb.takes.contains(&RELEASE) {
        without_model(&client, described, &mut given).await?;
    }
    let answer = client.send(request(verb, described, &given)?).await?;
    let format = matches.try_get_one(FORMAT).ok().flatten().copied().unwrap_or(ShowFormat::Table);
    let fields = given.get(FIELDS).and_then(|fields| fields.first());
    let columns = fields
        .map_or_else(|| verb.columns.to_owned(), |fields| format!("name id {}", fields.replace(',', " ")));
    print(verb, &columns, answer, format)
}

/// Replaces a release that is named behind its model by its name in the workspace.
///
/// # Errors
/// `NotFound`, if the model has no such release.
async fn without_model(client: &Client, described: &Described, given: &mut Given) -> anyhow::Result<()> {
    let workspace = described.workspace_field().and_then(|place| given.get(place)).map(|one| one.concat());
    let named = given.get(RELEASE).map(|one| one.concat()).filter(|name| name.contains('@'));
    let (Some(workspace), Some(named)) = (workspace, named) else { return Ok(()) };
    let release = release(client, format!("{workspace}/{named}")).await?;
    let name = release["name"].as_str().context("a release has a name")?;
    given.insert(RELEASE.to_owned(), vec![name.to_owned()]);
    Ok(())
}

/// Asks for a release.
async fn release(client: &Client, path: String) -> anyhow::Result<Value> {
    let show = verb("release show").context("releases are shown by a command")?;
    let given = Given::from([(RELEASE.to_owned(), vec![path])]);
    Ok(client.send(request(show, &described()[show.operation], &given)?).await?.json()?)
}

/// Values of words and options.
fn given(verb: &Verb, matches: &ArgMatches) -> Result<Given, Error> {
    let (mut given, described) = (Given::new(), &described()[verb.operation]);
    for field in verb.options() {
        if let Some(values) = matches.try_get_many::<String>(&field.name).ok().flatten() {
            given.insert(field.name.clone(), values.cloned().collect());
        }
    }
    if verb.changes_attributes(described) {
        attributes(matches, &mut given)?;
    }
    if let Some(file) = matches.try_get_one::<String>(BODY).ok().flatten() {
        given.insert(BODY.to_owned(), vec![file.clone()]);
    }
    let words = WORDS.iter().filter_map(|id| matches.try_get_one::<String>(id).ok().flatten().cloned());
    let workspace = matches.try_get_one::<String>(WORKSPACE).ok().flatten().cloned();
    place(verb, described, (words.collect(), workspace), &mut given)?;
    Ok(given)
}

/// Notes the positional words. A workspace given by its option moves the next ones up.
fn place(
    verb: &Verb,
    described: &Described,
    (words, workspace): (Vec<String>, Option<String>),
    given: &mut Given,
) -> Result<(), Error> {
    let place = described.workspace_field();
    let is_place = |name: &str| name == WORKSPACE || Some(name) == place;
    let begins = verb.takes.first().is_some_and(|word| is_place(optional(word).0));
    let names = verb.takes.iter().skip(usize::from(begins && workspace.is_some()));
    if words.len() > names.len() {
        return Err(Error::invalid(TOO_MANY));
    }
    let (mut words, mut workspace) = (words.into_iter(), workspace);
    for (at, word) in names.enumerate() {
        let (name, is_optional) = optional(word);
        let Some(text) = words.next() else {
            if is_optional {
                continue;
            }
            return Err(match is_place(name) {
                true => Error::invalid("the workspace is missing; name it first, or with -w"),
                false => Error::invalid(format!("the {} is missing", name.replace('_', " "))),
            });
        };
        if is_place(name) {
            if workspace.replace(text).is_some() {
                return Err(Error::invalid(TOO_MANY));
            }
            continue;
        }
        let is_first = at == 0 && !BY_THEMSELVES.contains(&name);
        let text = match (is_first, place, &workspace) {
            // A path names the workspace as well.
            (true, Some(_), None) => {
                let (before, last) = text.rsplit_once('/').ok_or_else(|| unplaced(&text))?;
                workspace = Some(before.to_owned());
                last.to_owned()
            }
            (true, None, Some(workspace)) if names_within_workspace(name) => format!("{workspace}/{text}"),
            _ => text,
        };
        given.insert(name.to_owned(), vec![text]);
    }
    match (workspace, place) {
        (Some(workspace), Some(place)) => _ = given.insert(place.to_owned(), vec![workspace]),
        (None, Some(place))
            if verb.or.is_empty() && described.field(place).is_some_and(|field| field.is_required) =>
        {
            return Err(Error::invalid("the workspace is missing; name it with -w"));
        }
        _ => {}
    }
    Ok(())
}

fn unplaced(name: &str) -> Error {
    Error::invalid(format!("in which workspace is `{name}`? Add -w, or name it as category/workspace/name"))
}

/// Notes changes of attributes as one JSON object.
fn attributes(matches: &ArgMatches, given: &mut Given) -> Result<(), Error> {
    let mut changed = Map::new();
    for text in matches.get_many::<String>(SET).into_iter().flatten() {
        let wrong = || Error::invalid(format!("`{text}` is not of the form NAME=VALUE"));
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        changed.insert(name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into()));
    }
    for name in matches.get_many::<String>(UNSET).into_iter().flatten() {
        changed.insert(name.clone(), Value::Null);
    }
    if !changed.is_empty() {
        given.insert("attributes".to_owned(), vec![Value::Object(changed).to_string()]);
    }
    Ok(())
}

fn request(verb: &Verb, described: &Described, given: &Given) -> anyhow::Result<Request<Full<Bytes>>> {
    let body =
        given.get(BODY).and_then(|file| file.first()).map_or_else(|| Ok(Map::new()), |file| body_of(file))?;
    let mut values = Map::new();
    for field in &described.fields {
        let fixed = verb.fixed.iter().find(|(name, _)| *name == field.name);
        let value = match (given.get(&field.name), fixed) {
            (_, Some((_, ""))) | (None, None) => continue,
            (_, Some((_, value))) => vec![(*value).to_owned()],
            (Some(values), None) => values.clone(),
        };
        let value = match field.at {
            At::Body => value_of(field, &value)?,
            At::Query => value.join(",").into(),
            At::Path | At::Header => value.into_iter().next().unwrap_or_default().into(),
        };
        values.insert(field.name.clone(), value);
    }
    described.request(&values, body)
}

/// The fields in a file, or of the standard input: JSON, or else TOML.
fn body_of(file: &str) -> anyhow::Result<Map<String, Value>> {
    let text = match file {
        "-" => io::read_to_string(io::stdin()),
        file => fs::read_to_string(file),
    };
    let text = text.map_err(|error| Error::invalid(format!("{file}: {error}")))?;
    if text.trim_start().starts_with('{') {
        let wrong = |error| Error::invalid(format!("{file}: it is no JSON: {error}"));
        return Ok(serde_json::from_str(&text).map_err(wrong)?);
    }
    let wrong = |error| Error::invalid(toml_problem(Path::new(file), &text, &error));
    let table = toml::from_str::<toml::Table>(&text).map_err(wrong)?;
    let fields = table.into_iter().map(|(name, value)| Ok((name.clone(), of_toml(&name, value)?)));
    Ok(fields.collect::<Result<_, String>>().map_err(|why| Error::invalid(format!("{file}: {why}")))?)
}

/// A value of TOML at a path as JSON, in which a date or a time is text.
fn of_toml(path: &str, value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Boolean(is_true) => is_true.into(),
        toml::Value::Datetime(at) => at.to_string().into(),
        toml::Value::Float(number) => {
            let finite = Number::from_f64(number);
            Value::Number(finite.ok_or_else(|| format!("{path}: `{number}` is not a finite number"))?)
        }
        toml::Value::Array(items) => {
            let items = items.into_iter().enumerate();
            items.map(|(at, item)| of_toml(&format!("{path}[{at}]"), item)).collect::<Result<_, _>>()?
        }
        toml::Value::Table(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| {
                let value = of_toml(&format!("{path}.{name}"), value)?;
                Ok((name, value))
            });
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
    })
}

/// Commands on releases that call more than one operation.
#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseCommand {
    /// Show what two releases are made of where they differ.
    Diff {
        /// One, by id or path, or by its name and -w.
        #[arg(value_name = "RELEASE")]
        one: String,
        /// Another one, likewise.
        #[arg(value_name = "OTHER")]
        other: String,
        /// The workspace that they are in, where they are named by name.
        #[arg(long, short)]
        workspace: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
}

/// Fields of every entity, in which two releases always differ.
const OWN: [&str; 6] = ["id", "name", "created_at", "updated_at", "archived_at", "version"];

/// Prints the fields in which two releases differ.
pub(crate) async fn releases(config: &Config, command: ReleaseCommand) -> anyhow::Result<()> {
    let ReleaseCommand::Diff { one, other, workspace, shown } = command;
    let client = Client::new(config, false).await?;
    let mut found = Vec::new();
    for name in [one, other] {
        let path = workspace.iter().cloned().chain([name]).collect::<Vec<_>>().join("/");
        found.push(release(&client, path).await?);
    }
    let fields = found[0].as_object().into_iter().flatten().map(|(field, _)| field);
    let differing =
        fields.filter(|field| !OWN.contains(&field.as_str()) && found[0][*field] != found[1][*field]);
    let rows =
        differing.map(|field| json!({ "field": field, "one": found[0][field], "other": found[1][field] }));
    show(&["field", "one", "other"], &rows.collect::<Vec<Value>>(), shown.format);
    Ok(())
}

/// Prints an answer: as it is for programs, as a table for people.
fn print(verb: &Verb, named: &str, answer: Answer, format: ShowFormat) -> anyhow::Result<Exit> {
    if answer.header("content-type").next().is_none() {
        if let ShowFormat::Table = format {
            println!("done");
        }
        return Ok(Exit::Done);
    }
    let whole = answer.json()?;
    let answer = whole.pointer(verb.within).unwrap_or(&Value::Null);
    let exit = Exit::of_check(verb.check.is_empty() || answer[verb.check] == true);
    if let ShowFormat::Json = format {
        print_json(answer);
        return Ok(exit);
    }
    let warnings = answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    warnings.for_each(|warning| eprintln!("warning: {warning}"));
    if !verb.alone.is_empty() {
        let found = &answer[verb.alone];
        println!("{}", found.as_str().map_or_else(|| found.to_string(), str::to_owned));
        return Ok(exit);
    }
    let tables = tables(verb, answer);
    for (at, (columns, rows)) in tables.iter().enumerate() {
        if at > 0 {
            println!();
        }
        show_rows(columns, rows, format);
    }
    match rows(answer) {
        _ if !tables.is_empty() => {}
        Some(rows) if !rows.is_empty() || !named.is_empty() => show_rows(named, rows, format),
        _ if answer.is_null() => println!("none"),
        _ => show_one(inner(answer), format),
    }
    if let Some(next) = ["next_cursor", "next"].into_iter().find_map(|name| answer[name].as_str()) {
        println!("\nthere may be more: --cursor {next}");
    }
    Ok(exit)
}

/// Prints rows as a table of these columns, or of all that have values.
fn show_rows(named: &str, rows: &[Value], format: ShowFormat) {
    let columns = if named.is_empty() { columns(rows) } else { named.split(' ').collect() };
    let rows: Vec<Value> = rows.iter().map(|row| cells(row, &columns)).collect();
    show(&columns, &rows, format);
}

/// The tables of an answer, each with its columns: the first that there is, and those of the rest that have rows.
fn tables(verb: &Verb, answer: &Value) -> Vec<(&'static str, Vec<Value>)> {
    let found = verb.tables.iter().filter_map(|(path, columns)| Some((*columns, rows_at(answer, path)?)));
    let found = found.enumerate().filter(|(at, (_, rows))| *at == 0 || !rows.is_empty());
    found.map(|(_, table)| table).collect()
}

/// The rows at a path of lists, each with the fields of what it is within.
fn rows_at(of: &Value, path: &str) -> Option<Vec<Value>> {
    if path.is_empty() {
        return Some(vec![of.clone()]);
    }
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let mut all = Vec::new();
    for one in of[name].as_array()? {
        let mut row = of.as_object()?.clone();
        row.extend(one.as_object()?.clone());
        all.extend(rows_at(&Value::Object(row), rest).unwrap_or_default());
    }
    Some(all)
}

/// Prints the days of an answer that were not named.
pub(crate) fn say_days(from: &str, to: &str) {
    eprintln!("window: {from} to {to}");
}

/// The rows of an answer that is a list: the objects of its only array. An entity, which has an id, is none.
fn rows(answer: &Value) -> Option<&Vec<Value>> {
    if answer["id"].is_string() {
        return None;
    }
    let mut arrays = answer.as_object()?.values().filter_map(Value::as_array);
    let rows = arrays.next()?;
    let is_list = arrays.next().is_none() && rows.iter().all(Value::is_object);
    is_list.then_some(rows)
}

/// The only object of an answer that holds nothing else.
fn inner(answer: &Value) -> &Value {
    let mut values = answer.as_object().into_iter().flatten().map(|(_, value)| value);
    match (values.next(), values.next()) {
        (Some(only), None) if only.is_object() => only,
        _ => answer,
    }
}

/// The values of a row by column; a column `a.b` is within an object, and [`REST`] has what has no column.
fn cells(row: &Value, columns: &[&str]) -> Value {
    let cell = |column: &&str| {
        let found = match *column {
            REST => rest(row, columns),
            column => column.split('.').fold(row, |found, name| &found[name]).clone(),
        };
        ((*column).to_owned(), found)
    };
    Value::Object(columns.iter().map(cell).collect())
}

/// The values of a row that have no column: single ones, and lists of such.
fn rest(row: &Value, columns: &[&str]) -> Value {
    let is_shown =
        |value: &Value| is_single(value) || value.as_array().is_some_and(|list| list.iter().all(is_single));
    let fields = row.as_object().into_iter().flatten();
    let rest = fields.filter(|(name, value)| !columns.contains(&name.as_str()) && is_shown(value));
    let texts = rest.map(|(name, value)| (name.clone(), Value::String(cell(value))));
    Value::Object(texts.filter(|(_, text)| text != "-").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_names_existing_operations_and_fields() {
        let all = described();
        for verb in verbs() {
            let described = all.get(verb.operation).unwrap_or_else(|| panic!("{}", verb.operation));
            assert!(verb.or.iter().all(|id| all.contains_key(*id)), "{:?}", verb.or);
            let names = verb.takes.iter().map(|word| optional(word).0);
            for name in names.chain(verb.fixed.iter().map(|(name, _)| *name)) {
                let is_body = name == BODY && described.has_body;
                let is_there =
                    is_body || described.field(name).is_some() || described.workspace_field() == Some(name);
                assert!(is_there, "`{}` has no field {name}", verb.words);
            }
        }
    }

    #[test]
    fn every_dataset_is_a_command() {
        let queries = verbs().filter_map(|verb| verb.words.strip_prefix("query "));
        let datasets: Vec<&str> = query::Dataset::all().map(query::Dataset::name).collect();
        assert_eq!(queries.collect::<Vec<_>>(), datasets);
    }

    #[test]
    fn a_workspace_is_named_first_or_with_w() {
        let command = || with_commands(Command::new("almanac"));
        let sent = |line: &str| {
            let matches = command().try_get_matches_from(line.split(' ')).unwrap();
            let (verb, matches) = called(&matches).unwrap();
            let given = given(verb, matches)?;
            let request = request(verb, verb.chosen(&given), &given).unwrap();
            Ok::<_, Error>(request.uri().to_string())
        };
        let path = "/v1/workspaces/credit/prod/retention";
        assert_eq!(sent("almanac workspace retention credit/prod 30").unwrap(), path);
        assert_eq!(sent("almanac workspace retention -w credit/prod 30").unwrap(), path);
        assert!(sent("almanac workspace retention -w credit/prod credit/prod 30").is_err());
        let rule = sent("almanac alert delete credit/prod/few@many").unwrap();
        assert!(rule.ends_with("?rule=few%40many"), "{rule}");
        let model = "/v1/models/credit%2Fprod%2Fchurn";
        assert_eq!(sent("almanac model show credit/prod/churn").unwrap(), model);
        assert_eq!(sent("almanac model show churn -w credit/prod").unwrap(), model);
    }

    #[test]
    fn errors_name_options_in_place_of_fields() {
        let said = |words: &str, given: &[&str], message: &str| {
            let given = given.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
            of_option(verb(words).unwrap(), &given, message).unwrap_or_default()
        };
        assert_eq!(said("query predictions", &[], "from: name the first day"), "--from: name the first day");
        assert_eq!(said("sql", &[], "read_version: it is cut"), "--read-version: it is cut");
        assert_eq!(said("workspace retention", &[], "days: 0 is wrong"), "DAYS: 0 is wrong");
        assert_eq!(said("review create", &[], "releases[0]: 5 is not text"), "--releases: 5 is not text");
        assert_eq!(said("model create", &[BODY], "threshold: `x` is not a number"), "", "it is of the file");
        assert_eq!(said("model create", &[], "there is no model `a: b`"), "");
    }

    #[test]
    fn help_names_options_and_words_of_the_command() {
        let all = with_commands(Command::new("almanac"));
        let help = |line: &str| {
            let words = line.split(' ').chain(["--help"]);
            all.clone().try_get_matches_from(words).unwrap_err().to_string()
        };
        let next = help("almanac review next");
        assert!(next.contains("Needs review on the workspace"), "{next}");
        assert!(help("almanac workspace counter add").contains("; BY may be negative"));
        let plot = help("almanac plot evaluations");
        assert!(!plot.contains("--columns"), "{plot}");
        // Options of any command are options of this one, but for those of all commands.
        for verb in verbs() {
            let help = help(&format!("almanac {}", verb.words));
            let (text, options) = help.split_once("\nUsage:").unwrap();
            for option in text.split_whitespace().filter_map(|word| word.strip_prefix("--")) {
                let name = option.trim_end_matches(|end: char| !end.is_ascii_alphanumeric());
                assert!(options.contains(&format!("--{name}")), "{}: --{name}", verb.words);
            }
        }
    }

    #[test]
    fn rows_are_the_objects_of_the_only_array() {
        let list = json!({ "models": [{ "b": 1, "name": "x", "tags": {} }], "next_cursor": null });
        let found = rows(&list).unwrap();
        assert_eq!(columns(found), ["name", "b"]);
        assert_eq!(rows(&json!({ "a": [], "b": [] })), None);
        assert_eq!(rows(&json!({ "id": "g_1", "members": [{ "user": "ann" }] })), None);
        assert_eq!(inner(&json!({ "item": { "key": 1 } })), &json!({ "key": 1 }));
    }

    #[test]
    fn rows_within_rows_have_the_fields_around_them() {
        let digest = json!({ "digest": [{ "path": "a/b", "n": 1, "live": [{ "n": 2 }, { "n": 3 }] }, { "live": [] }] });
        let rows = rows_at(&digest, "digest.live").unwrap();
        assert_eq!(
            rows.iter().map(|row| cells(row, &["path", "n"])).collect::<Vec<_>>(),
            [json!({ "path": "a/b", "n": 2 }), json!({ "path": "a/b", "n": 3 })]
        );
        assert_eq!(rows_at(&digest, "users"), None);
    }

    #[test]
    fn a_body_is_json_or_toml() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("body");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            body_of(file.to_str().unwrap()).map(Value::Object).map_err(|error| error.to_string())
        };
        let body = json!({ "rules": [{ "name": "few", "below": 1.0 }] });
        assert_eq!(read(&body.to_string()), Ok(body.clone()));
        assert_eq!(read("[[rules]]\nname = \"few\"\nbelow = 1.0\n"), Ok(body));
        let of_dates =
            json!({ "attributes": { "trained": "2026-01-02", "days": ["07:30:00"] }, "loss": 0.5 });
        let text = "loss = 0.5\n[attributes]\ntrained = 2026-01-02\ndays = [07:30:00]\n";
        assert_eq!(read(text), Ok(of_dates));
        let wrong = read("[attributes]\nloss = [1.0, nan]\n").unwrap_err();
        assert!(wrong.ends_with(": attributes.loss[1]: `NaN` is not a finite number"), "{wrong}");
        assert!(read("{ \"rules\"").unwrap_err().contains("it is no JSON"));
        assert!(read("[[rules]]\nname =\n").unwrap_err().contains("line 2"));
    }
}
