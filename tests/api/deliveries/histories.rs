//! Random histories of deliveries, with processes that die and answers that are lost.

use super::*;

on_both_engines!(
    World::on:
    history_with_lost_answers_posts_each_transition,
);

/// Days of a random history.
const DAYS: u32 = 10;

/// One in so many calls has no answer, and ends the life of its caller; half of those calls were made.
const DOUBTS: u64 = 12;

/// Histories besides those on both engines.
const HISTORIES: u64 = 6;

/// Events of a history.
#[derive(Debug, Default)]
struct Lived {
    /// Lives that ended early.
    ended: u64,
    /// Repeated parcels.
    repeated: usize,
    transitions: usize,
}

/// A receiver that misses some parcels, and loses answers.
fn flaky(seed: u64) -> Receiver {
    let random = Random::new(seed);
    Receiver::that(move |_| match random.below(5) {
        0 => Does::MissesIt,
        1 => Does::TakesSilently,
        2 => Does::Answers(Posted::Refused("400 Bad Request".into())),
        _ => Does::Takes,
    })
}

/// Judges and posts, until it is done or a call is not answered.
async fn life(scene: &Scene, receiver: &Receiver, seed: u64, now: Timestamp) -> u64 {
    let table = FaultyTable::new(Arc::clone(&scene.table), seed, Faults::doubts(DOUBTS));
    let table: Arc<dyn Table> = Arc::new(table);
    let catalog = Catalog::new(Arc::clone(&table));
    let living = async {
        judge(&*table, &catalog, scene.id(), now).await?;
        deliver(&*table, &catalog, receiver, &stopped(now)).await
    };
    match living.await {
        Ok(_) => 0,
        Err(error) if error.may_pass() => 1,
        Err(error) => panic!("{error}"),
    }
}

/// A history in which workers die, run concurrently and begin again, and receivers miss parcels.
async fn history(world: World, seed: u64) -> Lived {
    let (scene, random) = (scene(world, &[]).await, Random::new(seed));
    let (receiver, mut lived) = (flaky(seed ^ 0xD00B), Lived::default());
    let mut delivered = BTreeMap::new();
    for number in 1..=DAYS {
        let noon = format!("{}T12:00:00Z", day(number));
        scene.predict_many(&day(number), "v1", 1 + random.below(8) as usize, &noon).await;
        scene.project().await;
        let mut now = at(&format!("{}T00:01:00Z", day(number + 1)));
        for _ in 0..random.below(6) {
            now = now.plus_seconds(random.below(90) as i64);
            let (one, other) = (random.below(u64::MAX), random.below(u64::MAX));
            let both = tokio::join!(life(&scene, &receiver, one, now), life(&scene, &receiver, other, now));
            lived.ended += both.0 + both.1;
        }
        // The record of a delivery that succeeded stays unchanged.
        let known: BTreeMap<_, _> = recorded(&scene).await.into_iter().map(|one| (key(&one), one)).collect();
        assert!(delivered.iter().all(|(key, one)| known.get(key) == Some(one)), "seed {seed}");
        let done = known.into_iter().filter(|(_, one)| one.state == DeliveryState::Delivered);
        delivered.extend(done);
        // No receiver is down for a day.
        judge(&*scene.table, &scene.world.catalog, scene.id(), now).await.unwrap();
        let healthy = Receiver::that(|_| Does::Takes);
        for hours in 2..6 {
            posted(&scene, &healthy, now.plus_seconds(hours * 60 * 60)).await;
        }
        receiver.take(healthy.got());
    }
    check(&scene, &receiver, seed, &mut lived).await;
    lived
}

fn key(delivery: &Delivery) -> (String, String) {
    (delivery.id.clone(), delivery.webhook.clone())
}

/// Checks that each transition came to each webhook at least once, always under one id and with one body, and is recorded once.
async fn check(scene: &Scene, receiver: &Receiver, seed: u64, lived: &mut Lived) {
    let (from, to) = (day(1).parse().unwrap(), day(30).parse().unwrap());
    let transitions = scene.world.catalog.transitions(scene.id(), from, to, 100).await.unwrap();
    let mut wanted = BTreeMap::new();
    for rule_transition in &transitions {
        for (name, format) in [("ops", WebhookFormat::Json), ("chat", WebhookFormat::Slack)] {
            let id = format!("{}.{}", scene.id(), rule_transition.id);
            let body = webhook("x", format).body(scene.id(), "credit/prod", rule_transition);
            wanted.insert((name.to_owned(), id), body);
        }
    }
    let mut got = BTreeMap::new();
    for parcel in receiver.got() {
        let body = got.entry((parcel.webhook.name, parcel.id)).or_insert_with(|| parcel.body.clone());
        assert_eq!(*body, parcel.body, "seed {seed}");
    }
    assert_eq!(got, wanted, "seed {seed}");
    let all = recorded(scene).await;
    assert!(all.iter().all(|one| one.state == DeliveryState::Delivered), "seed {seed}: {all:?}");
    assert_eq!(all.len(), wanted.len(), "seed {seed}");
    lived.repeated = receiver.got().len() - wanted.len();
    lived.transitions = transitions.len();
}

async fn history_with_lost_answers_posts_each_transition(world: World) {
    history(world, 0).await;
}

#[tokio::test]
async fn random_histories_with_lost_answers_post_transitions() {
    let mut all = Lived::default();
    for seed in 1..=HISTORIES {
        let lived = history(World::on(Engine::Sqlite).await, seed).await;
        all.ended += lived.ended;
        all.repeated += lived.repeated;
        all.transitions += lived.transitions;
    }
    let is_busy = all.ended > 2 * HISTORIES && all.repeated > 10 && all.transitions > 2 * HISTORIES as usize;
    assert!(is_busy, "{all:?}");
}
