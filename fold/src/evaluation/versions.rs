//! The versions of stored evaluations. The current one is 2; each older one has a module with what it stored and
//! how that becomes the next.

mod v1;

use crate::state::Versions;

/// Of [`super::Evaluation`].
pub(super) static EVALUATION: Versions =
    Versions { what: "an evaluation", oldest: 1, upgrades: &[v1::evaluation] };

#[cfg(test)]
mod tests;
