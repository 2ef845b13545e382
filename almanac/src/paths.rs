//! Paths for monitoring.

/// Path of the liveness check.
pub(crate) const LIVE: &str = "/healthz";
/// Path of the readiness check.
pub(crate) const READY: &str = "/readyz";
/// Path of the metrics.
pub(crate) const METRICS: &str = "/metrics";
/// Paths that machines poll.
pub(crate) const PROBES: [&str; 3] = [LIVE, READY, METRICS];
