//! `almanac import`: appends the events of files.
//!
//! Files are read in parts; a file always has the same parts. A row is identified for good by the bytes of its part and its place
//! in it: so an interrupted import continues where it ended, and a repeated import stores only rows that could not be stored
//! before.

mod rejects;

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use catalog::Workspace;
use clap::Args;
use event::{Clock, Day, Error, Kind, Timestamp, fields::TAG_PREFIX, plain::listed};
use ingest::{
    Batch, Ingest, Refused, SubmitError,
    file::{Ambiguous, Chunk, FileReader, FileSpec, Layout, Mapping, Origin, is_readable},
};
use log::audit::{Author, by, carried, current};
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};

use self::rejects::Rejects;
use crate::{adapters, config::Config, open, progress::Progress};

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files that end in .ndjson, .jsonl, .json, .csv, .tsv (these also in .gz or .zst), .parquet, .pq or .arrow, or folders of such
    /// files, in which names that begin with . or _ are left out; - is standard input.
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// What the rows are: predictions, outcomes, metrics or releases.
    #[arg(long, short)]
    pub(crate) kind: String,
    /// Another tool whose files these are: sagemaker-capture reads captured requests of SageMaker Model Monitor as predictions, and
    /// ground truth as outcomes. --map names places in them, such as 'score=output.predictions[0].score', or 'score=output[0]' and
    /// 'feature.age=input[3]' for cells of CSV; [*] makes a row of each element.
    #[arg(long, value_enum, value_name = "TOOL")]
    pub(crate) from: Option<Tool>,
    /// Columns that are tags, with commas between (columns called tag.NAME are tags anyway). May be repeated; a column that is a
    /// field as well, by its name or by --map, is both. A name that has a comma stands in double quotes.
    #[arg(long = "tag", value_name = "COLUMNS")]
    pub(crate) tags: Vec<String>,
    /// Columns that are features, numbers (columns called feature.NAME are features anyway); as --tag.
    #[arg(long = "feature", value_name = "COLUMNS")]
    pub(crate) features: Vec<String>,
    /// Which column holds a field, such as score=prob,key=loan_id. May be repeated; several fields may be read from one column,
    /// which then holds these alone.
    #[arg(long, value_name = "FIELD=COLUMN")]
    pub(crate) map: Vec<String>,
    /// A value that every row has, such as release=v1 or tag.source=batch. May be repeated.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    /// The format of standard input, and of files without such an ending, such as csv or ndjson.gz.
    #[arg(long, value_name = "ENDING")]
    pub(crate) input_format: Option<String>,
    /// The character between cells of CSV, such as ';' or tab (a comma when not given; in .tsv a tab).
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// The only columns to read, with commas between.
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) select: Vec<String>,
    /// A text that stands for no value, such as NA. May be repeated.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) null: Vec<String>,
    /// Leave out columns that are no field and no tag.
    #[arg(long)]
    pub(crate) ignore_extra: bool,
    /// The time zone of times without an offset, such as America/New_York.
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// Which instant a time without an offset is that the time zone has twice, as clocks are set back.
    #[arg(long, value_enum, value_name = "CHOICE", default_value = "refuse")]
    pub(crate) ambiguous: AmbiguousTime,
    /// How times are written: unix, unix_ms, unix_us, or as in strftime (RFC 3339 when not given).
    #[arg(long, value_name = "FORMAT")]
    pub(crate) time_format: Option<String>,
    /// Where the events come from, which the audit log shows: system, job, run and dataset, such as job=nightly. May be
    /// repeated.
    #[arg(long, value_name = "WORD=VALUE")]
    pub(crate) source: Vec<String>,
    /// When the events were known, where a history is imported that another system saw: a time such as 2026-06-11T06:00:00Z, or the
    /// column that says it of each row. Answers as of then know them, and say that it was stated. Files come in the order of these times.
    #[arg(long, value_name = "TIME|COLUMN")]
    pub(crate) known_at: Option<String>,
    /// Read and check everything, and store nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write bad rows and what is wrong with them to this file, as NDJSON, and store the good rows. Correct the rows there, and
    /// import that file with the same options.
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
}

