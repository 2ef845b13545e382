//! A review, and what is stored of it.

use std::sync::Arc;

use catalog::{
    ArenaPair, ArenaSpec, Catalog, Picked, PredictionSaid, Review, ReviewAnswer, ReviewItem, ReviewPolicy,
    ReviewSpec, Verdict, Vote,
};
use event::{Kind, Window};
use log::key::{self, LogId, ReviewItemId};
use table::{Key, Table};

use super::{Ids, now, section};

/// The sections of a review.
pub(super) async fn page(
    table: &Arc<dyn Table>,
    ids: &mut Ids,
    catalog: &Catalog,
    workspace: &event::Id,
) -> String {
    let mut page = String::new();
    for (title, key) in judge(catalog, workspace).await {
        page += &section(table, ids, title, key).await;
    }
    page
}

/// A review of which an item was judged: its keys.
async fn judge(catalog: &Catalog, workspace: &event::Id) -> [(&'static str, Key); 8] {
    let (ann, window) = ("user:ann", Window::of(now().day()));
    let spec = ReviewSpec {
        model: Some("churn".into()),
        release: None,
        window,
        policy: ReviewPolicy::Random,
        by: None,
        n: 1,
        seed: 7,
        labels: vec!["default".into(), "repaid".into()],
        with_outcomes: false,
        arena: None,
    };
    let said = PredictionSaid {
        release: "v1".into(),
        label: Some("default".into()),
        score: Some(0.81),
        value: None,
    };
    let item = ReviewItem {
        ver: 1,
        review: "june".into(),
        key: "loan-1".into(),
        predicted_at: now(),
        said: vec![said],
        tags: [("branch".to_owned(), "north".to_owned())].into(),
        sides: None,
        lease: None,
        answer: None,
        expires_at: 1_815_609_600,
    };
    let (id, created_by) = (event::Id::new(now()), ann.to_owned());
    let (name, created_at, expires_at) = ("june".to_owned(), now(), item.expires_at);
    let review = Review { id, name, spec, items: 1, created_at, created_by, expires_at };
    let review = catalog.create_review(workspace, review, Picked::Items(&[item])).await.unwrap();
    let served = catalog.serve((workspace, &review), (ann, 600), &|_| true, now()).await.unwrap().unwrap();
    let at = served.link.item().clone();
    let log = LogId { workspace: workspace.clone(), day: now().day(), kind: Kind::Outcomes, lane: 0 };
    let (verdict, reviewer, after) = (Verdict::Label("repaid".into()), ann.to_owned(), [(log, 17)].into());
    let answer = ReviewAnswer { verdict, reviewer, at: now(), after, is_appended: false };
    let shown = key::shown_to(workspace, ann, &served.item.digest());
    let decided = catalog.decide_answer(&at, served.item, answer).await.unwrap().unwrap();
    catalog.note_appended(&at, &decided).await.unwrap();
    // A note like this one stands there until the outcome is appended.
    catalog.decide_answer(&at, decided.clone(), decided.answer.unwrap()).await.unwrap();
    let duel = compare(catalog, workspace).await;
    [
        ("A review", key::review(workspace, "june")),
        ("An item of it that was answered", key::review_item(&at)),
        ("Which item a reviewer has", key::review_turn(workspace, &review.id, ann)),
        ("That a reviewer was shown a prediction", shown),
        ("What a reviewer answered", key::given_answer(&at, ann, now())),
        ("That an answer is to be appended", key::owed_answer(&at)),
        ("An arena", key::review(workspace, "duel")),
        ("A pair of it, with its votes", key::arena_pair(workspace, &duel, 0)),
    ]
}

/// An arena with one vote; its id. Its items are those of a review, with two sides.
async fn compare(catalog: &Catalog, workspace: &event::Id) -> event::Id {
    let (ann, window) = ("user:ann", Window::of(now().day()));
    let arena = ArenaSpec { releases: Vec::new(), judges: 1, tags: vec!["text".into()] };
    let spec = ReviewSpec {
        model: Some("churn".into()),
        release: None,
        window,
        policy: ReviewPolicy::Pairs,
        by: None,
        n: 1,
        seed: 7,
        labels: Vec::new(),
        with_outcomes: true,
        arena: Some(arena),
    };
    let releases = ["v1".to_owned(), "v2".to_owned()];
    let said = |release: &String| PredictionSaid {
        release: release.clone(),
        label: None,
        score: Some(0.81),
        value: None,
    };
    let side = |text: &str| [("text".to_owned(), text.to_owned())].into();
    let expires_at = 1_815_609_600;
    let item = ReviewItem {
        ver: 1,
        review: "duel".into(),
        key: "loan-1".into(),
        predicted_at: now(),
        said: releases.iter().map(said).collect(),
        tags: [].into(),
        sides: Some([side("Yes."), side("No.")]),
        lease: None,
        answer: None,
        expires_at,
    };
    let review = Review {
        id: event::Id::new(now()),
        name: "duel".into(),
        spec,
        items: 1,
        created_at: now(),
        created_by: ann.into(),
        expires_at,
    };
    let pairs = [(ArenaPair::new(0, releases, expires_at), vec![item])];
    let review = catalog.create_review(workspace, review, Picked::Pairs(&pairs)).await.unwrap();
    let at = ReviewItemId { workspace: workspace.clone(), review: review.id.clone(), number: 0 };
    let item = catalog.review_item(&at).await.unwrap();
    let (verdict, reviewer) = (Verdict::Vote(Vote::Right), ann.to_owned());
    let answer = ReviewAnswer { verdict, reviewer, at: now(), after: [].into(), is_appended: true };
    let decided = catalog.decide_answer(&at, item, answer).await.unwrap().unwrap();
    catalog.note_appended(&at, &decided).await.unwrap();
    review.id
}
