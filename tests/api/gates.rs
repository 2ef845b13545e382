//! Promotion gates: conditions that a release of a model must pass before it is live, on every path. Each on a SQLite file and on
//! DynamoDB Local.

use std::sync::Arc;

use catalog::{Action, Measured, Override, PromotionGates, PromotionGatesBody, ToMeasure};
use event::{Clock, Kind, Task, Window};
use ingest::{Ingest, Receipt, Remember, SubmitError, json::read_json_array};
use log::{
    audit::{Author, by},
    key::{AuditLog, EntityId},
};
use query::{Answer, AuditParams, AuditRequest};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    register::release_of,
    scene::{Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    worse_release_cannot_go_live_by_any_path,
    gate_override_requires_reason_and_is_audited,
    what_was_let_through_is_let_through_again,
    batch_promotion_is_gated_by_registered_model,
    second_person_differs_from_creator_and_requester,
    metrics_are_those_that_queries_answer,
    gated_promotions_per_batch_are_limited,
    late_labels_pass_gates_after_a_delay,
);

const NOW: &str = "2026-06-10T00:00:00Z";

/// A maintainer's reason.
fn of(reason: &str) -> Option<Override<'_>> {
    Some(Override { reason, is_by_admin: false })
}

async fn post(scene: &Scene, ingest: &Ingest, events: &Value) -> Result<Receipt, SubmitError> {
    let batch = read_json_array(Kind::Releases, events.to_string().as_bytes(), ingest.clock().now())?;
    ingest.submit(&scene.workspace, batch, None, Remember::Never).await
}

fn event(action: Action, release: &str, environment: &str, time: &str) -> Value {
    json!({ "release": release, "released_at": time, "model": "m", "action": action.name(), "environment": environment })
}

async fn declare(scene: &Scene, body: PromotionGatesBody) {
    let catalog = &scene.world.catalog;
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    let gates = PromotionGates::read(&body).unwrap();
    let model = EntityId::Model(scene.id().clone(), model);
    catalog.set_promotion_gates(&model, gates.as_ref(), true, at(NOW)).await.unwrap();
}

/// Eight predictions of each on a day, six right ones of `v1` and four of `v2`; `v1` is live in production.
async fn predicted(scene: &Scene) {
    for (release, wrong) in [("v1", 2), ("v2", 4)] {
        let event = |n: usize| {
            let is_one = n.is_multiple_of(2) != (n < wrong);
            json!({ "key": format!("k{n}"), "predicted_at": "2026-06-05T01:00:00Z", "release": release,
                    "score": if is_one { 0.9 } else { 0.1 } })
        };
        scene.append(Kind::Predictions, (0..8).map(event).collect(), "2026-06-05T02:00:00Z").await.unwrap();
    }
    scene.observe_many("2026-06-05", "1", 8, "2026-06-06T00:00:00Z").await;
    let ingest = crate::reading::ingest(scene, "2026-06-07T00:00:00Z");
    ingest.promote(&scene.workspace, "v1", "production", None).await.unwrap();
}

fn by_accuracy() -> PromotionGatesBody {
    PromotionGatesBody {
        environments: vec!["production".into()],
        min_n: Some(8),
        metric: Some("accuracy".into()),
        margin: Some(0.1),
        ..PromotionGatesBody::default()
    }
}

async fn live(scene: &Scene, environment: &str) -> Option<String> {
    let mut live = scene.world.catalog.live_now(scene.id()).await.unwrap();
    live.remove(environment)?.remove("m").map(|live| live.release)
}

/// Records of an action. They have the time of the engine.
async fn audit_log(scene: &Scene, action: &str) -> Answer {
    let now = Clock::system().now();
    let words = AuditParams { action: Some(action.into()), ..AuditParams::default() };
    let request = AuditRequest::parse(&words, now).unwrap();
    scene.query(now).audit(&AuditLog::Workspace(scene.id().clone()), &request).await.unwrap().0
}

