//! Look-ups of some keys in the lanes of these keys, with the same result as in all lanes. Each on a SQLite file and on DynamoDB
//! Local.

use event::{Kind, lane::lane_of};
use query::{Dataset, Explanation, Format, Params, Query, Request, Sql, SqlParams};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{Scene, csv},
};

use crate::streamed::{PREDICTIONS, STREAMED, WHOLE, june, query};

on_both_engines!(
    Scene::on:
    lane_lookup_agrees_with_a_full_read,
    statement_looks_in_lanes_of_its_keys,
    tag_of_other_keys_is_an_empty_column,
    an_explanation_says_what_lanes_and_keys_spare,
);

const KEYS: u64 = 12;

/// Days that began with other numbers of lanes than they had later.
pub(crate) async fn filled(scene: &Scene, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..6 {
        scene.world.set_lanes(scene.id(), [4, 2, 16, 1, 8, 3][round]).await;
        for kind in [Kind::Predictions, Kind::Outcomes] {
            let event = |_| {
                let (day, key) = (random.usize(1..=round.min(4) + 1), random.u64(..KEYS));
                let minute = random.u8(..60);
                match kind {
                    Kind::Predictions => json!({
                        "key": format!("k{key}"), "predicted_at": format!("2026-06-0{day}T0{round}:{minute:02}:00Z"),
                        "release": format!("v{}", 1 + key % 2), "score": f64::from(minute) / 60.0,
                        "tags": { format!("of{key}"): "x" },
                    }),
                    _ => json!({
                        "key": format!("k{key}"), "predicted_on": format!("2026-06-0{day}"), "label": "1",
                        "observed_at": format!("2026-06-06T0{round}:{minute:02}:00Z"),
                    }),
                }
            };
            let events: Value = (0..40).map(event).collect();
            scene.append(kind, events, &format!("2026-06-06T0{round}:00:00Z")).await.unwrap();
        }
    }
}

async fn asked(query: &Query, scene: &Scene, what: Dataset, words: &Params<'_>) -> (String, String) {
    let request = Request::parse(what, words).unwrap();
    let answer = query.run(scene.id(), &request).await.unwrap();
    let read_version = answer.read_version.as_ref().unwrap().to_string();
    (csv(answer), read_version)
}

pub(crate) async fn explained(
    query: &Query,
    scene: &Scene,
    what: Dataset,
    words: &Params<'_>,
) -> Explanation {
    let request = Request::parse(what, words).unwrap();
    let explanation = query.explain(scene.id(), &request, Format::Csv).await.unwrap();
    let segments = &explanation.segments;
    assert_eq!(segments.found, segments.unpacked + segments.skipped.values().sum::<u64>(), "{explanation}");
    explanation
}

async fn lane_lookup_agrees_with_a_full_read(scene: Scene) {
    filled(&scene, 7).await;
    let numbers = numbers();
    let (rows, [in_lanes, by_filters]) = compare(&scene, &numbers).await;
    let enough = 8 * numbers.len();
    assert!(rows > enough && in_lanes > enough as u64 && by_filters == 0, "{rows} {in_lanes} {by_filters}");
}

/// Numbers of the tested keys: some, each another case of [`compare`], or all if `ALMANAC_ALL_KEYS` is set, which takes minutes
/// on DynamoDB Local.
pub(crate) fn numbers() -> Vec<u64> {
    match std::env::var_os("ALMANAC_ALL_KEYS") {
        Some(_) => (0..KEYS).collect(),
        None => vec![0, 3, 7, 8],
    }
}

