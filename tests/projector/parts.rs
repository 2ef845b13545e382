//! Evaluations of more releases than fit into an item.

use std::sync::Arc;

use event::{Clock, Kind};
use fold::Evaluation;
use log::{
    evaluated::{self, At, Content, OfGone},
    key::{self, Projection},
};
use projector::rebuild::{Pace, rebuild};
use query::{Dataset, Params, Query, Request};
use table::{Item, Table, query_all};
use tests::{
    between::{Between, Call, Happens},
    counted::Counted,
    engine::Engine,
    on_both_engines,
    scene::csv,
    world::at,
};

use crate::bench::{Bench, day};

on_both_engines!(
    Bench::on:
    evaluation_beyond_small_item_is_stored_in_parts,
    a_reader_never_sees_parts_of_two_evaluations,
    what_a_slow_writer_leaves_behind_is_deleted,
);

/// Number of releases whose evaluations exceed 400 KB: one takes about a kilobyte.
const RELEASES: usize = 450;

/// Number of releases in proportion to an item of 20 KB.
const FEW_RELEASES: usize = 22;
const SMALL_ITEM: usize = 20_000;

/// Number of predictions of each release in a segment, so that its scores fill many bins.
const EACH: usize = 20;

fn names(releases: usize) -> Vec<String> {
    (0..releases * EACH).map(|number| format!("v{}", number % releases)).collect()
}

impl Bench {
    /// Items of the evaluation.
    async fn items(&self, version: u32) -> Vec<Item> {
        let range = key::evaluation_items(self.id(), version, day());
        query_all(&*self.table, table::Query::table(range)).await.unwrap()
    }

    /// Number of rows of a query of the day's evaluation, and its reads.
    async fn rows(&self) -> (usize, u64) {
        let counted = Arc::new(Counted::new(Arc::clone(&self.table)));
        let query =
            Query::new(Arc::clone(&counted) as Arc<dyn Table>, Clock::from_fn(|| at("2026-06-02T00:00:00Z")));
        let words =
            Params { from: "2026-06-01", to: "2026-06-30", columns: Some("auc"), ..Params::default() };
        let request = Request::parse(Dataset::Evaluations, &words).unwrap();
        let answer = query.run(self.id(), &request).await.unwrap();
        (csv(answer).lines().count() - 1, counted.take_reads().queries)
    }
}

#[tokio::test]
async fn evaluation_beyond_one_item_is_stored_in_parts() {
    evaluated_in_parts(&Bench::on(Engine::Sqlite).await, RELEASES).await;
}

async fn evaluation_beyond_small_item_is_stored_in_parts(bench: Bench) {
    let table = Between::new(Arc::clone(&bench.table), |_| None).items_of(SMALL_ITEM);
    evaluated_in_parts(&Bench { table: Arc::new(table), ..bench }, FEW_RELEASES).await;
}

async fn evaluated_in_parts(bench: &Bench, releases: usize) {
    let names = names(releases);
    for name in &names[1..releases] {
        bench.register(name).await;
    }
    bench.append(Kind::Predictions, 1, &names[..releases / 4]).await;
    bench.append(Kind::Outcomes, 1, &names).await;
    bench.project(1).await;
    assert_eq!(bench.items(1).await.len(), 1, "what fits stands in one item");
    bench.append(Kind::Predictions, 2, &names).await;
    bench.append(Kind::Outcomes, 2, &names).await;
    bench.project(1).await;
    for seq in [3, 4] {
        let items = bench.items(1).await;
        assert_eq!(items.len(), 3, "a head and two parts, none of what was before");
        assert!(items.iter().all(|item| item.size() < bench.table.item_bytes() / 100 * 86 + 200));
        let (_, states) = bench.evaluation(1).await.unwrap();
        let evaluation = Evaluation::from_states(&states).unwrap();
        assert_eq!(evaluation.releases.len(), releases);
        assert!(evaluation.releases.values().all(|release| release.measures.is_some()));
        let (rows, queries) = bench.rows().await;
        assert_eq!(rows, releases);
        assert!(queries <= 4, "{queries} pages of all there is of a day");
        assert_eq!(bench.verify().await.faults, Vec::<String>::new());
        bench.append(Kind::Predictions, seq, &names).await;
        bench.project(1).await;
    }
    // A rebuild writes them again, and copies those without events.
    let pace = Pace { share: 1.0, clock: Clock::from_fn(|| at("2026-07-01T00:00:00Z")) };
    let before = bench.evaluation(1).await.unwrap().1;
    for version in [2, 3] {
        rebuild(&*bench.table, bench.id(), &pace, |_| {}).await.unwrap();
        assert_eq!(bench.evaluation(version).await.unwrap().1, before);
        assert_eq!((bench.items(version).await.len(), bench.items(version - 1).await.len()), (3, 0));
        assert_eq!(bench.verify().await.faults, Vec::<String>::new());
        bench.expire().await;
    }
}

