//! DynamoDB Local, which `tests/run` starts.

use std::sync::atomic::{AtomicU32, Ordering};

use event::Clock;
use table::dynamodb::DynamoConfig;

/// The variable that holds its address.
const ADDRESS: &str = "ALMANAC_TEST_DYNAMODB";

/// Any region will do.
pub const REGION: &str = "eu-west-1";

/// Where it listens.
///
/// # Panics
/// When it was not started.
pub fn endpoint() -> String {
    std::env::var(ADDRESS).unwrap_or_else(|_| {
        panic!("run the tests with tests/run, which starts DynamoDB Local (or skip it: tests/run --quick)")
    })
}

/// The configuration of a table that no other test uses. It does not exist yet.
pub fn fresh_table(clock: Clock) -> DynamoConfig {
    static TABLES: AtomicU32 = AtomicU32::new(0);
    let number = TABLES.fetch_add(1, Ordering::Relaxed);
    DynamoConfig {
        table: format!("test-{}-{number}", std::process::id()),
        region: Some(REGION.to_owned()),
        endpoint: Some(endpoint()),
        clock,
    }
}