/// Tool whose files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tool {
    SagemakerCapture,
}

/// Meaning of a local time that a zone has twice.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum AmbiguousTime {
    Earliest,
    Latest,
    Refuse,
}

/// Parses the delimiter of CSV: one character of ASCII, or `tab`.
fn delimiter(text: &str) -> Result<u8, String> {
    match (text, text.as_bytes()) {
        ("tab" | "\\t", _) => Ok(b'\t'),
        (_, [byte]) if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err("it should be one character, such as ; or |, or tab".into()),
    }
}

/// Path that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// Number of parts that wait to be stored.
const PARTS_AHEAD: usize = 2;

/// Maximum distinct times at which events of a part were known: the events of each time are stored apart.
const MAX_KNOWN_TIMES: usize = 1_000;

/// Number of parts stored side by side.
const PARTS_AT_ONCE: usize = 2;

/// Use of the rows that were read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Only check them.
    Check,
    /// Store them.
    Store,
}

/// Numbers of events.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Good events.
    good: usize,
    /// Good events that are stored.
    stored: usize,
    /// Stored events that were not there before.
    new: usize,
    /// Bad events.
    bad: usize,
    /// True if a warning that some rows count as known later was printed.
    is_told_of_known: bool,
}

/// A part of a file, ready to be checked against the catalog and stored.
struct Part {
    file: usize,
    chunk: Chunk,
    /// Bytes read of all files so far.
    bytes: u64,
}

struct Import {
    ingest: Arc<Ingest>,
    workspace: Workspace,
    files: Vec<PathBuf>,
    /// Copy of standard input, if it is one of the files: files are read twice.
    standard_input: Option<Arc<File>>,
    spec: FileSpec,
    /// Time at which all events were known, if stated.
    known_at: Option<Timestamp>,
    now: Timestamp,
    total_bytes: u64,
}

pub(crate) async fn command(config: &Config, args: &ImportArgs) -> anyhow::Result<()> {
    let mut author = Author::clone(&current());
    if !args.source.is_empty() {
        author = author.from_source(&args.source.join(";"))?;
    }
    by(Arc::new(author), import(config, args)).await
}

async fn import(config: &Config, args: &ImportArgs) -> anyhow::Result<()> {
    let (known_at, known_by) = known_at(args)?;
    let spec = spec(args, known_by)?;
    let (files, mut total_bytes) = files_in(&args.paths)?;
    let is_piped = files.iter().any(|file| file == Path::new(STANDARD_INPUT));
    let standard_input = if is_piped { Some(Arc::new(standard_input(args)?)) } else { None };
    total_bytes += standard_input.as_ref().map_or(Ok(0), |file| file.metadata().map(|file| file.len()))?;
    let ingest = adapters::ingest(open::existing(config).await?, Clock::system());
    let ingest = ingest.sampling_features(config.feature_sample.value);
    let workspace = ingest.catalog().workspace(&args.workspace).await?;
    let now = ingest.clock().now();
    let import =
        Import { ingest: ingest.into(), workspace, files, standard_input, spec, known_at, now, total_bytes };
    let kind = import.spec.kind;
    let from = named(&import.files);
    // All files are read and checked to their end before anything is stored.
    let may_be_bad = args.rejects.is_some() && !args.dry_run;
    if may_be_bad {
        Rejects::check(args.rejects.as_deref())?;
    }
    let names_files = import.files.len() > 1;
    let mut rejects = Rejects::new(args.rejects.as_deref().filter(|_| args.dry_run), names_files)?;
    let (mut counts, mut absent) = (Counts::default(), Absent::default());
    import.run(Mode::Check, (!may_be_bad).then_some(&mut rejects), &mut counts, &mut absent).await?;
    rejects.finish()?;
    absent.warn();
    if args.dry_run {
        let stored =
            format!("{} {kind} read from {from}: {} are good", counts.good + counts.bad, counts.good);
        println!("{stored}, {} bad; nothing was stored (--dry-run)", counts.bad);
        return if counts.bad == 0 { Ok(()) } else { Err(refusal(&counts)) };
    }
    if counts.bad > 0 && !may_be_bad {
        return Err(refusal(&counts));
    }
    let mut rejects = Rejects::new(args.rejects.as_deref(), names_files)?;
    let mut counts = Counts::default();
    let ended = import.run(Mode::Store, Some(&mut rejects), &mut counts, &mut Absent::default()).await;
    rejects.finish()?;
    let before = counts.stored - counts.new;
    let said = format!(
        "{} {kind} read from {from}: {} appended, {before} were there before",
        counts.good + counts.bad,
        counts.new
    );
    match (&args.rejects, counts.bad) {
        _ if ended.is_err() && counts.stored == 0 => {}
        _ if ended.is_err() => println!("{said}, then it stopped; importing again goes on from there"),
        (Some(path), bad @ 1..) => println!(
            "{said}, {bad} were bad; correct them in {} and import that file; a corrected copy of the whole file \
             would be stored again",
            path.display()
        ),
        _ => println!("{said}"),
    }
    ended
}

