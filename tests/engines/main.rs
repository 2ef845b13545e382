//! Tests of every engine of the table.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod conformance;
mod faults;
mod manage;
