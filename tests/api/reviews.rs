//! Reviews: the served items, the effects of an answer, and the state after the death of a process. Each on a SQLite file and on
//! DynamoDB Local.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use catalog::{
    AnsweredBy, AnsweredReview, DEFAULT_LEASE_SECONDS, New, NewEntity, Review, ReviewPolicy, ReviewSpec,
    Served, Verdict, guest_reviewer,
};
use event::{Clock, ErrorKind, Kind, Window};
use futures::future::join_all;
use ingest::{Answered, Ingest, SubmitError};
use log::{key::ReviewItemId, scan};
use query::{Dataset, Params, Request};
use serde_json::json;
use table::Table;
use tests::{
    hooked::{Asked, Hooked, Turn},
    on_both_engines,
    scene::{Scene, csv},
    world::{at, cost},
};

on_both_engines!(
    Scene::on:
    c5_reviewer_holds_one_item_and_repeats_none,
    c5_concurrent_reviewers_get_different_items,
    c6_link_serves_one_item_once_until_expiry,
    answer_counts_once_as_outcome_of_its_reviewer,
    answer_is_appended_once_despite_crashes,
    b1_what_a_reviewer_answered_is_one_query,
    user_page_shows_answers_and_weekly_results,
    what_is_picked_is_written_down,
    what_has_expired_is_served_to_nobody,
    invalid_review_answer_is_refused,
);

const DAY: &str = "2026-06-01";
const NOW: &str = "2026-06-10T00:00:00Z";
const ANN: &str = "user:ann";
const BOB: &str = "user:bob";

pub(crate) fn spec(n: u32) -> ReviewSpec {
    let labels = vec!["0".into(), "1".into()];
    let window = Window::of(DAY.parse().unwrap());
    ReviewSpec { model: Some("m".into()), n: Some(n), seed: 7, labels, ..ReviewSpec::new(window) }
}

/// Predictions of `k0`, `k1`, ... with scores 0.1 to 1 in turn.
async fn predict(scene: &Scene, count: usize, now: &str) {
    let events = (0..count).map(|n| {
        let score = (n % 10 + 1) as f64 / 10.0;
        json!({ "key": format!("k{n}"), "predicted_at": format!("{DAY}T01:00:00Z"), "release": "v1", "score": score })
    });
    scene.append(Kind::Predictions, events.collect(), now).await.unwrap();
}

/// Review of `count` predictions of a day.
async fn review(scene: &Scene, count: usize) -> Review {
    predict(scene, count, "2026-06-01T12:00:00Z").await;
    scene.query(at(NOW)).create_review(&scene.workspace, "june", spec(1_000)).await.unwrap().0
}

pub(crate) async fn next(scene: &Scene, review: &Review, reviewer: &str, now: &str) -> Option<Served> {
    let asked = ((scene.id(), review), (reviewer, DEFAULT_LEASE_SECONDS));
    scene.ingest(at(now)).next_of(asked.0, asked.1).await.unwrap()
}

pub(crate) fn item(scene: &Scene, review: &Review, number: u32) -> ReviewItemId {
    ReviewItemId { workspace: scene.id().clone(), review: review.id.clone(), number }
}

pub(crate) fn by(reviewer: &str) -> AnsweredBy {
    AnsweredBy::Reviewer(reviewer.to_owned())
}

fn label(label: &str) -> Verdict {
    Verdict::Label(label.to_owned())
}

async fn answer(scene: &Scene, review: &Review, number: u32, reviewer: &str, said: &str, now: &str) {
    let at_item = item(scene, review, number);
    let answered = scene.ingest(at(now)).answer(&at_item, &by(reviewer), label(said)).await.unwrap();
    assert!(answered.is_appended);
}

pub(crate) fn kind_of(answered: Result<Answered, SubmitError>) -> ErrorKind {
    match answered {
        Err(SubmitError::Store(error)) => error.kind(),
        other => panic!("{other:?}"),
    }
}

