//! Measures Almanac beside what its users would pick instead: the same events, in the same run, in
//! turns. `bench/run` builds it and runs it; `docs/benchmarks.md` is what it writes.
//!
//! In reading order: the [`data`]; how it is sent ([`uploads`], [`load`]) to the services
//! ([`service`]) or handed to the peers ([`peer`]); how measurements take turns ([`rounds`],
//! [`samples`]) and become lines ([`line`](mod@line)) with [`goals`]; what benchmarks share ([`context`]);
//! the benchmarks themselves ([`work`]); and the [`report`]. [`engine`] measures the SQLite engine by itself; `benches` has
//! what criterion measures, function by function.

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
