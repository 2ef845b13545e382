//! Rankings: groups of items that are evaluated together. Each on a SQLite file and on DynamoDB Local.

use catalog::PrimaryMetric;
use event::{Kind, Task};
use query::{Dataset, Params, Request, Sql, SqlParams};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    rankings_are_evaluated_by_group_day_and_window,
    scores_without_group_stay_probabilities,
);

const LATER: &str = "2026-06-04T12:00:00Z";
const COLUMNS: &str = "groups,groups_without_relevant,labelled,unlabelled,mrr,map,recall_at_10,ndcg_at_5";

fn item(day: u32, group: &str, item: &str, score: f64) -> Value {
    json!({ "key": format!("{group}/{item}"), "predicted_at": format!("2026-06-0{day}T01:00:00Z"), "release": "r1",
            "group": group, "score": score, "tags": { "country": if group == "q1" { "de" } else { "fr" } } })
}

fn outcome(day: u32, key: &str, label: Option<&str>, value: Option<f64>) -> Value {
    json!({ "key": key, "predicted_on": format!("2026-06-0{day}"), "observed_at": "2026-06-03T00:00:00Z",
            "label": label, "value": value })
}

/// Two days of a ranking, whose items of a group are in several lanes.
async fn ranked(scene: &Scene) {
    let task = Task::Ranking { positive_label: "click".into() };
    scene.world.catalog.ensure_model(scene.id(), "search", &task, at(NOW)).await.unwrap();
    scene.register("r1", "search").await.unwrap();
    let items = |day| {
        let items = ["q1", "q2", "q3", "q4"].into_iter().flat_map(move |group| {
            [("a", 12.5), ("b", 3.0), ("c", -7.0)].map(|(name, score)| item(day, group, name, score))
        });
        items.collect::<Value>()
    };
    for day in [1, 2] {
        scene.append(Kind::Predictions, items(day), LATER).await.unwrap();
    }
    let outcomes = json!([
        outcome(1, "q1/b", Some("click"), None),
        outcome(1, "q2/a", Some("skip"), Some(3.0)), // the value counts
        outcome(1, "q2/c", None, Some(1.0)),
        outcome(1, "q3/a", Some("skip"), None),
        outcome(1, "q4/b", None, Some(-1.0)), // no relevance
        outcome(2, "q1/c", Some("click"), None),
    ]);
    scene.append(Kind::Outcomes, outcomes, LATER).await.unwrap();
    let primary = PrimaryMetric::parse(Some("mrr"), None).unwrap();
    let set = scene.world.catalog.change_settings(scene.id(), |settings| {
        settings.primary_metric.clone_from(&primary);
        settings.leaderboard_min_n = Some(1);
    });
    set.await.unwrap();
    scene.project().await;
}

async fn rows(scene: &Scene, words: Params<'_>) -> Vec<String> {
    let words = Params { from: "2026-06-01", to: "2026-06-02", release: Some("r1"), ..words };
    let request = Request::parse(Dataset::Evaluations, &words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    csv(answer).lines().skip(1).map(str::to_owned).collect()
}

async fn rankings_are_evaluated_by_group_day_and_window(scene: Scene) {
    ranked(&scene).await;
    let columns = Some(COLUMNS);
    let days = rows(&scene, Params { columns, ..Params::default() }).await;
    // Of q1 the second of three is relevant, of q2 the first and the last one.
    let best = 3.0 + 1.0 / 3f64.log2();
    let ndcg = (1.0 / 3f64.log2() + 3.5 / best) / 2.0;
    let [first, second] = &days[..] else { panic!("{days:?}") };
    let (counts, last) = first.rsplit_once(',').unwrap();
    assert_eq!(counts, "2,1,4,1,0.75,0.6666666666666666,1.0");
    assert!((last.parse::<f64>().unwrap() - ndcg).abs() < 1e-12, "{last}");
    assert_eq!(second, &format!("1,0,1,0,{},{},1.0,0.5", 1.0 / 3.0, 1.0 / 3.0));
    // Over both days the metrics are of all groups, from events and from what is stored.
    let window = "groups,groups_without_relevant,labelled,mrr";
    let whole = Params { columns: Some(window), period: Some("all"), ..Params::default() };
    let mean = (0.5 + 1.0 + 1.0 / 3.0) / 3.0;
    assert_eq!(rows(&scene, whole).await, [format!("3,1,5,{mean}")]);
    let board = scene.query(at(NOW)).leaderboard_of(scene.id(), "2026-06-01".parse().unwrap(), 10).await;
    assert_eq!(board.unwrap().1.iter().map(|place| place.value).collect::<Vec<_>>(), [0.75]);
    let ask = async |statement: &str| {
        let sql = Sql::parse(&SqlParams { statement, ..SqlParams::default() }).unwrap();
        csv(scene.query(at(NOW)).sql(scene.id(), &sql).await.unwrap())
    };
    let groups = "select sum(groups), round(sum(mrr * groups) / sum(groups), 6) from evaluations \
                  where day between '2026-06-01' and '2026-06-02'";
    assert_eq!(ask(groups).await.lines().nth(1), Some("3,0.611111"));
    let items = "select \"group\", max(score) from predictions where day = '2026-06-01' group by \"group\" order by 1";
    assert_eq!(ask(items).await.lines().nth(1), Some("q1,12.5"));
    // By a tag of whole groups.
    let by = Params { columns: Some("tag.country,groups,mrr"), by: Some("tag.country"), ..Params::default() };
    assert_eq!(rows(&scene, by).await[..2], ["de,1,0.5", "fr,1,1.0"]);
    let sure =
        Params { columns: Some("keys,mrr_n,mrr_low,mrr_high"), period: Some("all"), ..Params::default() };
    let sure = rows(&scene, Params { interval: true, ..sure }).await.remove(0);
    assert!(sure.starts_with("3,3,-0.2"), "{sure}");
    let words = Params { from: "2026-06-01", to: "2026-06-02", metric: Some("ndcg"), ..Params::default() };
    let slices = Request::parse(Dataset::Slices, &words).unwrap();
    let refused = scene.query(at(NOW)).run(scene.id(), &slices).await.unwrap_err().to_string();
    assert!(refused.starts_with("metric: `ndcg` is of whole groups"), "{refused}");
    scene.assert_verified().await;
}

async fn scores_without_group_stay_probabilities(scene: Scene) {
    let post = async |score: f64, group: Option<&str>| {
        let mut event = item(1, "q", "a", score);
        event["release"] = "v1".into();
        event["group"] = group.into();
        scene.append(Kind::Predictions, json!([event]), LATER).await.map_err(|error| error.to_string())
    };
    assert_eq!(post(0.5, None).await, Ok(()));
    assert_eq!(post(-1.5, Some("q")).await, Ok(()));
    let refused = post(1.5, None).await.unwrap_err();
    assert!(refused.contains("`score` is a probability from 0 to 1, but 1.5 was given"), "{refused}");
}
