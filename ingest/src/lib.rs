//! The append service: from a request to a durable segment.
//!
//! In the order in which data flows: a format ([`mod@format`], [`mod@file`]) delivers rows or columns; the
//! draft checks them and makes a [`batch`]; the [`service`] checks that its releases exist, [`releases`] puts them live and
//! [`definitions`] says how they are judged; the [`append`] writes
//! it to the logs exactly once. [`http`] is the way in from outside, [`limits`] says how much.
//!
//! It writes segments and batch markers and the catalog, and nothing else. It never reads a rollup.

pub mod append;
pub mod batch;
mod cached;
pub mod definitions;
mod draft;
pub mod file;
pub mod format;
pub mod gate;
pub mod http;
pub mod json;
pub mod limits;
pub mod releases;
pub mod service;

pub use append::{Receipt, Remember};
pub use batch::{Batch, Refused};
pub use service::{Ingest, SubmitError};
