//! Projections while something else happens: their events expire, the log grows, they outgrow an item. Each
//! test is a function of a [`Bench`] and runs on SQLite and on DynamoDB Local.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bench;
mod letters;
mod parts;
mod race;
mod rebuild;
mod warnings;

use bench::Bench;
