//! The bounds of the admission.

use std::time::Duration;

/// Bounds of the requests under way.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum large requests worked on at one time.
    pub slots: usize,
    /// Maximum of these from one workspace.
    pub slots_of_workspace: usize,
    /// Maximum large requests that are read, or wait, without a slot.
    pub reading: usize,
    /// Maximum of these from one workspace.
    pub reading_of_workspace: usize,
    /// Maximum wait for a slot.
    pub wait: Duration,
    /// Maximum small requests under way.
    pub small: usize,
    /// Maximum of these from one workspace.
    pub small_of_workspace: usize,
    /// Maximum bytes of bodies, and of their decoded forms, in memory, of all requests together.
    pub bytes: usize,
    /// Maximum bytes in all at which decoded bodies are given memory; the rest is for bodies themselves, so that small ones still
    /// come in while large ones are decoded.
    pub claimed: usize,
    /// Maximum bytes that a request holds before it has had a slot.
    pub ahead: usize,
    /// Maximum bytes of all requests that gave a slot back; one that needs more asks for a slot again.
    pub slow_bytes: usize,
    /// Maximum of these from one workspace.
    pub slow_bytes_of_workspace: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            slots: 8,
            slots_of_workspace: 6,
            reading: 1024,
            reading_of_workspace: 256,
            wait: Duration::from_secs(10),
            small: 4096,
            small_of_workspace: 3072,
            bytes: 192 * 1024 * 1024,
            claimed: 160 * 1024 * 1024,
            ahead: 64 * 1024,
            slow_bytes: 96 * 1024 * 1024,
            slow_bytes_of_workspace: 64 * 1024 * 1024,
        }
    }
}