/// Records of promotions in the audit log: the principal, the action, the object and the content.
async fn told(scene: &Scene) -> Vec<String> {
    let mut answer = audit_log(scene, "promotion").await;
    let columns = ["principal", "action", "object", "after"];
    answer.frame = answer.frame.select(columns).unwrap();
    csv(answer).lines().skip(1).map(str::to_owned).collect()
}

async fn worse_release_cannot_go_live_by_any_path(scene: Scene) {
    predicted(&scene).await;
    declare(&scene, by_accuracy()).await;
    let (ingest, workspace) = (crate::reading::ingest(&scene, NOW), &scene.workspace);
    let why = "metric: its accuracy of 2026-06-03 to 2026-06-09 is 0.5, that of the live release `v1` is 0.75 \
               (better is max), and at most 0.1 worse is taken";
    let ann = Arc::new(Author::named("user:ann"));
    let asked = ingest.promote(workspace, "v2", "production", None);
    let refused = by(Arc::clone(&ann), asked).await.unwrap_err().to_string();
    assert_eq!(refused, format!("`v2` may not be live in production: {why}"));
    let back = by(Arc::clone(&ann), ingest.roll_back(workspace, "production", None, Some("v2"), None)).await;
    assert_eq!(back.unwrap_err().to_string(), refused);
    for action in [Action::Promote, Action::Rollback] {
        // Neither now nor in the past, where it would have been live for a time.
        for time in [NOW, "2026-06-01T00:00:00Z"] {
            let events = json!([event(action, "v2", "production", time)]);
            let posted = by(Arc::clone(&ann), post(&scene, &ingest, &events)).await.unwrap_err().to_string();
            assert!(
                posted.contains("`release` may not be live in production") && posted.contains(why),
                "{posted}"
            );
        }
    }
    // An imported file is checked row by row.
    let events = json!([
        event(Action::Promote, "v2", "production", NOW),
        event(Action::Promote, "v2", "test", NOW),
        event(Action::Retire, "v2", "production", NOW),
    ]);
    let batch = read_json_array(Kind::Releases, events.to_string().as_bytes(), at(NOW)).unwrap();
    let problems = by(Arc::clone(&ann), ingest.problems(workspace, &batch)).await.unwrap();
    assert_eq!(problems.keys().collect::<Vec<_>>(), [&0]);
    assert_eq!(live(&scene, "production").await.as_deref(), Some("v1"));
    // A process that reads no metrics lets nothing through that needs them.
    let blind = scene.ingest(at(NOW)).promote(workspace, "v2", "production", None).await.unwrap_err();
    assert!(blind.to_string().contains("reads no metrics"), "{blind}");
    let told = told(&scene).await;
    assert_eq!(told.len(), 7, "{told:#?}");
    assert!(
        told.iter().all(|one| one.starts_with("user:ann,promotion.refuse,v2,") && one.contains("0.75")),
        "{told:#?}"
    );

    // Elsewhere they do not hold.
    ingest.promote(workspace, "v2", "test", None).await.unwrap().unwrap();
    // It is as good, within the margin.
    declare(&scene, PromotionGatesBody { margin: Some(0.25), ..by_accuracy() }).await;
    ingest.promote(workspace, "v2", "production", None).await.unwrap().unwrap();
    assert_eq!(live(&scene, "production").await.as_deref(), Some("v2"));
    declare(&scene, PromotionGatesBody { min_n: Some(9), ..PromotionGatesBody::default() }).await;
    let few = ingest.promote(workspace, "v1", "test", None).await.unwrap_err().to_string();
    assert!(
        few.ends_with(
            "min_n: 8 of its predictions of 2026-06-03 to 2026-06-09 are judged, and at least 9 are asked for"
        ),
        "{few}"
    );
    scene.project().await;
    scene.assert_verified().await;
}