fn refusal(counts: &Counts) -> anyhow::Error {
    let rows = if counts.bad == 1 { "row" } else { "rows" };
    Refused::Whole(format!(
        "{} bad {rows}, so nothing was stored; --rejects FILE writes them out and stores the rest",
        counts.bad
    ))
    .into()
}

/// Returns the time at which the events were known, or the column that holds it.
fn known_at(args: &ImportArgs) -> anyhow::Result<(Option<Timestamp>, Option<String>)> {
    let Some(word) = &args.known_at else { return Ok((None, None)) };
    let is_time = word.get(..10).is_some_and(|day| day.parse::<Day>().is_ok());
    Ok(match is_time {
        true => (Some(Timestamp::parse_or_day(word).context("--known-at")?), None),
        false => (None, Some(word.clone())),
    })
}

/// Makes the specification of the files from the options.
fn spec(args: &ImportArgs, known_at: Option<String>) -> anyhow::Result<FileSpec> {
    let kind = Kind::from_name(&args.kind).ok_or_else(|| {
        let kinds = Kind::ALL.map(Kind::name).join(", ");
        Error::invalid(format!("--kind {} is none of {kinds}", args.kind))
    })?;
    let pair = |option: &str, form: &str, pair: &String| match pair.split_once('=') {
        Some((field, value)) if !field.is_empty() && !value.is_empty() => {
            Ok((field.to_owned(), value.to_owned()))
        }
        _ => Err(Error::invalid(format!("{option} {pair} is not of the form {form}"))),
    };
    let pairs = |option, form, of: &[String]| {
        of.iter().map(|given| pair(option, form, given)).collect::<Result<Vec<_>, _>>()
    };
    let zone = |name: &String| {
        name.parse().map_err(|_| {
            Error::invalid(format!("--time-zone {name} is none of the tz database, such as America/New_York"))
        })
    };
    let mapping = Mapping {
        renames: pairs("--map", "field=column", &names("--map", &args.map)?)?,
        set: pairs("--set", "field=value", &args.set)?,
        select: names("--select", &args.select)?,
        ignore_extra: args.ignore_extra,
        tags: names("--tag", &args.tags)?,
        features: names("--feature", &args.features)?,
        null: args.null.clone(),
        known_at,
        time_zone: args.time_zone.as_ref().map(zone).transpose()?,
        time_format: args.time_format.clone(),
        ambiguous: match args.ambiguous {
            AmbiguousTime::Earliest => Ambiguous::Earliest,
            AmbiguousTime::Latest => Ambiguous::Latest,
            AmbiguousTime::Refuse => Ambiguous::Refuse,
        },
        delimiter: args.delimiter,
        layout: args.from.map_or(Layout::Plain, |Tool::SagemakerCapture| Layout::SageMaker),
        format: args.input_format.clone(),
    };
    Ok(FileSpec { kind, mapping })
}

