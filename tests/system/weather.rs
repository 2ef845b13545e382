//! The demo of weather, whole: through the real binary, checked against another implementation. And what the demo
//! says of its sets.

use std::{collections::HashMap, sync::OnceLock};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    demo::{assert_close, without_rates},
    support::{ndjson, run, run_ok},
};

/// The metrics of scikit-learn for every day and month and release; `demo/reference.py` made them.
const REFERENCE: &str = include_str!("../data/reference-weather.csv");

/// All days of the set.
const ALL: [&str; 2] = ["2013-07-01", "2013-12-31"];

struct Demo {
    data: TempDir,
    printed: String,
}

/// The demo, run once for these tests.
fn demo() -> &'static Demo {
    static DEMO: OnceLock<Demo> = OnceLock::new();
    DEMO.get_or_init(|| {
        let data = tempfile::tempdir().unwrap();
        let printed = run_ok(data.path(), &["demo", "weather"]);
        Demo { data, printed }
    })
}

fn query(what: &str, [from, to]: [&str; 2], more: &[&str]) -> Vec<Value> {
    let args = ["query", what, "-w", "weather/nyc", "--from", from, "--to", to, "--format", "ndjson"];
    ndjson(&run_ok(demo().data.path(), &[&args[..], more].concat()))
}

/// The rows of the reference for a period: the values by their columns.
fn reference(period: &str) -> Vec<HashMap<&'static str, &'static str>> {
    let mut lines = REFERENCE.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows = lines.map(|line| header.iter().copied().zip(line.split(',')).collect::<HashMap<_, _>>());
    rows.filter(|row| row["group_by"] == period).collect()
}

/// The day and the release of a row.
fn name(row: &Value) -> (&str, &str) {
    (row["day"].as_str().unwrap(), row["release"].as_str().unwrap())
}

#[test]
fn every_day_and_month_agree_with_scikit_learn() {
    for (period, rows) in [("day", 183 + 91), ("month", 6 + 3)] {
        let found = query("evaluations", ALL, &["--period", period]);
        let found: HashMap<_, _> = found.iter().map(|row| (name(row), row)).collect();
        let expected = reference(period);
        assert_eq!((expected.len(), found.len()), (rows, rows), "all of v1 and half as many of v2");
        for expected in expected {
            let (day, release) = (expected["day"], expected["release"]);
            let found = found[&(day, release)];
            for count in ["predictions", "labelled"] {
                assert_eq!(found[count].to_string(), expected[count], "{period} {day} {release} {count}");
            }
            for metric in ["mae", "rmse", "bias", "median_absolute_error", "r2", "coverage", "interval_width"]
            {
                let expected = Some(expected[metric].parse().unwrap());
                assert_close(found[metric].as_f64(), expected, &format!("{period} {day} {release} {metric}"));
            }
        }
    }
}

#[test]
fn intervals_cover_what_the_reference_says() {
    let mut covered = HashMap::<(String, String), (u64, u64)>::new();
    let columns = "key,predicted_at,release,value,lower,upper,outcome_value";
    for row in query("joined", ALL, &["--columns", columns]) {
        let number = |column: &str| row[column].as_f64();
        let (Some(lower), Some(upper)) = (number("lower"), number("upper")) else {
            panic!("a prediction without an interval: {row}");
        };
        if let Some(real) = number("outcome_value") {
            let day = row["predicted_at"].as_str().unwrap()[..10].to_owned();
            let of_day = covered.entry((day, row["release"].as_str().unwrap().to_owned())).or_default();
            of_day.0 += u64::from((lower..=upper).contains(&real));
            of_day.1 += 1;
        }
    }
    for expected in reference("day") {
        let (day, release) = (expected["day"], expected["release"]);
        let (inside, all) = covered[&(day.to_owned(), release.to_owned())];
        let expected = Some(expected["coverage"].parse().unwrap());
        assert_close(Some(inside as f64 / all as f64), expected, &format!("{day} {release}"));
    }
}

#[test]
fn airports_add_up_to_the_day() {
    let day = ["2013-10-01"; 2];
    let total = &query("rollups", day, &[])[0];
    let airports = query("rollups", day, &["--group-by", "tag.airport"]);
    let names: Vec<&str> = airports.iter().map(|row| row["tag.airport"].as_str().unwrap()).collect();
    assert_eq!(names, ["EWR", "JFK", "LGA"]);
    let predictions: u64 = airports.iter().map(|row| row["predictions"].as_u64().unwrap()).sum();
    assert_eq!(Some(predictions), total["predictions"].as_u64());
    assert_eq!(predictions, 2 * 3 * 24, "two releases, three airports, 24 hours");
}

#[test]
fn what_it_prints() {
    insta::assert_snapshot!(without_rates(&demo().printed));
}

#[test]
fn both_sets_live_in_one_place() {
    let data = tempfile::tempdir().unwrap();
    run_ok(data.path(), &["demo", "--until", "2013-04-02"]);
    run_ok(data.path(), &["demo", "weather", "--until", "2013-07-02"]);
    let again = run_ok(data.path(), &["demo", "weather", "--until", "2013-07-02"]);
    assert!(again.contains("nothing changed"), "{again}");
    assert!(run_ok(data.path(), &["demo", "flights", "--until", "2013-04-02"]).contains("nothing changed"));
    assert!(run_ok(data.path(), &["admin", "verify"]).contains("all as the log says"));
}

#[test]
fn demo_sets_are_listed_and_unknown_refused() {
    let data = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(run_ok(data.path(), &["demo", "--list"]));
    for (args, said) in [
        (&["demo", "snow"][..], "almanac: the set `snow` is none of flights, weather\n"),
        (
            &["demo", "weather", "--until", "2013-06-30"],
            "almanac: there is nothing to replay until then; the first prediction is of 2013-07-01\n",
        ),
    ] {
        let output = run(data.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    }
    assert!(std::fs::read_dir(data.path()).unwrap().next().is_none(), "nothing was created");
}
