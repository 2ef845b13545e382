//! Records of refused requests, and the tests of the audit trail.

pub(crate) mod refusals;
#[cfg(test)]
mod tests;
