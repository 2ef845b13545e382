//! Operations over HTTP as named methods.

use std::{collections::BTreeSet, sync::Arc};

use event::Clock;
use tests::{on_both_engines, world::World};

on_both_engines!(
    World::on:
    every_operation_has_a_name_and_an_example,
);

/// Access pattern E1. Every operation has a name of its own, says what it does, and shows what it takes and answers. (That
/// the examples work is tested on the running service, `tests/system/openapi.rs`.)
async fn every_operation_has_a_name_and_an_example(world: World) {
    let service = catalog::Service::new(world.table(), Clock::system());
    let routes = catalog::http::routes(Arc::new(service));
    let paths = serde_json::to_value(routes.paths()).unwrap();
    let mut names = BTreeSet::new();
    for (path, item) in paths.as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let what = format!("{method} {path}");
            assert!(
                names.insert(operation["operationId"].as_str().unwrap().to_owned()),
                "{what}: named twice"
            );
            assert!(operation["summary"].as_str().is_some_and(|summary| summary.len() > 5), "{what}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["in"] != "path" || !parameter["example"].is_null(), "{what}");
            }
            for (_, content) in operation
                .pointer("/requestBody/content")
                .and_then(|all| all.as_object())
                .into_iter()
                .flatten()
            {
                assert!(
                    content.get("example").or(content.get("examples")).is_some(),
                    "{what} has no example"
                );
            }
            let answers = operation["responses"].as_object().unwrap().keys();
            assert!(answers.filter(|status| status.starts_with('2')).count() == 1, "{what}");
        }
    }
    assert!(names.len() > 50, "only {} operations", names.len());
    assert_eq!(world.counted.take_reads(), Default::default(), "describing reads nothing");
}
