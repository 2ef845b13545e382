//! `almanac import`: the events of files.
//!
//! Files are read in parts, always the same parts of the same file. A row is known for good by the bytes of
//! its part and its place in it: so an import that was interrupted goes on where it ended, and one that is
//! repeated stores only rows that could not be stored before.

mod paths;
mod rejects;

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use catalog::Workspace;
use clap::Args;
use event::{Clock, Error, Kind, Timestamp};
use ingest::{
    Batch, Ingest, Refused, SubmitError,
    file::{BadRow, Chunk, FileReader, FileSpec, Mapping, Origin},
};
use log::audit::{Author, by, carried, current};
use tokio::{sync::mpsc, task::JoinSet};

use self::rejects::{Bad, Rejects};
use crate::{config::Config, open, progress::Progress, promotion};

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files that end in .ndjson, .jsonl, .json, .csv (these also in .gz or .zst), .parquet or .arrow,
    /// or folders of such files.
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// What the rows are: predictions, outcomes, metrics or releases.
    #[arg(long, short)]
    pub(crate) kind: String,
    /// A column that is a tag (columns called tag.NAME are tags anyway). May be repeated.
    #[arg(long = "tag", value_name = "COLUMN")]
    pub(crate) tags: Vec<String>,
    /// A column that is a feature, a number (columns called feature.NAME are features anyway). May be repeated.
    #[arg(long = "feature", value_name = "COLUMN")]
    pub(crate) features: Vec<String>,
    /// Which column holds a field, such as score=prob,key=loan_id. May be repeated.
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = ',')]
    pub(crate) map: Vec<String>,
    /// A value that every row has, such as release=v1 or tag.source=batch. May be repeated.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    /// The only columns to read, with commas between.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) select: Vec<String>,
    /// Leave out columns that are no field and no tag.
    #[arg(long)]
    pub(crate) ignore_extra: bool,
    /// The time zone of times without an offset, such as America/New_York.
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// How times are written: unix, unix_ms, unix_us, or as in strftime (RFC 3339 when not given).
    #[arg(long, value_name = "FORMAT")]
    pub(crate) time_format: Option<String>,
    /// Where the events come from, which the audit trail shows: system, job, run and dataset, such as job=nightly. May be
    /// repeated.
    #[arg(long, value_name = "WORD=VALUE")]
    pub(crate) source: Vec<String>,
    /// Read and check everything, and store nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write bad rows and what is wrong with them to this file, as NDJSON, and store the good rows.
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
}

/// How many parts wait to be stored.
const PARTS_AHEAD: usize = 2;

/// How many parts are stored side by side.
const PARTS_AT_ONCE: usize = 2;

/// What is done with what was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It is only checked.
    Check,
    /// It is stored.
    Store,
}

/// How many events there were.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Good ones.
    good: usize,
    /// Those of them that were not there before.
    new: usize,
    /// Bad ones.
    bad: usize,
}

/// A part of a file, ready to be checked against the catalog and stored.
struct Part {
    file: usize,
    origin: Origin,
    batch: Option<Batch>,
    bad: Vec<BadRow>,
    /// How many bytes of all files were read so far.
    bytes: u64,
}

struct Import {
    ingest: Arc<Ingest>,
    workspace: Workspace,
    files: Vec<PathBuf>,
    spec: FileSpec,
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
    let spec = spec(args)?;
    let (files, total_bytes) = paths::files(&args.paths)?;
    let ingest = promotion::ingest(open::existing(config).await?, Clock::system());
    let ingest = ingest.sampling_features(config.feature_sample.value);
    let workspace = ingest.catalog().workspace(&args.workspace).await?;
    let now = ingest.clock().now();
    let import = Import { ingest: ingest.into(), workspace, files, spec, now, total_bytes };
    let kind = import.spec.kind;
    let from = match import.files.as_slice() {
        [file] => file.display().to_string(),
        files => format!("{} files", files.len()),
    };
    let mut rejects = Rejects::new(args.rejects.as_deref())?;
    if args.dry_run || args.rejects.is_none() {
        // One bad row, and nothing is stored: so all of it is read and checked to its end first.
        let counts = import.run(Mode::Check, &mut rejects).await?;
        if args.dry_run {
            rejects.finish()?;
            let stored =
                format!("{} {kind} read from {from}: {} are good", counts.good + counts.bad, counts.good);
            println!("{stored}, {} bad; nothing was stored (--dry-run)", counts.bad);
            return if counts.bad == 0 { Ok(()) } else { Err(refusal(&counts)) };
        }
        if counts.bad > 0 {
            return Err(refusal(&counts));
        }
    }
    let counts = import.run(Mode::Store, &mut rejects).await?;
    rejects.finish()?;
    let before = counts.good - counts.new;
    let said = format!(
        "{} {kind} read from {from}: {} appended, {before} were there before",
        counts.good + counts.bad,
        counts.new
    );
    match (&args.rejects, counts.bad) {
        (Some(path), bad @ 1..) => println!(
            "{said}, {bad} were bad; correct them in {} and import that file; a corrected copy of the whole file \
             would be stored again",
            path.display()
        ),
        _ => println!("{said}"),
    }
    Ok(())
}

