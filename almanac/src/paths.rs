//! Where a process answers machines that watch it.

/// Where a process tells that it is alive.
pub(crate) const LIVE: &str = "/healthz";
/// Where it tells whether it is ready.
pub(crate) const READY: &str = "/readyz";
/// Where it tells its figures.
pub(crate) const METRICS: &str = "/metrics";
/// What is asked again and again by machines.
pub(crate) const PROBES: [&str; 3] = [LIVE, READY, METRICS];
