//! docs/table.md shows each entity in its stored form, with a real item. This test makes the items and compares; with
//! `INSTA_UPDATE=always` it writes the page.

mod erasure;
mod review;
mod vintage;

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use catalog::{
    AlertRuleBody, Catalog, Challenge, Challenges, Delivery, FiredBy, Judged, Lags, New, NewEntity, NewRun,
    Noted, PromotionGates, PromotionGatesBody, ReleaseDetails, Role, RuleTransition, Run, Webhook,
};
use event::{Clock, Column, Columns, Day, Definition, Kind, Task, Timestamp, Values, Window};
use fold::{
    alert::{Reading, Standing, replay},
    key_filter::KeyFilterBuilder,
    paired::{Meeting, Side},
};
use ingest::json::read_ndjson;
use log::{
    audit::{Author, Record},
    erased::ErasureEpoch,
    key::{self, AuditLog, DecisionId, EntityId, LogId, Scope, UnmatchedSegment},
    key_filter::{self, At, Head},
    unmatched::{self, Decision, Looked},
};
use serde_json::{Value as Json, json};
use table::{
    Condition, Item, Key, Table,
    item::{Number, Value},
    sqlite::SqliteTable,
};
use tests::world::snapshot;

const INTRODUCTION: &str = "# What is in the table

One stored item of each type of the catalog, printed by `tests/api/table_doc.rs` (`INSTA_UPDATE=always` writes this page
again). Ids are replaced by others of the same length. Values stand as in DynamoDB; SQLite keeps the same text.

`ver` counts changes by people; `v`, the version of the form, is 1 where it is not shown. `GSI1PK` and `GSI1SK` place an item in the index `GSI1`.
`log/src/key.rs` lists other items, of logs and projections.
";

fn now() -> Timestamp {
    Timestamp::parse("2026-06-10T00:00:00Z").unwrap()
}

