//! `bench`: see `bench/run --help`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use anyhow::Context as _;
use bench::{
    context::{Context, write_inputs},
    data::{DAYS, Data},
    engine,
    place::{self, Place},
    process,
    report::{self, Setting},
    uploads::Form,
    work::{self, Benchmark},
};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Allocator of the binary: queries to a frame are measured in this process.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures Almanac beside what its users would pick instead.
#[derive(Debug, Parser)]
#[command(name = "bench/run", max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Args)]
struct Options {
    /// Measure only this benchmark; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Predictions to measure with.
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// The days over which they are spread.
    #[arg(long, default_value_t = DAYS)]
    days: usize,
    /// Number of rounds, in each of which each side does its work.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Say of each goal whether it is met, and fail when one is missed by more than a tenth.
    #[arg(long)]
    check: bool,
    /// Write docs/benchmarks.md.
    #[arg(long)]
    report: bool,
    /// Name the benchmarks and end.
    #[arg(long)]
    list: bool,
    /// The profile that this was built with, for the report.
    #[arg(long, default_value = "release")]
    profile: String,
    /// The virtual environment of the peers.
    #[arg(long, hide = true, default_value = "target/bench/venv")]
    venv: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the events to files.
    Generate {
        /// The folder to write to.
        folder: PathBuf,
        /// Number of predictions.
        #[arg(long, default_value_t = 1_000_000)]
        rows: usize,
        /// File format.
        #[arg(long, value_enum, default_value_t = Written::Parquet)]
        format: Written,
    },
    /// Measure the SQLite engine by itself: appends and scans of small items and of ones as long as segments.
    Engine {
        /// A folder on the disk to measure; what is written there is removed again.
        #[arg(default_value = "target/bench/engine")]
        folder: PathBuf,
    },
}

/// The forms in which events can be written to files.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Written {
    /// A Parquet file a day and kind.
    Parquet,
    /// A file a batch of predictions, an object a line.
    Ndjson,
    /// A file a batch of predictions, an object of columns.
    Columns,
    /// A file a batch of predictions, an Arrow IPC stream.
    Arrow,
}

fn main() -> ExitCode {
    end_servers_when_told();
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Ends the servers that this program started, when it is signalled to end.
fn end_servers_when_told() {
    thread::spawn(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        });
        process::end_all();
        std::process::exit(130);
    });
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Some(Command::Generate { folder, rows, format }) => {
            generate(&Data::new(rows), &folder, format)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Command::Engine { folder }) => {
            measure_engine(&folder)?;
            return Ok(ExitCode::SUCCESS);
        }
        None => {}
    }
    let options = cli.options;
    if options.list {
        work::ALL.iter().for_each(|benchmark| println!("{:<10}{}", benchmark.name, benchmark.about));
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::ensure!(options.days > 7, "--days is at least 8, a week and a day");
    anyhow::ensure!(options.rows >= options.days, "--rows is at least {}, one a day", options.days);
    anyhow::ensure!(options.rounds >= 1, "--rounds is at least 1");
    let chosen = chosen(&options.only)?;
    let data = Data::over(options.days, options.rows);
    let context = Context::new(Place::find(&options.venv)?, data, options.rounds)?;
    let mut lines = Vec::new();
    for benchmark in chosen {
        eprintln!("{}: {}", benchmark.name, benchmark.about);
        let measured =
            (benchmark.run)(&context).with_context(|| format!("the benchmark {} failed", benchmark.name))?;
        measured.iter().for_each(|line| println!("{}", report::told(line)));
        lines.extend(measured);
    }
    let Options { profile, rows, days, rounds, .. } = options;
    let setting = Setting { profile, rows, days, rounds };
    if options.report {
        report::write(&context.place.root, &setting, &lines)?;
    }
    let judged = if options.check { report::judged(&lines) } else { Vec::new() };
    judged.iter().for_each(|goal| println!("{}", goal.text));
    Ok(if judged.iter().all(|goal| goal.is_met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the benchmarks of these names; all without names.
fn chosen(only: &[String]) -> anyhow::Result<Vec<Benchmark>> {
    if only.is_empty() {
        return Ok(work::ALL.to_vec());
    }
    let named = |name: &String| {
        let found = work::ALL.iter().find(|benchmark| benchmark.name == name).copied();
        found.with_context(|| format!("there is no benchmark `{name}`; --list names them"))
    };
    only.iter().map(named).collect()
}

/// Measures the engine in a folder of its own within `folder`.
fn measure_engine(folder: &Path) -> anyhow::Result<()> {
    let own = folder.join(format!("engine-{}", std::process::id()));
    std::fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
    let runtime = tokio::runtime::Runtime::new()?;
    let measured = runtime.block_on(engine::measure(&own));
    place::remove(&own)?;
    measured?.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn generate(data: &Data, folder: &Path, format: Written) -> anyhow::Result<()> {
    let (form, ending) = match format {
        Written::Parquet => return write_inputs(data, folder),
        Written::Ndjson => (Form::Lines, "ndjson"),
        Written::Columns => (Form::Columns, "json"),
        Written::Arrow => (Form::Arrow, "arrow"),
    };
    std::fs::create_dir_all(folder)?;
    for (day, batch) in data.batches() {
        let path = folder.join(format!("{}-{batch:05}.{ending}", data.day(day)));
        std::fs::write(&path, form.body(&data.predictions(day, batch))?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
