//! Tests of the projector: exactly once under faults, while events expire and the log grows, and with other workers beside it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod ahead;
mod bench;
mod blind;
mod breakdowns;
mod exactly_once;
mod faulty_feed;
mod features;
mod letters;
mod parts;
mod race;
mod rebuild;
mod versions;
mod warnings;
mod workers;
