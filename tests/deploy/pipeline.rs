//! A run of the whole pipeline: the calls of each service to the table.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use catalog::{
    Alert, AlertRuleBody, Catalog, New, NewEntity, NewRun, Patch, Pin, PrimaryMetric, ReleaseSpec, Role,
    RunChange, RunStatus, Webhook, Workspace,
};
use event::{Clock, Definition, Id, Kind, Task, Timestamp};
use ingest::{Ingest, Remember, json::read_ndjson};
use log::{
    counted,
    key::{self, EntityId, Followed, Scope},
    layout,
    read_version::ReadVersion,
    scan,
    store::Store,
};
use projector::{
    Options, Projector, compact::Compactor, dead_letters, deliver::deliver, erase, rebuild, status,
    unmatched, verify,
};
use query::{Dataset, Follow, FollowParams, Params, Request, UnmatchedParams, UnmatchedRequest};
use table::{Condition, Item, Table, item::Value, sqlite::SqliteTable};
use tests::{
    decided::ByIngest,
    recorded::{self, On, Recorded},
    register::release_of,
    webhook_sender::{Does, Receiver},
};
use tokio::sync::oneshot;

use crate::policies::{Call, TABLE, Whole};

mod deleted;
mod judged;

use deleted::delete_workspace;
use judged::review;

/// Maximum time that the test waits for an event that must come, and the interval between looks.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Run of the metrics.
const RUN: &str = "2NBs0tD5Ihm2PVFzM3kZvMYdQX9";

