//! Measures Almanac beside the alternatives of its users: the same events, in the same run, in turns. `bench/run`
//! builds it and runs it, and it writes `docs/benchmarks.md`.
//!
//! In reading order: the [`data`]; its transfer ([`uploads`], [`load`]) to the services ([`service`]) or the peers
//! ([`peer`]); measurements in turns ([`rounds`], [`samples`]), which become lines ([`line`](mod@line)) with
//! [`goals`]; shared parts of benchmarks ([`context`]); the benchmarks themselves ([`work`]); and the [`report`].
//! [`engine`] measures the SQLite engine by itself; `benches` has the criterion benchmarks, function by function.

pub mod context;
pub mod counting;
pub mod data;
pub mod engine;
pub mod goals;
pub mod line;
pub mod load;
pub mod peer;
pub mod place;
pub mod process;
pub mod report;
pub mod rounds;
pub mod samples;
pub mod service;
pub mod uploads;
pub mod work;