/// Outcomes of June.
async fn outcomes(scene: &Scene) -> Vec<String> {
    let columns = Some("key,predicted_at,observed_at,label");
    let words = Params { from: "2026-06-01", to: "2026-06-30", columns, ..Params::default() };
    let request = Request::parse(Dataset::Events(Kind::Outcomes), &words).unwrap();
    let text = csv(scene.query(at("2026-06-30T00:00:00Z")).run(scene.id(), &request).await.unwrap());
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

async fn c5_reviewer_holds_one_item_and_repeats_none(scene: Scene) {
    let review = review(&scene, 3).await;
    assert_eq!(review.items, 3);
    let first = next(&scene, &review, ANN, NOW).await.unwrap();
    let again = next(&scene, &review, ANN, "2026-06-10T00:09:59Z").await.unwrap();
    assert_eq!(
        (first.item.id.number, &first.item.key),
        (again.item.id.number, &again.item.key),
        "the one that she has"
    );
    let others = next(&scene, &review, BOB, NOW).await.unwrap();
    assert_ne!(first.item.id.number, others.item.id.number);
    answer(&scene, &review, first.item.id.number, ANN, "1", "2026-06-10T00:05:00Z").await;
    let third = next(&scene, &review, ANN, "2026-06-10T00:05:00Z").await.unwrap();
    assert_eq!(
        [first.item.id.number, others.item.id.number, third.item.id.number]
            .into_iter()
            .collect::<BTreeSet<_>>()
            .len(),
        3
    );
    // An item that she gives back is for others, and his item is not for her.
    let at_third = item(&scene, &review, third.item.id.number);
    scene.world.catalog.give_back(&at_third, &by(ANN), at("2026-06-10T00:06:00Z")).await.unwrap();
    assert_eq!(next(&scene, &review, ANN, "2026-06-10T00:06:00Z").await, None);
    // After his lease he has another one, and she has his.
    let later = "2026-06-10T00:10:00Z";
    let his = next(&scene, &review, BOB, later).await.unwrap();
    assert_eq!(his.item.id.number, third.item.id.number);
    let hers = next(&scene, &review, ANN, later).await.unwrap();
    assert_eq!(hers.item.id.number, others.item.id.number);
    let late = scene
        .ingest(at(later))
        .answer(&item(&scene, &review, others.item.id.number), &by(BOB), label("1"))
        .await;
    let refused = late;
    assert_eq!(kind_of(refused), ErrorKind::Conflict, "he does not have it any more");
    // Long after all leases have ended, no review shows an item again to a person who has seen it.
    let end = "2026-06-11T00:00:00Z";
    assert_eq!(next(&scene, &review, ANN, end).await, None);
    let (second, _) = scene.query(at(end)).create_review(&scene.workspace, "again", spec(2)).await.unwrap();
    assert_eq!(next(&scene, &second, ANN, end).await, None);
    let left = next(&scene, &second, "user:eve", end).await.unwrap();
    assert_ne!(left.item.key, first.item.key, "it has an outcome by now");
}

async fn c5_concurrent_reviewers_get_different_items(scene: Scene) {
    let review = review(&scene, 9).await;
    let names: Vec<String> = (0..8).map(|n| format!("user:u{n}")).collect();
    // Each asks twice at one time.
    let asked = names.iter().chain(&names).map(|name| next(&scene, &review, name, NOW));
    let served: Vec<u32> =
        join_all(asked).await.into_iter().map(|served| served.unwrap().item.id.number).collect();
    let (ones, twos) = served.split_at(8);
    assert_eq!(ones, twos, "one item each");
    assert_eq!(ones.iter().collect::<BTreeSet<_>>().len(), 8, "{ones:?}");
}

async fn c6_link_serves_one_item_once_until_expiry(scene: Scene) {
    let review = review(&scene, 2).await;
    let bob = guest_reviewer("bob").unwrap();
    let served = next(&scene, &review, &bob, NOW).await.unwrap();
    let ingest = scene.ingest(at("2026-06-10T00:09:59Z"));
    let (of, shown) = ingest.asked_by(&served.link).await.unwrap();
    assert_eq!((of.name.as_str(), &shown.key), ("june", &served.item.key));
    let at_item = served.link.item();
    let link = AnsweredBy::Link(served.link.digest());
    let over = scene.ingest(at("2026-06-10T00:10:00Z"));
    assert_eq!(over.asked_by(&served.link).await.unwrap_err().kind(), ErrorKind::Conflict);
    let refused = over.answer(at_item, &link, label("1")).await;
    assert_eq!(kind_of(refused), ErrorKind::Conflict, "its time is over");
    let refused = ingest.answer(at_item, &AnsweredBy::Link("other".into()), label("1")).await;
    assert_eq!(kind_of(refused), ErrorKind::NotFound, "another link");
    let elsewhere = ReviewItemId { number: 1 - at_item.number, ..at_item.clone() };
    let refused = ingest.answer(&elsewhere, &link, label("1")).await;
    assert_eq!(kind_of(refused), ErrorKind::NotFound, "the link is of another item");
    let answered = ingest.answer(at_item, &link, label("1")).await.unwrap();
    assert_eq!((answered.is_appended, answered.is_repeat), (true, false));
    assert!(
        ingest.answer(at_item, &link, label("1")).await.unwrap().is_repeat,
        "a lost answer is asked again"
    );
    let refused = ingest.answer(at_item, &link, label("0")).await;
    assert_eq!(kind_of(refused), ErrorKind::Conflict, "it was used");
    assert_eq!(ingest.asked_by(&served.link).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(outcomes(&scene).await.len(), 1);
    let given =
        scene.world.catalog.given_answers(scene.id(), "guest:bob", (at(NOW), at("2026-06-11T00:00:00Z")));
    assert_eq!(given.await.unwrap().len(), 1);
    // A new link replaces the one before.
    let first = next(&scene, &review, &bob, NOW).await.unwrap();
    let second = next(&scene, &review, &bob, NOW).await.unwrap();
    assert_eq!(first.item.id.number, second.item.id.number);
    assert_eq!(ingest.asked_by(&first.link).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(ingest.asked_by(&second.link).await.is_ok());
}

async fn answer_counts_once_as_outcome_of_its_reviewer(scene: Scene) {
    let review = review(&scene, 1).await;
    let served = next(&scene, &review, ANN, NOW).await.unwrap();
    let at_item = item(&scene, &review, served.item.id.number);
    let ingest = scene.ingest(at("2026-06-10T00:01:00Z"));
    let refused = ingest.answer(&at_item, &by(BOB), label("1")).await;
    assert_eq!(kind_of(refused), ErrorKind::Conflict, "he does not have it");
    // Repeated clicks, and a client that tries again.
    let ann = by(ANN);
    let answers = join_all((0..4).map(|_| ingest.answer(&at_item, &ann, label("1")))).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().is_appended), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.as_ref().unwrap().is_repeat).count(), 1);
    let other = ingest.answer(&at_item, &by(ANN), label("0")).await;
    assert_eq!(kind_of(other), ErrorKind::Conflict);
    assert_eq!(outcomes(&scene).await, ["k0,2026-06-01T01:00:00Z,2026-06-10T00:01:00Z,1"]);
    let heads = scan::heads(&*scene.table, scene.id()).await.unwrap();
    let head = heads.iter().find(|head| head.log.kind == Kind::Outcomes).unwrap();
    assert_eq!(head.seq, 1);
    let segment = scan::segments(&*scene.table, &head.log, 1, 1).await.unwrap().remove(0);
    let authors = segment.authors.read().unwrap();
    assert_eq!(authors[0].principal, ANN);
    assert_eq!(authors[0].source, Some(format!("job=review; run={}", review.id)));
    assert!(scene.world.catalog.review_item(&at_item).await.unwrap().answer.is_some());
    assert!(!scene.world.catalog.is_owed(&at_item).await.unwrap());
    assert_eq!(ingest.finish_answers(scene.id()).await.unwrap(), 0, "nothing is owed");
    scene.project().await;
    scene.assert_verified().await;
}