/// Record of the audit log of some workspace.
fn record() -> Record {
    let author = Author {
        principal: "user:ann".into(),
        request: Some("K3bXo1p9Zq-17".into()),
        address: Some("192.0.2.7".parse().unwrap()),
        source: None,
    };
    Record {
        audit_log: AuditLog::Workspace(event::Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap()),
        seq: 42,
        at: now(),
        author,
        action: "model.change".into(),
        object: "m_2NBs0tD5Ihm2PVFzM3kZvMYdQX9".into(),
        name: Some("churn".into()),
        before: Some(r#"{"threshold":0.5}"#.into()),
        after: Some(r#"{"threshold":0.4}"#.into()),
        previous: [0; 32],
    }
}

/// A value in the notation of DynamoDB.
fn wire(value: &Value) -> Json {
    match value {
        Value::S(text) => json!({ "S": text }),
        Value::N(number) => json!({ "N": number.as_str() }),
        Value::B(bytes) => json!({ "B": format!("{} bytes", bytes.len()) }),
        Value::Bool(truth) => json!({ "BOOL": truth }),
        Value::Null => json!({ "NULL": true }),
        Value::L(values) => json!({ "L": values.iter().map(wire).collect::<Vec<_>>() }),
        Value::M(values) => {
            json!({ "M": values.iter().map(|(name, value)| (name.clone(), wire(value))).collect::<BTreeMap<_, _>>() })
        }
        Value::Ss(texts) => json!({ "SS": texts }),
        Value::Ns(numbers) => json!({ "NS": numbers.iter().map(Number::as_str).collect::<Vec<_>>() }),
    }
}

/// Ids by their first occurrence, so that every run prints the same.
#[derive(Default)]
struct Ids(Vec<String>);

impl Ids {
    fn replace(&mut self, text: &str) -> String {
        let mut replaced = String::new();
        for part in text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
            let word = part.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
            match event::Id::parse(word) {
                Ok(_) => {
                    let at = self.0.iter().position(|known| known == word).unwrap_or_else(|| {
                        self.0.push(word.to_owned());
                        self.0.len() - 1
                    });
                    replaced += &format!("3F0000000000000000000000{:03}", at + 1);
                    replaced += &part[word.len()..];
                }
                Err(_) => replaced += part,
            }
        }
        replaced
    }
}

async fn section(table: &Arc<dyn Table>, ids: &mut Ids, title: &str, key: Key) -> String {
    let item: Item = table.get(&key).await.unwrap().unwrap_or_else(|| panic!("{title}: {key}"));
    let keys = [("PK", &key.pk), ("SK", &key.sk)].map(|(name, text)| (name.to_owned(), json!({ "S": text })));
    let attributes = item.attributes.iter().map(|(name, value)| (name.clone(), wire(value)));
    let attributes = attributes.filter(|(name, value)| !(name == "v" && *value == json!({ "N": "1" })));
    let lines: Vec<String> = keys
        .into_iter()
        .chain(attributes)
        .map(|(name, value)| format!("  {}: {value}", json!(name)))
        .collect();
    ids.replace(&format!("\n## {title}\n\n```json\n{{\n{}\n}}\n```\n", lines.join(",\n")))
}

fn details() -> ReleaseDetails {
    let day = |text: &str| text.parse::<Day>().unwrap();
    ReleaseDetails {
        commit: Some("9f2c1e7".into()),
        artefact_uri: Some("s3://models/churn/v1.onnx".into()),
        artefact_digest: Some("sha256:9f86d081884c7d65".into()),
        snapshot: Some(Window::new(day("2026-01-01"), day("2026-05-31")).unwrap()),
        tuned_on: None,
        metrics: [("auc".to_owned(), Number::parse("0.81").unwrap())].into(),
        secrets: [("features/db-password".to_owned(), "3".to_owned())].into(),
        notes: Some("Trained on five months.".into()),
        author: Some("ann".into()),
    }
}

fn release(workspace: event::Id) -> New {
    New::Release {
        workspace,
        model: "churn".into(),
        configuration: Some("deep".into()),
        environment: Some("production".into()),
        details: Box::new(details()),
    }
}

/// Alert rule.
fn rule() -> AlertRuleBody {
    AlertRuleBody {
        name: "auc-low".into(),
        metric: Some("auc".into()),
        release: Some("v1".into()),
        below: Some(0.7),
        ..AlertRuleBody::default()
    }
}

/// Sets gates of the model, an approval and a baseline of the release.
async fn gate(catalog: &Catalog, model: &EntityId, release: &EntityId) {
    let body = PromotionGatesBody { min_n: Some(500), second_person: true, ..PromotionGatesBody::default() };
    let gates = PromotionGates::read(&body).unwrap();
    catalog.set_promotion_gates(model, gates.as_ref(), true, now()).await.unwrap();
    catalog.approve(release, ("production", Some("Read.")), false, now()).await.unwrap();
    let spring = Some("2026-04-01..2026-05-31".parse().unwrap());
    catalog.set_baseline(release, "spring", spring, now()).await.unwrap();
}

/// Makes the alert rule fire.
async fn cross(catalog: &Catalog, table: &dyn Table, workspace: &event::Id) {
    let url = Some("https://alerts.example.com/almanac".to_owned());
    let webhook = Webhook { name: "oncall".into(), url, secret: Some("oncall".into()), ..Webhook::default() };
    let rule =
        catalog.apply_alerts(workspace, vec![rule()], vec![webhook], now()).await.unwrap().rules.remove(0);
    let reading = Reading { value: Some(0.65), n: Some(4_000) };
    let fires = replay(&rule.rule, Standing::default(), &[(now().day(), reading)], 0).remove(0);
    let (created_at, day, standing) = (rule.created_at, fires.day, fires.standing);
    let fired = Some(FiredBy { day, model: None, webhooks: vec!["oncall".into()] });
    let judged = Judged { ver: 1, created_at, day, standing, fired };
    let rule_transition = RuleTransition::of(&rule, &fires, [("p/00".to_owned(), 7)].into(), now()).unwrap();
    let delivery = Delivery::of(&rule_transition, "oncall", "{}".to_owned()).to_item(workspace);
    for item in [judged.to_item(workspace, rule.name()), rule_transition.to_item(workspace), delivery] {
        table.put(item, Condition::Absent).await.unwrap();
    }
    challenge(table, workspace).await;
}

/// Keys of the lag of projections and of compaction.
fn of_days(workspace: &event::Id) -> [(&'static str, Key); 2] {
    [
        ("Up to which days small segments were merged, by the age of days", key::compacted(workspace)),
        ("How far projections were behind", key::lags(workspace)),
    ]
}

/// Stores a challenger of the live release, with two common predictions, and a lag of projections.
async fn challenge(table: &dyn Table, workspace: &event::Id) {
    let side = |distance| Side { distance, ..Side::default() };
    let met = |key| Meeting { key, sides: [side(0.1), side(0.4)], ..Meeting::default() };
    let mut challenge = Challenge::new(["v2", "v1"], "churn", "production", now().day());
    challenge.ongoing.add(vec![met(1), met(2)]);
    let all = Challenges { ver: 2, day: now().day(), all: vec![challenge] };
    table.put(all.to_item(workspace), Condition::Absent).await.unwrap();
    let lags = Lags::default().with(now().day(), &[(Kind::Predictions, 90)].into()).unwrap();
    table.put(lags.to_item(workspace), Condition::Absent).await.unwrap();
}

/// Run with a metric.
async fn measured_run(catalog: &Catalog, workspace: &event::Id) -> Run {
    let text = |name: &str, text: &str| [(name.to_owned(), text.to_owned())].into();
    let new = NewRun {
        experiment: Some("depths".into()),
        name: Some("depth 6".into()),
        params: text("depth", "6"),
        tags: text("team", "lending"),
        ..NewRun::default()
    };
    let run = catalog.create_run(workspace, new, now()).await.unwrap();
    let metric = format!(
        r#"{{"name":"loss","measured_at":"2026-06-10T00:00:00Z","value":0.4,"run":"{}","step":2}}"#,
        run.id
    );
    let metric = read_ndjson(Kind::Metrics, metric.as_bytes(), now()).unwrap();
    let log = LogId { workspace: workspace.clone(), day: now().day(), kind: Kind::Metrics, lane: 0 };
    let mut noted = Noted::default();
    noted.add(&metric.columns, Some((&log, (17, 17))));
    catalog.record_metrics(workspace, noted).await.unwrap();
    run
}

/// Stores a filter of the keys of a day, and returns the key of its part.
async fn filter_part(table: &Arc<dyn Table>, workspace: &event::Id) -> Key {
    let at = At { workspace, version: 1, day: now().day(), kind: Kind::Predictions };
    let key = Column::new("key", Values::Text(["loan-1", "loan-2"].into_iter().collect()));
    let mut builder = KeyFilterBuilder::new(1, 0..1);
    builder.add(&Columns { rows: 2, columns: vec![key] }).unwrap();
    let parts: Vec<_> = builder.finish().iter().map(|(part, _)| part.to_bytes()).collect();
    let head = Head {
        lanes: Some(4),
        columns: Some(["tag.branch".to_owned()].into()),
        keys: 2,
        ..Head::of([("p/00".to_owned(), 3)].into(), now())
    };
    key_filter::write(&**table, at, 0, head, parts).await.unwrap();
    let head = key_filter::head(&**table, at).await.unwrap().unwrap();
    key::key_filter_part(workspace, 1, now().day(), Kind::Predictions, (head.digest, 0))
}

/// Stores a segment of unmatched outcomes, one waiting and one that judges a prediction.
async fn pend(table: &dyn Table, workspace: &event::Id) -> [Key; 3] {
    let log = LogId { workspace: workspace.clone(), day: now().day(), kind: Kind::Unmatched, lane: 0 };
    let judged = LogId { kind: Kind::Outcomes, ..log.clone() };
    let segment = UnmatchedSegment { log: log.clone(), seq: 1 };
    unmatched::take_up(table, &segment, (now(), 2)).await.unwrap();
    let id = DecisionId { segment: segment.clone(), number: 1 };
    let (matched, expired, refused) = ([(1, vec![now().micros()])].into(), [].into(), [].into());
    let decision = Decision { as_of: now(), matched, expired, refused, after: [(judged, 17)].into() };
    unmatched::decide(table, ErasureEpoch::default(), &id, &decision).await.unwrap();
    let mut waiting =
        unmatched::waiting(table, workspace, None, 1).await.unwrap().0.remove(0).1.after(&decision);
    waiting.looked = Some(Looked { at: now(), from: now().day(), of: 0xab, is_all: true });
    unmatched::write(table, &segment, &mut waiting).await.unwrap();
    [key::waiting(&segment), key::taken_up(&log), key::decision(&id)]
}

fn filter_head(workspace: &event::Id) -> Key {
    key::key_filter(workspace, 1, now().day(), Kind::Predictions)
}

fn delivery(workspace: &event::Id) -> Key {
    key::delivery(workspace, now().day(), &format!("auc-low/{}", now().micros()), "oncall")
}

/// Lets a user write in a workspace as a member of a group.
async fn grant(catalog: &Catalog, workspace: &EntityId, (group, user): (&EntityId, &EntityId)) -> Scope {
    catalog.add_member(group, user, now()).await.unwrap();
    let scope = Scope::of(workspace).unwrap();
    catalog.grant(&scope, group, Role::Writer, now()).await.unwrap();
    scope
}

#[tokio::test]
async fn the_page_shows_what_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let table: Arc<dyn Table> =
        Arc::new(SqliteTable::open(&folder.path().join("t.db"), Clock::from_fn(now)).unwrap());
    let catalog = Catalog::new(Arc::clone(&table));
    let create = async |name: &str, what: New| {
        let mut new = NewEntity::new(name, what);
        new.attributes.insert("team".into(), "lending".into());
        catalog.create(new, now()).await.unwrap().at()
    };
    let category = create("credit", New::Category).await;
    let workspace = create("prod", New::Workspace { category: category.id().clone() }).await;
    let within = || workspace.id().clone();
    let task = Task::Binary { positive_label: "default".into() };
    let model = create("churn", New::Model { workspace: within(), definition: Definition::of(task) }).await;
    let configuration = create("deep", New::Configuration { workspace: within() }).await;
    let snapshot = create("june", snapshot(&workspace)).await;
    let (user, release) = (create("ann", New::User).await, create("v1", release(within())).await);
    let (group, system) = (create("risk", New::Group).await, create("nightly", New::System).await);
    let scope = grant(&catalog, &workspace, (&group, &user)).await;
    catalog.count(&model, "reviews", 3, Some("review-17")).await.unwrap();
    gate(&catalog, &model, &release).await;
    vintage::keep(&table, workspace.id()).await;
    cross(&catalog, &*table, workspace.id()).await;
    let run = measured_run(&catalog, workspace.id()).await;
    let record = record();
    table.put(record.to_item(), Condition::Absent).await.unwrap();
    let (mut ids, mut page) = (Ids::default(), INTRODUCTION.to_owned());
    let [waits, taken_up, decision] = pend(&*table, workspace.id()).await;
    let places = [
        ("Category", category.key()),
        ("Workspace", workspace.key()),
        ("Model", model.key()),
        ("Configuration", configuration.key()),
        ("Snapshot", snapshot.key()),
        ("Release", release.key()),
        ("User", user.key()),
        ("Group", group.key()),
        ("System", system.key()),
        ("The guard of a name", key::guard(Some(&workspace), model.kind(), "churn")),
        ("The pointer of an id", key::pointer(model.id())),
        ("A member of a group, as the group has it", key::member(group.id(), &user)),
        ("The same, as the user has it", key::membership(&user, group.id())),
        ("A role, as the workspace has it", key::grant(&scope, &group)),
        ("The same, as the principal has it", key::granted(&group, &scope)),
        ("How long events are kept, and what is pinned", key::retention(workspace.id())),
        ("The alert rules of a workspace", key::alert_rules(workspace.id())),
        ("The evaluation of a day when it was a day old", key::vintage(workspace.id(), now().day(), 24)),
        ("Up to when such evaluations and rollups are kept", key::vintage_until(workspace.id())),
        ("The filter of the keys of a day", filter_head(workspace.id())),
        ("A part of it", filter_part(&table, workspace.id()).await),
        ("Unmatched outcomes that wait, by their segment", waits),
        ("Up to which segment they were taken up", taken_up),
        ("What was decided about some of them", decision),
        ("Where an alert rule stands", key::standing(workspace.id(), "auc-low")),
        ("That an alert rule crossed", key::transition(workspace.id(), now().day(), "auc-low", now())),
        ("That it is to be posted to a webhook", delivery(workspace.id())),
        ("How live releases stand against those beside them", key::challenges(workspace.id())),
        ("A free counter", key::free_counter(&model, "reviews")),
        ("An experiment", key::experiment(workspace.id(), &run.experiment_id())),
        ("A run", key::run(workspace.id(), &run.id)),
        ("The latest values of the metrics of a run", key::latest(workspace.id(), &run.id)),
        ("A record of an audit log", key::audit_record(&record.audit_log, record.seq)),
    ];
    for (title, key) in places.into_iter().chain(of_days(workspace.id())) {
        page += &section(&table, &mut ids, title, key).await;
    }
    assert_eq!(EntityId::of_key(&model.key()), Some(model.clone()));
    compare(&with_one_link(&(page + &last_pages(&table, &mut ids, &catalog, workspace.id()).await)));
}

/// Replaces the checksums of links, of which each is made by chance.
fn with_one_link(page: &str) -> String {
    let begin = "\"link\":{\"S\":\"";
    let mut parts = page.split(begin);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |page, part| page + begin + &"0".repeat(64) + &part[64..])
}

/// Sections from modules of their own.
async fn last_pages(
    table: &Arc<dyn Table>,
    ids: &mut Ids,
    catalog: &Catalog,
    workspace: &event::Id,
) -> String {
    let vintages = vintage::page(table, ids, workspace).await;
    let reviews = review::page(table, ids, catalog, workspace).await;
    vintages + &reviews + &erasure::page(table, ids, catalog, workspace).await
}

/// Compares the page with the stored items, or writes it.
fn compare(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/table.md");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&path, page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/table.md is not what is stored; INSTA_UPDATE=always writes it again. Now it is:\n{page}"
    );
}
