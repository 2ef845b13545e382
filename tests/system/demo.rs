//! The whole demo of flights: through the real binary, checked against another implementation.

use std::sync::OnceLock;

use crate::support::{ndjson, run, run_ok};
use serde_json::Value;
use tempfile::TempDir;

/// Metrics of scikit-learn for some days, made by `demo/reference.py`.
const REFERENCE: &str = include_str!("../data/reference.json");

/// Maximum difference of two implementations.
const TOLERANCE: f64 = 1e-9;

struct Demo {
    data: TempDir,
    printed: String,
}

/// Demo, run once for these tests.
fn demo() -> &'static Demo {
    static DEMO: OnceLock<Demo> = OnceLock::new();
    DEMO.get_or_init(|| {
        let data = tempfile::tempdir().unwrap();
        let printed = run_ok(data.path(), &["demo"]);
        Demo { data, printed }
    })
}

fn query(what: &str, from: &str, to: &str, more: &[&str]) -> Vec<Value> {
    let args = ["query", what, "-w", "flights/nyc", "--from", from, "--to", to, "--format", "ndjson"];
    ndjson(&run_ok(demo().data.path(), &[&args[..], more].concat()))
}

/// The output about a part of the months names its end, and offers no later days.
#[test]
fn partial_replay_mentions_no_later_day() {
    let data = tempfile::tempdir().unwrap();
    let printed = run_ok(data.path(), &["demo", "--until", "2013-06-15"]);
    assert!(printed.contains("Accuracy of v1, by week, 2013-04-01 to 2013-06-15:"), "{printed}");
    assert!(printed.contains("so the truth is known), up to 2013-06-15:"), "{printed}");
    for later in ["December", "2013-12-31", "2013-07"] {
        assert!(!printed.contains(later), "{later}: {printed}");
    }
    assert!(printed.contains("--from 2013-06-13 --to 2013-06-13"), "{printed}");
}

#[test]
fn june_is_complete() {
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    let june = query("evaluations", "2013-06-01", "2013-06-30", &["--release", "v1"]);
    assert_eq!(june.len(), 30);
    let predictions: u64 = june.iter().map(|day| day["predictions"].as_u64().unwrap()).sum();
    assert_eq!(predictions, 28_243);
    let labelled: u64 = june.iter().map(|day| day["labelled"].as_u64().unwrap()).sum();
    assert_eq!(labelled, reference["june_2013"]["outcomes"].as_u64().unwrap());
    assert_eq!(query("outcomes", "2013-06-01", "2013-06-30", &["--columns", "key"]).len() as u64, labelled);
}

#[test]
fn every_event_is_counted_once() {
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    let rollups = query("rollups", "2013-01-01", "2013-12-31", &[]);
    let sum = |release: Option<&str>, column: &str| -> u64 {
        let rows = rollups.iter().filter(|row| row["release"].as_str() == release);
        rows.map(|row| row[column].as_u64().unwrap()).sum()
    };
    let totals = &reference["totals"];
    assert_eq!(sum(Some("v1"), "predictions"), totals["predictions_v1"].as_u64().unwrap());
    assert_eq!(sum(Some("v2"), "predictions"), totals["predictions_v2"].as_u64().unwrap());
    assert_eq!(sum(None, "outcomes"), totals["outcomes"].as_u64().unwrap());
    let shown =
        run_ok(demo().data.path(), &["workspace", "show", "flights/nyc", "--counts", "--format", "json"]);
    assert!(shown.contains(&totals["outcomes"].to_string()), "{shown}");
}

