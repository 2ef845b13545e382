//! Statements that people write, with DuckDB's answers over the same rows as the oracle: each is answered as DuckDB does, or
//! refused. `tests/sql/oracle.py` writes the answers.

use std::{env, fs, path::Path};

use event::Kind;
use query::{Answer, Format, Sql};
use serde_json::{Value, json};
use tests::{
    engine::Engine,
    scene::{NOW, Scene, csv},
    world::at,
};

use super::sql;

const EXPECTED: &str = include_str!("../../sql/expected.ndjson");
const CORPUS: &str = include_str!("../../sql/corpus.sql");

/// Share of the statements that must be answered, in percent.
const MIN_RIGHT_PERCENT: usize = 85;

/// The statements by which the oracle gets the rows of each table.
const TABLES: [(&str, &str); 8] = [
    ("predictions", "*, tag.city, tag.channel, feature.amount, feature.age"),
    ("outcomes", "*"),
    ("metrics", "*"),
    ("joined", "*, tag.city, tag.channel, feature.amount, feature.age"),
    ("rollups", "*"),
    ("evaluations", "*"),
    ("classes", "*"),
    ("confusion", "*"),
];

/// Pseudo-random numbers of a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    fn is_one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Four days of predictions of two releases, of most outcomes, and of metrics; some values are missing.
async fn filled() -> Scene {
    let scene = Scene::on(Engine::Sqlite).await;
    let mut numbers = Numbers(7);
    for day in ["2026-06-01", "2026-06-02", "2026-06-03", "2026-06-04"] {
        let (mut predictions, mut outcomes) = (Vec::new(), Vec::new());
        for n in 0..20 {
            let (hour, minute) = (numbers.below(24), numbers.below(60));
            let mut prediction = json!({
                "key": format!("k{n:02}"), "predicted_at": format!("{day}T{hour:02}:{minute:02}:{n:02}Z"),
                "release": if numbers.is_one_in(3) { "v2" } else { "v1" }, "score": numbers.below(16) as f64 / 16.0,
                "tags": { "channel": numbers.one_of(&["web", "app", "shop"]) },
                "features": { "amount": numbers.below(400) as f64 / 4.0 },
            });
            for (field, is_there) in [("value", !numbers.is_one_in(3)), ("latency_ms", !numbers.is_one_in(2))]
            {
                if is_there {
                    prediction[field] = json!(numbers.below(40) as f64 / 2.0);
                }
            }
            if !numbers.is_one_in(4) {
                prediction["tags"]["city"] = json!(numbers.one_of(&["Ulm", "Bern", "Köln"]));
            }
            if !numbers.is_one_in(3) {
                prediction["features"]["age"] = json!(18 + numbers.below(50));
            }
            if numbers.is_one_in(2) {
                prediction["label"] = json!(numbers.one_of(&["0", "1"]));
            }
            predictions.push(prediction);
            if !numbers.is_one_in(4) {
                let label = numbers.one_of(&["0", "0", "1"]);
                let hour = numbers.below(24);
                let mut outcome = json!({ "key": format!("k{n:02}"), "predicted_on": day, "label": label,
                    "observed_at": format!("2026-06-05T{hour:02}:30:00Z") });
                if numbers.is_one_in(2) {
                    outcome["value"] = json!(numbers.below(40) as f64 / 2.0);
                }
                outcomes.push(outcome);
            }
        }
        let metric = |name: &str, hour: u64, value: u64, release: &str| json!({ "name": name, "value": value as f64 / 8.0, "release": release, "measured_at": format!("{day}T{hour:02}:00:00Z") });
        let metrics = (0..8).map(|n| {
            metric(
                numbers.one_of(&["profit", "loss", "cost"]),
                n,
                numbers.below(80),
                numbers.one_of(&["v1", "v2"]),
            )
        });
        let metrics: Vec<Value> = metrics.collect();
        scene.append(Kind::Predictions, predictions.into(), "2026-06-05T12:00:00Z").await.unwrap();
        scene.append(Kind::Outcomes, outcomes.into(), "2026-06-05T12:30:00Z").await.unwrap();
        scene.append(Kind::Metrics, metrics.into(), "2026-06-05T13:00:00Z").await.unwrap();
    }
    scene.project().await;
    scene
}

