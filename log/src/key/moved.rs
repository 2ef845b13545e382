//! The key of what a restore writes down, and which keys an export leaves behind.

use table::Key;

use super::{WORKERS, full_sweep, projector::lease_partition, write_probe};

/// What says that the table was restored from an export, or is being restored.
pub fn restored() -> Key {
    Key::new("sys/restore", "export")
}

/// Whether a key is of an item that speaks of the processes at work on one table, and not of what the table holds: leases
/// with the positions of their feeds, heartbeats, demands for sweeps, probes. An export leaves it behind.
pub fn stays_behind(key: &Key) -> bool {
    let is_of = |other: &Key| other.pk == key.pk;
    key.pk.starts_with(&lease_partition(""))
        || key.pk == WORKERS
        || [full_sweep(), write_probe(), restored()].iter().any(is_of)
}
