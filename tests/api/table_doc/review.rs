//! A review, and what is stored of it.

use std::sync::Arc;

use catalog::{Catalog, PredictionSaid, Review, ReviewAnswer, ReviewItem, ReviewPolicy, ReviewSpec, Verdict};
use event::{Kind, Window};
use log::key::{self, LogId};
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
async fn judge(catalog: &Catalog, workspace: &event::Id) -> [(&'static str, Key); 6] {
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
        lease: None,
        answer: None,
        expires_at: 1_815_609_600,
    };
    let (id, created_by) = (event::Id::new(now()), ann.to_owned());
    let (name, created_at, expires_at) = ("june".to_owned(), now(), item.expires_at);
    let review = Review { id, name, spec, items: 1, created_at, created_by, expires_at };
    let review = catalog.create_review(workspace, review, &[item]).await.unwrap();
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
    [
        ("A review", key::review(workspace, "june")),
        ("An item of it that was answered", key::review_item(&at)),
        ("Which item a reviewer has", key::review_turn(workspace, &review.id, ann)),
        ("That a reviewer was shown a prediction", shown),
        ("What a reviewer answered", key::given_answer(&at, ann, now())),
        ("That an answer is to be appended", key::owed_answer(&at)),
    ]
}
