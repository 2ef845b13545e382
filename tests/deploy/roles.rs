//! The rights of each service against what it calls in a run of the whole pipeline.

use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

use catalog::{
    Alert, Catalog, New, NewEntity, NewRun, Patch, Pin, PrimaryMetric, ReleaseSpec, Role, RunChange,
    RunStatus, Workspace,
};
use event::{Clock, Definition, Id, Kind, Task, Timestamp};
use ingest::{Ingest, Remember, json::read_ndjson};
use log::{
    counted,
    cut::Cut,
    key::{self, EntityId, Followed, Scope},
    scan,
};
use projector::{Options, Projector, dlq, rebuild, status, verify};
use query::{Follow, FollowWords, Request, What, Words};
use table::{Condition, Item, Table, item::Value, sqlite::SqliteTable};
use tests::{
    recorded::{self, On, Recorded},
    register::release_of,
};
use tokio::sync::oneshot;

use crate::{
    code::{Project, root},
    policies::{Call, Statement, TABLE, policy},
};

/// How long the test waits for what must happen, before it fails, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// The run that metrics are of.
const RUN: &str = "2NBs0tD5Ihm2PVFzM3kZvMYdQX9";

/// What each service called.
struct Calls {
    ingest: BTreeSet<Call>,
    projector: BTreeSet<Call>,
    query: BTreeSet<Call>,
}

fn calls(recorded: &Recorded) -> BTreeSet<Call> {
    let call = |call: recorded::Call| Call {
        action: format!("dynamodb:{}", call.action),
        resource: match call.on {
            On::Table => TABLE.to_owned(),
            On::Index(name) => format!("{TABLE}/index/{name}"),
            On::Stream => format!("{TABLE}/stream/2026-01-01T00:00:00.000"),
        },
        leading_keys: call.partition.into_iter().collect(),
    };
    recorded.calls().into_iter().map(call).collect()
}

fn clock() -> Clock {
    let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
    Clock::from_fn(move || now)
}

/// What people do with the catalog besides registering: every kind of write that it knows.
async fn tend(catalog: &Catalog, workspace: &Workspace) {
    let (id, now) = (workspace.id(), clock().now());
    let create = async |name: &str, what| catalog.create(NewEntity::new(name, what), now).await.unwrap().at();
    let (user, group) = (create("ann", New::User).await, create("team", New::Group).await);
    create("nightly", New::System).await;
    let task = Task::Binary { positive_label: "1".into() };
    let spare = create("spare", New::Model { workspace: id.clone(), definition: Definition::of(task) }).await;
    catalog.change(&spare, &Patch::rename("unused"), None, now).await.unwrap();
    catalog.change(&spare, &Patch::archive(true), None, now).await.unwrap();
    catalog.delete(&spare, None, now).await.unwrap();
    let place = EntityId::Workspace(id.clone());
    catalog.add_member(&group, &user, now).await.unwrap();
    catalog.remove_member(&group, &user, now).await.unwrap();
    catalog.grant(&Scope::Workspace(id.clone()), &user, Role::Reader, now).await.unwrap();
    catalog.grant(&Scope::Server, &user, Role::Admin, now).await.unwrap();
    catalog.revoke(&Scope::Server, &user).await.unwrap();
    catalog.revoke(&Scope::Workspace(id.clone()), &user).await.unwrap();
    catalog.count(&place, "reviews", 1, Some("first")).await.unwrap();
    let followed = Followed::Workspace(id.clone());
    catalog.follow(user.id(), &followed, now).await.unwrap();
    let alert = Alert { at: now, name: "drift".into(), model: None, text: "Scores moved.".into() };
    catalog.raise(id, &alert).await.unwrap();
    let names: Vec<String> =
        catalog.feed(user.id(), 10).await.unwrap().into_iter().map(|entry| entry.happening.name).collect();
    catalog.mark_seen(user.id(), &names, now).await.unwrap();
    catalog.unfollow(user.id(), &followed).await.unwrap();
    let primary = PrimaryMetric::parse(Some("accuracy"), None).unwrap();
    catalog.change_settings(id, |settings| settings.primary_metric.clone_from(&primary)).await.unwrap();
    catalog.set_retention(id, Some(1_000), now).await.unwrap();
    let pin = Pin::Day("2026-06-02".parse().unwrap());
    catalog.pin(id, &pin, true, now).await.unwrap();
    let cut = Cut::begin(id, Kind::Outcomes, now.day());
    for name in ["billing", "forgotten"] {
        catalog.commit(id, name, &cut, now).await.unwrap();
    }
    catalog.delete_consumer(id, "forgotten").await.unwrap();
    let new = NewRun { id: Some(Id::parse(RUN).unwrap()), ..NewRun::default() };
    let run = catalog.create_run(id, new, now).await.unwrap();
    let ended = RunChange { status: Some(RunStatus::Finished), ..RunChange::default() };
    catalog.change_run(id, &run.id, &ended, now).await.unwrap();
}

