//! The whole system for minutes: killed, with wrong clocks, under load, short of memory, and asked for everything that
//! its document allows. Each test has the machine to itself.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod chaos;
mod clock;
mod histories;
mod history;
mod queries;
mod readers;
mod schemathesis;
mod soak;
mod support;
