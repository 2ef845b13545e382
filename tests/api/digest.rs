//! Digests: a user's follows with the results of the last days, and the digests of a workspace posted to webhooks once a day.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use catalog::{
    AlertRuleBody, Attributes, Catalog, Decision, DeliveryState, MAX_FOLLOWERS, New, NewEntity,
    PrimaryMetric, Sight, Webhook, WebhookFormat, WeekOf, Weeks, decision_item,
};
use event::{Clock, Id, Kind, Result, Timestamp};
use log::key::{self, EntityId, Followed};
use projector::{
    alert::judge,
    deliver::{Posted, deliver},
    digest::{tell, tell_in},
};
use serde_json::{Value, json};
use table::{Call, Condition, Index, Layer, Table};
use tests::{
    crashing::Crashing,
    engine::Engine,
    on_both_engines,
    register::register,
    scene::Scene,
    webhook_sender::{Does, Receiver},
    world::{World, at},
};

on_both_engines!(
    World::on:
    digest_tells_followed_entities_with_recent_days,
    all_digests_share_one_query_of_followers,
    digest_is_sent_daily_under_one_id,
    a_digest_is_told_once_whatever_dies,
    what_was_decided_is_told,
);

/// Seven in the morning of the tenth: the days are the third to the ninth.
const SEVEN: &str = "2026-06-10T07:00:00Z";

/// Table that counts queries of follows, and notes reads of events.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Table>,
    follows: AtomicU64,
    events: Mutex<Vec<String>>,
}

impl Watched {
    fn new(inner: Arc<dyn Table>) -> Arc<Self> {
        Arc::new(Self { inner, follows: AtomicU64::default(), events: Mutex::default() })
    }

    fn note(&self, pk: &str) {
        if pk.ends_with("/day") {
            self.events.lock().unwrap().push(pk.to_owned());
        }
    }

    /// Number of pages of follows read since the last call; fails if an event was read.
    fn follows(&self) -> u64 {
        assert_eq!(*self.events.lock().unwrap(), Vec::<String>::new(), "no event is read");
        self.follows.swap(0, Ordering::SeqCst)
    }
}

impl Layer for Watched {
    type Kept = ();
    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, call: Call<'_>) -> Result<()> {
        match call {
            Call::Get(key) => self.note(&key.pk),
            Call::Query(query) => {
                let is_of_follows = query.index == Index::Gsi1 && query.range.pk == key::FOLLOWS;
                self.follows.fetch_add(is_of_follows.into(), Ordering::SeqCst);
                self.note(&query.range.pk);
            }
            _ => {}
        }
        Ok(())
    }
}

async fn user(scene: &Scene, name: &str) -> Id {
    let new = NewEntity { name: name.into(), attributes: Attributes::new(), what: New::User };
    scene.world.catalog.create(new, Timestamp::default()).await.unwrap().entity().id.clone()
}

fn webhook(name: &str, format: WebhookFormat, digest: Option<&str>) -> Webhook {
    let url = Some(format!("https://{name}.example/"));
    Webhook { name: name.into(), url, format, digest: digest.map(str::to_owned), ..Webhook::default() }
}

