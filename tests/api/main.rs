//! What the catalog, the append service and the queries promise to a program that calls them.
//!
//! Among these tests are the access patterns that Almanac must serve, on every engine: each drives the public API and
//! counts the reads that it costs. The table has no scan to fall back on.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod alerts;
mod arena_pairs;
mod arenas;
mod as_of;
mod breakdown;
mod catalog;
mod challengers;
mod closing;
mod compaction;
mod counters;
mod crossings;
mod custom;
mod deciding;
mod definitions;
mod deliveries;
mod digest;
mod drift;
mod entities;
mod erased_values;
mod erasing;
mod erasure;
mod estimates;
mod explain;
mod features;
mod figures;
mod follow;
mod following;
mod gates;
mod head_to_head;
mod identity;
mod judging_all;
mod key_filters;
mod keys;
mod leaderboard;
mod lineage;
mod lists;
mod live;
mod maturity;
mod narrow;
mod operations;
mod pages;
mod paging;
mod past;
mod pending;
mod pending_histories;
mod pending_told;
mod quality;
mod reading;
mod resettling;
mod retention;
mod reviews;
mod runs;
mod segments;
mod series;
mod snapshots;
mod splits;
mod sql;
mod streamed;
mod table_doc;
mod windows;
mod withdrawal;
