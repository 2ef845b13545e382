//! Rights of each service, compared with its calls in a run of the whole pipeline.

use std::{collections::BTreeSet, fs};

use crate::{
    code::{Project, label, root},
    pipeline::pipeline,
    policies::{Call, Statement, TABLE, allowed, allowed_whole, policy},
};

/// Lists the calls that are not allowed, and the allowed ones that are never made.
fn differences(role: &str, policy: &[Statement], calls: &BTreeSet<Call>) -> Vec<String> {
    let refused = calls.iter().filter(|call| !allowed(policy, call));
    let mut differences: Vec<String> = refused
        .map(|call| {
            format!(
                "{role} calls {} on {} with {:?}, which its policy does not allow",
                call.action, call.resource, call.leading_keys
            )
        })
        .collect();
    for statement in policy.iter().filter(|statement| !statement.denies) {
        for action in &statement.actions {
            if !calls.iter().any(|call| call.action == *action && statement.is_of(call)) {
                differences.push(format!("{role} may call {action}, which it never does"));
            }
        }
    }
    differences
}

#[tokio::test]
async fn each_role_policy_matches_its_services_calls() {
    let project = Project::read();
    let calls = pipeline().await;
    let mut all = Vec::new();
    for (role, calls) in [("ingest", &calls.ingest), ("projector", &calls.projector), ("query", &calls.query)]
    {
        assert!(calls.len() > 5, "{role}: {calls:?}");
        all.extend(differences(role, &policy(project.almanac(), role), calls));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));

    // The comparison itself is tested: each service with the rights of another.
    let with_rights_of = |role: &str, calls: &BTreeSet<Call>| {
        differences("x", &policy(project.almanac(), role), calls).join("\n")
    };
    assert!(with_rights_of("query", &calls.ingest).contains("x calls dynamodb:PutItem"));
    assert!(
        with_rights_of("ingest", &calls.projector).contains("/rollup/v1\"], which its policy does not allow")
    );
    assert!(with_rights_of("projector", &calls.ingest).contains("/batch"));
    assert!(
        with_rights_of("ingest", &calls.query)
            .contains("x may call dynamodb:UpdateItem, which it never does")
    );
}

/// Replaces ids by `<id>`, so that similar keys look alike.
fn family(key: &str) -> String {
    let parts = key.split(['#', '/']).map(|part| (part, part.len() == 27)).filter(|(_, is_id)| *is_id);
    parts.fold(key.to_owned(), |key, (id, _)| key.replace(id, "<id>"))
}

#[tokio::test]
async fn one_statement_allows_each_transaction_whole() {
    let project = Project::read();
    let mut refused = BTreeSet::new();
    for (role, transactions) in pipeline().await.transactions {
        let statements = policy(project.almanac(), role);
        assert_eq!(transactions.is_empty(), role == "query", "{role}: {}", transactions.len());
        for whole in transactions.iter().filter(|whole| !allowed_whole(&statements, whole)) {
            let keys: BTreeSet<String> = whole.leading_keys.iter().map(|key| family(key)).collect();
            refused.insert(format!("{role}: {} on {keys:?}", whole.actions.join(" ")));
        }
    }
    assert!(refused.is_empty(), "{}", refused.into_iter().collect::<Vec<_>>().join("\n"));
}

fn may(role: &str, action: &str, partition: &str) -> bool {
    let call = Call {
        action: format!("dynamodb:{action}"),
        resource: TABLE.to_owned(),
        leading_keys: vec![partition.to_owned()],
    };
    allowed(&policy(Project::read().almanac(), role), &call)
}