impl Import {
    /// Reads all files once. Bad rows are counted, and reported when there are `rejects`.
    async fn run(
        &self,
        mode: Mode,
        rejects: Option<&mut Rejects>,
        counts: &mut Counts,
        absent: &mut Absent,
    ) -> anyhow::Result<()> {
        let what = if mode == Mode::Check { "checking" } else { "importing" };
        let mut progress = Progress::of_bytes(what, self.total_bytes);
        let (send, parts) = mpsc::channel(PARTS_AHEAD);
        let (files, spec, now) = (self.files.clone(), self.spec.clone(), self.now);
        let standard_input = self.standard_input.clone();
        let reading =
            tokio::task::spawn_blocking(move || read(&files, standard_input.as_deref(), (&spec, now), &send));
        let mut storing = JoinSet::new();
        let taken = self.take(parts, (mode, rejects), (counts, absent), &mut storing, &mut progress).await;
        // Started parts are awaited and counted, even after an error.
        let mut stored = Ok(());
        while let Some(ended) = storing.join_next().await {
            stored = stored.and(counts.stored(Some(ended)));
        }
        progress.finish();
        taken?;
        stored?;
        reading.await.context("reading was broken off")??;
        Ok(())
    }

    /// Checks parts and stores them as they come.
    async fn take(
        &self,
        mut parts: mpsc::Receiver<Part>,
        (mode, mut rejects): (Mode, Option<&mut Rejects>),
        (counts, absent): (&mut Counts, &mut Absent),
        storing: &mut JoinSet<Result<StoredPart, SubmitError>>,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        while let Some(Part { file, chunk, bytes }) = parts.recv().await {
            let Chunk { origin, batch, known_at, mut bad, source, .. } = chunk;
            let mut problems = match &batch {
                Some(batch) => self.ingest.problems(&self.workspace, batch).await?,
                None => Default::default(),
            };
            let known_at = |row: usize| known_at.get(row).copied().or(self.known_at);
            if let Some(batch) = &batch {
                let unknown = |row| Some((row, batch.not_known(row, known_at(row)?, self.now)?));
                problems.extend((0..batch.rows()).filter_map(unknown));
            }
            let rows = 0..batch.as_ref().map_or(0, Batch::rows);
            let good: Vec<usize> = rows.filter(|row| !problems.contains_key(row)).collect();
            bad.extend(problems.into_values().map(|problem| (problem.row, vec![problem])));
            counts.bad += bad.len();
            if let Some(rejects) = &mut rejects {
                rejects.write(&self.files[file], bad, &source)?;
            }
            counts.good += good.len();
            if let Some(batch) = batch.as_ref().filter(|_| mode == Mode::Check) {
                absent.note(batch);
            }
            let groups = groups(good, known_at)?;
            if let Some(batch) = batch.filter(|_| mode == Mode::Store && !groups.is_empty()) {
                // Events that were known earlier are stored earlier.
                let at_once = if groups.contains_key(&None) { PARTS_AT_ONCE } else { 1 };
                if storing.len() >= at_once {
                    counts.stored(storing.join_next().await)?;
                }
                let storing_part = store(self.ingest.clone(), self.workspace.clone(), origin, batch, groups);
                storing.spawn(carried(storing_part));
            }
            progress.at_rows(bytes, counts.good + counts.bad);
        }
        Ok(())
    }
}

/// Stores rows of a part, in the order in which they were known.
async fn store(
    ingest: Arc<Ingest>,
    workspace: Workspace,
    origin: Origin,
    batch: Batch,
    groups: BTreeMap<Option<Timestamp>, Vec<usize>>,
) -> Result<StoredPart, SubmitError> {
    let mut stored = StoredPart::default();
    for (known_at, good) in groups {
        let author = current();
        let author = known_at.map_or(Author::clone(&author), |at| Author::clone(&author).stating(at));
        let receipt = by(author.into(), ingest.submit_chunk(&workspace, &origin, &batch, &good)).await?;
        stored.rows += good.len();
        stored.new += receipt.appended;
        stored.known_later = stored.known_later.or(receipt.known_later());
    }
    Ok(stored)
}

/// Groups rows by the time at which they were known.
fn groups(
    rows: Vec<usize>,
    known_at: impl Fn(usize) -> Option<Timestamp>,
) -> anyhow::Result<BTreeMap<Option<Timestamp>, Vec<usize>>> {
    let mut groups = BTreeMap::<_, Vec<usize>>::new();
    for row in rows {
        groups.entry(known_at(row)).or_default().push(row);
        if groups.len() > MAX_KNOWN_TIMES {
            return Err(Error::invalid(format!(
                "--known-at: there are more than {MAX_KNOWN_TIMES} different times in 50,000 rows; round them up, to hours or days"
            ))
            .into());
        }
    }
    Ok(groups)
}

