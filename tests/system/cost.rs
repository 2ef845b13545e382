//! Count of the items of a workspace, and the price of keeping them.

use serde_json::Value;

use crate::support::{Place, ndjson, on_both_engines, run, run_ok};

on_both_engines!(workspace_cost_covers_all_its_items);

/// The counted items are those of `table scan`.
fn workspace_cost_covers_all_its_items(place: &Place) {
    run_ok(place, &["demo", "--until", "2013-04-03"]);
    run_ok(place, &["workspace", "create", "other/one"]);
    let args = ["admin", "cost", "-w", "flights/nyc", "--gigabyte-month", "1000000000"];
    let measured: Value =
        serde_json::from_str(&run_ok(place, &[&args[..], &["--format", "json"]].concat())).unwrap();
    let all = run_ok(
        place,
        &["admin", "table", "scan", "--prefix", "w#", "--limit", "100000", "--format", "ndjson"],
    );
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
    // A dollar a byte.
    assert_eq!(measured["all"]["usd_a_month"].as_f64(), Some(sum as f64));
    assert!(run_ok(place, &args).contains("segments of predictions"));
    let wrong = [
        &["admin", "cost", "-w", "flights/sfo"][..],
        &["admin", "cost", "-w", "flights/nyc", "--gigabyte-month", "-1"],
        &["admin", "cost"],
    ];
    for args in wrong {
        assert_eq!(run(place, args).status.code(), Some(2), "{args:?}");
    }
}
