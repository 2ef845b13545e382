//! Posting transitions to webhooks: each at least once under one id, despite deaths and concurrent processes, with its result
//! recorded.

mod histories;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use catalog::{AlertRuleBody, Catalog, Delivery, DeliveryState, Webhook, WebhookFormat};
use event::{Clock, Timestamp};
use projector::{
    Options, Projector,
    alert::judge,
    deliver::{Outcome, Parcel, Posted, deliver},
    sweep::sweep,
};
use table::Table;
use tests::{
    crashing::Crashing,
    engine::Engine,
    faulty::{Faults, FaultyTable},
    on_both_engines,
    scene::Scene,
    sim::Random,
    webhook_sender::{Does, Receiver},
    world::{World, at},
};
use tokio::{sync::oneshot, time::timeout};

on_both_engines!(
    World::on:
    what_crosses_is_posted_once_and_recorded,
    deleted_firing_rule_resolves_for_its_recipients,
    what_fails_is_tried_again_for_a_day,
    unavailable_receiver_is_tried_once_per_round,
    crashes_repeat_posts_under_one_id,
    what_nobody_can_take_is_given_up,
);

const CREATED: &str = "2026-06-01T12:00:00Z";
const NOW: &str = "2026-06-05T00:01:00Z";

fn day(number: u32) -> String {
    format!("2026-06-{number:02}")
}

fn few(name: &str, notify: Option<&[&str]>) -> AlertRuleBody {
    AlertRuleBody {
        name: name.into(),
        count: Some("predictions".into()),
        below: Some(5.0),
        notify: notify.map(|some| some.iter().map(|name| (*name).to_owned()).collect()),
        ..AlertRuleBody::default()
    }
}

fn webhook(name: &str, format: WebhookFormat) -> Webhook {
    let url = Some(format!("https://{name}.example/"));
    Webhook { name: name.into(), url, format, ..Webhook::default() }
}

/// Predictions of the days from the first of June on, with these counts; two webhooks, and a rule for both.
async fn scene(world: World, counts: &[usize]) -> Scene {
    let scene = Scene::new(world).await;
    for (number, count) in (1..).zip(counts) {
        scene.predict_many(&day(number), "v1", *count, &format!("{}T02:00:00Z", day(number))).await;
    }
    let webhooks = vec![webhook("ops", WebhookFormat::Json), webhook("chat", WebhookFormat::Slack)];
    let catalog = &scene.world.catalog;
    catalog.apply_alerts(scene.id(), vec![few("few", None)], webhooks, at(CREATED)).await.unwrap();
    scene.project().await;
    scene
}

async fn judged(scene: &Scene, now: &str) {
    judge(&*scene.table, &scene.world.catalog, scene.id(), at(now)).await.unwrap();
}

fn stopped(now: Timestamp) -> Clock {
    Clock::from_fn(move || now)
}

async fn posted(scene: &Scene, receiver: &Receiver, now: Timestamp) -> Outcome {
    deliver(&*scene.table, &scene.world.catalog, receiver, &stopped(now)).await.unwrap()
}

/// Recorded deliveries, the earliest day first.
async fn recorded(scene: &Scene) -> Vec<Delivery> {
    let (from, to) = (day(1).parse().unwrap(), day(30).parse().unwrap());
    let mut all = scene.world.catalog.deliveries(scene.id(), from, to, 1_000).await.unwrap();
    all.reverse();
    all
}

async fn states(scene: &Scene) -> Vec<(String, DeliveryState, u32)> {
    let all = recorded(scene).await.into_iter();
    all.map(|one| (format!("{} {}", one.day, one.webhook), one.state, one.tries)).collect()
}

/// Ids of the received parcels, by webhook.
fn ids(receiver: &Receiver) -> BTreeMap<String, BTreeSet<String>> {
    let mut ids = BTreeMap::<_, BTreeSet<_>>::new();
    for parcel in receiver.got() {
        ids.entry(parcel.webhook.name).or_default().insert(parcel.id);
    }
    ids
}

