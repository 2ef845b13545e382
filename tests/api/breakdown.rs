//! Breakdowns of evaluations: by models, tags and bins of features.

use event::Kind;
use query::{Answer, Bounds, Dataset, Params, Request};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    evaluations_are_broken_down_by_tags_and_bins,
    releases_of_a_model_are_judged_together,
    breakdown_is_independent_of_memory_and_read_version,
    the_gaps_between_values_stand_in_each_row,
);

const DAY: &str = "2026-06-01";
const LATER: &str = "2026-06-04T12:00:00Z";

/// Fields of a prediction beside its key and its time.
type More = fn(usize) -> Value;

/// Predictions of a release on a day, a minute apart, and the outcomes of all of them.
async fn predict(scene: &Scene, day: &str, release: &str, count: usize, more: More) {
    let prediction = |n: usize| {
        let time = format!("{day}T{:02}:{:02}:00Z", n / 60, n % 60);
        let mut event = json!({ "key": format!("k{n}"), "predicted_at": time, "release": release });
        let more = more(n).as_object().unwrap().clone();
        event.as_object_mut().unwrap().extend(more);
        event
    };
    let outcome = |n: usize| {
        let label = if n.is_multiple_of(3) { "1" } else { "0" };
        json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T23:00:00Z"), "label": label })
    };
    scene.append(Kind::Predictions, (0..count).map(prediction).collect(), LATER).await.unwrap();
    scene.append(Kind::Outcomes, (0..count).map(outcome).collect(), LATER).await.unwrap();
}

fn tagged(n: usize) -> Value {
    let (score, hours) = ((n % 10) as f64 / 10.0, n as f64);
    match n % 4 {
        0 => {
            json!({ "score": score, "tags": { "carrier": "UA", "from": "JFK" }, "features": { "hours": hours } })
        }
        1 => {
            json!({ "score": score, "tags": { "carrier": "AA", "from": "JFK" }, "features": { "hours": hours } })
        }
        2 => json!({ "score": score, "tags": { "carrier": "UA" }, "features": { "hours": hours } }),
        _ => json!({ "score": score }),
    }
}

async fn run(scene: &Scene, words: Params<'_>) -> event::Result<Answer> {
    let request = Request::parse(Dataset::Evaluations, &words)?;
    scene.query(at(NOW)).run(scene.id(), &request).await
}

fn rows(answer: Answer) -> Vec<String> {
    csv(answer).lines().map(str::to_owned).collect()
}

fn words<'a>(by: &'a str, columns: &'a str) -> Params<'a> {
    Params { from: DAY, to: "2026-06-02", by: Some(by), columns: Some(columns), ..Params::default() }
}

async fn evaluations_are_broken_down_by_tags_and_bins(world: World) {
    let scene = Scene::new(world).await;
    predict(&scene, DAY, "v1", 40, tagged).await;
    predict(&scene, "2026-06-02", "v2", 8, tagged).await;
    scene.project().await;
    let asked = async |words| rows(run(&scene, words).await.unwrap());
    let by_tag = words("tag.carrier", "day,release,tag.carrier,predictions,labelled");
    let expected = [
        "day,release,tag.carrier,predictions,labelled",
        "2026-06-01,v1,AA,10,10",
        "2026-06-01,v1,UA,20,20",
        "2026-06-01,v1,(none),10,10",
        "2026-06-02,v2,AA,2,2",
        "2026-06-02,v2,UA,4,4",
        "2026-06-02,v2,(none),2,2",
    ];
    assert_eq!(asked(by_tag.clone()).await, expected);
    assert_eq!(asked(Params { release: Some("v2"), ..by_tag.clone() }).await[1..], expected[4..]);
    let as_of = |as_of| Params { as_of: Some(as_of), ..by_tag.clone() };
    assert_eq!(asked(as_of("2026-06-05")).await, expected);
    assert_eq!(asked(as_of("2026-06-04")).await.len(), 1, "nothing had been appended by then");
    let pairs = words("tag.carrier,tag.from", "release,tag.carrier,tag.from,predictions");
    let expected = [
        "release,tag.carrier,tag.from,predictions",
        "v1,AA,JFK,10",
        "v1,UA,JFK,10",
        "v1,UA,(none),10",
        "v1,(none),(none),10",
        "v2,AA,JFK,2",
        "v2,UA,JFK,2",
        "v2,UA,(none),2",
        "v2,(none),(none),2",
    ];
    assert_eq!(asked(Params { period: Some("all"), ..pairs }).await, expected);
    let bins = words("feature.hours", "release,feature.hours,predictions,accuracy_n,accuracy,auc");
    let edges = Params { bins: Some("4,20"), period: Some("all"), ..bins.clone() };
    let found = asked(edges).await;
    let counts: Vec<&str> = found[1..].iter().map(|row| row.rsplitn(4, ',').nth(3).unwrap()).collect();
    let expected = [
        "v1,\"(-inf, 4)\",3",
        "v1,\"[4, 20)\",12",
        "v1,\"[20, inf)\",15",
        "v1,(none),10",
        "v2,\"(-inf, 4)\",3",
        "v2,\"[4, 20)\",3",
        "v2,(none),2",
    ];
    assert_eq!(counts, expected);
    let warned = async |by| run(&scene, words(by, "release,predictions")).await.unwrap().warnings;
    assert!(warned("tag.carrier,feature.hours").await.is_empty());
    let of_nothing =
        ["no prediction of these days has `feature.n`", "no prediction of these days has `tag.n`"];
    assert_eq!(warned("tag.n,feature.n").await, of_nothing);
    // Quantiles of both days together are the edges of both.
    let found = asked(Params { bins: Some("2"), ..bins }).await;
    let labels: Vec<&str> = found[1..].iter().map(|row| row.rsplitn(5, ',').nth(4).unwrap()).collect();
    assert_eq!(labels.len(), 5);
    assert_eq!(labels[0].strip_prefix("v1"), labels[3].strip_prefix("v2"));
    assert_eq!((labels[2], labels[4]), ("v1,(none)", "v2,(none)"), "{labels:?}");
    let refused = run(&scene, Params { bins: Some("2"), ..by_tag }).await.unwrap_err().to_string();
    assert_eq!(refused, "bins: only features have bins; name one in `group-by`");
}

