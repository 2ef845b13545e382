//! `almanac`: see `almanac help`.

use std::process::ExitCode;

/// Batches and frames are allocations of megabytes that come and go: the system's allocator would return their pages and fault
/// them in again each time.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    almanac::cli::main()
}
