//! Lanes have partitions of their own: nothing that is asked changes by it, and an export knows nothing of where they stood.

use std::collections::BTreeSet;

use catalog::Catalog;
use event::Clock;

use crate::support::{Located, Place, block_on, on_both_engines, run_ok};

on_both_engines!(lanes_stand_apart_and_everything_is_found);

const FLIGHTS: &str = "flights/nyc";
const LANES: u8 = 4;

/// The partitions of segments that there are, without the id of their workspace.
fn partitions(place: &Place) -> BTreeSet<String> {
    let scanned = run_ok(
        place,
        &["admin", "table", "scan", "--prefix", "w#", "--limit", "100000", "--format", "ndjson"],
    );
    let keys = scanned.split('"').filter(|part| part.starts_with("w#"));
    keys.filter_map(|pk| Some(pk.split_once("/day")?.1.to_owned())).collect()
}

fn evaluations(place: &Place) -> String {
    run_ok(place, &["query", "evaluations", "-w", FLIGHTS, "--from", "2013-04-01", "--to", "2013-04-04"])
}

fn lanes_stand_apart_and_everything_is_found(place: &Place) {
    block_on(async {
        let table = place.store().open().await;
        let (catalog, now) = (Catalog::new(table.clone()), Clock::system().now());
        let workspace = catalog.ensure_workspace(FLIGHTS, now).await.unwrap();
        catalog.change_settings(workspace.id(), |settings| settings.lanes = Some(LANES)).await.unwrap();
    });
    run_ok(place, &["demo", "--until", "2013-04-04"]);
    assert_eq!(partitions(place), ["", "/01", "/02", "/03"].map(str::to_owned).into());
    let verified = run_ok(place, &["admin", "verify"]);
    assert!(!verified.contains("FAULT"), "{verified}");

    // With one lane the metrics are the same.
    let plain = Place::sqlite();
    run_ok(&plain, &["demo", "--until", "2013-04-04"]);
    assert_eq!(partitions(&plain), [String::new()].into());
    let found = evaluations(place);
    assert_eq!(found, evaluations(&plain));

    // It moves as if all stood in one partition.
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("export");
    run_ok(place, &["admin", "export", "--to", to.to_str().unwrap()]);
    let there = Place::sqlite();
    run_ok(&there, &["admin", "restore", "--from", to.to_str().unwrap()]);
    assert_eq!(partitions(&there), partitions(place));
    assert_eq!(evaluations(&there), found);
    assert_eq!(run_ok(&there, &["admin", "verify"]), verified);
}