async fn gate_override_requires_reason_and_is_audited(scene: Scene) {
    predicted(&scene).await;
    declare(&scene, by_accuracy()).await;
    let (ingest, workspace) = (crate::reading::ingest(&scene, NOW), &scene.workspace);
    let empty = ingest.promote_despite(workspace, "v2", "production", None, of(" ")).await.unwrap_err();
    assert_eq!(empty.to_string(), "override: say why the gates are overridden");
    // Also if it is live already, and there is nothing to override.
    let empty = ingest.promote_despite(workspace, "v1", "production", None, of("")).await.unwrap_err();
    assert_eq!(empty.to_string(), "override: say why the gates are overridden");
    let ann = Arc::new(Author::named("user:ann"));
    let asked = ingest.promote_despite(workspace, "v2", "production", None, of("v1 leaks"));
    let done = by(ann, asked).await.unwrap().unwrap();
    assert_eq!(done.note.as_deref(), Some("v1 leaks"));
    assert_eq!(live(&scene, "production").await.as_deref(), Some("v2"));
    let said = told(&scene).await;
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with("user:ann,promotion.override,v2,"), "{said:#?}");
    assert!(["v1 leaks", "0.75", "production"].iter().all(|text| said[0].contains(text)), "{said:#?}");
    // Without a failure there is nothing to override.
    ingest.promote_despite(workspace, "v1", "production", None, of("back")).await.unwrap().unwrap();
    assert_eq!(told(&scene).await, said);
    scene.project().await;
    scene.assert_verified().await;
}

async fn what_was_let_through_is_let_through_again(scene: Scene) {
    predicted(&scene).await;
    let ingest = crate::reading::ingest(&scene, "2026-06-08T00:00:00Z");
    let events = json!([event(Action::Promote, "v2", "production", "2026-06-08T00:00:00Z")]);
    let batch = || read_json_array(Kind::Releases, events.to_string().as_bytes(), at(NOW)).unwrap();
    let stored =
        ingest.submit(&scene.workspace, batch(), Some("v2-goes-live"), Remember::Forever).await.unwrap();
    assert_eq!(stored.appended, 1);
    ingest.roll_back(&scene.workspace, "production", None, None, None).await.unwrap().unwrap();
    declare(&scene, by_accuracy()).await;
    // The client without an answer asks again, after it has happened.
    let ingest = crate::reading::ingest(&scene, NOW);
    let again =
        ingest.submit(&scene.workspace, batch(), Some("v2-goes-live"), Remember::Forever).await.unwrap();
    assert_eq!((again.appended, again.replayed), (0, true));
    assert_eq!(live(&scene, "production").await.as_deref(), Some("v1"));
    // A formerly live release can be put back, with any metrics.
    let back = ingest.roll_back(&scene.workspace, "production", None, Some("v2"), None).await.unwrap();
    assert_eq!(back.unwrap().release, "v2");
    assert_eq!(told(&scene).await, [""; 0]);
    let again = ingest.promote(&scene.workspace, "v2", "production", None).await.unwrap();
    assert_eq!(again, None, "it is live already");
}

async fn batch_promotion_is_gated_by_registered_model(scene: Scene) {
    let catalog = &scene.world.catalog;
    catalog.ensure_model(scene.id(), "ungated", &Task::Regression, at(NOW)).await.unwrap();
    declare(&scene, PromotionGatesBody { second_person: true, ..PromotionGatesBody::default() }).await;
    let ingest = scene.ingest(at(NOW));
    let refused = async |model: &str| {
        let register = json!({ "release": "v3", "released_at": NOW, "model": "m", "action": "register" });
        let mut promote = event(Action::Promote, "v3", "production", NOW);
        promote["model"] = model.into();
        post(&scene, &ingest, &json!([register, promote])).await.unwrap_err().to_string()
    };
    let wrong = refused("ungated").await;
    assert!(wrong.contains("`model` is not that of `v3`, which is `m`"), "{wrong}");
    let gated = refused("m").await;
    assert!(gated.contains("second_person: nobody has approved it for production"), "{gated}");
    assert!(catalog.live_now(scene.id()).await.unwrap().is_empty());
}