/// An ingest whose table accepts this number of further writes.
pub(crate) fn dying(scene: &Scene, writes: usize, now: &str) -> Ingest {
    let left = Arc::new(AtomicUsize::new(writes));
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&scene.table), move |asked| match asked {
        Asked::Write(_) => {
            match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
                Ok(_) => Turn::Pass,
                Err(_) => Turn::Fail(ErrorKind::Invalid),
            }
        }
        _ => Turn::Pass,
    });
    let now = at(now);
    Ingest::replaying(table, Clock::from_fn(move || now))
}

async fn answer_is_appended_once_despite_crashes(scene: Scene) {
    let count = 8;
    let review = review(&scene, count).await;
    let mut decided = 0;
    for writes in 0..count {
        let now = format!("2026-06-10T0{writes}:00:00Z");
        // A process that dies while it serves leaves nothing: its three writes are one.
        let asked = ((scene.id(), &review), (ANN, DEFAULT_LEASE_SECONDS));
        for fewer in 0..3 {
            assert!(dying(&scene, fewer, &now).next_of(asked.0, asked.1).await.is_err());
        }
        let served = next(&scene, &review, ANN, &now).await.unwrap();
        let at_item = item(&scene, &review, served.item.id.number);
        let before = outcomes(&scene).await.len();
        let answered = dying(&scene, writes, &now).answer(&at_item, &by(ANN), label("1")).await;
        // After the decision, which writes the item, its copy and the note at once, there is only success.
        assert_eq!(answered.is_ok(), writes >= 3, "{writes}: {answered:?}");
        decided += usize::from(answered.is_ok());
        let owed = scene.ingest(at(&now)).finish_answers(scene.id()).await.unwrap();
        assert!(owed <= 1, "{writes}: {owed}");
        assert_eq!(outcomes(&scene).await.len(), before + usize::from(answered.is_ok()), "{writes}");
        // A repeated answer is a success, and appends nothing twice.
        answer(&scene, &review, served.item.id.number, ANN, "1", &now).await;
        assert_eq!(outcomes(&scene).await.len(), before + 1, "{writes}");
        assert_eq!(scene.ingest(at(&now)).finish_answers(scene.id()).await.unwrap(), 0);
    }
    assert_eq!(decided, count - 3);
    assert_eq!(outcomes(&scene).await.len(), count);
}