async fn answer(scene: &Scene, statement: &str) -> event::Result<Answer> {
    let all = Sql { all_days: true, ..sql(statement) };
    scene.query(at(NOW)).sql(scene.id(), &all).await
}

/// The rows of an answer as CSV, with the values as those of the oracle.
fn rows(csv: &str) -> Vec<Vec<Value>> {
    csv.lines().skip(1).map(|line| line.split(',').map(value).collect()).collect()
}

/// The rows of the oracle; `None`, if it refuses the statement.
fn rows_of(told: &Value) -> Option<Vec<Vec<Value>>> {
    let of_row = |row: &Value| {
        let values = row.as_array().unwrap().iter();
        values.map(|one| one.as_str().map_or(one.clone(), value)).collect()
    };
    told.as_array().map(|rows| rows.iter().map(of_row).collect())
}

fn value(text: &str) -> Value {
    let duration = text.strip_prefix("PT").and_then(|rest| rest.strip_suffix('S'));
    match duration.unwrap_or(text).parse::<f64>() {
        Ok(number) if number.is_finite() => json!(number),
        _ if text.is_empty() => Value::Null,
        _ if ["true", "false"].contains(&text) => json!(text == "true"),
        _ if text.ends_with('Z') => {
            let instant = text.trim_end_matches('Z').replacen('T', " ", 1);
            json!(instant.trim_end_matches(" 00:00:00"))
        }
        _ => json!(text),
    }
}

/// True if a statement orders its rows.
fn is_ordered(statement: &str) -> bool {
    let text = statement.to_lowercase();
    let Some(at) = text.rfind("order by") else { return false };
    let depth = |sign: char| text[at..].matches(sign).count();
    depth('(') == depth(')')
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0),
        _ => one == other,
    }
}

fn are_same(statement: &str, mut one: Vec<Vec<Value>>, mut other: Vec<Vec<Value>>) -> bool {
    if !is_ordered(statement) {
        for rows in [&mut one, &mut other] {
            rows.sort_by_cached_key(|row| {
                let rounded =
                    |value: &Value| value.as_f64().map_or(value.to_string(), |number| format!("{number:.6}"));
                row.iter().map(rounded).collect::<Vec<_>>()
            });
        }
    }
    let is_row = |(one, other): (&Vec<Value>, &Vec<Value>)| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
    };
    one.len() == other.len() && one.iter().zip(&other).all(is_row)
}

#[tokio::test]
async fn statements_agree_with_duckdb() {
    let scene = filled().await;
    if let Ok(folder) = env::var("ALMANAC_CORPUS_ROWS") {
        fs::create_dir_all(&folder).unwrap();
        for (table, columns) in TABLES {
            let mut rows = answer(&scene, &format!("select {columns} from {table}")).await.unwrap();
            let file = fs::File::create(Path::new(&folder).join(format!("{table}.parquet"))).unwrap();
            Format::Parquet.write(&mut rows.frame, file).unwrap();
        }
        return;
    }
    let expected: Vec<Value> = EXPECTED.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(CORPUS.matches(";\n").count(), expected.len(), "write the answers again");
    let (mut right, mut wrong, mut refused) = (0, Vec::new(), Vec::new());
    for told in &expected {
        let (sql, told) = (told["sql"].as_str().unwrap(), rows_of(&told["rows"]));
        match (answer(&scene, sql).await.map(csv), told) {
            (Ok(answer), Some(told)) if are_same(sql, rows(&answer), told.clone()) => right += 1,
            (Ok(answer), told) => {
                wrong.push(format!("{sql}\n    {}\n    {}", json!(rows(&answer)), json!(told)))
            }
            (Err(_), None) => right += 1,
            (Err(error), Some(_)) => refused.push(format!("{sql}\n    {error}")),
        }
    }
    let all = expected.len();
    let said = format!("{right} of {all} are right, {} refused, {} wrong", refused.len(), wrong.len());
    assert!(wrong.is_empty(), "{said}\n{}\n\nrefused:\n{}", wrong.join("\n"), refused.join("\n"));
    assert!(right * 100 >= MIN_RIGHT_PERCENT * all, "{said}\n{}", refused.join("\n"));
}
