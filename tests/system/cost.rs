//! What a load costs, held to the units that DynamoDB Local says it took, and what a workspace costs to keep.

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::{Place, Running, ndjson, on_both_engines, register, run, run_ok};

on_both_engines!(a_workspace_is_measured_by_all_of_its_items);

/// The rows of a request, and the features of a prediction: with key, time, release, score and label they are 20 columns.
const ROWS: usize = 500;
const FEATURES: usize = 15;
/// How many requests of predictions and of outcomes are sent.
const REQUESTS: usize = 4;

fn json_of(place: &Place, args: &[&str]) -> Value {
    serde_json::from_str(&run_ok(place, args)).unwrap()
}

/// Numbers from 0 to 1 (splitmix64), other ones than those of the model.
struct Numbers(u64);

impl Numbers {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A request of predictions of a day and one of their outcomes, as `almanac cost` says that it takes them to be.
fn bodies(numbers: &mut Numbers, day: &str, request: usize) -> [String; 2] {
    let (mut predictions, mut outcomes) = (String::new(), String::new());
    for row in 0..ROWS {
        let key = format!("{:012x}", (numbers.unit() * 1e14) as u64);
        let at = format!("{day}T{:02}:{:02}:{:02}.{:03}Z", 8 + request, row / 60, row % 60, row);
        let score = numbers.unit();
        _ = write!(
            predictions,
            r#"{{"key":"{key}","predicted_at":"{at}","release":"v1","score":{score},"label":"{}","features":{{"#,
            if score > 0.5 { "default" } else { "paid" }
        );
        for feature in 0..FEATURES {
            let number = match feature % 4 {
                0 => (numbers.unit() * 100.0).floor(),
                1 => (numbers.unit() * 1e6).floor() / 100.0,
                2 => f64::from(numbers.unit() as f32),
                _ => numbers.unit(),
            };
            let comma = if feature == 0 { "" } else { "," };
            _ = write!(predictions, r#"{comma}"f{feature}":{number}"#);
        }
        predictions.push_str("}}\n");
        let (came, minute) = (if numbers.unit() < score { "default" } else { "paid" }, row / 60);
        _ = writeln!(
            outcomes,
            r#"{{"key":"{key}","predicted_at":"{at}","observed_at":"{day}T20:{minute:02}:{:02}Z","label":"{came}"}}"#,
            row % 60
        );
    }
    [predictions, outcomes]
}

/// A number of `/metrics`, summed over the labels that begin so.
fn metric(running: &Running, begin: &str) -> f64 {
    let text = running.get("/metrics").text().to_owned();
    let lines = text.lines().filter(|line| line.starts_with(begin));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

fn written(running: &Running) -> f64 {
    metric(running, "almanac_dynamodb_consumed_units_total{mode=\"write\"")
}

fn post(running: &Running, kind: &str, body: &str) {
    let path = format!("/v1/workspaces/credit/prod/{kind}");
    let answer = running.post(&path, "application/x-ndjson", None, body);
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// The same load twice: by ingest alone, whose units are those of appending, and by all roles.
#[test]
fn the_units_of_the_model_are_those_that_dynamodb_local_counts() {
    let rows = ROWS.to_string();
    let load =
        ["cost", "--predictions-per-day", "1M", "--columns", "20", "--rows", &rows, "--format", "json"];
    let counted = json_of(&Place::sqlite(), &load)["counted"].clone();
    let units = |what: &str| counted[what]["written"].as_f64().unwrap();
    let place = Place::dynamodb_local();
    let mut numbers = Numbers(7);

    let ingest = Running::start(&place, &["--role", "ingest"], &[]);
    register(&ingest);
    let before = written(&ingest);
    for request in 0..REQUESTS {
        let [predictions, outcomes] = bodies(&mut numbers, "2026-06-01", request);
        post(&ingest, "predictions", &predictions);
        post(&ingest, "outcomes", &outcomes);
    }
    let real = written(&ingest) - before;
    let model = REQUESTS as f64 * (units("predictions") + units("outcomes"));
    assert!((real / model - 1.0).abs() < 0.05, "appending took {real} units, the model says {model}");
    ingest.stop();

    let all = Running::start(&place, &[], &[]);
    let evaluated = "almanac_projector_evaluation_duration_seconds_count";
    let folded = "almanac_projector_fold_duration_seconds_count";
    let projected = |day: &str, predictions: usize, outcomes: usize| {
        let path = format!("/v1/workspaces/credit/prod/rollups?from={day}&to={day}&format=ndjson");
        let wanted = [format!("\"predictions\":{predictions}"), format!("\"outcomes\":{outcomes}")];
        all.get_until(&path, |answer| wanted.iter().all(|count| answer.text().contains(count.as_str())));
    };
    projected("2026-06-01", REQUESTS * ROWS, REQUESTS * ROWS);
    all.get_until("/metrics", |_| metric(&all, "almanac_projector_unevaluated_days") < 1.0);
    let (before, evaluations, folds) = (written(&all), metric(&all, evaluated), metric(&all, folded));
    for request in 0..REQUESTS {
        let [predictions, outcomes] = bodies(&mut numbers, "2026-06-02", request);
        post(&all, "predictions", &predictions);
        projected("2026-06-02", (request + 1) * ROWS, request * ROWS);
        post(&all, "outcomes", &outcomes);
        projected("2026-06-02", (request + 1) * ROWS, (request + 1) * ROWS);
    }
    all.get_until("/metrics", |_| metric(&all, "almanac_projector_unevaluated_days") < 1.0);
    let real = written(&all) - before;
    let (evaluations, folds) = (metric(&all, evaluated) - evaluations, metric(&all, folded) - folds);
    let model = REQUESTS as f64 * (units("predictions") + units("outcomes"))
        + folds * units("fold")
        + evaluations * units("evaluation")
        + units("sketch");
    let said =
        format!("{folds} folds and {evaluations} evaluations took {real} units, the model says {model}");
    assert!((real / model - 1.0).abs() < 0.3, "{said}");
    all.stop();
}

#[test]
fn a_load_is_a_bill_of_both_ways_by_prices_that_can_be_replaced() {
    let place = Place::sqlite();
    let load = ["cost", "--predictions-per-day", "10M", "--columns", "20", "--retention", "365"];
    let text = run_ok(&place, &load);
    for word in ["write: append", "read", "storage", "stream", "compute", "all", "us-east-1 as of 20"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let json = [&load[..], &["--format", "json"]].concat();
    let bill = json_of(&place, &json);
    let sum = |of: &str| -> f64 {
        bill[of]["lines"].as_array().unwrap().iter().map(|line| line["usd"].as_f64().unwrap()).sum()
    };
    for of in ["packed", "item_per_event"] {
        assert!((sum(of) - bill[of]["usd"].as_f64().unwrap()).abs() < 1e-6, "{bill:#}");
    }
    let appended = |of: &str| bill[of]["lines"][0]["quantity"].as_f64().unwrap();
    // 10 million predictions and as many outcomes for 30 days, at least a unit each.
    assert!(appended("item_per_event") >= 6e8, "{bill:#}");
    assert!(appended("packed") * 10.0 < appended("item_per_event"), "{bill:#}");

    let folder = tempfile::tempdir().unwrap();
    let prices = folder.path().join("prices.toml");
    std::fs::write(&prices, "write_million = 1.25\n").unwrap();
    let dearer = json_of(&place, &[&json[..], &["--prices", prices.to_str().unwrap()]].concat());
    let written = |bill: &Value| bill["packed"]["lines"][0]["usd"].as_f64().unwrap();
    assert!((written(&dearer) / written(&bill) - 2.0).abs() < 1e-9);
    for (args, why) in [
        (&["--predictions-per-day", "ten"][..], "is not a number of predictions"),
        (&["--predictions-per-day", "1M", "--columns", "4"], "--columns is 5 to 500"),
        (&["--predictions-per-day", "1M", "--region", "eu-west-1"], "only the prices of us-east-1 are known"),
        (&["--measured"], "--workspace"),
        (&[], "--predictions-per-day"),
    ] {
        let output = run(&place, &[&["cost"], args].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
}

/// What is counted is what `table scan` shows.
fn a_workspace_is_measured_by_all_of_its_items(place: &Place) {
    let prices = tempfile::tempdir().unwrap();
    let file = prices.path().join("prices.toml");
    let names = [
        "write_million",
        "read_million",
        "storage_gb_month",
        "recovery_gb_month",
        "stream_million",
        "vcpu_hour",
        "memory_gb_hour",
    ];
    std::fs::write(&file, names.map(|name| format!("{name} = 1000000000\n")).concat()).unwrap();
    run_ok(place, &["demo", "--until", "2013-04-03"]);
    run_ok(place, &["workspace", "create", "other/one"]);
    let args = ["cost", "--measured", "-w", "flights/nyc", "--prices", file.to_str().unwrap()];
    let measured = json_of(place, &[&args[..], &["--format", "json"]].concat());
    let all = run_ok(place, &["table", "scan", "--prefix", "w#", "--limit", "100000", "--format", "ndjson"]);
    let partitions: Vec<String> =
        ndjson(&all).iter().map(|item| item["PK"].as_str().unwrap().to_owned()).collect();
    // Only one of the two workspaces has segments.
    let own = partitions.iter().find_map(|pk| pk.strip_suffix("/day")).expect("a log");
    let of_own = partitions.iter().filter(|pk| pk.starts_with(own)).count();
    assert!(of_own < partitions.len());
    assert_eq!(measured["all"]["items"].as_u64(), Some(of_own as u64));
    let kept = measured["kept"].as_array().unwrap();
    let named = |what: &str| {
        kept.iter().find(|one| one["what"] == what).unwrap_or_else(|| panic!("{what}: {measured:#}"))
    };
    for what in ["segments of predictions", "segments of outcomes", "projections", "catalog"] {
        assert!(named(what)["items"].as_u64().unwrap() > 0, "{what}");
    }
    let sum: u64 = kept.iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
    assert_eq!(measured["all"]["bytes"].as_u64(), Some(sum));
    // A dollar a byte for each of the two.
    assert_eq!(measured["all"]["usd_a_month"].as_f64(), Some(2.0 * sum as f64));
    assert!(run_ok(place, &args).contains("segments of predictions"));
    let unknown =
        run(place, &["cost", "--measured", "-w", "flights/sfo", "--prices", file.to_str().unwrap()]);
    assert_eq!(unknown.status.code(), Some(2));
}