/// Access pattern B1.
async fn user_page_shows_answers_and_weekly_results(scene: Scene) {
    // Answers expire, so the time must be that of the engine.
    let noon = Clock::system().now().day().start().plus_seconds(12 * 60 * 60);
    let days_after = |days: i64| noon.plus_seconds(days * 24 * 60 * 60);
    let new = NewEntity::new("ann", New::User);
    let ann = scene.world.catalog.create(new, at(NOW)).await.unwrap().at();
    let review = review(&scene, 40).await;
    let mut agree = 0;
    for n in 0..6 {
        let now = days_after(n / 2 - 2).plus_seconds(60 * n).to_string();
        let served = next(&scene, &review, ANN, &now).await.unwrap();
        agree += u64::from(served.item.said[0].score.unwrap() >= 0.5);
        answer(&scene, &review, served.item.id.number, ANN, "1", &now).await;
        // A repeat is not counted.
        answer(&scene, &review, served.item.id.number, ANN, "1", &now).await;
    }
    let (page, reads) = scene.world.reads(scene.world.catalog.user_page(ann.id(), noon)).await;
    let page = page.unwrap();
    let week = Window::new(days_after(-6).day(), noon.day()).unwrap();
    assert_eq!((cost(reads), page.week), ((0, 1), week));
    let answered = page.answered.iter().map(|one| (one.day, one.answers, one.said["1"]));
    assert_eq!(answered.collect::<Vec<_>>(), [0, -1, -2].map(|days| (days_after(days).day(), 2, 2)));
    assert!(page.answered.iter().all(|one| one.review == "june" && one.workspace == *scene.id()));
    let sum = |of: fn(&AnsweredReview) -> u64| page.answered.iter().map(of).sum::<u64>();
    assert_eq!((sum(|one| one.agree), sum(|one| one.differ)), (agree, 6 - agree));
    let later = scene.world.catalog.user_page(ann.id(), days_after(6)).await.unwrap();
    assert_eq!(later.answered.len(), 1, "of the week before, only its last day");
}

