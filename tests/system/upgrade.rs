//! A table that a newer Almanac wrote into is refused as a whole. One of an older layout is served as it is, so that the older Almanac may
//! come back, until `almanac admin upgrade` raises its layout and writes again what is in an older form, while services go on.

use std::sync::Arc;

use catalog::Catalog;
use event::Id;
use log::{
    key,
    layout::{self, LAYOUT},
};
use table::{Condition, Item, Table};

use crate::support::{Located, Place, Running, block_on, on_both_engines, run, run_ok};

on_both_engines!(
    a_table_of_a_newer_almanac_is_refused,
    an_older_layout_stays_until_it_is_raised,
    upgrade_requires_replacing_older_projectors_first,
);

const FLIGHTS: &str = "flights/nyc";

fn table_of(place: &Place) -> Arc<dyn Table> {
    block_on(place.store().open())
}

fn workspace_of(table: &Arc<dyn Table>) -> Id {
    block_on(Catalog::new(Arc::clone(table)).workspace(FLIGHTS)).unwrap().id().clone()
}

fn put(table: &Arc<dyn Table>, item: Item) {
    block_on(table.put(item, Condition::None)).unwrap();
}

fn get(table: &Arc<dyn Table>, key: &table::Key) -> Item {
    block_on(table.get(key)).unwrap().unwrap_or_else(|| panic!("{key} is not there"))
}

fn a_table_of_a_newer_almanac_is_refused(place: &Place) {
    run_ok(place, &["workspace", "create", FLIGHTS]);
    let table = table_of(place);
    let known = get(&table, &key::layout());
    assert_eq!(known.int("layout").unwrap(), i64::from(LAYOUT), "who writes first says its layout");
    let newer = known.clone().with("v", 2).with("layout", i64::from(LAYOUT) + 1).with("by", "9.1.0");
    put(&table, newer.clone());
    let commands: [&[&str]; 7] = [
        &["up"],
        &["projector"],
        &["query", "predictions", "-w", FLIGHTS, "--last", "7d"],
        &["workspace", "create", "flights/other"],
        &["admin", "verify"],
        &["admin", "rebuild", "-w", FLIGHTS],
        &["admin", "upgrade"],
    ];
    for command in commands {
        let refused = run(place, command);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{command:?}: {said}");
        assert!(
            said.contains("written by Almanac 9.1.0") && said.contains("or a newer one"),
            "{command:?}: {said}"
        );
    }
    let doctor = run(place, &["admin", "doctor"]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.status.code() == Some(1) && said.contains("written by Almanac 9.1.0"), "{said}");
    assert_eq!(get(&table, &key::layout()), newer, "nothing was written");
    put(&table, known);
    run_ok(place, &["admin", "verify"]);
}

/// A table as the Almanac before this one leaves it, with a day that is pinned.
fn older(place: &Place) -> Arc<dyn Table> {
    run_ok(place, &["demo", "--until", "2013-04-03"]);
    let table = table_of(place);
    let item = get(&table, &key::layout()).with("layout", 1).with("by", "0.0.1");
    put(&table, item);
    run_ok(place, &["workspace", "pin", FLIGHTS, "2013-04-01"]);
    table
}

fn retention(table: &Arc<dyn Table>) -> (i64, usize, bool) {
    let item = get(table, &key::retention(&workspace_of(table)));
    let has_snapshots = item.attributes.contains_key("pinned_snapshots");
    (item.int("v").unwrap(), item.list("pinned_days").unwrap().len(), has_snapshots)
}

fn an_older_layout_stays_until_it_is_raised(place: &Place) {
    let table = older(place);
    let service = Running::start(place, &[], &[]);
    // A service writes the form of the older binary, which may come back.
    assert_eq!(retention(&table), (1, 1, false));
    run_ok(place, &["workspace", "pin", FLIGHTS, "2013-04-02"]);
    assert_eq!(retention(&table), (1, 2, false));
    assert_eq!(get(&table, &key::layout()).int("layout").unwrap(), 1);
    // A form of the new layout is refused.
    let snapshot = ["workspace", "snapshot", "create", "april", "-w", FLIGHTS];
    let snapshot = [&snapshot[..], &["--from", "2013-04-01", "--to", "2013-04-02"]].concat();
    let refused = run(place, &snapshot);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("call `almanac admin upgrade` first"), "{said}");
    assert!(run_ok(place, &["admin", "doctor"]).contains("almanac admin upgrade"), "doctor says so");

    let planned = run_ok(place, &["admin", "upgrade", "--dry-run"]);
    let steps = format!("{FLIGHTS}: retention, version 1 to 2\n");
    assert_eq!(planned, format!("{steps}layout 1 to {LAYOUT}, 1 items to be written again\n"));
    assert_eq!(run_ok(place, &["admin", "upgrade", "--dry-run"]), planned, "nothing was changed");
    assert_eq!(run_ok(place, &["admin", "upgrade"]), format!("{steps}layout {LAYOUT}\n"));
    assert_eq!(retention(&table), (2, 2, true));
    assert_eq!(run_ok(place, &["admin", "upgrade"]), format!("layout {LAYOUT}\n"), "it may be called again");
    run_ok(place, &snapshot);
    service.stop();
    // From now on the one before is refused, as a newer layout is here.
    assert_eq!(block_on(layout::load(&*table)).unwrap().number, LAYOUT);
    assert!(!run_ok(place, &["admin", "verify"]).contains("FAULT"));
}

fn upgrade_requires_replacing_older_projectors_first(place: &Place) {
    let table = older(place);
    let now = event::Clock::system().now();
    let beat = Item::new(key::worker("old-one")).with("v", 1).with("beat", 7).with("at", now.to_string());
    let beat =
        ["shards", "dirty", "oldest_ms", "retries"].into_iter().fold(beat, |item, name| item.with(name, 0));
    let beat = beat.with("layout", 1);
    put(&table, beat.clone());
    let refused = run(place, &["admin", "upgrade"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("older Almanac are at work: old-one"), "{said}");
    assert_eq!(get(&table, &key::layout()).int("layout").unwrap(), 1, "nothing was changed");
    put(&table, beat.with("at", now.plus_seconds(-90).to_string()));
    assert_eq!(run_ok(place, &["admin", "upgrade"]).lines().last().unwrap(), format!("layout {LAYOUT}"));
}