/// Registers everything there is to register, and appends events of every kind.
async fn ingest(table: Arc<dyn Table>) -> Workspace {
    let ingest = Ingest::new(Arc::clone(&table), clock());
    let (catalog, now) = (ingest.catalog(), clock().now());
    let workspace = catalog.ensure_workspace("credit/prod", now).await.unwrap();
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(workspace.id(), "m", &task, now).await.unwrap();
    catalog.ensure_configuration(workspace.id(), "default", now).await.unwrap();
    let v1 = ReleaseSpec { configuration: Some("default".into()), ..release_of("m", "v1") };
    for spec in [v1, release_of("m", "v2")] {
        catalog.ensure_release(workspace.id(), &spec, now).await.unwrap();
    }
    catalog.set_lanes(workspace.id(), 2).await.unwrap();
    let workspace = ingest.workspace("credit/prod").await.unwrap();
    table::probe_write(&*table, key::write_probe(), now).await.unwrap();
    tend(catalog, &workspace).await;
    let events = [
        (
            Kind::Releases,
            r#"{"release":"v1","released_at":"2026-06-01T00:00:00Z","model":"m","action":"promote","environment":"production"}"#,
        ),
        (
            Kind::Predictions,
            r#"{"release":"v1","key":"a","predicted_at":"2026-06-01T04:30:00Z","score":0.9,"tags":{"region":"eu"},"features":{"age":30}}"#,
        ),
        (
            Kind::Outcomes,
            r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","observed_at":"2026-06-02T00:00:00Z","label":"1"}"#,
        ),
        (
            Kind::Metrics,
            r#"{"release":"v1","name":"latency","measured_at":"2026-06-01T04:30:00Z","value":1.5}"#,
        ),
        (
            Kind::Metrics,
            r#"{"run":"2NBs0tD5Ihm2PVFzM3kZvMYdQX9","name":"loss","measured_at":"2026-06-01T04:30:00Z","value":1.5}"#,
        ),
    ];
    for (at, (kind, row)) in events.iter().enumerate() {
        let nightly = format!("nightly-{at}");
        for key in [Some(nightly.as_str()), None] {
            let batch = read_ndjson(*kind, row.as_bytes(), now)
                .unwrap_or_else(|refused| panic!("{kind:?}: {refused}"));
            ingest.submit(&workspace, batch, key, Remember::Week).await.unwrap();
        }
    }
    workspace
}

/// Damages the last segment of a log of predictions; returns what it was.
async fn damage(table: &dyn Table, workspace: &Workspace) -> Item {
    let heads = scan::heads(table, workspace.id()).await.unwrap();
    let head = heads.iter().find(|head| head.log.kind == Kind::Predictions).unwrap();
    let item = table.get(&key::segment(&head.log, head.seq)).await.unwrap().unwrap();
    table.put(item.clone().with("data", Value::B(vec![1, 2, 3])), Condition::Exists).await.unwrap();
    item
}

/// Follows the feed until `is_done`, and stops as at SIGTERM.
async fn project<F: Future<Output = bool>>(table: Arc<dyn Table>, is_done: impl Fn() -> F) {
    let projector = Projector::new(table, Options::new(Clock::system()));
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn({
        let projector = projector.clone();
        async move { projector.run(async move { drop(stopped.await) }).await }
    });
    let waited = tokio::time::timeout(PATIENCE, async {
        while !(projector.health().shards > 0 && is_done().await) {
            tokio::time::sleep(LOOK).await;
        }
    });
    waited.await.expect("the projector does what it must");
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}