async fn releases_of_a_model_are_judged_together(world: World) {
    let scene = Scene::new(world).await;
    // The first release has the lower scores, and the second counts as positive from 0.8 on.
    predict(&scene, DAY, "v1", 10, |n| json!({ "score": n as f64 / 20.0 })).await;
    predict(&scene, DAY, "v2", 10, |n| json!({ "score": n as f64 / 10.0 })).await;
    scene.project().await;
    let columns = "model,release,predictions,labelled,tp,fp,tn,fn,positives,auc,wins,losses";
    let by_model = words("model", columns);
    let found = rows(run(&scene, by_model.clone()).await.unwrap());
    assert!(found[1].starts_with("m,,20,20,"), "{found:?}");
    let of_releases = rows(run(&scene, Params { by: None, ..by_model }).await.unwrap());
    let counts =
        |row: &str| -> Vec<u64> { row.split(',').skip(2).take(7).map(|n| n.parse().unwrap()).collect() };
    let sum: Vec<u64> =
        counts(&of_releases[1]).iter().zip(counts(&of_releases[2])).map(|(one, other)| one + other).collect();
    assert_eq!(counts(&found[1]), sum);
    assert!(found[1].ends_with(",0,0"), "releases of one model do not meet: {found:?}");
    let refused = run(&scene, Params { release: Some("v1"), ..words("model", "day") }).await.unwrap_err();
    assert_eq!(refused.to_string(), "release: the rows are of models");
}

async fn breakdown_is_independent_of_memory_and_read_version(world: World) {
    let scene = Scene::new(world).await;
    predict(&scene, DAY, "v1", 1_200, tagged).await;
    predict(&scene, DAY, "v2", 1_200, tagged).await;
    scene.project().await;
    let words = Params { from: DAY, to: DAY, by: Some("tag.carrier,feature.hours"), ..Params::default() };
    let request = Request::parse(Dataset::Evaluations, &words).unwrap();
    let query = scene.query(at(NOW));
    let answer = query.run(scene.id(), &request).await.unwrap();
    let read_version = answer.read_version.as_ref().unwrap().to_string();
    let expected = rows(answer);
    // At most 3,000 of 4,800 rows are held at a time.
    let bounds = Bounds { memory: 512 * 3_000, ..Bounds::NONE };
    let within = query.clone().within(bounds).run(scene.id(), &request).await;
    assert_eq!(rows(within.unwrap()), expected);
    predict(&scene, DAY, "v1", 30, |_| json!({ "score": 0.5, "tags": { "carrier": "ZZ" } })).await;
    assert_ne!(rows(query.run(scene.id(), &request).await.unwrap()), expected);
    let again =
        Request::parse(Dataset::Evaluations, &Params { read_version: Some(&read_version), ..words }).unwrap();
    assert_eq!(rows(query.run(scene.id(), &again).await.unwrap()), expected);
}

async fn the_gaps_between_values_stand_in_each_row(world: World) {
    let scene = Scene::new(world).await;
    predict(&scene, DAY, "v1", 60, tagged).await;
    scene.project().await;
    let columns = "tag.carrier,tp,fp,tn,fn,selection_rate,demographic_parity_difference,equalized_odds_ratio";
    let found = rows(run(&scene, words("tag.carrier", columns)).await.unwrap());
    let cells =
        |row: &str| -> Vec<f64> { row.split(',').skip(1).map(|cell| cell.parse().unwrap()).collect() };
    let [aa, ua, none] = [1, 2, 3].map(|row| cells(&found[row]));
    for of in [&aa, &ua, &none] {
        let rate = (of[0] + of[1]) / (of[0] + of[1] + of[2] + of[3]);
        assert!((of[4] - rate).abs() < 1e-12, "{found:?}");
        assert!((of[5] - (aa[4] - ua[4]).abs()).abs() < 1e-12, "no value is no group: {found:?}");
    }
    assert!(aa[6] > 0.0 && aa[6] < 1.0 && aa[6] == none[6], "{found:?}");
    // Without values there is no ratio, and no such column unless it is named.
    let whole =
        Params { from: DAY, to: DAY, columns: Some("day,demographic_parity_ratio"), ..Params::default() };
    assert_eq!(rows(run(&scene, whole).await.unwrap()), ["day,demographic_parity_ratio", "2026-06-01,"]);
}