async fn b1_what_a_reviewer_answered_is_one_query(scene: Scene) {
    let review = review(&scene, 40).await;
    for n in 0..5 {
        let now = format!("2026-06-1{n}T01:00:00Z");
        let served = next(&scene, &review, ANN, &now).await.unwrap();
        answer(&scene, &review, served.item.id.number, ANN, "1", &now).await;
    }
    let served = next(&scene, &review, BOB, NOW).await.unwrap();
    answer(&scene, &review, served.item.id.number, BOB, "0", NOW).await;
    let week = (at("2026-06-08T00:00:00Z"), at("2026-06-13T00:00:00Z"));
    let catalog = &scene.world.catalog;
    let (given, reads) = scene.world.reads(catalog.given_answers(scene.id(), ANN, week)).await;
    let given = given.unwrap();
    assert_eq!((given.len(), cost(reads), reads.items), (3, (0, 1), 3));
    let at_of = |item: &catalog::ReviewItem| item.answer.as_ref().unwrap().at;
    assert!(given.windows(2).all(|two| at_of(&two[0]) < at_of(&two[1])));
    let (releases, days) = catalog::http::results_json(&given);
    let scores = given.iter().map(|given| given.said[0].score.unwrap());
    let agree = scores.filter(|score| *score >= 0.5).count();
    assert_eq!(releases[0]["release"], "v1");
    assert_eq!((&releases[0]["answers"], &releases[0]["agree"]), (&3.into(), &agree.into()));
    assert_eq!((days.len(), &days[0]["day"]), (3, &"2026-06-10".into()));
    // Serving reads the workspace, the expiry, the turn, a page of items and the item, however many items there are.
    let asked = ((scene.id(), &review), (ANN, DEFAULT_LEASE_SECONDS));
    let ingest = scene.ingest(at("2026-06-15T00:00:00Z"));
    let (_, reads) = scene.world.reads(ingest.next_of(asked.0, asked.1)).await;
    assert!(reads.gets <= 8 && reads.queries <= 2, "{reads:?}");
    assert!(reads.items <= 40, "{reads:?}");
    let (_, reads) = scene.world.reads(ingest.next_of(asked.0, asked.1)).await;
    assert!(reads.gets <= 5 && reads.queries <= 1, "what she has already: {reads:?}");
}

async fn what_is_picked_is_written_down(scene: Scene) {
    let first = review(&scene, 30).await;
    let query = scene.query(at(NOW));
    let keys = async |review: &Review| -> Vec<String> {
        let items = scene.world.catalog.review_items(scene.id(), &review.id).await.unwrap();
        items.into_iter().map(|item| item.key).collect()
    };
    let picked = keys(&first).await;
    // Later predictions change nothing, and the same specification gives the same review.
    predict(&scene, 35, "2026-06-01T13:00:00Z").await;
    let (again, _) = query.create_review(&scene.workspace, "june", spec(1_000)).await.unwrap();
    assert_eq!((&again, keys(&again).await), (&first, picked));
    let other = query.create_review(&scene.workspace, "june", spec(2)).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict);
    // Under another name it gives the same items, in the same order.
    let make = async |name: &str, spec: ReviewSpec| {
        keys(&query.create_review(&scene.workspace, name, spec).await.unwrap().0).await
    };
    assert_eq!(make("one", spec(5)).await, make("two", spec(5)).await);
    assert_ne!(make("three", ReviewSpec { seed: 8, ..spec(5) }).await, make("four", spec(5)).await);
    let uncertain = ReviewSpec { policy: ReviewPolicy::Uncertain, ..spec(1) };
    let close = make("close", uncertain).await;
    assert!(close.len() == 1 && close[0].ends_with('4'), "its score is 0.5: {close:?}");
    // A second release disagrees about one of them.
    let events = json!([
        { "key": "k0", "predicted_at": format!("{DAY}T01:00:00Z"), "release": "v2", "score": 0.9 },
        { "key": "k1", "predicted_at": format!("{DAY}T01:00:00Z"), "release": "v2", "score": 0.2 },
    ]);
    scene.append(Kind::Predictions, events, "2026-06-01T14:00:00Z").await.unwrap();
    let disagree = ReviewSpec { policy: ReviewPolicy::Disagree, ..spec(1) };
    assert_eq!(make("differ", disagree).await, ["k0"]);
    // Predictions with an outcome are left out.
    scene.observe_many(DAY, "1", 35, "2026-06-02T00:00:00Z").await;
    let refused = query.create_review(&scene.workspace, "none", spec(5)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(make("all", ReviewSpec { with_outcomes: true, ..spec(5) }).await.len(), 5);
    let missing = ReviewSpec { model: Some("nothing".into()), ..spec(5) };
    let missing = query.create_review(&scene.workspace, "gone", missing).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let names: Vec<String> = scene
        .world
        .catalog
        .reviews(scene.id())
        .await
        .unwrap()
        .into_iter()
        .map(|review| review.name)
        .collect();
    assert_eq!(names, ["all", "close", "differ", "four", "june", "one", "three", "two"]);
}