#[test]
fn metrics_are_plotted_on_terminal_and_as_image() {
    let plot = |more: &[&str]| {
        let window = ["-w", "flights/nyc", "--from", "2013-04-01", "--to", "2013-12-31", "--period", "month"];
        run(demo().data.path(), &[&["plot"], more, &window].concat())
    };
    let drawn = plot(&["evaluations", "--metric", "auc"]);
    insta::assert_snapshot!("plot", String::from_utf8(drawn.stdout).unwrap());

    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("accuracy.svg");
    let answer = plot(&["evaluations", "--release", "v1", "--interval", "-o", image.to_str().unwrap()]);
    assert!(answer.status.success() && answer.stdout.is_empty(), "{answer:?}");
    let svg = std::fs::read_to_string(&image).unwrap();
    let june =
        &query("evaluations", "2013-06-01", "2013-06-30", &["--release", "v1", "--period", "month"])[0];
    let said = format!("2013-06-01 v1: {}", june["accuracy"]);
    assert!(svg.contains(&said) && svg.contains("class=\"band c0\""), "{said}\n{svg}");

    let empty = folder.path().join("empty.svg");
    let later = ["plot", "evaluations", "-w", "flights/nyc", "--from", "2019-06-01", "--to", "2019-06-08"];
    let answer = run(demo().data.path(), &[&later[..], &["-o", empty.to_str().unwrap()]].concat());
    let said = String::from_utf8(answer.stderr).unwrap();
    assert!(answer.status.success() && said.contains("no numbers in this window"), "{said}");
    let svg = std::fs::read_to_string(&empty).unwrap();
    assert!(svg.contains(">2019-06-02</text>") && svg.contains(">no numbers in this window</text>"), "{svg}");

    for (wrong, says) in [
        (&["joined"][..], "unrecognized subcommand 'joined'"),
        (&["evaluations", "--metric", "speed"], "speed is no column of numbers"),
        (&["evaluations", "--metric", "day"], "day is no column of numbers"),
        (&["rollups"], "unexpected argument '--period'"),
        (&["estimates"], "--reference <REFERENCE>"),
        (&["classes", "--interval"], "unexpected argument '--interval'"),
        (&["evaluations", "-o", "accuracy.png"], "the name of an image ends with .svg"),
    ] {
        let answer = plot(wrong);
        let problem = String::from_utf8(answer.stderr).unwrap();
        assert!(answer.status.code() == Some(2) && problem.contains(says), "{wrong:?}: {problem}");
    }
}

#[test]
fn breakdowns_add_up_to_the_day() {
    let day = "2013-06-13";
    let rollups = query("rollups", day, day, &[]);
    let total = &rollups[0];
    assert!(total["release"].is_null());
    for by in ["tag.carrier", "tag.origin"] {
        let rows = query("rollups", day, day, &["--group-by", by]);
        assert!(rows.iter().all(|row| row[by].is_string() && row["names"] == 1), "{by}");
        let predictions: u64 = rows.iter().map(|row| row["predictions"].as_u64().unwrap()).sum();
        assert_eq!(predictions, total["predictions"].as_u64().unwrap(), "{by}");
    }
    // Compared with the scores themselves.
    let mut scores: Vec<f64> = query("predictions", day, day, &["--release", "v1", "--columns", "score"])
        .iter()
        .map(|row| row["score"].as_f64().unwrap())
        .collect();
    scores.sort_by(f64::total_cmp);
    let v1 = rollups.iter().find(|row| row["release"] == "v1").unwrap();
    let metric = |name: &str| v1[name].as_f64().unwrap();
    let n = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / n;
    let std = (scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / n).sqrt();
    assert!((metric("score_mean") - mean).abs() < 1e-12 && (metric("score_std") - std).abs() < 1e-12);
    assert_eq!((metric("score_min"), metric("score_max")), (scores[0], scores[scores.len() - 1]));
    for (name, q) in [("score_p50", 0.5), ("score_p90", 0.9), ("score_p99", 0.99)] {
        let exact = scores[(q * (n - 1.0)) as usize];
        assert!((metric(name) / exact - 1.0).abs() < 0.07, "{name}: {} is not near {exact}", metric(name));
    }
    assert_eq!((metric("label_null_rate"), metric("value_null_rate")), (0.0, 1.0));
}

#[test]
fn evaluations_agree_with_scikit_learn() {
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    let days = reference["days"].as_array().unwrap();
    assert!(days.len() >= 10);
    for expected in days {
        let (day, release) = (expected["day"].as_str().unwrap(), expected["release"].as_str().unwrap());
        let found = query("evaluations", day, day, &["--release", release]);
        assert_eq!(found.len(), 1, "{day} {release}");
        for count in ["predictions", "labelled", "positives"] {
            assert_eq!(found[0][count], expected[count], "{day} {release} {count}");
        }
        for metric in ["accuracy", "auc", "log_loss", "brier", "precision", "recall", "f1"] {
            let (found, expected) = (found[0][metric].as_f64(), expected[metric].as_f64());
            assert_close(found, expected, &format!("{day} {release} {metric}"));
        }
    }
}

