//! Events: the vocabulary that all other crates share.
//!
//! In reading order: [`time`] and [`id`]; the [`fields`] of each kind of event; the [`columns`] in which events
//! travel; the [`task`] and the [`Definition`] by which predictions are evaluated, and the [`custom`] metrics that it
//! may have; the [`lane`] of an event, and the total order of all events of a day; the [`Right`]s of callers; a
//! [`Share`] of all keys; text that is [`plain`] enough for a terminal; the [`RowProblem`] of a refused row, and the
//! [`Error`] of everything below the rim.
//!
//! ```
//! use almanac_event::{Column, Columns, Kind, Timestamp, Values};
//!
//! let columns = Columns {
//!     rows: 2,
//!     columns: vec![Column::new("score", Values::Float(vec![0.1, 0.9]))],
//! };
//! assert!(Kind::Predictions.may_have("score") && !Kind::Outcomes.may_have("score"));
//! assert_eq!(columns.column("score").unwrap().float(1), Some(0.9));
//! assert_eq!(Timestamp::parse("2013-06-01T12:00:00Z")?.day().to_string(), "2013-06-01");
//! # Ok::<(), almanac_event::Error>(())
//! ```
//!
//! This crate knows no storage and no HTTP.

pub mod columns;
mod costs;
pub mod custom;
mod definition;
mod dimension;
mod error;
pub mod fields;
pub mod id;
pub mod lane;
mod period;
pub mod plain;
pub mod pseudonym;
mod right;
mod share;
pub mod task;
mod text;
pub mod time;
mod zone;

pub use columns::{Column, Columns, Values};
pub use costs::Costs;
pub use custom::CustomMetric;
pub use definition::{Definition, DefinitionChange, NOTHING, NewDefinition, Said};
pub use dimension::{Dimension, MAX_DIMENSION_EDGES, MAX_DIMENSIONS};
pub use error::{Error, ErrorKind, Result, RowProblem};
pub use fields::Kind;
pub use id::Id;
pub use period::Period;
pub use right::{Right, Rights};
pub use share::Share;
pub use task::Task;
pub use time::{Clock, Day, MAX_WINDOW_DAYS, Timestamp, Window};
pub use zone::Zone;