async fn what_has_expired_is_served_to_nobody(scene: Scene) {
    let review = review(&scene, 3).await;
    let served = next(&scene, &review, ANN, NOW).await.unwrap();
    let by_link = next(&scene, &review, &guest_reviewer("bob").unwrap(), NOW).await.unwrap().link;
    assert!(scene.ingest(at(NOW)).asked_by(&by_link).await.is_ok());
    scene.world.catalog.set_retention(scene.id(), Some(1), at(NOW)).await.unwrap();
    let hidden = scene.ingest(at(NOW)).asked_by(&by_link).await.unwrap_err();
    assert!(hidden.is_conflict() && hidden.to_string().contains("have expired"), "{hidden}");
    assert_eq!(next(&scene, &review, BOB, NOW).await, None);
    assert_eq!(next(&scene, &review, ANN, NOW).await, None);
    let at_item = item(&scene, &review, served.item.id.number);
    let refused = scene.ingest(at(NOW)).answer(&at_item, &by(ANN), label("1")).await;
    assert_eq!(kind_of(refused), ErrorKind::Conflict);
    // Items of a deleted review are not served either.
    scene.world.catalog.set_retention(scene.id(), None, at(NOW)).await.unwrap();
    assert!(next(&scene, &review, BOB, NOW).await.is_some());
    scene.world.catalog.delete_review(scene.id(), "june").await.unwrap();
    let again = scene.world.catalog.delete_review(scene.id(), "june").await.unwrap_err();
    assert_eq!(
        (again.kind(), again.to_string()),
        (ErrorKind::NotFound, "there is no review `june` in this workspace".into())
    );
    let refused = scene.ingest(at(NOW)).answer(&at_item, &by(ANN), label("1")).await;
    assert_eq!(kind_of(refused), ErrorKind::NotFound);
    assert_eq!(outcomes(&scene).await, [""; 0]);
}

async fn invalid_review_answer_is_refused(scene: Scene) {
    let review = review(&scene, 1).await;
    let served = next(&scene, &review, ANN, NOW).await.unwrap();
    let at_item = item(&scene, &review, served.item.id.number);
    let ingest = scene.ingest(at(NOW));
    for wrong in [label("2"), label(""), Verdict::Value(1.0)] {
        let refused = ingest.answer(&at_item, &by(ANN), wrong).await;
        assert_eq!(kind_of(refused), ErrorKind::Invalid);
    }
    for lease in [59, 7 * 24 * 60 * 60 + 1] {
        let refused = ingest.next_of((scene.id(), &review), (BOB, lease)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    let nowhere = item(&scene, &review, 999);
    let refused = ingest.answer(&nowhere, &by(ANN), label("1")).await;
    assert_eq!(kind_of(refused), ErrorKind::NotFound);
    assert_eq!(outcomes(&scene).await, [""; 0]);
    answer(&scene, &review, served.item.id.number, ANN, "1", NOW).await;
}