/// `v1` is live and right on the eighth of June, and was wrong on the first; a rule fired on the eighth.
async fn scene(world: World) -> Scene {
    let scene = Scene::new(world).await;
    for (day, score) in [("2026-06-01", 0.2), ("2026-06-08", 0.9)] {
        let noon = format!("{day}T12:00:00Z");
        scene.predict_many(day, "v1", 2, &noon).await;
        let prediction = json!([{ "key": "k", "predicted_at": format!("{day}T01:00:00Z"), "release": "v1", "score": score }]);
        scene.append(Kind::Predictions, prediction, &noon).await.unwrap();
        let outcome = json!([{ "key": "k", "predicted_on": day, "observed_at": &noon, "label": "1" }]);
        scene.append(Kind::Outcomes, outcome, &noon).await.unwrap();
    }
    let catalog = &scene.world.catalog;
    let primary = PrimaryMetric::parse(Some("accuracy"), None).unwrap();
    catalog
        .change_settings(scene.id(), |settings| settings.primary_metric.clone_from(&primary))
        .await
        .unwrap();
    scene
        .ingest(at("2026-06-05T00:00:00Z"))
        .promote(&scene.workspace, "v1", "production", None)
        .await
        .unwrap();
    let rule = AlertRuleBody {
        name: "few".into(),
        count: Some("predictions".into()),
        below: Some(100.0),
        model: Some("m".into()),
        environment: Some("production".into()),
        ..AlertRuleBody::default()
    };
    let webhooks = vec![
        webhook("mail", WebhookFormat::Json, Some("07:00")),
        webhook("chat", WebhookFormat::Slack, Some("09:30")),
        webhook("silent", WebhookFormat::Json, None),
    ];
    catalog.apply_alerts(scene.id(), vec![rule], webhooks, at("2026-06-08T00:00:00Z")).await.unwrap();
    scene.project().await;
    judge(&*scene.table, catalog, scene.id(), at("2026-06-09T00:05:00Z")).await.unwrap();
    scene
}

async fn digest_tells_followed_entities_with_recent_days(world: World) {
    let scene = scene(world).await;
    let watched = Watched::new(scene.world.table());
    let (catalog, now) = (Catalog::new(watched.clone()), at(SEVEN));
    let (ann, idle) = (user(&scene, "ann").await, user(&scene, "idle").await);
    scene.predict_many("2026-06-07", "v2", 5, "2026-06-07T12:00:00Z").await;
    scene.project().await;
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    catalog.follow(&ann, &Followed::Workspace(scene.id().clone()), now).await.unwrap();
    catalog.follow(&ann, &Followed::Model(scene.id().clone(), model.clone()), now).await.unwrap();
    scene.world.counted.take_reads();
    let told = catalog.digest_of(&ann, &Sight::Everything, now).await.unwrap();
    assert_eq!(watched.follows(), 0, "of one user nothing but its own is read");
    let queries = scene.world.counted.take_reads().queries;
    assert_eq!(queries, 5, "what is followed, releases, what is live, what crossed and what happened");
    let [whole, of_model] = &told[..] else { panic!("{told:?}") };
    assert_eq!(
        (whole.path.as_str(), whole.from.to_string(), whole.to.to_string()),
        ("credit/prod", "2026-06-03".to_owned(), "2026-06-09".to_owned())
    );
    let counts = |weeks: Weeks<u64>| (weeks.last, weeks.before);
    assert_eq!(whole.outcomes.map(counts), Some((1, 1)));
    let [live] = &whole.live[..] else { panic!("{:?}", whole.live) };
    assert_eq!((live.release.as_str(), live.model.as_str(), live.predictions.last), ("v1", "m", 3));
    assert_eq!(live.last.map(|of| (of.value, of.n)), Some((1.0, 1)));
    assert_eq!(live.change, Some(1.0), "right on the eighth, wrong on the first");
    let alerts: Vec<_> =
        whole.alerts.iter().map(|alert| (alert.rule.as_str(), alert.model.as_deref())).collect();
    assert_eq!(alerts, [("few", Some("m"))]);
    assert_eq!(of_model.model.as_ref().map(|of| of.name.as_str()), Some("m"));
    assert_eq!((of_model.live.len(), of_model.alerts.len()), (1, 1));
    let shadow = (counts(whole.predictions), counts(of_model.predictions));
    assert_eq!(shadow, ((8, 3), (8, 3)), "also of releases that are not live");
    // A week later the results are those of the days before.
    let later = catalog.digest_of(&ann, &Sight::Everything, at("2026-06-17T07:00:00Z")).await.unwrap();
    assert_eq!((later[0].live[0].last, later[0].live[0].predictions.last), (None, 0));
    assert_eq!(later[0].live[0].before.unwrap().value, 1.0);
    assert_eq!(later[0].alerts, []);
    assert_eq!(catalog.digest_of(&idle, &Sight::Everything, now).await.unwrap(), []);
    let nothing = catalog.digest_of(&ann, &Sight::Only([].into()), now).await.unwrap();
    assert_eq!(nothing, [], "nothing out of sight");
}