/// Calls of each service.
pub(crate) struct Calls {
    pub(crate) ingest: BTreeSet<Call>,
    pub(crate) projector: BTreeSet<Call>,
    pub(crate) query: BTreeSet<Call>,
    /// Transactions of ingest and of the projector, as wholes; query has none.
    pub(crate) transactions: [(&'static str, Vec<Whole>); 3],
}

fn wholes(recorded: &Recorded) -> Vec<Whole> {
    let whole = |transaction: recorded::Transaction| Whole {
        actions: transaction.actions.into_iter().map(|action| format!("dynamodb:{action}")).collect(),
        leading_keys: transaction.partitions.into_iter().collect(),
    };
    recorded.transactions().into_iter().map(whole).collect()
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

fn now() -> Timestamp {
    Timestamp::parse("2026-06-10T00:00:00Z").unwrap()
}

/// Clock that stands until it is set forward, in seconds.
fn clock() -> (Clock, Arc<AtomicI64>) {
    let later = Arc::new(AtomicI64::new(0));
    let seconds = Arc::clone(&later);
    (Clock::from_fn(move || now().plus_seconds(seconds.load(Ordering::Relaxed))), later)
}

/// Rule that fires on each day without predictions.
fn rule(name: &str) -> AlertRuleBody {
    AlertRuleBody {
        name: name.into(),
        count: Some("predictions".into()),
        below: Some(1.0),
        ..AlertRuleBody::default()
    }
}

/// Changes of the catalog besides registrations: every kind of write.
async fn tend(catalog: &Catalog, workspace: &Workspace) {
    let (id, now) = (workspace.id(), now());
    let create = async |name: &str, what| catalog.create(NewEntity::new(name, what), now).await.unwrap().at();
    let (user, group) = (create("ann", New::User).await, create("team", New::Group).await);
    create("nightly", New::System).await;
    let task = Task::Binary { positive_label: "1".into() };
    let spare = create("spare", New::Model { workspace: id.clone(), definition: Definition::of(task) }).await;
    catalog.change(&spare, &Patch::rename("unused"), None, now).await.unwrap();
    catalog.change(&spare, &Patch::archive(true), None, now).await.unwrap();
    catalog.delete(&spare, None, now).await.unwrap();
    let place = EntityId::Workspace(id.clone());
    let snapshot = create("june", tests::world::snapshot(&place)).await;
    catalog.delete(&snapshot, None, now).await.unwrap();
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
    let names: Vec<String> = catalog
        .feed(user.id(), 10, None, &catalog::Sight::Everything)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.happening.name)
        .collect();
    catalog.mark_seen(user.id(), &names, now).await.unwrap();
    catalog.unfollow(user.id(), &followed).await.unwrap();
    let url = Some("https://alerts.example.com/".to_owned());
    let digest = Some("00:00".to_owned());
    let webhook = Webhook { name: "oncall".into(), url, digest, ..Webhook::default() };
    catalog.apply_alerts(id, vec![rule("few"), rule("none")], vec![webhook], now).await.unwrap();
    let primary = PrimaryMetric::parse(Some("accuracy"), None).unwrap();
    let ranking = |settings: &mut catalog::Settings| {
        settings.primary_metric.clone_from(&primary);
        settings.leaderboard_delay = Some(0);
    };
    catalog.change_settings(id, ranking).await.unwrap();
    catalog.set_retention(id, Some(1_000), now).await.unwrap();
    let pin = Pin::Day("2026-06-02".parse().unwrap());
    catalog.pin(id, &pin, true, now).await.unwrap();
    let read_version = ReadVersion::begin(id, Kind::Outcomes, now.day());
    for name in ["billing", "forgotten"] {
        catalog.commit(id, name, &read_version, now).await.unwrap();
    }
    catalog.delete_consumer(id, "forgotten").await.unwrap();
    let new = NewRun { id: Some(Id::parse(RUN).unwrap()), ..NewRun::default() };
    let run = catalog.create_run(id, new, now).await.unwrap();
    let ended = RunChange { status: Some(RunStatus::Finished), ..RunChange::default() };
    catalog.change_run(id, &run.id, &ended, now).await.unwrap();
}

/// Registers one entity of each type, and appends events of every kind.
async fn ingest(table: Arc<dyn Table>, clock: &Clock) -> Workspace {
    let ingest = Ingest::new(Arc::clone(&table), clock.clone());
    let (catalog, now) = (ingest.catalog(), now());
    let workspace = catalog.ensure_workspace("credit/prod", now).await.unwrap();
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(workspace.id(), "m", &task, now).await.unwrap();
    catalog.ensure_configuration(workspace.id(), "default", now).await.unwrap();
    let v1 = ReleaseSpec { configuration: Some("default".into()), ..release_of("m", "v1") };
    for spec in [v1, release_of("m", "v2")] {
        catalog.ensure_release(workspace.id(), &spec, now).await.unwrap();
    }
    catalog.change_settings(workspace.id(), |settings| settings.lanes = Some(2)).await.unwrap();
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
        (Kind::Outcomes, r#"{"key":"a","observed_at":"2026-06-03T00:00:00Z","label":"0"}"#),
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
    for (release, key) in [("v1", "b"), ("v1", "c"), ("v2", "b"), ("v2", "c")] {
        let row = format!(
            r#"{{"release":"{release}","key":"{key}","predicted_at":"2026-06-01T04:30:00Z","score":0.9}}"#
        );
        let batch = read_ndjson(Kind::Predictions, row.as_bytes(), now).unwrap();
        ingest.submit(&workspace, batch, None, Remember::Week).await.unwrap();
    }
    review(&ingest, &table, &workspace, clock).await;
    workspace
}

/// Damages the last segment of a log of predictions; returns it undamaged.
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

/// All work of the projector, and of its operators with its rights.
async fn projector(
    recorded: Arc<dyn Table>,
    plain: &Arc<dyn Table>,
    workspace: &Workspace,
    (clock, later): (&Clock, &AtomicI64),
) {
    let whole = damage(&**plain, workspace).await;
    let letters = || async { dead_letters::list(&**plain, workspace.id()).await.unwrap() };
    project(Arc::clone(&recorded), || async { !letters().await.is_empty() }).await;
    let catalog = Catalog::new(Arc::clone(&recorded));
    status::status(&*recorded, &catalog, Clock::system().now()).await.unwrap();
    let judge =
        async || projector::alert::judge(&*recorded, &catalog, workspace.id(), Clock::system().now()).await;
    assert!(judge().await.unwrap().transitions > 0);
    // The first round only notes the pair for later comparisons.
    for _ in 0..2 {
        projector::challenges::judge(&*recorded, &catalog, workspace.id(), Clock::system().now())
            .await
            .unwrap();
    }
    // Just after midnight the digest of yesterday is due.
    let midnight = Clock::system().now().day().start();
    assert_eq!(projector::digest::tell(&*recorded, &catalog, midnight).await.unwrap(), 1);
    let receiver = Receiver::that(|_| Does::Takes);
    let posted = deliver(&*recorded, &catalog, &receiver, &Clock::system()).await.unwrap();
    assert!(posted.delivered > 0);
    Catalog::new(Arc::clone(plain)).delete_alert_rule(workspace.id(), "none").await.unwrap();
    judge().await.unwrap();
    let pace = rebuild::Pace { share: 1.0, clock: Clock::system() };
    let letter = letters().await.remove(0);
    dead_letters::skip(&*recorded, &letter).await.unwrap();
    plain.put(whole, Condition::Exists).await.unwrap();
    rebuild::rebuild(&*recorded, workspace.id(), &pace, |_| {}).await.unwrap();
    // By then the appended events are closed. Decided outcomes are appended, folded and evaluated.
    later.store(60, Ordering::Relaxed);
    resolve(Arc::clone(&recorded), clock, workspace).await;
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
    // The days with evaluations are long over, so a worker of today ranks nothing.
    let then = Timestamp::parse("2026-06-03T00:00:00Z").unwrap();
    catalog.refresh_leaderboard(workspace.id(), then).await.unwrap();
}

/// Resolves unmatched outcomes, and appends them as the process of the projector does.
async fn resolve(recorded: Arc<dyn Table>, clock: &Clock, workspace: &Workspace) {
    let append = ByIngest::new(Ingest::new(Arc::clone(&recorded), clock.clone()));
    let (catalog, days) = (Catalog::new(Arc::clone(&recorded)), (None, &BTreeSet::new()));
    assert_eq!(unmatched::Append::finish_answers(&append, workspace.id()).await.unwrap(), 2);
    let resolving = unmatched::resolve(&*recorded, &catalog, &append, workspace.id(), days, clock.now());
    let resolved = resolving.await.unwrap();
    assert_eq!((resolved.found, resolved.waiting), (2, 0));
}

/// Erases keys: a service of ingest begins, and a projector carries it out.
async fn erase(ingests: Arc<dyn Table>, projects: Arc<dyn Table>, workspace: &Workspace) {
    let catalog = Catalog::new(ingests);
    let keys = ["a", "b", "c"].map(str::to_owned);
    catalog.begin_erasure(workspace.id(), (&keys, false), "a letter", now()).await.unwrap();
    assert_eq!(catalog.erasures(workspace.id()).await.unwrap().len(), 1);
    let open = Catalog::new(Arc::clone(&projects)).open_erasures().await.unwrap();
    let pace = erase::Pace { wait: Duration::ZERO, ..erase::Pace::new(Clock::system()) };
    let (id, erasure) = &open[0];
    let erased = erase::carry_out(&projects, (id, erasure), &pace, &|_| ()).await.unwrap();
    assert!(erased.rows > 0 && erased.items > 1, "{erased:?}");
}

async fn query(table: Arc<dyn Table>) {
    let query = query::Query::new(Arc::clone(&table), Clock::system());
    assert_eq!(query.catalog().workspaces().await.unwrap().len(), 1);
    let workspace = query.catalog().workspace("credit/prod").await.unwrap();
    query.catalog().page(workspace.id()).await.unwrap();
    for what in Dataset::all() {
        let request = Request::parse(what, &tests::scene::words_of(what, "2026-06-01")).unwrap();
        let frame = query.run(workspace.id(), &request).await.unwrap().frame;
        assert!(frame.width() > 0, "{what:?}");
    }
    let follow = Follow::parse(Kind::Outcomes, &FollowParams::default()).unwrap();
    let follow = query.of_consumer(workspace.id(), "billing", follow).await.unwrap();
    query.follow(workspace.id(), &follow).await.unwrap();
    let unmatched = UnmatchedRequest::parse(&UnmatchedParams::default(), query.now()).unwrap();
    query.unmatched(workspace.id(), &unmatched).await.unwrap();
    for by in ["release", "metric", "tag.region"] {
        let words = Params { by: Some(by), ..tests::scene::words_of(Dataset::Rollups, "2026-06-01") };
        query.run(workspace.id(), &Request::parse(Dataset::Rollups, &words).unwrap()).await.unwrap();
    }
}

/// Deletes expired events, as a sweep of the projector does, under an old setting.
async fn expire(recorded: Arc<dyn Table>, plain: &Arc<dyn Table>, workspace: &Workspace) {
    Catalog::new(Arc::clone(plain)).set_retention(workspace.id(), Some(1), now()).await.unwrap();
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

/// Merges the small segments of a trickle, as a sweep of the projector does.
async fn compact(recorded: Arc<dyn Table>, plain: &Arc<dyn Table>, workspace: &Workspace, clock: &Clock) {
    let ingest = Ingest::new(Arc::clone(plain), clock.clone());
    for number in 0..40 {
        let row = format!(
            r#"{{"release":"v1","key":"trickle-{number}","predicted_at":"2026-06-02T04:30:00Z","score":0.9}}"#
        );
        let batch = read_ndjson(Kind::Predictions, row.as_bytes(), now()).unwrap();
        ingest.submit(workspace, batch, None, Remember::Week).await.unwrap();
    }
    // As if no sweep had visited that day before.
    plain.delete(&key::compacted(workspace.id()), Condition::None).await.unwrap();
    let compacting = Compactor::default();
    let done = compacting.compact(&*recorded, workspace.id(), Clock::system().now()).await.unwrap();
    assert!(done.merged > 0, "{done:?}");
}

/// Runs the whole pipeline, with each service on its own recorder over one table.
pub(crate) async fn pipeline() -> Calls {
    let folder = tempfile::tempdir().unwrap();
    let (clock, later) = clock();
    let stored: Arc<dyn Table> =
        Arc::new(SqliteTable::open(&folder.path().join("t.db"), clock.clone()).unwrap());
    let ways = [(); 3].map(|()| Recorded::new(Arc::clone(&stored)));
    let [ingests, projects, queries] = &ways;
    let seen = |table: &Arc<Recorded>| -> Arc<dyn Table> { Store::over(Arc::clone(table) as _) };
    let [ingesting, projecting, querying] = [ingests, projects, queries].map(seen);
    let plain: Arc<dyn Table> = Store::over(stored);
    for writer in [ingests, projects] {
        layout::begin(&**writer, clock.now()).await.unwrap();
    }
    let workspace = ingest(Arc::clone(&ingesting), &clock).await;
    projector(Arc::clone(&projecting), &plain, &workspace, (&clock, &later)).await;
    erase(Arc::clone(&ingesting), Arc::clone(&projecting), &workspace).await;
    query(querying).await;
    compact(Arc::clone(&projecting), &plain, &workspace, &clock).await;
    expire(projecting, &plain, &workspace).await;
    delete_workspace(ingesting, &clock).await;
    let transactions =
        [("ingest", wholes(ingests)), ("projector", wholes(projects)), ("query", wholes(queries))];
    Calls { ingest: calls(ingests), projector: calls(projects), query: calls(queries), transactions }
}
