//! The binary: the services in one process, and the commands that people type.
//!
//! [`cli`] reads the command line and calls one module for each command, which holds its arguments. `shown` prints answers.
//! `config` merges flags, environment and file, and `open` opens the table they name. [`up`] runs all roles of Almanac on one
//! listener, or some of them, also as the library that tests call on a port of their own. `telemetry` holds logs and metrics.
//! `demo` replays real data.

#[macro_use]
mod say;
mod access;
mod answer;
mod audit;
mod author;
mod blob_store;
pub mod cli;
mod client;
mod compact;
mod completions;
mod config;
mod cost;
mod demo;
mod dlq;
mod doctor;
mod embed;
mod erase;
mod examples;
mod exit;
mod export;
mod fetch;
mod harden;
mod health;
mod import;
mod in_toml;
mod lake;
mod lines;
mod listening;
mod named;
mod open;
mod openapi;
mod operations;
mod own_names;
mod paths;
mod patient;
mod plot;
mod probe;
mod progress;
mod projector;
mod promotion;
mod proxies;
mod reach;
mod rebuild;
mod report;
mod role;
mod serve;
mod shown;
mod status;
mod table;
mod tail;
mod telemetry;
mod tls;
pub mod unmatched;
mod unread;
pub mod up;
mod upgrade;
mod verify;
mod waiting;
mod webhook;
mod workers;

pub use ::query::Words;
pub use ::table::Table;
pub use embed::Embedded;
pub use event::{Kind, Task};
pub use ingest::{Batch, Receipt, SubmitError};
