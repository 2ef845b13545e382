//! The versions of stored rollups and of the parts of breakdowns. The current one is 5; each older one has a module with
//! what it stored and how that becomes the next, unless it is read as it is: version 4 did not count events whose keys were erased.
//!
//! What decides which names a part keeps belongs to the version: the hash of names ([`crate::hash`]), the budgets, and
//! what a value is taken to weigh. When one of them changes, folding the same events keeps other names, so the
//! version must change as well. A part of an older version is not refused for that: names that it would not hold
//! by the rules of today are added up as the rest when it is read.

mod v1;
mod v2;
mod v3;

use crate::state::{Versions, as_it_is};

/// Of [`super::Rollup`].
pub(super) static ROLLUP: Versions =
    Versions { what: "a rollup", oldest: 1, upgrades: &[v1::rollup, as_it_is, as_it_is, as_it_is] };

/// Of [`super::ReleasePart`].
pub(super) static RELEASE: Versions =
    Versions { what: "a breakdown by release", oldest: 2, upgrades: &[as_it_is, as_it_is, as_it_is] };

/// Of [`super::MetricPart`].
pub(super) static METRIC: Versions =
    Versions { what: "a breakdown by metric", oldest: 2, upgrades: &[as_it_is, v3::metric, as_it_is] };

/// Of [`super::TagPart`].
pub(super) static TAG: Versions =
    Versions { what: "a breakdown by tag", oldest: 2, upgrades: &[v2::tag, as_it_is, as_it_is] };

/// Of [`super::FeaturePart`].
pub(super) static FEATURE: Versions =
    Versions { what: "a breakdown by feature", oldest: 4, upgrades: &[as_it_is] };

#[cfg(test)]
mod tests;