#[test]
fn no_role_writes_what_is_anothers() {
    let id = "2NBs0sLBnJxEcoDLgVnQdJkhEgV";
    let w = format!("w#{id}");
    for partition in [
        format!("{w}/rollup/v1"),
        format!("{w}/feature/v1"),
        format!("{w}/unmatched"),
        format!("{w}/proj"),
        format!("{w}/dlq/v1"),
        "sys/worker".into(),
        "sys/lease#x".into(),
    ] {
        assert!(!may("ingest", "PutItem", &partition), "ingest may write {partition}");
        assert!(may("projector", "PutItem", &partition), "projector may not write {partition}");
    }
    assert!(may("projector", "DeleteItem", &format!("{w}/day")), "what has expired is deleted");
    assert!(may("projector", "PutItem", &format!("{w}/day")), "what unmatched outcomes judge is appended");
    assert!(may("ingest", "PutItem", &format!("{w}/day")), "events are appended");
    assert!(may("ingest", "DeleteItem", &format!("{w}/latest")), "metrics of runs go with their workspace");
    assert!(!may("ingest", "DeleteItem", &format!("{w}/feed")), "what happened stays");
    for partition in [
        format!("{w}/batch"),
        format!("{w}/batch/0f"),
        format!("wc#{id}"),
        "@name#/wc".into(),
        "token#x".into(),
    ] {
        assert!(may("ingest", "PutItem", &partition), "ingest may not write {partition}");
        assert!(!may("projector", "PutItem", &partition), "projector may write {partition}");
    }
    // Rights that a statement gives for transactions alone are otherwise denied.
    for audit_log in [format!("{w}/audit"), "sys/audit".into()] {
        assert!(may("ingest", "PutItem", &audit_log), "a change is recorded in {audit_log}");
        for (role, action) in
            ["ingest", "projector"].into_iter().flat_map(|role| [(role, "UpdateItem"), (role, "DeleteItem")])
        {
            assert!(!may(role, action, &audit_log), "{role} may {action} in {audit_log}");
        }
    }
    let expired = format!("{w}/expired");
    assert!(may("ingest", "ConditionCheckItem", &expired) && may("projector", "PutItem", &expired));
    for action in ["PutItem", "UpdateItem", "DeleteItem"] {
        assert!(!may("ingest", action, &expired), "ingest may {action} in {expired}");
    }
    for action in ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLInsert"] {
        assert!(!may("query", action, &w), "query may call {action}");
    }
    for role in ["ingest", "projector", "query"] {
        assert!(!may(role, "DeleteTable", &w) && !may(role, "Scan", &w), "{role}");
    }
}

/// A task that starts before it has its rights fails, and so does its deployment.
#[test]
fn services_wait_for_all_rights_of_their_tasks() {
    let project = Project::read();
    let module = project.almanac();
    let (_, service) = module.block("resource", &["aws_ecs_service", "service"]).unwrap();
    let waits_for = service.body.get_attribute("depends_on").unwrap().value.to_string();
    let rights = module.blocks("resource").filter(|(_, block)| label(block, 0) == "aws_iam_role_policy");
    let names: Vec<String> =
        rights.map(|(_, block)| format!("aws_iam_role_policy.{}", label(block, 1))).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        assert!(waits_for.contains(&name), "services do not wait for {name}");
    }
}

/// Each key family has a role that may write it: the golden strings contain all keys.
#[test]
fn every_key_is_somebodys_to_write() {
    let golden = [
        "snapshots/almanac_log__key__tests__golden_strings.snap",
        "key/snapshots/almanac_log__key__live__tests__golden_strings.snap",
        "key/snapshots/almanac_log__key__run__tests__golden_strings.snap",
    ];
    let golden = golden.map(|path| fs::read_to_string(root().join("log/src").join(path)).unwrap()).join("\n");
    let keys: Vec<&str> = golden.lines().filter_map(|line| Some(line.split_once(" / ")?.0)).collect();
    assert!(keys.len() > 20, "only {} keys were found", keys.len());
    for partition in keys {
        // No service restores a table: its operator does, with rights of its own.
        let is_operators = partition == "sys/restore";
        // Partitions of indexes are written with their items.
        let is_index =
            partition == "follow" || ["/r", "/w", "/g"].iter().any(|ending| partition.ends_with(ending));
        let writers: Vec<&str> =
            ["ingest", "projector"].into_iter().filter(|role| may(role, "PutItem", partition)).collect();
        assert!(!is_operators || writers.is_empty(), "{writers:?} may write {partition}");
        assert!(
            is_index || is_operators || !writers.is_empty(),
            "nobody may write {partition}; see terraform/modules/almanac/iam.tf"
        );
    }
}

/// The engine makes only SDK calls that `Recorded` covers: another call would go unnoticed.
#[test]
fn the_engine_calls_nothing_that_is_not_recorded() {
    let folder = root().join("dynamodb/src");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        // Services do not make or delete the table.
        if path.ends_with("manage.rs") || path.ends_with("tests.rs") {
            continue;
        }
        let text: String = fs::read_to_string(&path).unwrap().split_whitespace().collect();
        for client in [".db.", ".streams."] {
            for (at, _) in text.match_indices(client) {
                let rest = &text[at + client.len()..];
                found.extend(rest.split_once("()").map(|(name, _)| name.to_owned()));
            }
        }
    }
    let known = [
        "delete_item",
        "describe_stream",
        "describe_table",
        "describe_time_to_live",
        "get_item",
        "get_records",
        "get_shard_iterator",
        "put_item",
        "query",
        "transact_write_items",
    ];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), known);
}
