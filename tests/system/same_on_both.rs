//! A demo on both engines: the same tables, byte for byte.

mod dynamodb_local {
    use crate::support::{Place, run_ok};

    /// Replays the first days of a set on both engines, and compares what queries of it print.
    fn compare(set: &str, workspace: &str, [from, as_of, to]: [&str; 3]) {
        let places = [Place::sqlite(), Place::dynamodb_local()];
        for place in &places {
            run_ok(place, &["demo", set, "--until", to]);
            assert!(run_ok(place, &["admin", "verify"]).contains("all as the log says"));
        }
        for what in ["predictions", "outcomes", "releases", "joined", "rollups", "evaluations"] {
            for more in [&["--format", "csv"][..], &[], &["--as-of", as_of, "--format", "ndjson"]] {
                if what == "rollups" && more.contains(&"--as-of") {
                    continue;
                }
                let window = ["query", what, "-w", workspace, "--from", from, "--to", to];
                let printed = places.each_ref().map(|place| run_ok(place, &[&window[..], more].concat()));
                assert!(!printed[0].is_empty(), "{what}");
                assert_eq!(printed[0], printed[1], "{what} {more:?}");
            }
        }
    }

    #[test]
    fn flights_demo_prints_equal_tables_on_both_engines() {
        compare("flights", "flights/nyc", ["2013-04-01", "2013-04-08", "2013-04-12"]);
    }

    #[test]
    fn weather_demo_prints_equal_tables_on_both_engines() {
        compare("weather", "weather/nyc", ["2013-07-01", "2013-07-03", "2013-07-05"]);
    }
}
