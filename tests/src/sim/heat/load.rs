//! Load on the services, and its results.

use std::collections::BTreeMap;

use super::Limits;

/// Load on the services.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Over how many lanes each day and kind is spread.
    pub lanes: u8,
    /// Predictions a second that clients have.
    pub rows_per_second: u64,
    /// Predictions of a batch.
    pub batch: u64,
    /// Number of clients that send them.
    pub clients: u64,
    /// The number of services.
    pub services: u64,
    /// For how long, in seconds.
    pub seconds: u64,
    /// After how many seconds the day of the predictions ends and the next one begins.
    pub midnight: u64,
    /// Limits of a partition.
    pub limits: Limits,
}

/// Results of some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// Predictions that were stored.
    pub stored: u64,
    /// Requests that were throttled, each time they were tried.
    pub throttled: u64,
    /// Batches that were refused, and sent again.
    pub refused: u64,
    /// Number of partitions in the end.
    pub partitions: usize,
}

/// Results of a load.
#[derive(Clone, Debug, Default)]
pub struct Heated {
    /// Violations; none, if all is well.
    pub violations: Vec<String>,
    /// By ten seconds.
    pub spans: Vec<Span>,
    /// Median and 99th percentile of the milliseconds until a batch was stored.
    pub millis: [u64; 2],
    /// Requests that were throttled, by what their partition keys hold.
    pub throttled: BTreeMap<String, u64>,
    /// Write units by what the partition keys hold.
    pub written: BTreeMap<String, f64>,
    /// Seconds from the last append until the projector had folded all.
    pub caught_up: Option<u64>,
}