/// Compares the events of some keys with those found among all. Returns the number of rows, and the numbers of segments that were
/// skipped by lanes and by filters.
pub(crate) async fn compare(scene: &Scene, numbers: &[u64]) -> (usize, [u64; 2]) {
    let (mut rows, mut passed_over) = (0, [0; 2]);
    for (what, columns) in [
        (PREDICTIONS, "day,key,predicted_at,score"),
        (PREDICTIONS, "key,tag.of3,tag.of4"),
        (Dataset::Events(Kind::Outcomes), "day,key,observed_at,label"),
    ] {
        for &number in numbers {
            let (key, other) = (format!("k{number}"), format!("k{}", (number + 5) % KEYS));
            // A condition on a derived value selects no keys before events are read.
            let conditions = [
                (format!("key = '{key}'"), format!("lower(key) = '{key}'")),
                (
                    format!("key = '{key}' or key = '{other}'"),
                    format!("lower(key) = '{key}' or lower(key) = '{other}'"),
                ),
            ];
            let (filter, all) = &conditions[number as usize % 2];
            let order = Some(["oldest", "newest"][number as usize / 2 % 2]);
            let as_of = (number % 3 == 0).then_some("2026-06-06T03:30:00Z");
            let columns = (number % 5 > 1).then_some(columns);
            let words = Params { columns, filter: Some(filter), order, as_of, ..june() };
            let of_all = Params { filter: Some(all), ..words.clone() };
            for bounds in [WHOLE, STREAMED] {
                let query = query(&scene.table, bounds);
                let found = asked(&query, scene, what, &words).await;
                assert_eq!(found, asked(&query, scene, what, &of_all).await, "{words:?}");
                let (found, read_version) = found;
                rows += found.lines().count() - 1;
                // The read version of an answer about one key is one of all keys.
                let again = Params { read_version: Some(&read_version), as_of: None, ..of_all.clone() };
                assert_eq!(asked(&query, scene, what, &again).await.0, found);
                let again = Params { filter: Some(filter), ..again };
                assert_eq!(asked(&query, scene, what, &again).await.0, found);
                if number % 4 != 0 {
                    continue;
                }
                let (few, many) = (
                    explained(&query, scene, what, &words).await,
                    explained(&query, scene, what, &of_all).await,
                );
                assert_eq!((few.rows, few.segments.found), (many.rows, many.segments.found), "{few}{many}");
                assert_eq!(many.segments.skipped["lane"] + many.segments.skipped["key"], 0);
                assert!(few.segments.unpacked <= many.segments.unpacked);
                passed_over[0] += few.segments.skipped["lane"];
                passed_over[1] += few.segments.skipped["filter"];
            }
        }
    }
    (rows, passed_over)
}

async fn statement_looks_in_lanes_of_its_keys(scene: Scene) {
    filled(&scene, 8).await;
    let query = query(&scene.table, WHOLE);
    for table in ["predictions", "joined"] {
        for (key, column) in [("k3", "score"), ("k4", "\"tag.of3\""), ("k99", "score")] {
            // The existence of a named tag is known from all predictions.
            let looks_in_lanes = (table, column) != ("joined", "\"tag.of3\"");
            let statement = |condition: &str| {
                format!(
                    "select day, key, {column} from {table} where day between '2026-06-01' and '2026-06-30' and {condition} = '{key}' order by day, key, {column}"
                )
            };
            let mut found = Vec::new();
            for condition in ["key", "lower(key)"] {
                let text = statement(condition);
                let sql = Sql::parse(&SqlParams { statement: &text, ..SqlParams::default() }).unwrap();
                let rows = csv(query.sql(scene.id(), &sql).await.unwrap());
                let said = query.explain_sql(scene.id(), &sql, Format::Csv).await.unwrap();
                found.push((rows, said.segments.skipped["lane"] > 0));
            }
            assert_eq!(found[0].0, found[1].0, "{table} {key}");
            assert_eq!((found[0].1, found[1].1), (looks_in_lanes, false), "{table} {key}");
        }
    }
}