/// Everything that the projector does, and its operators do with its rights.
async fn projector(recorded: Arc<dyn Table>, plain: &Arc<dyn Table>, workspace: &Workspace) {
    let whole = damage(&**plain, workspace).await;
    let letters = || async { dlq::list(&**plain, workspace.id()).await.unwrap() };
    project(Arc::clone(&recorded), || async { !letters().await.is_empty() }).await;
    let catalog = Catalog::new(Arc::clone(&recorded));
    status::status(&*recorded, &catalog, Clock::system().now()).await.unwrap();
    let pace = rebuild::Pace { share: 1.0, clock: Clock::system() };
    let letter = letters().await.remove(0);
    dlq::skip(&*recorded, &letter).await.unwrap();
    plain.put(whole, Condition::Exists).await.unwrap();
    rebuild::rebuild(&*recorded, workspace.id(), &pace, |_| {}).await.unwrap();
    let whole = damage(&**plain, workspace).await;
    project(Arc::clone(&recorded), || async { true }).await;
    plain.put(whole, Condition::Exists).await.unwrap();
    for letter in letters().await {
        projector::retry::segment(&*recorded, &letter).await.unwrap();
    }
    let is_folded =
        || async { verify::verify(plain, workspace.id(), |_, _| {}).await.unwrap().faults.is_empty() };
    project(Arc::clone(&recorded), is_folded).await;
}

async fn query(table: Arc<dyn Table>) {
    let query = query::Query::new(Arc::clone(&table), Clock::system());
    assert_eq!(query.catalog().workspaces().await.unwrap().len(), 1);
    let workspace = query.catalog().workspace("credit/prod").await.unwrap();
    query.catalog().page(workspace.id()).await.unwrap();
    for what in What::all() {
        let request = Request::parse(what, &tests::scene::words_of(what, "2026-06-01")).unwrap();
        let frame = query.run(workspace.id(), &request).await.unwrap().frame;
        assert!(frame.width() > 0, "{what:?}");
    }
    let follow = Follow::parse(Kind::Outcomes, &FollowWords::default()).unwrap();
    let follow = query.of_consumer(workspace.id(), "billing", follow).await.unwrap();
    query.follow(workspace.id(), &follow).await.unwrap();
    for by in ["release", "metric", "tag.region"] {
        let words = Words { by: Some(by), ..tests::scene::words_of(What::Rollups, "2026-06-01") };
        query.run(workspace.id(), &Request::parse(What::Rollups, &words).unwrap()).await.unwrap();
    }
}

/// Deletes what has expired, as a sweep of the projector does, under a setting of long ago.
async fn expire(recorded: Arc<dyn Table>, plain: &Arc<dyn Table>, workspace: &Workspace) {
    let now = clock().now();
    Catalog::new(Arc::clone(plain)).set_retention(workspace.id(), Some(1), now).await.unwrap();
    let catalog = Catalog::new(Arc::clone(&recorded));
    let expire =
        async || projector::expire::expire(&*recorded, &catalog, workspace.id(), Clock::system().now()).await;
    // An hour after the setting was noticed.
    expire().await.unwrap();
    let time = counted::load(&**plain).await.unwrap().unwrap();
    time.after(60, time.at).write(&**plain).await.unwrap();
    let deleted = expire().await.unwrap();
    assert!(deleted.segments > 0, "{deleted:?}");
}

/// The whole pipeline, each service on its own way to one table.
async fn pipeline() -> Calls {
    let folder = tempfile::tempdir().unwrap();
    let plain: Arc<dyn Table> = Arc::new(SqliteTable::open(&folder.path().join("t.db"), clock()).unwrap());
    let ways = [(); 3].map(|()| Recorded::new(Arc::clone(&plain)));
    let [ingests, projects, queries] = &ways;
    let workspace = ingest(Arc::clone(ingests) as Arc<dyn Table>).await;
    projector(Arc::clone(projects) as Arc<dyn Table>, &plain, &workspace).await;
    query(Arc::clone(queries) as Arc<dyn Table>).await;
    expire(Arc::clone(projects) as Arc<dyn Table>, &plain, &workspace).await;
    Calls { ingest: calls(ingests), projector: calls(projects), query: calls(queries) }
}