async fn what_crosses_is_posted_once_and_recorded(world: World) {
    let scene = scene(world, &[9, 1, 1, 9]).await;
    let receiver = Receiver::that(|_| Does::Takes);
    judged(&scene, NOW).await;
    assert_eq!(posted(&scene, &receiver, at(NOW).plus_seconds(1)).await.delivered, 4);
    assert_eq!(posted(&scene, &receiver, at(NOW).plus_seconds(100)).await, Outcome::default());
    let state = |what: &str| (what.to_owned(), DeliveryState::Delivered, 1);
    let all = ["2026-06-02 chat", "2026-06-02 ops", "2026-06-04 chat", "2026-06-04 ops"];
    assert_eq!(states(&scene).await, all.map(state));
    let transitions =
        scene.world.catalog.transitions(scene.id(), day(1).parse().unwrap(), day(30).parse().unwrap(), 10);
    let wanted: BTreeSet<String> =
        transitions.await.unwrap().iter().map(|one| format!("{}.{}", scene.id(), one.id)).collect();
    assert_eq!(ids(&receiver), ["chat", "ops"].map(|name| (name.to_owned(), wanted.clone())).into());
    let bodies: Vec<String> = receiver.got().into_iter().map(|parcel| parcel.body).collect();
    let told = "few fires in credit/prod: the number of predictions on 2026-06-02 is 1, below 5";
    assert!(bodies.iter().any(|body| body.contains(&told.replace("few", "*few*")) && body.contains("text")));
    assert!(bodies.iter().any(|body| body.contains(r#""type":"alert.resolves""#)), "{bodies:?}");
    // A rule may notify some webhooks or none.
    let rules = vec![few("some", Some(&["chat"])), few("none", Some(&[]))];
    let catalog = &scene.world.catalog;
    catalog.apply_alert_rules(scene.id(), rules, at(NOW)).await.unwrap();
    judged(&scene, "2026-06-06T00:01:00Z").await;
    let now = at("2026-06-06T00:01:01Z");
    assert_eq!(posted(&scene, &receiver, now).await.delivered, 3, "few to both, some to chat, none to none");
}

async fn deleted_firing_rule_resolves_for_its_recipients(world: World) {
    let scene = scene(world, &[9, 1]).await;
    let catalog = &scene.world.catalog;
    let receiver = Receiver::that(|_| Does::Takes);
    let rules = vec![few("some", Some(&["chat"])), few("none", Some(&[]))];
    catalog.apply_alert_rules(scene.id(), rules, at(CREATED)).await.unwrap();
    judged(&scene, "2026-06-03T00:01:00Z").await;
    assert_eq!(posted(&scene, &receiver, at("2026-06-03T00:01:01Z")).await.delivered, 3);
    // The notified webhooks of a rule are forgotten with it; without a rule the workspace is no longer watched.
    for rule in ["few", "some", "none"] {
        catalog.delete_alert_rule(scene.id(), rule).await.unwrap();
    }
    assert_eq!(catalog.watched_workspaces().await.unwrap(), [scene.id().clone()]);
    catalog.delete_webhook(scene.id(), "ops").await.unwrap();
    for now in ["2026-06-03T00:02:00Z", "2026-06-03T00:03:00Z"] {
        judged(&scene, now).await;
    }
    assert_eq!(posted(&scene, &receiver, at("2026-06-03T00:03:01Z")).await.delivered, 2);
    let over = |parcel: &Parcel| parcel.body.contains("the rule was deleted while it fired");
    let told = receiver.got().into_iter().filter(over).map(|parcel| (parcel.webhook.name, parcel.id));
    let id = |rule: &str| {
        ("chat".to_owned(), format!("{}.{rule}.2026-06-03.{}", scene.id(), at(CREATED).micros()))
    };
    assert_eq!(told.collect::<BTreeSet<_>>(), [id("few"), id("some")].into());
    assert!(catalog.judged_rules(scene.id()).await.unwrap().is_empty());
}

async fn what_fails_is_tried_again_for_a_day(world: World) {
    let scene = scene(world, &[9, 1]).await;
    judged(&scene, "2026-06-03T00:01:00Z").await;
    let receiver = Receiver::that(|parcel| match parcel.webhook.name.as_str() {
        "ops" => Does::Takes,
        _ => Does::Answers(Posted::Refused("403 Forbidden".into())),
    });
    let (mut now, mut tries) = (at("2026-06-03T00:01:00Z"), 0);
    while let Some(next) = next_of(&scene, "chat").await {
        let before = posted(&scene, &receiver, next.plus_seconds(-1)).await;
        assert_eq!(before.failed, 0, "not before it is due");
        now = now.max(next);
        let outcome = posted(&scene, &receiver, now).await;
        tries += outcome.failed + outcome.given_up;
    }
    assert!(now >= at("2026-06-04T00:01:00Z"), "{now}");
    assert!((25..45).contains(&tries), "{tries}");
    let [chat, ops] = &recorded(&scene).await[..] else { panic!("two") };
    assert_eq!((chat.state, u64::from(chat.tries)), (DeliveryState::GivenUp, tries));
    assert_eq!(chat.why.as_deref(), Some("403 Forbidden"));
    assert_eq!((ops.state, ops.tries), (DeliveryState::Delivered, 1));
    assert_eq!(ids(&receiver)["chat"].len(), 1, "one id for all tries");
}

/// Due time of the unmatched delivery to a webhook.
async fn next_of(scene: &Scene, webhook: &str) -> Option<Timestamp> {
    let all = recorded(scene).await.into_iter();
    let mut unmatched = all.filter(|one| one.webhook == webhook && one.state == DeliveryState::Pending);
    unmatched.next().and_then(|one| one.next_at)
}

async fn unavailable_receiver_is_tried_once_per_round(world: World) {
    let scene = scene(world, &[9, 1, 9, 1, 9]).await;
    judged(&scene, "2026-06-06T00:01:00Z").await;
    let is_down = Arc::new(AtomicBool::new(true));
    let decides = Arc::clone(&is_down);
    let receiver = Receiver::that(move |parcel| match parcel.webhook.name.as_str() {
        "ops" if decides.load(Ordering::SeqCst) => Does::Hangs,
        _ => Does::Takes,
    });
    let now = at("2026-06-06T00:02:00Z");
    let once = timeout(Duration::from_secs(13), posted(&scene, &receiver, now));
    let outcome = once.await.expect("10 s for one try, not for four");
    assert_eq!((outcome.delivered, outcome.failed), (4, 4));
    assert_eq!(receiver.got().iter().filter(|parcel| parcel.webhook.name == "ops").count(), 1);
    assert!(recorded(&scene).await.iter().all(|one| one.tries == 1));
    is_down.store(false, Ordering::SeqCst);
    assert_eq!(posted(&scene, &receiver, now.plus_seconds(10)).await, Outcome::default(), "not yet");
    assert_eq!(posted(&scene, &receiver, now.plus_seconds(60)).await.delivered, 4);
}

async fn crashes_repeat_posts_under_one_id(world: World) {
    let scene = scene(world, &[9, 1, 1, 9]).await;
    let receiver = Receiver::that(|_| Does::Takes);
    let (mut lives, mut now) = (0, at(NOW));
    loop {
        let table = Arc::new(Crashing::new(Arc::clone(&scene.table), lives % 3));
        let dying: Arc<dyn Table> = Arc::clone(&table) as _;
        let catalog = Catalog::new(Arc::clone(&dying));
        // Late enough that claimed deliveries are due again.
        now = now.plus_seconds(120);
        let life = async {
            judge(&*dying, &catalog, scene.id(), now).await?;
            deliver(&*dying, &catalog, &receiver, &stopped(now)).await
        };
        let ended = life.await;
        lives += 1;
        match ended {
            Ok(_) if recorded(&scene).await.iter().all(|one| one.state == DeliveryState::Delivered) => break,
            Ok(_) => {}
            Err(error) => assert!(error.may_pass(), "{error}"),
        }
    }
    assert!(lives > 6, "{lives} lives");
    assert_eq!(recorded(&scene).await.len(), 4);
    let ids = ids(&receiver);
    assert!(ids.values().all(|ids| ids.len() == 2), "{ids:?}");
    assert!(receiver.got().len() > 4, "who dies before it is recorded posts again");
}

async fn what_nobody_can_take_is_given_up(world: World) {
    let scene = scene(world, &[9, 1]).await;
    judged(&scene, "2026-06-03T00:01:00Z").await;
    let receiver = Receiver::that(|_| Does::Answers(Posted::Gone("410 Gone".into())));
    let catalog = &scene.world.catalog;
    catalog.delete_webhook(scene.id(), "chat").await.unwrap();
    let outcome = posted(&scene, &receiver, at("2026-06-03T00:02:00Z")).await;
    assert_eq!(outcome, Outcome { given_up: 2, ..Outcome::default() });
    let why: Vec<_> = recorded(&scene).await.into_iter().map(|one| one.why.unwrap()).collect();
    assert_eq!(why, ["the webhook was deleted", "410 Gone"]);
    // A webhook that a rule names cannot be deleted.
    catalog.apply_alert_rules(scene.id(), vec![few("some", Some(&["ops"]))], at(NOW)).await.unwrap();
    assert!(catalog.delete_webhook(scene.id(), "ops").await.unwrap_err().is_conflict());
    let lost = vec![few("lost", Some(&["nowhere"]))];
    let refused = catalog.apply_alert_rules(scene.id(), lost, at(NOW)).await.unwrap_err().to_string();
    assert!(refused.contains("`nowhere`"), "{refused}");
}

/// A running projector posts to one receiver while another never answers.
#[tokio::test]
async fn dead_receiver_delays_nothing_else() {
    let scene = scene(World::on(Engine::Sqlite).await, &[9, 1]).await;
    judged(&scene, "2026-06-03T00:01:00Z").await;
    let receiver = Arc::new(Receiver::that(|parcel| match parcel.webhook.name.as_str() {
        "ops" => Does::Takes,
        _ => Does::Hangs,
    }));
    let clock = stopped(at("2026-06-03T00:02:00Z"));
    let options = Options::new(clock).posting_by(Some(Arc::clone(&receiver) as _));
    let projector = Projector::new(Arc::clone(&scene.table), options);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(async move { projector.run(async { _ = stopped.await }).await });
    let is_hanging = || receiver.got().iter().any(|parcel| parcel.webhook.name == "chat");
    let (mut appended, mut was_hanging) = (false, false);
    let all_else = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if is_hanging() && !appended {
                was_hanging =
                    recorded(&scene).await.iter().any(|one| one.why.is_none() && one.webhook == "chat");
                scene.predict_many(&day(3), "v1", 7, "2026-06-03T00:02:00Z").await;
                appended = true;
            }
            let is_delivered = recorded(&scene).await.iter().any(|one| one.state == DeliveryState::Delivered);
            let is_projected = sweep(&*scene.table, scene.id()).await.unwrap().logs.is_empty();
            if appended && is_delivered && is_projected {
                return;
            }
        }
    };
    timeout(Duration::from_secs(60), all_else).await.expect("all else goes on");
    assert!(was_hanging);
    let chat = recorded(&scene).await.into_iter().find(|one| one.webhook == "chat").unwrap();
    assert_eq!((chat.state, chat.tries, chat.why), (DeliveryState::Pending, 1, None), "still under way");
    stop.send(()).unwrap();
    timeout(Duration::from_secs(20), running).await.expect("it ends at once").unwrap().unwrap();
}
