//! Shared context of the benchmarks: the events, the places, and data that is made once for several of them.

use std::{cell::OnceCell, fs, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use event::{Clock, Id, Kind};
use log::store::Store;
use query::Query;
use table::{Table, sqlite::SqliteTable};
use tokio::runtime::Runtime;

use crate::{
    data::{Data, frame},
    load::{self, Outcome, Plan},
    peer,
    place::Place,
    rounds::Readings,
    service::{Service, WORKSPACE},
    uploads,
};

/// Number of connections that send batches.
pub const CONNECTIONS: usize = 4;

/// A run.
pub struct Context {
    /// Events.
    pub data: Data,
    /// Number of rounds in which each side does its work.
    pub rounds: usize,
    /// Folders and programs.
    pub place: Place,
    /// Runtime of all asynchronous work here: two workers, as many as the peers have threads.
    pub runtime: Runtime,
    stored: OnceCell<Stored>,
    inputs: OnceCell<PathBuf>,
    parquet: OnceCell<(PathBuf, Readings)>,
}

/// All events, sent through a running Almanac, with measurements of that.
#[derive(Debug)]
pub struct Stored {
    /// Folder of its data.
    pub folder: PathBuf,
    /// Number of predictions and outcomes together.
    pub events: usize,
    /// Result of sending.
    pub load: Outcome,
    /// Time from the first request until all is projected, in seconds.
    pub projected_seconds: f64,
    /// Processor time of the services, in seconds.
    pub server_cpu: f64,
    /// Peak resident memory of the services, in megabytes.
    pub peak_megabytes: f64,
}

/// A table opened in this process.
pub struct Opened {
    /// Table.
    pub table: Arc<dyn Table>,
    /// Query service of the table.
    pub query: Query,
    /// Workspace of the events.
    pub workspace: Id,
}

impl Context {
    /// Creates a run on these events.
    ///
    /// # Errors
    /// Fails if no runtime can be created.
    pub fn new(place: Place, data: Data, rounds: usize) -> anyhow::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(peer::THREADS).enable_all().build()?;
        Ok(Self {
            data,
            rounds,
            place,
            runtime,
            stored: OnceCell::new(),
            inputs: OnceCell::new(),
            parquet: OnceCell::new(),
        })
    }

    /// Returns an Almanac with all events.
    ///
    /// # Errors
    /// Fails if they cannot be sent.
    pub fn stored(&self) -> anyhow::Result<&Stored> {
        once(&self.stored, || {
            eprintln!("  sending {} predictions and their outcomes to Almanac", self.data.rows());
            self.store("stored", self.data.days())
        })
    }

    /// Sends the events of the first `days` days to a separate Almanac.
    ///
    /// # Errors
    /// Fails if they cannot be sent.
    pub fn store(&self, name: &str, days: usize) -> anyhow::Result<Stored> {
        self.runtime.block_on(async {
            let service = Service::start(&self.place, name).await?;
            let started = tokio::time::Instant::now();
            let plan = Plan { address: service.address, connections: CONNECTIONS, every: None };
            let load = load::run(plan, uploads::days(&self.data, days)).await?;
            let predictions: usize = (0..days).map(|day| self.data.rows_of(day)).sum();
            let events = load.rows();
            let window = (self.data.day(0).to_string(), self.data.day(days - 1).to_string());
            let labelled = (events - predictions) as u64;
            service.projected((&window.0, &window.1), predictions as u64, labelled).await?;
            Ok(Stored {
                events,
                load,
                projected_seconds: started.elapsed().as_secs_f64(),
                server_cpu: service.cpu_seconds(),
                peak_megabytes: service.peak_megabytes(),
                folder: service.stop(),
            })
        })
    }

    /// Opens stored events in this process.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn open(&self, stored: &Stored) -> anyhow::Result<Opened> {
        let path = stored.folder.join("almanac.db");
        let table: Arc<dyn Table> =
            Store::over(Arc::new(SqliteTable::open_existing(&path, Clock::system())?));
        let query = Query::new(Arc::clone(&table), event::Clock::system());
        let workspace = self.runtime.block_on(query.catalog().workspace(WORKSPACE))?;
        Ok(Opened { table, query, workspace: workspace.id().clone() })
    }

    /// Returns the events for the peers: a folder with a Parquet file a day and kind, which they read before their
    /// time begins.
    ///
    /// # Errors
    /// Fails if they cannot be written.
    pub fn inputs(&self) -> anyhow::Result<&PathBuf> {
        once(&self.inputs, || {
            eprintln!("  writing the events for the peers");
            let folder = self.place.fresh("inputs")?;
            write_inputs(&self.data, &folder)?;
            Ok(folder)
        })
    }

    /// Returns Parquet files written by polars from the inputs, one a day and kind; with measurements of that.
    ///
    /// # Errors
    /// Fails if the peers are not installed.
    pub fn parquet(&self) -> anyhow::Result<&(PathBuf, Readings)> {
        once(&self.parquet, || {
            let folder = self.place.fresh("parquet")?;
            let inputs = self.inputs()?.to_string_lossy().into_owned();
            let readings = peer::run(&self.place, "polars_write.py", &[&inputs, &folder.to_string_lossy()])?;
            Ok((folder, readings))
        })
    }
}

/// Writes all events to Parquet files, a day at a time.
///
/// # Errors
/// Fails if they cannot be written.
pub fn write_inputs(data: &Data, folder: &std::path::Path) -> anyhow::Result<()> {
    for kind in [Kind::Predictions, Kind::Outcomes] {
        let folder = folder.join(kind.name());
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for day in 0..data.days() {
            let frame = match kind {
                Kind::Predictions => {
                    let batches = 0..data.batches_of(day);
                    let rows: Vec<_> = batches.flat_map(|batch| data.predictions(day, batch)).collect();
                    frame::predictions(&rows)?
                }
                _ => frame::outcomes(&data.outcomes(day))?,
            };
            frame::parquet(frame, &folder.join(format!("{}.parquet", data.day(day))))?;
        }
    }
    Ok(())
}

/// Returns the value of the cell, made on the first call.
fn once<T>(cell: &OnceCell<T>, make: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<&T> {
    if cell.get().is_none() {
        let made = make()?;
        _ = cell.set(made);
    }
    cell.get().context("made just now")
}
