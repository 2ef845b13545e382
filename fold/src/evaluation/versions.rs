//! The versions of stored evaluations. The current one is 6; each older one has a module with what it stored and
//! how that becomes the next.

mod v1;
mod v3;
mod v4;
mod v5;

use crate::state::{self, Versions};

/// Of [`super::Evaluation`]. What version 3 has more, version 2 does not say.
pub(super) static EVALUATION: Versions = Versions {
    what: "an evaluation",
    oldest: 1,
    upgrades: &[v1::evaluation, state::as_it_is, v3::evaluation, v4::evaluation, v5::evaluation],
};

#[cfg(test)]
mod tests;