/// Access pattern B2.
async fn all_digests_share_one_query_of_followers(world: World) {
    let scene = scene(world).await;
    let other = register(&scene.world.table(), "credit/test", &["v1"], at("2026-06-01T00:00:00Z")).await;
    let watched = Watched::new(scene.world.table());
    let (catalog, now) = (Catalog::new(watched.clone()), at(SEVEN));
    let webhooks = vec![webhook("mail", WebhookFormat::Json, Some("07:00"))];
    catalog.apply_alerts(other.id(), Vec::new(), webhooks, now).await.unwrap();
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    let both = [Followed::Workspace(scene.id().clone()), Followed::Workspace(other.id().clone())];
    for name in 0..5 {
        let user = user(&scene, &format!("user-{name}")).await;
        for followed in &both {
            catalog.follow(&user, followed, now).await.unwrap();
        }
    }
    let last = user(&scene, "last").await;
    catalog.follow(&last, &Followed::Model(scene.id().clone(), model), now).await.unwrap();
    let table: Arc<dyn Table> = watched.clone();
    assert_eq!(tell(&*table, &catalog, at("2026-06-10T06:59:59Z")).await.unwrap(), 0, "not yet");
    assert_eq!(watched.follows(), 0, "nothing is due, so nobody need be known");
    assert_eq!(tell(&*table, &catalog, now).await.unwrap(), 2);
    assert_eq!(watched.follows(), 1, "one query for all digests of all workspaces");
    assert_eq!(tell(&*table, &catalog, now.plus_seconds(60)).await.unwrap(), 0);
    assert_eq!(watched.follows(), 0, "all are told");
    let receiver = Receiver::that(|_| Does::Takes);
    deliver(&*table, &catalog, &receiver, &Clock::from_fn(move || now.plus_seconds(61))).await.unwrap();
    let digests =
        receiver.got().into_iter().map(|parcel| serde_json::from_str::<Value>(&parcel.body).unwrap());
    let mut followers: Vec<_> = digests
        .filter(|body| body["type"] == "digest")
        .map(|body| (body["data"]["path"].clone(), body["data"]["followers"].as_array().unwrap().len()))
        .collect();
    followers.sort_by_key(|(path, _)| path.to_string());
    assert_eq!(followers, [("credit/prod".into(), 6), ("credit/test".into(), 5)]);
    const { assert!(MAX_FOLLOWERS > 6) };
}

