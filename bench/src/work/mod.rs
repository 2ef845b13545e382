//! Benchmarks: each measures one piece of work and returns its lines of the report.

use crate::{context::Context, line::Line};

mod access;
mod analyst;
mod bytes;
mod daily;
mod door;
mod evaluate;
mod features;
mod fold;
mod follow;
mod formats;
mod frames;
mod growth;
mod idle;
mod memory;
mod ndjson;
mod python;
mod readable;
mod resolve;
mod segment_cache;
mod single;
mod units;
mod window;

/// One benchmark.
#[derive(Clone, Copy)]
pub struct Benchmark {
    /// Name of the benchmark.
    pub name: &'static str,
    /// Description of the work.
    pub about: &'static str,
    /// Measures it.
    pub run: fn(&Context) -> anyhow::Result<Vec<Line>>,
}

const fn benchmark(
    name: &'static str,
    about: &'static str,
    run: fn(&Context) -> anyhow::Result<Vec<Line>>,
) -> Benchmark {
    Benchmark { name, about, run }
}

/// All benchmarks, in the order of the report.
pub const ALL: &[Benchmark] = &[
    benchmark(
        "ndjson",
        "NDJSON over HTTP to durable, beside SQLite rows, chDB and MLflow log_batch",
        ndjson::run,
    ),
    benchmark(
        "formats",
        "columnar JSON and Arrow over HTTP, beside NDJSON, SQLite rows and chDB",
        formats::run,
    ),
    benchmark(
        "segment_cache",
        "NDJSON until projected, beside a projector that reads the log",
        segment_cache::run,
    ),
    benchmark("single", "single events on 64 connections, beside MLflow log_metric", single::run),
    benchmark("door", "MLflow's client through Almanac's door, beside MLflow's own server", door::run),
    benchmark("python", "the Python client, beside the load generator and MLflow's client", python::run),
    benchmark("bytes", "bytes an event at rest, beside Parquet, SQLite and DuckDB", bytes::run),
    benchmark("window", "7 of 30 days to a frame, beside polars on Parquet and DuckDB", window::run),
    benchmark("analyst", "from a request to a frame in Python, and a group-by in SQL", analyst::run),
    benchmark("daily", "daily figures of 30 days from stored evaluations, beside computing them", daily::run),
    benchmark("evaluate", "the same from the events, join included", evaluate::run),
    benchmark(
        "resolve",
        "outcomes without a date to their predictions, beside polars joining Parquet",
        resolve::run,
    ),
    benchmark("readable", "from the acknowledgement of an event until its rollup is readable", readable::run),
    benchmark("follow", "from the acknowledgement of an event until one who follows has it", follow::run),
    benchmark("fold", "folding a backlog of segments, beside only unpacking them", fold::run),
    benchmark("memory", "the memory of ingest, projector and query while all events pass", memory::run),
    benchmark(
        "idle",
        "the start of a service on all events, and what it costs with nothing to do",
        idle::run,
    ),
    benchmark("growth", "rates and windows as the store grows", growth::run),
    benchmark("units", "write units on DynamoDB, beside one item per event", units::run),
    benchmark(
        "access",
        "NDJSON and single events with a token, beside a service that asks nobody",
        access::run,
    ),
    benchmark("features", "bytes and write units of predictions with 0, 10 and 100 features", features::run),
];
