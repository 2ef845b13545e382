//! A table that a newer Almanac wrote into is refused as a whole; what an older one left is read, and `almanac upgrade` writes it
//! again while services go on.

use std::{fs, path::Path, sync::Arc};

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
    what_is_in_an_older_form_is_written_again,
    a_projector_of_an_older_almanac_is_replaced_first,
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
        &["verify"],
        &["rebuild", "-w", FLIGHTS],
        &["upgrade"],
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
    let doctor = run(place, &["doctor"]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.status.code() == Some(1) && said.contains("written by Almanac 9.1.0"), "{said}");
    assert_eq!(get(&table, &key::layout()), newer, "nothing was written");
    put(&table, known);
    run_ok(place, &["verify"]);
}

/// Some days of flights, of which some items are put back into the forms of earlier versions.
fn older(place: &Place) -> Arc<dyn Table> {
    run_ok(place, &["demo", "--until", "2013-04-03"]);
    let table = table_of(place);
    let workspace = workspace_of(&table);
    let day = "2013-04-02".parse().unwrap();
    let golden = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fold/src");
        fs::read_to_string(folder.join(name)).unwrap().trim_end().to_owned()
    };
    // The golden states are of other events: only a fold of the log puts them right.
    let rollup = get(&table, &key::rollup(&workspace, 1, day));
    put(&table, rollup.with("state", golden("rollup/versions/golden/v1.txt")));
    let evaluation = get(&table, &key::evaluation(&workspace, 1, day));
    put(&table, evaluation.with("state", golden("evaluation/versions/golden/v1.json")));
    put(&table, Item::new(key::lanes(&workspace)).with("v", 1).with("ver", 1).with("count", 1));
    block_on(table.delete(&key::layout(), Condition::None)).unwrap();
    table
}

fn what_is_in_an_older_form_is_written_again(place: &Place) {
    let table = older(place);
    let figures = || {
        run_ok(place, &["query", "evaluations", "-w", FLIGHTS, "--from", "2013-04-01", "--to", "2013-04-03"])
    };
    let wrong = figures();
    let planned = run_ok(place, &["upgrade", "--dry-run"]);
    assert_eq!(
        planned,
        format!(
            "{FLIGHTS}: lanes, version 1 to 2\n{FLIGHTS}: projections, in an older form from 2013-04-02 on\n\
             2 to be written again in layout {LAYOUT} (layout 1, complete up to 0)\n"
        )
    );
    assert_eq!(run_ok(place, &["upgrade", "--dry-run"]), planned, "nothing was changed");
    assert!(run_ok(place, &["doctor"]).contains("almanac upgrade"), "doctor says so");
    let service = Running::start(place, &[], &[]);
    let done = run_ok(place, &["upgrade", "--share", "1"]);
    assert!(
        done.contains("version 2 is read now") && done.ends_with(&format!("layout {LAYOUT}, complete\n")),
        "{done}"
    );
    service.stop();
    assert!(!run_ok(place, &["verify"]).contains("FAULT"));
    assert_ne!(figures(), wrong, "the figures are those of the log again");
    let found = block_on(layout::load(&*table)).unwrap();
    assert_eq!((found.number, found.complete), (LAYOUT, LAYOUT));
    assert_eq!(run_ok(place, &["upgrade"]), format!("layout {LAYOUT}, complete\n"), "it may be called again");
    assert!(run_ok(place, &["upgrade", "--dry-run"]).starts_with("nothing is in an older form"));
    assert_eq!(get(&table, &key::lanes(&workspace_of(&table))).int("v").unwrap(), 2);
}

fn a_projector_of_an_older_almanac_is_replaced_first(place: &Place) {
    let table = older(place);
    let workspace = workspace_of(&table);
    let now = event::Clock::system().now();
    let beat = Item::new(key::worker("old-one")).with("v", 1).with("beat", 7).with("at", now.micros());
    let figures = ["shards", "dirty", "oldest_ms", "retries"];
    put(&table, figures.into_iter().fold(beat, |item, figure| item.with(figure, 0)));
    let refused = run(place, &["upgrade"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(2) && said.contains("at work: old-one; replace them first"),
        "{said}"
    );
    assert_eq!(get(&table, &key::lanes(&workspace)).int("v").unwrap(), 1, "nothing was changed");
    block_on(table.delete(&key::worker("old-one"), Condition::None)).unwrap();
    run_ok(place, &["upgrade", "--share", "1"]);
}