async fn second_person_differs_from_creator_and_requester(scene: Scene) {
    let catalog = &scene.world.catalog;
    let as_ = |who: &str| Arc::new(Author::named(format!("user:{who}")));
    let third = release_of("m", "v3");
    let created = catalog.ensure_release(scene.id(), &third, at(NOW));
    by(as_("bob"), created).await.unwrap();
    declare(&scene, PromotionGatesBody { second_person: true, ..PromotionGatesBody::default() }).await;
    // No metric is read for it, so a process that reads none can judge it.
    let ingest = scene.ingest(at(NOW));
    let release = scene.release("v3").await;
    let promote = async || by(as_("ann"), ingest.promote(&scene.workspace, "v3", "production", None)).await;
    let approve = async |who: &str, environment: &str, is_retracted: bool| {
        by(as_(who), catalog.approve(&release, (environment, None), is_retracted, at(NOW))).await.unwrap();
    };
    let refused = promote().await.unwrap_err().to_string();
    let why = "second_person: nobody has approved it for production other than user:bob, who created it, or user:ann, who \
               asks for it";
    assert_eq!(refused, format!("`v3` may not be live in production: {why}"));
    approve("bob", "production", false).await;
    approve("ann", "production", false).await;
    approve("eve", "test", false).await;
    approve("eve", "production", false).await;
    approve("eve", "production", true).await;
    assert_eq!(promote().await.unwrap_err().to_string(), refused);
    // Only an administrator overrides the second person.
    let overridden = async |is_by_admin: bool| {
        let reason = Some(Override { reason: "urgent", is_by_admin });
        by(as_("ann"), ingest.promote_despite(&scene.workspace, "v3", "production", None, reason)).await
    };
    let own = overridden(false).await.unwrap_err().to_string();
    assert_eq!(own, format!("{refused}; only an administrator overrides the gate of a second person"));
    let model = EntityId::Model(scene.id().clone(), catalog.model_named(scene.id(), "m").await.unwrap());
    let weaker = PromotionGates::read(&PromotionGatesBody { min_n: Some(1), ..Default::default() }).unwrap();
    for gates in [None, weaker.as_ref()] {
        let changed = catalog.set_promotion_gates(&model, gates, false, at(NOW)).await.unwrap_err();
        assert!(changed.to_string().contains("only an administrator changes them"), "{changed}");
    }
    assert_eq!(overridden(true).await.unwrap().unwrap().release, "v3");
    ingest.retire(&scene.workspace, "v3", Some("production"), None).await.unwrap();
    approve("eve", "production", false).await;
    assert_eq!(promote().await.unwrap().unwrap().release, "v3");
    let text = csv(audit_log(&scene, "release.change").await);
    assert_eq!(text.matches("user:eve,").count(), 4, "each approval stands in the audit log: {text}");
}

async fn metrics_are_those_that_queries_answer(scene: Scene) {
    // A day with all its truth predicts the truth of a later one: 4 of 10 after three days.
    let predict = async |day: &str, release: &str| {
        scene.predict_many(day, release, 10, &format!("{day}T02:00:00Z")).await;
    };
    predict("2026-05-01", "v1").await;
    scene.observe_many("2026-05-01", "1", 5, "2026-05-02T12:00:00Z").await;
    scene.observe_many("2026-05-01", "1", 9, "2026-05-07T12:00:00Z").await;
    predict("2026-06-01", "v2").await;
    scene.observe_many("2026-06-01", "1", 5, "2026-06-02T12:00:00Z").await;
    let window = |from: &str, to: &str| Window::new(from.parse().unwrap(), to.parse().unwrap()).unwrap();
    let of = |release: &str, window| ToMeasure {
        window,
        release: release.into(),
        champion: Some("v1".into()),
        metric: fold::AnyMetric::named("accuracy"),
        is_of_completeness: true,
    };
    let query = scene.query(at("2026-06-03T12:00:00Z"));
    let measured = async |of: ToMeasure| query.measure_promotion(scene.id(), &of).await.unwrap();
    let found = measured(of("v2", window("2026-05-27", "2026-06-02"))).await;
    // Scores of 0.1 to 0.5, of which every other one came true: only that of 0.5 counts as positive, rightly.
    let expected = Measured { judged: 5, value: Some(0.6), of_champion: None, completeness: Some(5.0 / 9.0) };
    assert_eq!(found, expected);
    // Stored metrics give the same.
    scene.project().await;
    scene.keep_vintages(at("2026-06-03T12:00:00Z")).await;
    assert_eq!(measured(of("v2", window("2026-05-27", "2026-06-02"))).await, expected);
    let both = measured(of("v2", window("2026-05-01", "2026-06-02"))).await;
    assert_eq!((both.completeness, both.of_champion.is_some()), (Some(5.0 / 9.0), true));
    // A release without predictions has no metrics, and so passes no gate.
    let none = measured(of("v3", window("2026-05-27", "2026-06-02"))).await;
    assert_eq!(none, Measured::default());
}

