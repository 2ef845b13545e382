//! The same demo on both engines: the same tables, byte for byte.

mod dynamodb_local {
    use crate::support::{Place, run_ok};

    #[test]
    fn the_demo_prints_the_same_tables_as_on_sqlite() {
        let places = [Place::sqlite(), Place::dynamodb_local()];
        for place in &places {
            run_ok(place, &["demo", "--until", "2013-04-12"]);
            assert!(run_ok(place, &["verify"]).contains("all as the log says"));
        }
        for what in ["predictions", "outcomes", "releases", "joined", "rollups", "evaluations"] {
            for more in [&["--format", "csv"][..], &[], &["--as-of", "2013-04-08", "--format", "ndjson"]] {
                if what == "rollups" && more.contains(&"--as-of") {
                    continue;
                }
                let window =
                    ["query", what, "-w", "flights/nyc", "--from", "2013-04-01", "--to", "2013-04-12"];
                let printed = places.each_ref().map(|place| run_ok(place, &[&window[..], more].concat()));
                assert!(!printed[0].is_empty(), "{what}");
                assert_eq!(printed[0], printed[1], "{what} {more:?}");
            }
        }
    }
}