async fn digest_is_sent_daily_under_one_id(world: World) {
    let scene = scene(world).await;
    let catalog = &scene.world.catalog;
    // The transition of the scene is posted before.
    let first = Receiver::that(|_| Does::Takes);
    let posted = async |receiver: &Receiver, now: Timestamp| {
        deliver(&*scene.table, catalog, receiver, &Clock::from_fn(move || now)).await.unwrap()
    };
    posted(&first, at("2026-06-09T00:06:00Z")).await;
    let now = at(SEVEN);
    let told = async |now| tell_in(&*scene.table, catalog, scene.id(), now).await.unwrap();
    assert_eq!((told(now).await, told(now).await, told(now.plus_seconds(3_600)).await), (1, 0, 0));
    // A failed post is repeated, and its content stays, even if new data changes the metrics.
    let down = Receiver::that(|_| Does::Answers(Posted::Down("503".into())));
    assert_eq!(posted(&down, now.plus_seconds(1)).await.failed, 1);
    scene.predict_many("2026-06-09", "v1", 7, "2026-06-10T07:00:00Z").await;
    scene.project().await;
    let healthy = Receiver::that(|_| Does::Takes);
    assert_eq!(posted(&healthy, now.plus_seconds(300)).await.delivered, 1);
    let (tries, taken) = (down.got(), healthy.got());
    assert_eq!((&tries[0].id, &tries[0].body), (&taken[0].id, &taken[0].body));
    assert_eq!(taken[0].id, format!("{}.digest.2026-06-09.mail/1", scene.id()));
    let body: Value = serde_json::from_str(&taken[0].body).unwrap();
    assert_eq!((&body["type"], &body["data"]["predictions"]["last"]), (&"digest".into(), &3.into()));
    // The chat has another hour, and the text for people.
    assert_eq!(told(at("2026-06-10T09:30:00Z")).await, 1);
    assert_eq!(posted(&healthy, at("2026-06-10T09:31:00Z")).await.delivered, 1);
    let text: Value = serde_json::from_str(&healthy.got()[1].body).unwrap();
    let text = text["text"].as_str().unwrap();
    assert!(text.contains("*credit/prod*, 2026-06-03 to 2026-06-09: 10 predictions"), "{text}");
    assert!(
        text.contains("m (production): v1") && text.contains("accuracy 1 of 1 judged, +1 from"),
        "{text}"
    );
    // The next day has a new digest, and one that was not made within six hours is left out.
    assert_eq!(told(at("2026-06-11T13:00:00Z")).await, 1, "of the chat alone");
    let day = "2026-06-09".parse().unwrap();
    let deliveries = catalog.deliveries(scene.id(), day, day, 10).await.unwrap();
    let all: Vec<_> =
        deliveries.iter().map(|one| (one.id.as_str(), one.webhook.as_str(), one.state, one.tries)).collect();
    let done = DeliveryState::Delivered;
    let ids = ["digest.2026-06-09.mail/1", "digest.2026-06-09.chat/1"];
    assert_eq!(all, [(ids[0], "mail", done, 2), (ids[1], "chat", done, 1)]);
}

async fn what_was_decided_is_told(world: World) {
    let scene = scene(world).await;
    let decide = async |model: &str, challenger: &str, when: &str| {
        let (model, challenger) = (model.to_owned(), challenger.to_owned());
        let text = format!("{challenger} is better than v1");
        let decision = Decision { at: at(when), model, challenger, environment: "production".into(), text };
        let item = decision_item(&*scene.table, scene.id(), &decision).await.unwrap();
        scene.table.put(item, Condition::Absent).await.unwrap();
    };
    decide("m", "v0", "2026-06-03T06:59:59Z").await;
    decide("m", "v2", "2026-06-04T12:00:00Z").await;
    decide("other", "v9", "2026-06-05T12:00:00Z").await;
    let (catalog, now) = (&scene.world.catalog, at(SEVEN));
    let ann = user(&scene, "ann").await;
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    catalog.follow(&ann, &Followed::Workspace(scene.id().clone()), now).await.unwrap();
    catalog.follow(&ann, &Followed::Model(scene.id().clone(), model), now).await.unwrap();
    let told = catalog.digest_of(&ann, &Sight::Everything, now).await.unwrap();
    let decided = |week: &WeekOf| week.decided.iter().map(|one| one.challenger.clone()).collect::<Vec<_>>();
    assert_eq!(told.iter().map(decided).collect::<Vec<_>>(), [vec!["v9", "v2"], vec!["v2"]]);
    assert_eq!(told[1].decided[0].text, "v2 is better than v1");
    assert_eq!(tell_in(&*scene.table, catalog, scene.id(), now).await.unwrap(), 1);
    let receiver = Receiver::that(|_| Does::Takes);
    deliver(&*scene.table, catalog, &receiver, &Clock::from_fn(move || now.plus_seconds(1))).await.unwrap();
    let bodies = receiver.got().into_iter().filter(|parcel| parcel.id.contains(".digest."));
    let bodies: Vec<Value> = bodies.map(|parcel| serde_json::from_str(&parcel.body).unwrap()).collect();
    let texts: Vec<_> =
        bodies[0]["data"]["decided"].as_array().unwrap().iter().map(|one| &one["text"]).collect();
    assert_eq!(
        (bodies.len(), texts),
        (1, vec![&json!("v9 is better than v1"), &json!("v2 is better than v1")])
    );
}

