//! Reviews and arenas of the run: what people judge.

use std::sync::Arc;

use catalog::{
    AnsweredBy, New, NewEntity, ReviewAnswer, ReviewPolicy, ReviewSpec, Served, Verdict, Vote, Workspace,
};
use event::{Clock, Window};
use ingest::Ingest;
use table::Table;

use super::now;

/// Makes a review, and has it judged: an item with an account, one by a link; and one whose answer is left to the projector.
pub(super) async fn review(ingest: &Ingest, table: &Arc<dyn Table>, workspace: &Workspace, clock: &Clock) {
    let spec = ReviewSpec {
        n: Some(3),
        with_outcomes: true,
        ..ReviewSpec::new(Window::of("2026-06-01".parse().unwrap()))
    };
    // A user's answers are counted beside the user.
    ingest.catalog().create(NewEntity::new("eve", New::User), now()).await.unwrap();
    let query = query::Query::new(Arc::clone(table), clock.clone());
    let (review, _) = query.create_review(workspace, "june", spec.clone()).await.unwrap();
    let next = async |reviewer: &str| {
        ingest.next_of((workspace.id(), &review), (reviewer, 600)).await.unwrap().unwrap()
    };
    let (first, second, third) = (next("user:ann").await, next("guest:bob").await, next("user:eve").await);
    let at = |served: &Served| served.link.item().clone();
    let verdict = || Verdict::Label("1".into());
    let ann = AnsweredBy::Reviewer("user:ann".into());
    assert!(ingest.answer(&at(&first), &ann, verdict()).await.unwrap().is_appended);
    let catalog = ingest.catalog();
    catalog.give_back(&at(&second), &AnsweredBy::Link(second.link.digest()), now()).await.unwrap();
    let answer =
        ReviewAnswer { verdict: verdict(), reviewer: "user:eve".into(), at: now(), after: [].into() };
    catalog.decide_answer(third.item.clone(), answer).await.unwrap().unwrap();
    query.create_review(workspace, "done", spec.clone()).await.unwrap();
    catalog.delete_review(workspace.id(), "done").await.unwrap();
    compare(ingest, &query, workspace, spec).await;
}

/// Makes an arena of two releases, and has a pair voted on; and another one whose vote is left to the projector.
async fn compare(ingest: &Ingest, query: &query::Query, workspace: &Workspace, spec: ReviewSpec) {
    let releases = vec!["v1".into(), "v2".into()];
    let spec = ReviewSpec { policy: ReviewPolicy::Pairs, n: Some(1), releases, ..spec };
    query.create_review(workspace, "duel", spec).await.unwrap();
    let (duel, _) = query.refresh_arena(workspace, "duel", None).await.unwrap();
    assert_eq!(duel.items, 2);
    let served = ingest.next_of((workspace.id(), &duel), ("user:ann", 600)).await.unwrap().unwrap();
    let ann = AnsweredBy::Reviewer("user:ann".into());
    let voted = ingest.answer(served.link.item(), &ann, Verdict::Vote(Vote::Left)).await.unwrap();
    assert!(voted.is_appended);
    let served = ingest.next_of((workspace.id(), &duel), ("user:eve", 600)).await.unwrap().unwrap();
    let answer = ReviewAnswer {
        verdict: Verdict::Vote(Vote::Tie),
        reviewer: "user:eve".into(),
        at: now(),
        after: [].into(),
    };
    ingest.catalog().decide_answer(served.item, answer).await.unwrap().unwrap();
}
