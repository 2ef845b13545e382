//! A review, and what is stored of it.

use std::sync::Arc;

use catalog::{
    ArenaPair, Catalog, PickedItems, PredictionSaid, Review, ReviewAnswer, ReviewItem, ReviewPolicy,
    ReviewSpec, Served, Verdict, Vote,
};
use event::{Id, Window};
use log::key::{self, ReviewItemId};
use table::{Key, Table};

use super::{Ids, now, section};

const ANN: &str = "user:ann";

/// The sections of a review.
pub(super) async fn page(table: &Arc<dyn Table>, ids: &mut Ids, catalog: &Catalog, workspace: &Id) -> String {
    let mut page = String::new();
    for (title, key) in judge(catalog, workspace).await {
        page += &section(table, ids, title, key).await;
    }
    page
}

/// A review of which an item was judged, and an arena with a vote: their keys.
async fn judge(catalog: &Catalog, workspace: &Id) -> [(&'static str, Key); 8] {
    let labels = vec!["default".into(), "repaid".into()];
    let spec = ReviewSpec { labels, n: Some(1), ..ReviewSpec::new(Window::of(now().day())) };
    let review = review("june", spec.clone());
    let mut single = item(workspace, &review);
    single.said.truncate(1);
    single.tags.insert("branch".into(), "north".into());
    let served = serve(catalog, workspace, &review, (None, vec![single])).await;
    let id = served.item.id.clone();
    let shown = key::shown_to(workspace, ANN, &served.item.digest());
    decide(catalog, served, Verdict::Label("repaid".into())).await;
    let releases = vec!["v1".into(), "v2".into()];
    let duel = ReviewSpec { policy: ReviewPolicy::Pairs, labels: Vec::new(), releases, ..spec };
    let duel = duel.checked().unwrap();
    let duel = self::review("duel", duel);
    let pair = ArenaPair::new(0, ["v1".into(), "v2".into()], duel.expires_at);
    let served = serve(catalog, workspace, &duel, (Some(pair), vec![item(workspace, &duel)])).await;
    decide(catalog, served, Verdict::Vote(Vote::Right)).await;
    [
        ("A review", key::review(workspace, "june")),
        ("An item of it that was answered", key::review_item(&id)),
        ("Which item a reviewer has", key::review_turn(workspace, &review.id, ANN)),
        ("That a reviewer was shown a prediction", shown),
        ("What a reviewer answered", key::given_answer(&id, ANN, now())),
        ("That an answer is to be appended", key::owed_answer(&id)),
        ("An arena", key::review(workspace, "duel")),
        ("A pair of it, with its votes", key::arena_pair(workspace, &duel.id, 0)),
    ]
}

fn review(name: &str, spec: ReviewSpec) -> Review {
    let (id, created_by) = (Id::new(now()), ANN.to_owned());
    Review {
        id,
        name: name.to_owned(),
        spec,
        items: 1,
        created_at: now(),
        created_by,
        expires_at: 1_815_609_600,
    }
}

/// An item with the predictions of two releases.
fn item(workspace: &Id, review: &Review) -> ReviewItem {
    let is_pair = review.spec.is_arena();
    let said = |release: &str, text: &str| {
        let tags = [("text".to_owned(), text.to_owned())].into_iter().filter(|_| is_pair).collect();
        let label = (!is_pair).then(|| "default".to_owned());
        PredictionSaid { release: release.into(), label, score: Some(0.81), value: None, tags }
    };
    ReviewItem {
        ver: 1,
        id: ReviewItemId { workspace: workspace.clone(), review: review.id.clone(), number: 0 },
        review: review.name.clone(),
        key: "loan-1".into(),
        predicted_at: now(),
        is_pair,
        said: vec![said("v1", "Yes."), said("v2", "No.")],
        tags: [].into(),
        lease: None,
        answer: None,
        expires_at: review.expires_at,
    }
}

async fn serve(catalog: &Catalog, workspace: &Id, review: &Review, picked: PickedItems) -> Served {
    let review = catalog.create_review(workspace, review.clone(), vec![picked]).await.unwrap();
    catalog.serve((workspace, &review), (ANN, 600), &|_| true, now()).await.unwrap().unwrap()
}

/// Decides an answer; its note stands there until its events are appended.
async fn decide(catalog: &Catalog, served: Served, verdict: Verdict) {
    let after = [("day#2026-06-10/o/00".to_owned(), 17)].into();
    let answer = ReviewAnswer { verdict, reviewer: ANN.into(), at: now(), after };
    catalog.decide_answer(served.item, answer).await.unwrap().unwrap();
}