/// Number of stored rows of a part, and of those that were not there before.
#[derive(Default)]
struct StoredPart {
    rows: usize,
    new: usize,
    /// A warning that some rows count as known later than was stated.
    known_later: Option<String>,
}

impl Counts {
    fn stored(
        &mut self,
        stored: Option<Result<Result<StoredPart, SubmitError>, JoinError>>,
    ) -> anyhow::Result<()> {
        if let Some(stored) = stored {
            let StoredPart { rows, new, known_later } = stored.context("storing was broken off")??;
            self.stored += rows;
            self.new += new;
            if let Some(said) = known_later.filter(|_| !self.is_told_of_known) {
                eprintln!("warning: {said}");
                self.is_told_of_known = true;
            }
        }
        Ok(())
    }
}

/// Texts that libraries write for missing values.
const ABSENT: [&str; 10] = ["NA", "N/A", "<NA>", "nan", "NaN", "NaT", "NULL", "null", "None", "\\N"];

/// Counts of texts for missing values in labels, keys and tags, by column and text.
#[derive(Default)]
struct Absent(BTreeMap<String, BTreeMap<&'static str, usize>>);

impl Absent {
    fn note(&mut self, batch: &Batch) {
        let is_looked_at =
            |name: &str| name == "label" || batch.kind.is_key(name) || name.starts_with(TAG_PREFIX);
        for column in batch.columns.columns.iter().filter(|column| is_looked_at(&column.name)) {
            let texts = (0..batch.rows()).filter_map(|row| column.text(row));
            for absent in texts.filter_map(|text| ABSENT.iter().find(|absent| **absent == text)) {
                *self.0.entry(column.name.clone()).or_default().entry(absent).or_default() += 1;
            }
        }
    }

    /// Warns of the texts that were found.
    fn warn(&self) {
        for (column, texts) in &self.0 {
            let rows = |count: usize| if count == 1 { "row" } else { "rows" };
            let of = texts.iter().map(|(text, count)| format!("`{text}` in {count} {}", rows(*count)));
            let of = of.collect::<Vec<_>>().join(", ");
            let options = texts.keys().map(|text| format!("--null '{text}'")).collect::<Vec<_>>().join(" ");
            eprintln!("warning: `{column}` is the text {of}; {options} reads such texts as no value");
        }
    }
}

/// Reads the files one after the other, as fast as the parts are taken. A column that an option names has to be in at least one
/// of them.
fn read(
    files: &[PathBuf],
    standard_input: Option<&File>,
    (spec, now): (&FileSpec, Timestamp),
    send: &mpsc::Sender<Part>,
) -> Result<(), Refused> {
    let mut before = 0;
    let mut lacking: Option<BTreeMap<String, String>> = None;
    for (file, path) in files.iter().enumerate() {
        let mut last = 0;
        let piped = standard_input.filter(|_| path == Path::new(STANDARD_INPUT));
        let mut reader = match piped.map(File::try_clone).transpose() {
            Ok(Some(file)) => FileReader::of(file, path, spec, now)?,
            Ok(None) => FileReader::open(path, spec, now)?,
            Err(error) => return Err(Refused::Whole(format!("cannot read standard input: {error}"))),
        };
        for chunk in reader.by_ref() {
            let chunk = chunk?;
            last = chunk.bytes;
            if send.blocking_send(Part { file, bytes: before + last, chunk }).is_err() {
                // The receiver of the parts has failed, and reports its error.
                return Ok(());
            }
        }
        before += last;
        if let Some(of_file) = reader.lacking() {
            let all = lacking.get_or_insert_with(|| of_file.clone());
            all.retain(|column, _| of_file.contains_key(column));
        }
    }
    match lacking.into_iter().flatten().next() {
        Some((_, said)) => Err(Refused::Whole(format!("{}: {said}", named(files)))),
        None => Ok(()),
    }
}

/// Name of all files together.
fn named(files: &[PathBuf]) -> String {
    match files {
        [file] => file.display().to_string(),
        files => format!("{} files", files.len()),
    }
}

/// Names in an option, which may be given several times.
///
/// # Errors
/// `Invalid`, when a value is not a list of names.
fn names(option: &str, lists: &[String]) -> event::Result<Vec<String>> {
    let lists = lists.iter().map(|list| listed(list)).collect::<Result<Vec<_>, _>>();
    lists.map(|lists| lists.concat()).map_err(|message| Error::invalid(format!("{option}: {message}")))
}

/// Maximum files of one import.
const MAX_FILES: usize = 100_000;

/// Returns the files under the given paths of files and folders, each folder's in the order of their names, and their total
/// bytes without standard input. In a folder, and in the folders within it, only files with the ending of a format count whose
/// name does not begin with `.` or `_`: Spark and Hive write such files beside their rows.
///
/// # Errors
/// `NotFound`, for a path that does not exist; `Invalid`, when there is no file.
fn files_in(paths: &[PathBuf]) -> anyhow::Result<(Vec<PathBuf>, u64)> {
    let mut files = Vec::new();
    for path in paths {
        if path == Path::new(STANDARD_INPUT) {
            if files.contains(path) {
                return Err(Error::invalid("standard input (-) is named twice").into());
            }
            files.push(path.clone());
            continue;
        }
        let is_folder = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?.is_dir();
        if is_folder { add_folder(path, &mut files)? } else { files.push(path.clone()) }
    }
    if files.is_empty() {
        return Err(Error::invalid("there is no file to import in the given folders").into());
    }
    let mut bytes = 0;
    for file in files.iter().filter(|file| *file != Path::new(STANDARD_INPUT)) {
        bytes += std::fs::metadata(file).map_err(|error| unreadable(file, &error))?.len();
    }
    Ok((files, bytes))
}

/// Copies standard input to a file that disappears with the process.
fn standard_input(args: &ImportArgs) -> anyhow::Result<File> {
    if args.input_format.is_none() {
        return Err(
            Error::invalid("--input-format has to name the format of standard input, such as csv").into()
        );
    }
    let mut file = tempfile::tempfile().context("cannot keep a copy of standard input")?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file).context("cannot keep a copy of standard input")?;
    Ok(file)
}

