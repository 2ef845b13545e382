//! Records of refused requests, and the tests of the audit log.

pub(crate) mod refusals;
#[cfg(test)]
mod tests;
