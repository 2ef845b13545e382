//! `kill -9` in the middle of the demo, at different moments; then it is run again. The end must equal, byte for byte, that of an
//! undisturbed run.

use std::{path::Path, process::Stdio, time::Duration};

use crate::support::{Located, almanac, block_on, run_ok};
use catalog::Catalog;
use log::key;
use table::{Item, Query, item::Value, query_all};

/// Demo up to a day, far enough for outcomes that arrive a day late.
const UNTIL: [&str; 3] = ["demo", "--until", "2013-05-05"];

/// Numbers of batches that must be stored before the kill, each time on a fresh folder.
const KILL_AT_BATCHES: [usize; 5] = [1, 20, 60, 100, 130];

/// Everything that must be equal: segments and projections, without the id of the workspace and without the number of writes of a
/// projection.
fn contents(data: &Path) -> Vec<(String, Vec<(String, Value)>)> {
    block_on(async {
        let table = data.store().open().await;
        let workspace = Catalog::new(table.clone()).workspace("flights/nyc").await.unwrap();
        let mut items = query_all(&*table, Query::table(key::segments(workspace.id()))).await.unwrap();
        items
            .extend(query_all(&*table, Query::table(key::all_projections(workspace.id(), 1))).await.unwrap());
        items.extend(query_all(&*table, Query::table(key::counters(workspace.id()))).await.unwrap());
        let attributes = |item: Item| item.attributes.into_iter().filter(|(name, _)| name != "ver").collect();
        items.into_iter().map(|item| (item.key.sk.clone(), attributes(item))).collect()
    })
}

fn batches(data: &Path) -> usize {
    if !data.join("almanac.db").exists() {
        return 0;
    }
    block_on(async {
        let table = data.store().open().await;
        match Catalog::new(table.clone()).workspace("flights/nyc").await {
            Err(_) => 0,
            Ok(workspace) => {
                let query = Query::table(key::segments(workspace.id())).only(&["v"]);
                query_all(&*table, query).await.unwrap().len()
            }
        }
    })
}

/// Runs the demo and kills it once `wanted` segments are stored; returns true if it was killed.
fn kill_at(data: &Path, wanted: usize) -> bool {
    let mut demo = almanac(data, &UNTIL).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    loop {
        if demo.try_wait().unwrap().is_some() {
            return false;
        }
        if batches(data) >= wanted {
            demo.kill().unwrap();
            demo.wait().unwrap();
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn rerun_of_killed_demo_yields_identical_bytes() {
    let undisturbed = tempfile::tempdir().unwrap();
    run_ok(undisturbed.path(), &UNTIL);
    let expected = contents(undisturbed.path());
    assert!(expected.len() > 200);

    let mut killed = 0;
    for wanted in KILL_AT_BATCHES {
        let data = tempfile::tempdir().unwrap();
        killed += usize::from(kill_at(data.path(), wanted));
        run_ok(data.path(), &UNTIL);
        let found = contents(data.path());
        assert_eq!(found.len(), expected.len(), "after a kill at {wanted} segments");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "after a kill at {wanted} segments");
        }
        assert!(run_ok(data.path(), &["admin", "verify"]).contains("all as the log says"));
    }
    assert!(killed >= 3, "only {killed} runs were killed in time");

    // Killed again and again on one folder, each time a little later.
    let data = tempfile::tempdir().unwrap();
    for wanted in KILL_AT_BATCHES {
        kill_at(data.path(), wanted);
    }
    run_ok(data.path(), &UNTIL);
    assert_eq!(contents(data.path()), expected);
}