/// What is called and not allowed, and what is allowed and never called.
fn differences(role: &str, policy: &[Statement], calls: &BTreeSet<Call>) -> Vec<String> {
    let refused = calls.iter().filter(|call| !policy.iter().any(|statement| statement.allows(call)));
    let mut differences: Vec<String> = refused
        .map(|call| {
            format!(
                "{role} calls {} on {} with {:?}, which its policy does not allow",
                call.action, call.resource, call.leading_keys
            )
        })
        .collect();
    for statement in policy {
        for action in &statement.actions {
            if !calls.iter().any(|call| call.action == *action && statement.allows(call)) {
                differences.push(format!("{role} may call {action}, which it never does"));
            }
        }
    }
    differences
}

#[tokio::test]
async fn each_role_may_do_what_its_service_does_and_nothing_else() {
    let project = Project::read();
    let calls = pipeline().await;
    let mut all = Vec::new();
    for (role, calls) in [("ingest", &calls.ingest), ("projector", &calls.projector), ("query", &calls.query)]
    {
        assert!(calls.len() > 5, "{role}: {calls:?}");
        all.extend(differences(role, &policy(project.almanac(), role), calls));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));

    // The comparison itself tells: each service with the rights of another.
    let with_rights_of = |role: &str, calls: &BTreeSet<Call>| {
        differences("x", &policy(project.almanac(), role), calls).join("\n")
    };
    assert!(with_rights_of("query", &calls.ingest).contains("x calls dynamodb:PutItem"));
    assert!(
        with_rights_of("ingest", &calls.projector).contains("/rollup/v1\"], which its policy does not allow")
    );
    assert!(with_rights_of("projector", &calls.ingest).contains("/day\"], which its policy does not allow"));
    assert!(
        with_rights_of("ingest", &calls.query)
            .contains("x may call dynamodb:UpdateItem, which it never does")
    );
}

fn may(role: &str, action: &str, partition: &str) -> bool {
    let call = Call {
        action: format!("dynamodb:{action}"),
        resource: TABLE.to_owned(),
        leading_keys: vec![partition.to_owned()],
    };
    policy(Project::read().almanac(), role).iter().any(|statement| statement.allows(&call))
}

#[test]
fn no_role_writes_what_is_anothers() {
    let id = "2NBs0sLBnJxEcoDLgVnQdJkhEgV";
    let w = format!("w#{id}");
    for partition in [
        format!("{w}/rollup/v1"),
        format!("{w}/feature/v1"),
        format!("{w}/proj"),
        format!("{w}/dlq/v1"),
        "sys/worker".into(),
        "sys/lease#x".into(),
    ] {
        assert!(!may("ingest", "PutItem", &partition), "ingest may write {partition}");
        assert!(may("projector", "PutItem", &partition), "projector may not write {partition}");
    }
    assert!(may("projector", "DeleteItem", &format!("{w}/day")), "what has expired is deleted");
    for partition in [
        format!("{w}/day"),
        format!("{w}/batch"),
        format!("{w}/batch/0f"),
        format!("wc#{id}"),
        "@name#/wc".into(),
        "token#x".into(),
    ] {
        assert!(may("ingest", "PutItem", &partition), "ingest may not write {partition}");
        assert!(!may("projector", "PutItem", &partition), "projector may write {partition}");
    }
    for action in ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLInsert"] {
        assert!(!may("query", action, &w), "query may call {action}");
    }
    for role in ["ingest", "projector", "query"] {
        assert!(!may(role, "DeleteTable", &w) && !may(role, "Scan", &w), "{role}");
    }
}

/// Each key family has a role that may write it: the golden strings of all keys are at hand.
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
        // Partitions of indexes are written with their items.
        let is_index =
            partition == "follow" || ["/r", "/w", "/g"].iter().any(|ending| partition.ends_with(ending));
        let writers: Vec<&str> =
            ["ingest", "projector"].into_iter().filter(|role| may(role, "PutItem", partition)).collect();
        assert!(
            is_index || !writers.is_empty(),
            "nobody may write {partition}; see terraform/modules/almanac/iam.tf"
        );
    }
}

/// What the engine asks of the SDK is what `Recorded` knows of: another call would go unnoticed.
#[test]
fn the_engine_calls_nothing_that_is_not_recorded() {
    let folder = root().join("table/src/dynamodb");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        // Making and removing the table is not a service's.
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