async fn tag_of_other_keys_is_an_empty_column(scene: Scene) {
    scene.world.set_lanes(scene.id(), 16).await;
    let prediction = |key: &str, tags: Value| {
        json!({
            "key": key, "predicted_at": "2026-06-01T01:00:00Z", "release": "v1", "score": 0.5, "tags": tags,
        })
    };
    let events = json!([prediction("a", json!({})), prediction("b", json!({ "city": "Ulm" }))]);
    scene.append(Kind::Predictions, events, "2026-06-02T00:00:00Z").await.unwrap();
    for bounds in [WHOLE, STREAMED] {
        let query = query(&scene.table, bounds);
        let words = Params { columns: Some("key,tag.city"), key: Some("a"), ..june() };
        assert_eq!(asked(&query, &scene, PREDICTIONS, &words).await.0, "key,tag.city\na,\n");
        let none = Params { key: Some("c"), ..words.clone() };
        assert_eq!(asked(&query, &scene, PREDICTIONS, &none).await.0, "key,tag.city\n");
        let wrong = Params { columns: Some("key,tag.town"), ..words };
        let request = Request::parse(PREDICTIONS, &wrong).unwrap();
        let refused = query.run(scene.id(), &request).await.unwrap_err().to_string();
        assert!(refused.contains("no event of the window has the tag `tag.town`"), "{refused}");
    }
    for bounds in [WHOLE, STREAMED] {
        let query = query(&scene.table, bounds);
        for (key, rows) in [("a", 1), ("b", 1), ("c", 0)] {
            let found = asked(&query, &scene, PREDICTIONS, &Params { key: Some(key), ..june() }).await.0;
            let names = found.lines().next().unwrap();
            assert!(names.split(',').any(|name| name == "tag.city"), "{key}: {names}");
            assert_eq!(found.lines().count(), 1 + rows);
        }
    }
    let sql = "select key, \"tag.city\" from joined where day = '2026-06-01' and key = 'a'";
    let sql = Sql::parse(&SqlParams { statement: sql, ..SqlParams::default() }).unwrap();
    let rows = csv(query(&scene.table, WHOLE).sql(scene.id(), &sql).await.unwrap());
    assert_eq!(rows, "key,tag.city\na,\n");
}

async fn an_explanation_says_what_lanes_and_keys_spare(scene: Scene) {
    scene.world.set_lanes(scene.id(), 4).await;
    let predictions = |keys: &[&str]| -> Value {
        let of = |key: &&str| {
            json!({
                "key": key, "predicted_at": "2026-06-01T01:00:00Z", "release": "v1", "score": 0.5,
            })
        };
        keys.iter().map(of).collect()
    };
    // `loan-0000001` is in lane 2 of four, as one key of `all` is.
    let others: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    let in_lane = |lane| others.iter().find(|key| lane_of(key, 4) == lane).unwrap().as_str();
    let all = [in_lane(0), in_lane(1), in_lane(2), in_lane(3)];
    for (keys, hour) in [(&all[..], 1), (&["loan-0000001"], 2), (&all[..3], 3)] {
        scene
            .append(Kind::Predictions, predictions(keys), &format!("2026-06-02T0{hour}:00:00Z"))
            .await
            .unwrap();
    }
    for bounds in [WHOLE, STREAMED] {
        let query = query(&scene.table, bounds);
        let words = Params { key: Some("loan-0000001"), ..june() };
        let said = explained(&query, &scene, PREDICTIONS, &words).await;
        let opening = said.segments.skipped["empty"];
        // Lanes 0, 1 and 3 have two, two and one; lane 2 has two without the key, and one with it.
        assert_eq!((said.segments.skipped["lane"], said.segments.skipped["key"]), (5, 2), "{said}");
        assert_eq!((said.segments.unpacked, said.segments.found, said.rows), (1, 8 + opening, 1), "{said}");
        let text = said.to_string();
        for reason in ["they are in lanes of other keys", "none of their events has a key that is wanted"] {
            assert!(text.contains(reason), "{text}");
        }
        let of_release = Params { release: Some("v1"), ..words };
        let said = explained(&query, &scene, PREDICTIONS, &of_release).await;
        assert_eq!((said.segments.skipped["lane"], said.segments.skipped["key"]), (5, 2), "{said}");
    }
}