fn refusal(counts: &Counts) -> anyhow::Error {
    let rows = if counts.bad == 1 { "row" } else { "rows" };
    Refused::Whole(format!(
        "{} bad {rows}, so nothing was stored; --rejects FILE writes them out and stores the rest",
        counts.bad
    ))
    .into()
}

/// What the options say of the files.
fn spec(args: &ImportArgs) -> anyhow::Result<FileSpec> {
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
        renames: pairs("--map", "field=column", &args.map)?,
        set: pairs("--set", "field=value", &args.set)?,
        select: args.select.clone(),
        ignore_extra: args.ignore_extra,
        tags: args.tags.clone(),
        features: args.features.clone(),
        time_zone: args.time_zone.as_ref().map(zone).transpose()?,
        time_format: args.time_format.clone(),
    };
    Ok(FileSpec { kind, mapping })
}

impl Import {
    /// Reads all files once.
    async fn run(&self, mode: Mode, rejects: &mut Rejects) -> anyhow::Result<Counts> {
        let what = if mode == Mode::Check { "checking" } else { "importing" };
        let mut progress = Progress::of_bytes(what, self.total_bytes);
        let (send, mut parts) = mpsc::channel(PARTS_AHEAD);
        let (files, spec, now) = (self.files.clone(), self.spec.clone(), self.now);
        let reading = tokio::task::spawn_blocking(move || read(&files, &spec, now, &send));
        let mut counts = Counts::default();
        let mut storing: JoinSet<Result<usize, SubmitError>> = JoinSet::new();
        while let Some(mut part) = parts.recv().await {
            let problems = match &part.batch {
                Some(batch) => self.ingest.problems(&self.workspace, batch).await?,
                None => Default::default(),
            };
            let mut bad: Vec<Bad> = part.bad.drain(..).map(Bad::from).collect();
            let rows = 0..part.batch.as_ref().map_or(0, Batch::rows);
            let good: Vec<usize> = rows.filter(|row| !problems.contains_key(row)).collect();
            if let Some(batch) = &part.batch {
                bad.extend(problems.into_iter().map(|(row, problem)| Bad::event(batch, row, problem)));
            }
            counts.bad += bad.len();
            rejects.write(&self.files[part.file], bad)?;
            counts.good += good.len();
            if let Some(batch) = part.batch.filter(|_| mode == Mode::Store && !good.is_empty()) {
                if storing.len() >= PARTS_AT_ONCE {
                    counts.stored(storing.join_next().await)?;
                }
                let (ingest, workspace) = (self.ingest.clone(), self.workspace.clone());
                storing.spawn(carried(async move {
                    Ok(ingest.submit_chunk(&workspace, &part.origin, &batch, &good).await?.appended)
                }));
            }
            progress.at_rows(part.bytes, counts.good + counts.bad);
        }
        while let Some(stored) = storing.join_next().await {
            counts.stored(Some(stored))?;
        }
        progress.finish();
        reading.await.context("reading was broken off")??;
        Ok(counts)
    }
}

type Stored = Result<Result<usize, SubmitError>, tokio::task::JoinError>;

impl Counts {
    fn stored(&mut self, stored: Option<Stored>) -> anyhow::Result<()> {
        if let Some(stored) = stored {
            self.new += stored.context("storing was broken off")??;
        }
        Ok(())
    }
}

/// Reads the files one after the other, as fast as the parts are taken.
fn read(
    files: &[PathBuf],
    spec: &FileSpec,
    now: Timestamp,
    send: &mpsc::Sender<Part>,
) -> Result<(), Refused> {
    let mut before = 0;
    for (file, path) in files.iter().enumerate() {
        let mut last = 0;
        for chunk in FileReader::open(path, spec, now)? {
            let Chunk { origin, batch, bad, bytes } = chunk?;
            last = bytes;
            let part = Part { file, origin, batch, bad, bytes: before + bytes };
            if send.blocking_send(part).is_err() {
                // The receiver of the parts has failed and says why.
                return Ok(());
            }
        }
        before += last;
    }
    Ok(())
}
