//! Explanations of answers: the data read for them. Each on a SQLite file and on DynamoDB Local.

use event::Kind;
use query::{Bounds, Explanation, Format, Params, Query, Request, Sql, SqlParams};
use serde_json::json;
use tests::{engine::Engine, on_both_engines, scene::Scene};

use crate::streamed::{PREDICTIONS, STREAMED, WHOLE, filled, june, put, query};

on_both_engines!(
    on:
    pruned_segments_are_counted_by_reason,
    explanation_of_ended_stream_counts_unread_segments,
    a_statement_says_what_it_took,
);

async fn on(engine: Engine) -> (Scene, Engine) {
    (Scene::on(engine).await, engine)
}

async fn asked(query: &Query, scene: &Scene, words: &Params<'_>) -> Explanation {
    let request = Request::parse(PREDICTIONS, words).unwrap();
    let explanation = query.explain(scene.id(), &request, Format::Csv).await.unwrap();
    let segments = &explanation.segments;
    assert_eq!(segments.found, segments.unpacked + segments.skipped.values().sum::<u64>(), "{explanation:?}");
    assert!(explanation.table.bytes >= segments.bytes, "{explanation:?}");
    explanation
}

/// Days that were read and skipped; segments that were found and unpacked.
fn read_of(explanation: &Explanation) -> [u64; 4] {
    let Explanation { days, segments, .. } = explanation;
    [days.read, days.skipped, segments.found, segments.unpacked]
}

async fn pruned_segments_are_counted_by_reason((scene, engine): (Scene, Engine)) {
    filled(&scene, 300).await;
    scene.predict("2026-06-04", "v1", 0.5).await;
    let days = Params { columns: Some("key,score"), ..june() };
    let later = "2026-06-02T00:00:00Z";
    let condition = format!("predicted_at >= '{later}'");
    // The choice to stream an answer is made before anything is unpacked.
    for bounds in [WHOLE, STREAMED] {
        let query = query(&scene.table, bounds);
        let all = asked(&query, &scene, &days).await;
        assert_eq!((read_of(&all), all.rows, all.segments.rows), ([30, 0, 24, 24], 6_611, 6_611));
        let columns = ["key".to_owned(), "score".to_owned()].to_vec();
        assert_eq!(all.columns, [("predictions", Some(columns))].into());
        assert_eq!(all.table.read_units.is_some(), matches!(engine, Engine::DynamodbLocal));
        assert!(
            all.table.read_units.is_none_or(|units| units >= all.table.bytes as f64 / 8_192.0),
            "{all:?}"
        );

        let of_a_day =
            asked(&query, &scene, &Params { filter: Some("day = '2026-06-02'"), ..days.clone() }).await;
        assert_eq!((read_of(&of_a_day), of_a_day.rows), ([1, 29, 1, 1], 10));
        assert!(of_a_day.table.bytes < all.table.bytes);

        let late = asked(&query, &scene, &Params { filter: Some(&condition), ..days.clone() }).await;
        assert_eq!((read_of(&late), late.rows), ([30, 0, 24, 8], 1_811));
        assert_eq!(late.segments.skipped["time"], 16);

        let of_release = asked(&query, &scene, &Params { release: Some("v2"), ..days.clone() }).await;
        assert_eq!(read_of(&of_release), [30, 0, 24, 23]);
        assert_eq!((of_release.segments.skipped["release"], of_release.rows), (1, 2_204));
    }
}

async fn explanation_of_ended_stream_counts_unread_segments((scene, _): (Scene, Engine)) {
    for seq in 1..=40 {
        put(&scene, ("2026-06-01", 0, seq), 2_000).await;
    }
    let words = Params { limit: Some("10"), ..june() };
    let first = asked(&query(&scene.table, STREAMED), &scene, &words).await;
    let all = asked(&query(&scene.table, STREAMED), &scene, &june()).await;
    assert_eq!((first.rows, all.rows, all.segments.rows), (10, 80_000, 80_000));
    assert!(first.segments.unpacked < 40, "{first}");
    assert_eq!(first.segments.skipped["enough"], 40 - first.segments.unpacked);
    assert_eq!((all.columns, all.segments.unpacked), ([("predictions", None)].into(), 40));
}

async fn a_statement_says_what_it_took((scene, _): (Scene, Engine)) {
    filled(&scene, 100).await;
    let statement =
        "select release, count(*) as n from predictions where day = '2026-06-02' group by release";
    let sql = Sql::parse(&SqlParams { statement, ..SqlParams::default() }).unwrap();
    let service = query(&scene.table, Bounds::NONE);
    let said = service.explain_sql(scene.id(), &sql, Format::Csv).await.unwrap();
    assert_eq!((said.rows, said.segments.unpacked, said.segments.rows), (2, 1, 10));
    let columns = ["day".to_owned(), "release".to_owned()].to_vec();
    assert_eq!(said.columns[Kind::Predictions.name()], Some(columns));
    for step in ["plan", "read", "unpack", "make", "compute", "write"] {
        assert!(said.steps[step] > 0.0, "{step}: {said:?}");
    }
    let text = said.to_string();
    assert!(text.contains("\nsegments    1 of 1 unpacked: 10 events in "), "{text}");
    assert!(text.contains("\ncolumns     predictions: day, release\n"), "{text}");
    let json = serde_json::to_value(&said).unwrap();
    assert_eq!((&json["rows"], &json["segments"]["skipped"]["time"]), (&json!(2), &json!(0)));
    // The counts are of one answer: the service itself counts nothing.
    assert_eq!(service.explain_sql(scene.id(), &sql, Format::Csv).await.unwrap().table, said.table);
}