/// Panics unless both metrics are equal, or both absent.
pub(crate) fn assert_close(found: Option<f64>, expected: Option<f64>, what: &str) {
    match (found, expected) {
        (Some(found), Some(expected)) => {
            let tolerance = TOLERANCE * expected.abs().max(1.0);
            assert!((found - expected).abs() <= tolerance, "{what}: {found} {expected}");
        }
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

#[test]
fn joined_rows_give_the_same_accuracy() {
    let rows = query("joined", "2013-06-13", "2013-06-13", &["--release", "v1"]);
    let judged: Vec<&Value> = rows.iter().filter(|row| !row["outcome_label"].is_null()).collect();
    let right = judged.iter().filter(|row| row["label"] == row["outcome_label"]).count();
    let evaluation = &query("evaluations", "2013-06-13", "2013-06-13", &["--release", "v1"])[0];
    assert_eq!(rows.len() as u64, evaluation["predictions"].as_u64().unwrap());
    assert_eq!(right as f64 / judged.len() as f64, evaluation["accuracy"].as_f64().unwrap());
}

#[test]
fn past_is_queryable_as_known_then() {
    let as_of = |time: &str| query("evaluations", "2013-06-14", "2013-06-14", &["--as-of", time]);
    let (morning, evening) = (as_of("2013-06-14T05:00:00Z"), as_of("2013-06-15T00:00:00Z"));
    assert_eq!(morning[0]["labelled"], 0, "nobody had arrived");
    let (known, all) = (&evening[0], &as_of("2014-02-01")[0]);
    assert!(known["labelled"].as_u64() > Some(0) && known["labelled"].as_u64() < all["labelled"].as_u64());
    assert_eq!(
        all,
        &query("evaluations", "2013-06-14", "2013-06-14", &[])[0],
        "in the end it is what is stored"
    );
    assert_eq!(as_of("2013-06-13"), Vec::<Value>::new(), "nothing was predicted yet");
    let outcomes = query("outcomes", "2013-06-14", "2013-06-14", &["--as-of", "2013-06-15T00:00:00Z"]);
    assert_eq!(outcomes.len() as u64, known["labelled"].as_u64().unwrap());
}

#[test]
fn running_it_again_changes_nothing_and_says_so() {
    let data = tempfile::tempdir().unwrap();
    run_ok(data.path(), &["demo", "--until", "2013-04-10"]);
    let page = run_ok(data.path(), &["workspace", "show", "flights/nyc"]);
    let again = run_ok(data.path(), &["demo", "--until", "2013-04-10"]);
    assert!(again.contains("nothing changed"), "{again}");
    assert_eq!(run_ok(data.path(), &["workspace", "show", "flights/nyc"]), page);
}

/// Output of a demo that is equal in every run: without its rates and places.
pub(crate) fn without_rates(printed: &str) -> String {
    let same = |line: &&str| {
        !line.contains("events/s") && !line.contains("after the last append") && !line.contains("data in")
    };
    let lines: Vec<&str> = printed.lines().filter(same).collect();
    let place = regex::Regex::new(r"--data \S+").unwrap();
    let lines = lines.join("\n").replace(env!("CARGO_BIN_EXE_almanac"), "almanac");
    place.replace_all(&lines, "--data DATA").into_owned()
}

#[test]
fn what_it_prints() {
    insta::assert_snapshot!(without_rates(&demo().printed));
    let verified = run_ok(demo().data.path(), &["admin", "verify"]);
    // Records of changes have ids, so the digests of the logs differ.
    let digest = regex::Regex::new("[0-9a-f]{64}").unwrap();
    let verified = digest.replace_all(&verified, "<digest>");
    let id = regex::Regex::new("w_[0-9A-Za-z]{27}").unwrap();
    insta::assert_snapshot!("verify", id.replace_all(&verified, "<id>"));
}

#[test]
fn every_format_holds_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let window = ["-w", "flights/nyc", "--from", "2013-06-01", "--to", "2013-06-07"];
    let all = query("predictions", "2013-06-01", "2013-06-07", &[]);
    for format in ["csv", "ndjson", "parquet", "ipc"] {
        let file = dir.path().join(format!("rows.{format}"));
        let file = file.to_str().unwrap();
        let args = [&["query", "predictions"], &window[..], &["--format", format, "--output", file]].concat();
        run_ok(demo().data.path(), &args);
    }
    // Exported events can be imported elsewhere, and are equal there.
    let other = tempfile::tempdir().unwrap();
    fn exported<'a>(workspace: &'a str, format: &'a str) -> Vec<&'a str> {
        let window = ["-w", workspace, "--from", "2013-06-01", "--to", "2013-06-07"];
        let columns = "key,predicted_at,release,score,label,tag.carrier,tag.origin";
        [&["query", "predictions"], &window[..], &["--columns", columns, "--format", format]].concat()
    }
    let original = run_ok(demo().data.path(), &exported("flights/nyc", "csv"));
    for format in ["parquet", "csv", "ndjson"] {
        let file = dir.path().join(format!("copy.{format}"));
        let file = file.to_str().unwrap();
        run_ok(demo().data.path(), &[&exported("flights/nyc", format)[..], &["--output", file]].concat());
        let copy = format!("copies/{format}");
        run_ok(other.path(), &["workspace", "create", &copy]);
        run_ok(
            other.path(),
            &["model", "create", "--task", "binary", "late", "-w", &copy, "--positive-label", "late"],
        );
        run_ok(other.path(), &["release", "create", "v1", "-w", &copy, "--model", "late"]);
        // A repeated file adds nothing.
        for appended in [all.len(), 0] {
            let said = run_ok(other.path(), &["import", file, "-w", &copy, "--kind", "predictions"]);
            let wanted = format!("{} predictions read from {file}: {appended} appended", all.len());
            assert!(said.starts_with(&wanted), "{said}");
        }
        assert_eq!(run_ok(other.path(), &exported(&copy, "csv")), original, "{format}");
    }
}

/// Window and reference of the report that the documents show.
const REPORT: [&str; 9] = [
    "report",
    "-w",
    "flights/nyc",
    "--from",
    "2013-04-01",
    "--to",
    "2013-12-31",
    "--reference",
    "2013-04-01..2013-05-31",
];

/// Picture in the README, made by this command from the demo.
#[test]
fn report_picture_matches_the_demo() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("report.svg");
    let more = ["--sections", "compared,expected,drift", "-o", image.to_str().unwrap()];
    run_ok(demo().data.path(), &[&REPORT[..], &more].concat());
    let made = std::fs::read_to_string(&image).unwrap();
    let kept = include_str!("../../docs/report.svg");
    assert!(made == kept, "docs/report.svg is another picture; make it again as docs/querying.md says");
}

