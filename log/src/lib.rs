//! Almanac's logs in the table: every key, and the items under them.
//!
//! In reading order:
//!
//! - writing: every [`key`]; a [`segment_item`] with its [`batch`]es, and the digest of a batch's [`content`];
//! - reading: [`scan`] finds logs and reads one, [`walk`] reads those of a day, a [`read_version`] makes a read
//!   repeatable; [`known`] polls for growth, the [`append_notifier`] reports appends, the [`segment_cache`] keeps
//!   segments within a process;
//! - projections: a [`projection`] as an item, an [`evaluated`] day, the [`active`] version, the [`vintage`] and
//!   [`rollup_vintage`] of a day at an age; a [`key_filter`] of a day's keys;
//! - exceptions: [`skipped`] segments; [`unmatched`] outcomes and their matches; days that have [`expired`], by the
//!   time that the table has [`counted`];
//! - storage: [`merged`] segments, the days that are [`compacted`], the [`store`] that hides these and the partitions
//!   of lanes, and the [`layout`] of the table.
//!
//! ```
//! use almanac_log::{batch::{BatchId, BatchPart}, key::LogId, scan, segment_item::Segment};
//! use event::{Clock, Column, Columns, Day, Id, Kind, Timestamp, Values};
//! use table::{Condition, Table, sqlite::SqliteTable};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("almanac.db");
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let table = SqliteTable::open(&path, Clock::system())?;
//! let now = Timestamp::parse("2013-06-01T04:30:00Z")?;
//! let log = LogId { workspace: Id::new(now), day: now.day(), kind: Kind::Predictions, lane: 0 };
//! let columns = Columns {
//!     rows: 1,
//!     columns: vec![
//!         Column::new("key", Values::Text(["UA1071"].into_iter().collect())),
//!         Column::new("predicted_at", Values::Time(vec![now.micros()])),
//!     ],
//! };
//! let batch = BatchPart { batch: BatchId([7; 16]), first: 0, rows: 1 };
//! let segment = Segment::pack(log.clone(), 1, now, vec![batch], &columns)?;
//! table.put(segment.to_item(), Condition::Absent).await?;
//!
//! assert_eq!(scan::head(&table, &log).await?, 1);
//! let read = scan::segments(&table, &log, 1, 1).await?;
//! assert_eq!(read[0].unpack(|column| column == "key")?.columns.len(), 1);
//! # Ok::<(), event::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate knows no HTTP and folds nothing.

pub mod active;
pub mod after;
pub mod append_notifier;
pub mod audit;
pub mod authors;
pub mod batch;
pub mod compacted;
pub mod content;
pub mod counted;
pub mod erased;
pub mod evaluated;
pub mod expired;
pub mod indexes;
pub mod key;
pub mod key_filter;
pub mod known;
pub mod layout;
pub mod merged;
pub mod notifications;
pub mod projection;
pub mod read_version;
pub mod rollup_vintage;
pub mod scan;
pub mod segment_cache;
pub mod segment_item;
pub mod skipped;
pub mod store;
pub mod unmatched;
pub mod vintage;
pub mod walk;
