//! The access patterns that Almanac must serve: a test a row, named by the row, on every engine. Each
//! drives the public API and counts the reads that it costs. The table has no scan to fall back on.
//!
//! A row is a function of a [`World`]; the macro [`rows!`] makes the tests of it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod a;
mod b;
mod d;
mod d5;
mod definitions;
mod e;
mod follow;
mod releases;
mod scene;
mod world;

use world::World;
