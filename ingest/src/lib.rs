//! The append service: from a request to a durable segment.
//!
//! In the order in which data flows: a format ([`mod@format`], [`mod@file`]) delivers rows or columns; the builder checks them
//! and makes a [`batch`]; the `service` checks that its releases exist, [`releases`] puts them live, if they pass the gates of
//! their model, and [`definitions`] sets how they are judged; the [`append`] writes it to the logs exactly once. [`http`] is the
//! interface to clients, [`limits`] holds the bounds.
//!
//! ```
//! use almanac_ingest::{Ingest, Remember, json::read_ndjson};
//! use event::{Clock, Kind};
//! use table::sqlite::SqliteTable;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("almanac.db");
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let clock = Clock::system();
//! let table = std::sync::Arc::new(SqliteTable::open(&path, clock.clone())?);
//! let ingest = Ingest::new(table, clock.clone());
//! let workspace = ingest.catalog().ensure_workspace("credit/prod", clock.now()).await?;
//!
//! let metric = br#"{"name":"drift","measured_at":"2026-11-20T02:00:00Z","value":0.25}"#;
//! for appended in [1, 0] {
//!     let batch = read_ndjson(Kind::Metrics, metric, clock.now())?;
//!     let receipt = ingest.submit(&workspace, batch, Some("drift-2026-11-20"), Remember::Week).await?;
//!     assert_eq!(receipt.appended, appended);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It writes segments and batch markers and the catalog, and nothing else. It never reads a rollup.

pub mod admission;
pub mod append;
pub mod batch;
mod builder;
mod decided;
mod defining;
pub mod definitions;
mod erased;
pub mod file;
pub mod format;
pub mod http;
pub mod json;
pub mod limits;
mod problems;
mod promotion;
pub mod quota;
pub mod releases;
mod rematch;
mod reviews;
mod service;

pub use append::{Receipt, Remember};
pub use batch::{Batch, Refused};
pub use limits::BODY_WITHIN;
pub use rematch::{Became, Rematched, Rematching, UnmatchedRow};
pub use reviews::Answered;
pub use service::{Ingest, Reader, SubmitError};
