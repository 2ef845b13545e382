//! The live release of a model against all releases that predict beside it.

use event::{Kind, Task};
use query::{Dataset, Params, Request};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    register::release_of,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    each_challenger_row_equals_its_head_to_head,
    who_was_champion_then_is_told_by_then,
    where_nothing_was_live_a_warning_says_so,
    wrong_words_of_challengers_are_named,
);

const LATER: &str = "2026-06-04T12:00:00Z";
const DAYS: [&str; 2] = ["2026-06-01", "2026-06-02"];
const COLUMNS: &str = "day,release,against,n,wins,losses,ties,measure,accuracy,accuracy_against,accuracy_difference,brier_low,brier_high,advantage,n_so_far,low_so_far,high_so_far,decided_at,winner";

/// Each release predicts `keys` on a day, every third of them positive, with its given score for the truth.
async fn day(scene: &Scene, day: &str, keys: usize, releases: &[(&str, f64)]) {
    let is_positive = |key: usize| key.is_multiple_of(3);
    let of_release = |(release, sure): &(&str, f64)| {
        let (release, sure) = ((*release).to_owned(), *sure);
        (0..keys).map(move |key| {
            let score = if is_positive(key) { sure } else { 1.0 - sure };
            json!({ "key": format!("k{key}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score })
        })
    };
    let predictions: Vec<Value> = releases.iter().flat_map(of_release).collect();
    scene.append(Kind::Predictions, Value::from(predictions), LATER).await.unwrap();
    let outcome = |key: usize| {
        json!({ "key": format!("k{key}"), "predicted_on": day, "observed_at": format!("{day}T02:00:00Z"),
                "label": if is_positive(key) { "1" } else { "0" } })
    };
    scene
        .append(Kind::Outcomes, Value::from((0..keys).map(outcome).collect::<Vec<_>>()), LATER)
        .await
        .unwrap();
}

/// `v1` is live from June on with middling scores; `v2` is better, `v3` worse, and `v4` predicts on another day alone.
async fn scene(world: World) -> Scene {
    let scene = Scene::new(world).await;
    let catalog = &scene.world.catalog;
    let now = at("2026-06-01T00:00:00Z");
    for name in ["v3", "v4"] {
        catalog.ensure_release(scene.id(), &release_of("m", name), now).await.unwrap();
    }
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(scene.id(), "other", &task, now).await.unwrap();
    catalog.ensure_release(scene.id(), &release_of("other", "o1"), now).await.unwrap();
    scene.ingest(now).promote(&scene.workspace, "v1", "production", None).await.unwrap();
    let all = [("v1", 0.6), ("v2", 0.9), ("v3", 0.4), ("o1", 0.95)];
    day(&scene, DAYS[0], 40, &all).await;
    day(&scene, DAYS[1], 40, &all).await;
    scene
}

fn words(columns: &str) -> Params<'_> {
    Params { from: DAYS[0], to: DAYS[1], model: Some("m"), columns: Some(columns), ..Params::default() }
}

async fn asked(scene: &Scene, what: Dataset, words: &Params<'_>) -> (Vec<String>, Vec<String>) {
    let request = Request::parse(what, words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    let warnings = answer.warnings.clone();
    (csv(answer).lines().skip(1).map(str::to_owned).collect(), warnings)
}

async fn refused(scene: &Scene, words: &Params<'_>) -> String {
    let request = Request::parse(Dataset::Challengers, words).unwrap();
    scene.query(at(NOW)).run(scene.id(), &request).await.unwrap_err().to_string()
}

async fn each_challenger_row_equals_its_head_to_head(world: World) {
    let scene = scene(world).await;
    let (rows, warnings) = asked(&scene, Dataset::Challengers, &words(COLUMNS)).await;
    assert_eq!(warnings, [""; 0]);
    // The best comes first; a release of another model is left out.
    let starts: Vec<&str> = rows.iter().map(|row| row.split(",brier").next().unwrap()).collect();
    assert_eq!(starts, ["2026-06-01,v2,v1,80,80,0,0", "2026-06-01,v3,v1,80,0,80,0"]);
    for (row, name) in rows.iter().zip(["v2", "v3"]) {
        let pair = Params {
            model: None,
            release: Some(name),
            against: Some("v1"),
            period: Some("all"),
            ..words(COLUMNS)
        };
        assert_eq!(asked(&scene, Dataset::HeadToHead, &pair).await.0, std::slice::from_ref(row));
    }
    let one = Params { release: Some("v3"), ..words(COLUMNS) };
    assert_eq!(asked(&scene, Dataset::Challengers, &one).await.0, rows[1..]);
    // A release without common predictions with the champion is named in a warning, not in a row.
    day(&scene, "2026-06-03", 5, &[("v4", 0.8)]).await;
    let more = Params { to: "2026-06-03", ..words(COLUMNS) };
    let (with_more, warnings) = asked(&scene, Dataset::Challengers, &more).await;
    assert_eq!(with_more, rows);
    assert_eq!(warnings, ["nothing judges v4 and v1 on the same prediction"]);
    let alone = Params { from: "2026-06-03", to: "2026-06-03", ..words(COLUMNS) };
    let (none, warnings) = asked(&scene, Dataset::Challengers, &alone).await;
    assert_eq!(none, [""; 0]);
    assert_eq!(warnings[1], "the live release v1 predicted nothing in these days");
}

async fn who_was_champion_then_is_told_by_then(world: World) {
    let scene = scene(world).await;
    let columns = "release,against,wins,losses";
    let (before, _) = asked(&scene, Dataset::Challengers, &words(columns)).await;
    assert_eq!(before, ["v2,v1,80,0", "v3,v1,0,80"]);
    let request = Request::parse(Dataset::Challengers, &words(columns)).unwrap();
    let then = scene.query(at("2026-06-05T00:00:00Z")).run(scene.id(), &request).await.unwrap();
    let read_version = then.read_version.unwrap().to_string();
    // On the second day another release becomes live, which is known only later.
    let promoted = json!([{ "release": "v2", "released_at": "2026-06-02T12:00:00Z", "model": "m", "action": "promote",
                             "environment": "production" }]);
    scene.append(Kind::Releases, promoted, "2026-06-08T00:00:00Z").await.unwrap();
    let (now, _) = asked(&scene, Dataset::Challengers, &words(columns)).await;
    assert_eq!(now, ["v1,v2,0,80", "v3,v2,0,80"]);
    for known in [
        Params { as_of: Some("2026-06-05"), ..words(columns) },
        Params { read_version: Some(&read_version), ..words(columns) },
        // At the end of the first day the other one was live.
        Params { to: DAYS[0], ..words("release,against") },
    ] {
        let (rows, _) = asked(&scene, Dataset::Challengers, &known).await;
        assert!(rows[0].starts_with("v2,v1") && rows[1].starts_with("v3,v1"), "{known:?}: {rows:?}");
    }
}

async fn wrong_words_of_challengers_are_named(world: World) {
    let scene = scene(world).await;
    for (wrong, because) in [
        (Params { model: None, ..words("n") }, "model: name the model whose live release is challenged"),
        (Params { model: Some("a b"), ..words("n") }, "model: "),
        (Params { environment: Some(""), ..words("n") }, "environment: "),
        (Params { period: Some("week"), ..words("n") }, "period: `challengers` does not take it"),
        (
            Params { shadow: true, environment: Some("production"), ..words("n") },
            "`challengers` does not take it",
        ),
        (Params { by: Some("tag.city"), ..words("n") }, "group-by: `challengers` does not take it"),
        (
            Params { against: Some("v1"), ..words("n") },
            "against: `challengers` does not take it; it is of head-to-head",
        ),
    ] {
        let refusal = Request::parse(Dataset::Challengers, &wrong).unwrap_err().to_string();
        assert!(refusal.contains(because), "{refusal}");
    }
    let evaluations = Request::parse(Dataset::Evaluations, &words("day")).unwrap_err().to_string();
    assert!(
        evaluations.contains("model: `evaluations` does not take it; it is of challengers"),
        "{evaluations}"
    );
    let (none, warnings) =
        asked(&scene, Dataset::Challengers, &Params { model: Some("other"), ..words("n") }).await;
    assert_eq!(none, [""; 0]);
    assert_eq!(warnings, ["no release of other was live in production when the window ended"]);
    let refusal = refused(&scene, &Params { model: Some("nobody"), ..words("n") }).await;
    assert!(refusal.contains("there is no release of a model `nobody`"), "{refusal}");
}

/// Holds also if nothing was ever live: no release of the workspace was promoted, or none to this environment.
async fn where_nothing_was_live_a_warning_says_so(world: World) {
    let scene = Scene::new(world).await;
    let warned = async |environment: Option<&str>, says: &str| {
        let (rows, warnings) =
            asked(&scene, Dataset::Challengers, &Params { environment, ..words("n") }).await;
        let environment = environment.unwrap_or("production");
        let none = format!("no release of m was live in {environment} when the window ended");
        assert_eq!((rows, warnings), (Vec::new(), vec![none, says.to_owned()]));
    };
    warned(None, "there is no environment `production`; there is none yet").await;
    scene.ingest(at(NOW)).promote(&scene.workspace, "v1", "production", None).await.unwrap();
    warned(Some("staging"), "there is no environment `staging`; there are production").await;
}
