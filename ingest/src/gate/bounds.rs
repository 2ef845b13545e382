//! The bounds of the gate.

use std::time::Duration;

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many large requests are worked on at one time.
    pub slots: usize,
    /// How many of them may be of one workspace.
    pub slots_of_workspace: usize,
    /// How many large requests may be read, or wait, without a slot.
    pub reading: usize,
    /// How many of them may be of one workspace.
    pub reading_of_workspace: usize,
    /// How long one waits for a slot at most.
    pub wait: Duration,
    /// How many small requests may be under way.
    pub small: usize,
    /// How many of them may be of one workspace.
    pub small_of_workspace: usize,
    /// The most bytes of bodies, and of what they become, in memory, of all requests together.
    pub bytes: usize,
    /// The most bytes in all at which what bodies become is given memory; the rest is for bodies themselves, so that small ones still
    /// come in while large ones are decoded.
    pub claimed: usize,
    /// How many bytes a request may hold before it has had a slot.
    pub ahead: usize,
    /// How many bytes all that gave a slot back may hold; one that needs more asks for a slot again.
    pub slow_bytes: usize,
    /// How many of them may be of one workspace.
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
