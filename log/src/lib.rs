//! Almanac's logs in the table: every key, and the items under them.
//!
//! In reading order: every [`key`]; a [`segment_item`] with the [`batch`]es that it holds; [`scan`], which finds
//! logs and reads one, [`known`], which looks again whether they have grown, the [`append_notifier`] that rings when they may have, and [`walk`], which reads those of a day; the [`projection`] of a day and what is [`evaluated`] as items, and which version of them is [`active`]; the evaluations of days when they had some ages, which are [`vintage`], and their rollups, which are [`rollup_vintage`]; of
//! which days the events have [`expired`], by the minutes that the table has [`counted`]; which keys days
//! do not have, by a [`key_filter`]; the [`segment_cache`] of segments within a process; which segments were [`skipped`]; which predictions outcomes without a date
//! were decided to judge, and which are [`unmatched`]; many segments as one item, [`merged`]; the [`store`], which shows them and the partitions of lanes as services know them; how far days are [`compacted`]; the
//! digest of the [`content`] of a batch; and the [`read_version`] that an answer was read at; and in which [`layout`]
//! the table is.
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
//! It knows no HTTP and folds nothing.

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