fn add_folder(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unreadable(folder, &error))?;
    paths.sort();
    let is_hidden = |path: &PathBuf| {
        path.file_name().is_some_and(|name| {
            name.as_encoded_bytes().starts_with(b".") || name.as_encoded_bytes().starts_with(b"_")
        })
    };
    for path in paths.into_iter().filter(|path| !is_hidden(path)) {
        // A link may lead in circles; its target can be named itself.
        let kind = std::fs::symlink_metadata(&path).map_err(|error| unreadable(&path, &error))?.file_type();
        if kind.is_dir() {
            add_folder(&path, files)?;
        } else if kind.is_file() && is_readable(&path) {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(Error::invalid(format!("there are more than {MAX_FILES} files")).into());
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let message = format!("cannot read {}: {error}", path.display());
    if error.kind() == std::io::ErrorKind::NotFound {
        Error::not_found(message)
    } else {
        Error::invalid(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_give_their_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("b")).unwrap();
        std::fs::create_dir(path("_temporary")).unwrap();
        for name in
            ["c.csv", "a.ndjson.gz", "notes.txt", "b/x.parquet", "_temporary/d.csv", ".e.csv", "_SUCCESS"]
        {
            std::fs::write(path(name), "12345").unwrap();
        }
        let (found, bytes) = files_in(&[dir.path().to_owned()]).unwrap();
        assert_eq!(found, [path("a.ndjson.gz"), path("b/x.parquet"), path("c.csv")]);
        assert_eq!(bytes, 15);
        assert_eq!(files_in(&[path("notes.txt")]).unwrap().0, [path("notes.txt")], "named, so meant");
        assert!(files_in(&[path("b/y")]).unwrap_err().to_string().contains("b/y"));
    }
}