/// An evaluation of three releases with equal numbers of predictions, each in a part of its own.
fn content(predictions: u64) -> Content {
    let release = |name: &str| {
        format!(
            "{{\"v\":1,\"releases\":{{\"{name}\":{{\"predictions\":{predictions},\"repeated\":0,\
             \"labelled\":0,\"mean_score\":null,\"measures\":null}}}},\"outcomes\":0,\"orphaned\":0}}"
        )
    };
    Content { states: ["a", "b", "c"].map(release).into(), ..Content::default() }
}

async fn write(bench: &Bench, predictions: u64) {
    let before = evaluated::head(&*bench.table, bench.at(1)).await.unwrap();
    evaluated::write(&*bench.table, bench.at(1), &before, content(predictions), OfGone::Refused)
        .await
        .unwrap();
}

/// Pages are read an item at a time, and after some of them the evaluation is written again.
async fn a_reader_never_sees_parts_of_two_evaluations(bench: Bench) {
    for overtaken_at in 1..6 {
        write(&bench, 1).await;
        let (writer, mut pages) = (bench.clone(), 0);
        let table = Between::new(Arc::clone(&bench.table), move |call| {
            pages += u64::from(matches!(call, Call::Query(_)));
            let (writer, is_now) = (writer.clone(), pages % overtaken_at == 0 && pages <= 2 * overtaken_at);
            let predictions = pages + 1;
            is_now.then(|| Box::pin(async move { write(&writer, predictions).await }) as Happens)
        });
        let table = table.pages_of(1);
        let at = At { workspace: bench.id(), version: 1, day: day() };
        let (_, states) = evaluated::load(&table, at).await.unwrap().unwrap();
        let evaluation = Evaluation::from_states(&states).unwrap();
        let counts: Vec<u64> = evaluation.releases.values().map(|release| release.predictions).collect();
        assert_eq!(counts, [counts[0]; 3], "overtaken at page {overtaken_at}");
    }
}

async fn what_a_slow_writer_leaves_behind_is_deleted(bench: Bench) {
    write(&bench, 1).await;
    let slow = evaluated::head(&*bench.table, bench.at(1)).await.unwrap();
    write(&bench, 2).await;
    // It writes parts with the `ver` of the present head.
    let late = evaluated::write(&*bench.table, bench.at(1), &slow, content(9), OfGone::Refused).await;
    assert!(late.unwrap_err().is_conflict());
    assert_eq!(bench.items(1).await.len(), 1 + 3 + 3);
    let (_, states) = bench.evaluation(1).await.unwrap();
    assert_eq!(states, content(2).states);
    write(&bench, 3).await;
    let items = bench.items(1).await;
    let generations: std::collections::BTreeSet<_> = items
        .iter()
        .filter_map(|item| match key::parse_projection(&item.key).unwrap().1 {
            Projection::EvaluationPart(generation, _) => Some(generation),
            _ => None,
        })
        .collect();
    assert_eq!((items.len(), generations.len()), (4, 1));
    // A part that is lost for good is reported, and not waited for.
    bench.table.delete(&items[2].key, table::Condition::None).await.unwrap();
    let lost = evaluated::load(&*bench.table, bench.at(1)).await.unwrap_err();
    assert!(lost.to_string().contains("a part of its generation is missing"), "{lost}");
}
