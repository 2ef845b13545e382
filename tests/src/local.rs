//! DynamoDB Local, which `tests/run` starts.

use std::sync::atomic::{AtomicU32, Ordering};

use dynamodb::DynamoConfig;
use event::Clock;

/// Variable that holds its address.
const ADDRESS: &str = "ALMANAC_TEST_DYNAMODB";

/// Address of DynamoDB Local.
///
/// # Panics
/// If it was not started.
pub fn endpoint() -> String {
    std::env::var(ADDRESS).unwrap_or_else(|_| {
        panic!("run the tests with tests/run, which starts DynamoDB Local (or skip it: tests/run --quick)")
    })
}

/// Configuration of a table that no other test uses. It does not exist yet. Each has a region and so a database of its own:
/// DynamoDB Local looks through all streams of a database for each request, and has one queue for it.
pub fn fresh_table(clock: Clock) -> DynamoConfig {
    static TABLES: AtomicU32 = AtomicU32::new(0);
    let number = TABLES.fetch_add(1, Ordering::Relaxed);
    DynamoConfig {
        table: format!("test-{}-{number}", std::process::id()),
        region: Some(format!("test-{}-{number}", std::process::id())),
        endpoint: Some(endpoint()),
        clock,
    }
}
