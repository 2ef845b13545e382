//! `terraform/` against what it is for: the code whose rights it gives, the table that `almanac admin table create` makes, the
//! documents that describe it, and what Amazon's references say beyond any schema. No network is needed, and no
//! Terraform. What Terraform, checkov and parliament know is asked of them, by `tests/deploy/checks/run`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod alarms;
mod code;
mod documents;
mod faults;
mod pipeline;
mod policies;
mod roles;
mod rules;
mod table;
mod values;

use code::{Fault, Project};

/// Everything that is wrong, in order.
fn problems(project: &Project) -> Vec<Fault> {
    let checks = [rules::check, alarms::check];
    let mut faults: Vec<Fault> = checks.iter().flat_map(|check| check(project)).collect();
    faults.sort();
    faults
}

#[test]
fn terraform_refers_only_to_existing_names() {
    let faults: Vec<String> = problems(&Project::read()).iter().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
