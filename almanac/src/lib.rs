//! The binary: the services in one process, and the commands that people type.
//!
//! [`cli`] reads the command line and calls one module for each command, which holds its arguments. `shown` prints answers.
//! `config` merges flags, environment and file, and `open` opens the table they name. [`up`] runs all roles of Almanac on one
//! listener, or some of them, also as the library that tests call on a port of their own. `telemetry` holds logs and metrics.
//! `demo` replays real data.

#[macro_use]
mod stdout;
mod access;
pub mod adapters;
mod answer;
mod audit;
mod author;
mod blob_store;
pub mod cli;
mod client;
mod compact;
mod config;
mod cost;
mod dead_letters;
mod demo;
mod doctor;
mod drain_body;
mod embed;
mod erase;
mod examples;
mod exit;
mod export;
mod harden;
mod health;
mod host_check;
mod http_client;
mod import;
mod lake;
mod listening;
mod mcp;
mod open;
mod openapi;
mod operations;
mod output;
mod plot;
mod probe;
mod progress;
mod projector;
mod proxies;
mod rebuild;
mod report;
mod serve;
mod ssrf;
mod status;
mod table;
mod tail;
mod telemetry;
mod tls;
pub mod up;
mod upgrade;
mod verify;
mod waiting;
mod webhook;
mod write_timeout;

pub use ::query::Params;
pub use ::table::Table;
pub use embed::Embedded;
pub use event::{Kind, Task};
pub use ingest::{Batch, Receipt, SubmitError};
