//! Events of a window of time.

use catalog::NewEntity;
use event::{Clock, Kind, Timestamp};
use ingest::{Ingest, Remember, json::read_ndjson};
use query::{Dataset, Params, Query, Request};
use tests::{
    on_both_engines,
    world::{World, at, release},
};

on_both_engines!(
    World::on:
    event_window_costs_nothing_outside_it,
);

fn now() -> Timestamp {
    at("2026-06-10T00:00:00Z")
}

/// Access pattern A8.
async fn event_window_costs_nothing_outside_it(world: World) {
    let within = world.workspace().await;
    world.model(&within, "churn", now()).await;
    world.catalog.create(NewEntity::new("v1", release(&within, "churn")), now()).await.unwrap();
    let later = at("2026-08-01T00:00:00Z");
    let ingest = Ingest::replaying(world.table(), Clock::from_fn(move || later));
    let workspace = world.catalog.workspace("credit/prod").await.unwrap();
    let append = async |days: &[&str]| {
        for day in days {
            let row = format!(r#"{{"key":"k","predicted_at":"{day}T04:30:00Z","release":"v1","score":0.5}}"#);
            let batch = read_ndjson(Kind::Predictions, row.as_bytes(), later).unwrap();
            ingest.submit(&workspace, batch, None, Remember::Week).await.unwrap();
        }
    };
    let words = Params {
        from: "2026-06-01",
        to: "2026-06-30",
        columns: Some("key,predicted_at"),
        ..Params::default()
    };
    let request = Request::parse(Dataset::parse("predictions").unwrap(), &words).unwrap();
    let query = Query::new(world.table(), Clock::system());
    append(&["2026-06-01", "2026-06-15", "2026-06-30"]).await;
    let (rows, before) = world.reads(query.run(workspace.id(), &request)).await;
    assert_eq!(rows.unwrap().frame.height(), 3);
    // Events outside of the window cost nothing.
    append(&["2026-05-01", "2026-05-31", "2026-07-01", "2026-07-02", "2026-07-31"]).await;
    let (rows, after) = world.reads(query.run(workspace.id(), &request)).await;
    assert_eq!((rows.unwrap().frame.height(), after), (3, before));
}