#[tokio::test]
async fn followers_beyond_a_page_are_on_the_next() {
    let scene = scene(World::on(Engine::Sqlite).await).await;
    let (catalog, now) = (&scene.world.catalog, at(SEVEN));
    let mut users = BTreeSet::new();
    for number in 0..MAX_FOLLOWERS + 5 {
        let user = user(&scene, &format!("user-{number}")).await;
        catalog.follow(&user, &Followed::Workspace(scene.id().clone()), now).await.unwrap();
        users.insert(EntityId::User(user).to_string());
    }
    assert_eq!(tell_in(&*scene.table, catalog, scene.id(), now).await.unwrap(), 1, "one digest");
    assert_eq!(tell_in(&*scene.table, catalog, scene.id(), now).await.unwrap(), 0);
    let receiver = Receiver::that(|_| Does::Takes);
    deliver(&*scene.table, catalog, &receiver, &Clock::from_fn(move || now.plus_seconds(1))).await.unwrap();
    let pages = receiver.got().into_iter().filter(|parcel| parcel.id.contains(".digest."));
    let mut pages: Vec<_> = pages
        .map(|page| (page.id, serde_json::from_str::<Value>(&page.body).unwrap()["data"].clone()))
        .collect();
    pages.sort_by_key(|(id, _)| id.clone());
    let ids: Vec<&String> = pages.iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [1, 2].map(|page| format!("{}.digest.2026-06-09.mail/{page}", scene.id())).each_ref());
    let named = |page: &Value| -> Vec<String> {
        let followers = page["followers"].as_array().unwrap().iter();
        followers.map(|one| one["user"].as_str().unwrap().to_owned()).collect()
    };
    let (first, second) = (named(&pages[0].1), named(&pages[1].1));
    assert_eq!((first.len(), second.len()), (MAX_FOLLOWERS, 5));
    assert_eq!(first.into_iter().chain(second).collect::<BTreeSet<_>>(), users, "each of them once");
    let more: Vec<_> = pages.iter().map(|(_, page)| &page["more_followers"]).collect();
    assert_eq!(more, [&json!(5), &json!(0)]);
    let day = "2026-06-09".parse().unwrap();
    let ids: Vec<_> =
        catalog.deliveries(scene.id(), day, day, 10).await.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(ids, [2, 1].map(|page| format!("digest.2026-06-09.mail/{page}")));
}

async fn a_digest_is_told_once_whatever_dies(world: World) {
    let scene = scene(world).await;
    let catalog = &scene.world.catalog;
    let receiver = Receiver::that(|_| Does::Takes);
    let (mut told, mut lives) = (0, 0);
    let mut now = at(SEVEN);
    loop {
        let dying: Arc<dyn Table> = Arc::new(Crashing::new(Arc::clone(&scene.table), lives % 4));
        let of_life = Catalog::new(Arc::clone(&dying));
        now = now.plus_seconds(120);
        let life = async {
            told += tell(&*dying, &of_life, now).await?;
            deliver(&*dying, &of_life, &receiver, &Clock::from_fn(move || now)).await
        };
        lives += 1;
        match life.await {
            Err(error) => assert!(error.may_pass(), "{error}"),
            Ok(_) => {
                let all = catalog.deliveries(scene.id(), event::Day::FIRST, now.day(), 10).await.unwrap();
                // Deliveries of the transition to three webhooks, and of the digest.
                if all.len() == 4 && all.iter().all(|one| one.state == DeliveryState::Delivered) {
                    break;
                }
            }
        }
        assert!(lives < 60, "{lives} lives");
    }
    assert!(told <= 1, "{told}");
    let digests = receiver.got().into_iter().filter(|parcel| parcel.id.contains(".digest."));
    let mut bodies: Vec<_> = digests.map(|parcel| (parcel.id, parcel.body)).collect();
    assert!(!bodies.is_empty());
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "one id and one body, however often it was posted");
}
