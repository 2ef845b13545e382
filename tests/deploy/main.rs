//! `terraform/` against what it is for: the AWS provider's schema, the code whose rights it gives, the
//! table that `almanac table create` makes, and the documents that describe it. No network is needed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod alarms;
mod arguments;
mod code;
mod documents;
mod evaluated;
mod faults;
mod pipeline;
mod policies;
mod references;
mod roles;
mod rules;
mod schema;
mod table;
mod tool;
mod values;

use code::{Fault, Project};

/// Everything that is wrong, in order.
fn problems(project: &Project) -> Vec<Fault> {
    let checks = [arguments::check, references::check, rules::check, alarms::check, policies::check];
    let mut faults: Vec<Fault> = checks.iter().flat_map(|check| check(project)).collect();
    faults.sort();
    faults
}

#[test]
fn terraform_fits_the_schema_of_the_provider() {
    let faults: Vec<String> = problems(&Project::read()).iter().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