#[test]
fn report_shows_winner_drift_and_expectation() {
    let page = run_ok(demo().data.path(), &REPORT);
    let row = |kind: &str, from: &str, to: &str, more: &[&str]| query(kind, from, to, more);
    // Decision of v2's advantage over v1, from `head-to-head`.
    let pair = ["--release", "v2", "--against", "v1", "--period", "week"];
    let weeks = row("head-to-head", "2013-04-01", "2013-12-31", &pair);
    let decided = weeks[0]["decided_at"].as_str().unwrap();
    assert!(page.contains(&format!("v2 is better than v1: decided on {decided}.")), "{page}");
    // Distance of the scores of each month from those of April and May, from `drift`.
    let reference = ["--reference", "2013-04-01..2013-05-31", "--period", "month"];
    let months = row("drift", "2013-04-01", "2013-12-31", &reference);
    let of_scores: Vec<String> = months
        .iter()
        .filter(|month| month["column"] == "score")
        .map(|month| format!("{:.4}</td>", month["js_distance"].as_f64().unwrap()))
        .collect();
    assert_eq!(of_scores.len(), 9);
    let by_month = page.split("Jensen-Shannon distance by month</caption>").nth(1).unwrap();
    let cells = by_month.split("<th scope=\"row\">score</th>").nth(1).unwrap();
    let cells = cells.split("</tr>").next().unwrap();
    assert!(of_scores.iter().all(|cell| cells.contains(cell)), "{of_scores:?}: {cells}");
    // Expected and realised accuracy, from `estimates`.
    let reference = ["--reference", "2013-04-01..2013-05-31", "--period", "week", "--release", "v1"];
    let worst = &row("estimates", "2013-06-24", "2013-06-30", &reference)[0];
    let cells = ["accuracy_expected", "accuracy", "accuracy_gap"]
        .map(|column| format!("{:.4}</td>", worst[column].as_f64().unwrap()));
    let table = page.split("Expected and realised by week and release</caption>").nth(1).unwrap();
    let line = table.split("<th scope=\"row\">2013-06-24</th>").nth(1).unwrap();
    let line = line.split("</tr>").next().unwrap();
    assert!(cells.iter().all(|cell| line.contains(cell)), "{cells:?}: {line}");
    assert!(page.contains("below what was expected of it in the week of 2013-06-24"), "{page}");
}