async fn gated_promotions_per_batch_are_limited(scene: Scene) {
    declare(&scene, PromotionGatesBody { second_person: true, ..PromotionGatesBody::default() }).await;
    let events: Value = (0..20).map(|n| event(Action::Promote, "v1", &format!("e{n}"), NOW)).collect();
    let batch = read_json_array(Kind::Releases, events.to_string().as_bytes(), at(NOW)).unwrap();
    let problems = scene.ingest(at(NOW)).problems(&scene.workspace, &batch).await.unwrap();
    assert_eq!(problems.len(), 20);
    let many = problems.values().filter(|problem| problem.message.contains("more than 16")).count();
    assert_eq!((many, told(&scene).await.len()), (4, 16));
}

/// Labels come 7, 18 and 30 days after the predictions of every third day.
async fn late_labels_pass_gates_after_a_delay(scene: Scene) {
    let (now, keys) = ("2026-06-10T00:00:00Z", 60);
    let before = |days: i64| at(now).plus_seconds(-86_400 * days);
    for back in (3..=90).rev().step_by(3) {
        let day = before(back).day();
        let prediction = |n: usize| json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v2", "score": 0.9 });
        let predicted = (0..keys).map(prediction).collect();
        scene.append(Kind::Predictions, predicted, &format!("{day}T02:00:00Z")).await.unwrap();
        for (late, some) in [(7, 0..20), (18, 20..40), (30, 40..keys)] {
            if late > back {
                continue;
            }
            let observed = before(back - late).to_string();
            let outcome = |n: usize| json!({ "key": format!("k{n}"), "predicted_on": day.to_string(), "observed_at": observed, "label": "1" });
            scene.append(Kind::Outcomes, some.map(outcome).collect(), &observed).await.unwrap();
        }
    }
    scene.project().await;
    let gates = PromotionGatesBody {
        days: Some(14),
        min_n: Some(240),
        completeness: Some(0.9),
        ..PromotionGatesBody::default()
    };
    let ingest = crate::reading::ingest(&scene, now);
    declare(&scene, gates.clone()).await;
    let refused = ingest.promote(&scene.workspace, "v2", "production", None).await.unwrap_err().to_string();
    assert!(
        refused.contains("min_n: 40 of its predictions of 2026-05-27 to 2026-06-09 are judged"),
        "{refused}"
    );
    assert!(refused.contains("completeness: "), "{refused}");
    declare(&scene, PromotionGatesBody { delay: Some(30), ..gates }).await;
    let promoted = ingest.promote(&scene.workspace, "v2", "production", None).await;
    assert_eq!(promoted.unwrap().unwrap().release, "v2");
    let wrong = PromotionGatesBody { delay: Some(91), min_n: Some(1), ..PromotionGatesBody::default() };
    let wrong = PromotionGates::read(&wrong).unwrap_err().to_string();
    assert_eq!(wrong, "delay: it is 0 to 90 days, not 91");
}
