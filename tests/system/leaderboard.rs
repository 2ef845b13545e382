//! The leaderboard and logged metrics as people meet them: over HTTP and from the command line, with the services running.

use std::sync::LazyLock;

use event::{Clock, Period};

use crate::support::{Place, Service, ndjson, on_both_engines, register, run, run_ok};
use serde_json::{Value, json};

on_both_engines!(
    ranks_are_no_changes_in_the_log,
    the_leaderboard_follows_the_settings_at_once,
    a_logged_metric_is_optimised_day_over_day,
    gates_and_digests_go_by_a_logged_metric,
    estimates_and_maturity_change_day_over_day,
);

const PATH: &str = "/v1/workspaces/credit/prod";

/// Three days in a row that are over: the leaderboard looks at the last 31 alone.
static DAYS: LazyLock<[String; 3]> = LazyLock::new(|| {
    let now = Clock::system().now();
    [4, 3, 2].map(|days| now.plus_seconds(-days * 86_400).day().to_string())
});

const RELEASES: [&str; 3] = ["v1", "v2", "v3"];

fn ok(service: &Service, method: &str, path: &str, body: &Value) -> Value {
    let headers = [("Content-Type", "application/json")];
    let answer = service.send(method, &format!("{PATH}{path}"), &headers, Some(body.to_string().as_bytes()));
    assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
    if answer.body.is_empty() { Value::Null } else { answer.json() }
}

/// Three releases, each live in an environment of its own, that predicted on the days, `v1` best.
fn live(service: &Service) {
    register(service);
    for (place, release) in RELEASES.into_iter().enumerate() {
        if place > 0 {
            let event = json!([{ "release": release, "model": "risk", "action": "register", "released_at": "2026-05-31T00:00:00Z" }]);
            ok(service, "POST", "/releases", &event);
        }
        ok(
            service,
            "POST",
            "/promotions",
            &json!({ "release": release, "environment": format!("e{place}") }),
        );
        for day in DAYS.iter() {
            let score = 0.9 - 0.1 * place as f64;
            let event = |key: usize| json!({ "key": format!("k{key}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score });
            ok(service, "POST", "/predictions", &(0..4).map(event).collect());
        }
    }
}

fn judge(service: &Service, day: &str, keys: std::ops::Range<usize>) {
    let event = |key: usize| json!({ "key": format!("k{key}"), "predicted_on": day, "observed_at": format!("{day}T09:00:00Z"), "label": "default" });
    ok(service, "POST", "/outcomes", &keys.map(event).collect());
}

fn places(service: &Service, query: &str) -> Vec<Value> {
    let answer = service.get(&format!("{PATH}/leaderboard{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["places"].as_array().unwrap().clone()
}

/// The release, value and number of each place.
fn told(places: &[Value]) -> Vec<(String, f64, u64)> {
    let one = |place: &Value| {
        let release = place["release"].as_str().unwrap().to_owned();
        (release, place["value"].as_f64().unwrap(), place["n"].as_u64().unwrap())
    };
    places.iter().map(one).collect()
}

/// Waits until the leaderboard is as it should be.
fn places_until(service: &Service, wanted: impl Fn(&[Value]) -> bool) {
    service.get_until(&format!("{PATH}/leaderboard"), |answer| {
        wanted(answer.json()["places"].as_array().map(Vec::as_slice).unwrap_or_default())
    });
}

fn ranks_are_no_changes_in_the_log(place: &Place) {
    let service = Service::start(place);
    live(&service);
    ok(
        &service,
        "PATCH",
        "/settings",
        &json!({ "primary_metric": "brier", "leaderboard_min_n": 1, "leaderboard_days": 2 }),
    );
    for key in 0..4 {
        judge(&service, &DAYS[0], key..key + 1);
        places_until(&service, |places| {
            places.len() == RELEASES.len() && places.iter().all(|place| place["n"] == key + 1)
        });
    }
    ok(&service, "PATCH", "/settings", &json!({ "primary_metric": "log_loss", "leaderboard_min_n": 1 }));
    let audit_log = ndjson(&run_ok(place, &["audit", "-w", "credit/prod", "--format", "ndjson"]));
    let actions: Vec<&str> = audit_log.iter().map(|record| record["action"].as_str().unwrap()).collect();
    assert!(!actions.contains(&"release.change"), "{actions:?}");
    assert!(audit_log.iter().all(|record| record["principal"] != "almanac"), "{audit_log:?}");
    // Changes of the settings are there.
    let changed = audit_log.iter().filter(|record| record["action"] == "settings.change").collect::<Vec<_>>();
    assert_eq!(changed.len(), 2, "{actions:?}");
    assert!(changed.iter().any(|record| record.to_string().contains("leaderboard_days")), "{changed:?}");
}

fn the_leaderboard_follows_the_settings_at_once(place: &Place) {
    let service = Service::start(place);
    live(&service);
    judge(&service, &DAYS[0], 0..4);
    let evaluations = format!("{PATH}/evaluations?from={0}&to={0}", DAYS[0]);
    service.get_until(&evaluations, |answer| {
        let rows = ndjson(answer.text());
        rows.len() == RELEASES.len() && rows.iter().all(|row| row["labelled"] == 4)
    });
    assert_eq!(places(&service, ""), [Value::Null; 0], "there is no primary metric yet");
    let set = |body: Value| ok(&service, "PATCH", "/settings", &body);
    // The projector ranks as well, by the settings that it has read: the last write holds, and the next one puts it right.
    let ranked = |names: [&str; 3]| {
        places_until(&service, |places| places.iter().map(|place| &place["release"]).eq(names.iter()));
    };
    set(json!({ "primary_metric": "brier", "leaderboard_min_n": 1 }));
    ranked(RELEASES);
    // The command line sets the other direction.
    let settings = ["workspace", "settings", "credit/prod", "--format", "json"];
    run_ok(place, &[&settings[..], &["--primary-metric", "brier", "--direction", "max"]].concat());
    ranked(["v3", "v2", "v1"]);
    run_ok(place, &[&settings[..], &["--primary-metric", "accuracy", "--leaderboard-min-n", "5"]].concat());
    places_until(&service, |places| {
        places.iter().all(|place| place["metric"] == "accuracy" && place["place"].is_null())
    });
    // Days that have been over for a while, which none of these is that long.
    run_ok(place, &[&settings[..], &["--leaderboard-min-n", "1", "--leaderboard-delay", "90"]].concat());
    places_until(&service, <[_]>::is_empty);
    assert_eq!(set(json!({ "leaderboard_delay": null }))["leaderboard_delay"], Value::Null);
    places_until(&service, |places| places.len() == 3);
    set(json!({ "primary_metric": null }));
    places_until(&service, <[_]>::is_empty);
    let said = run(place, &[&settings[..], &["--leaderboard-delay", "soon"]].concat());
    assert!(
        String::from_utf8_lossy(&said.stderr).contains("--leaderboard-delay: `soon` is not a whole number"),
        "{said:?}"
    );
    let answer = service.send(
        "PATCH",
        &format!("{PATH}/settings"),
        &[("Content-Type", "application/json")],
        Some(br#"{"leaderboard_delay":91}"#),
    );
    assert_eq!(answer.status, 400, "{}", answer.text());
}

/// Logs revenue: on the days 10, 20, 40 of `v1` in two parts each, and 30 of `v2` on the first. It is the primary metric.
fn earn(service: &Service) {
    let event = |day: &str, release: &str, value: f64| json!({ "name": "revenue", "measured_at": format!("{day}T12:00:00Z"), "value": value, "release": release });
    let mut events = vec![event(&DAYS[0], "v2", 30.0)];
    for (day, value) in DAYS.iter().zip([5.0, 10.0, 20.0]) {
        events.extend([event(day, "v1", value), event(day, "v1", value)]);
    }
    ok(service, "POST", "/metrics", &events.into());
    let rollups = format!(
        "{PATH}/rollups?from={}&to={}&group-by=metric&columns=metric,release,value_sum",
        DAYS[0], DAYS[2]
    );
    service.get_until(&rollups, |answer| ndjson(answer.text()).len() == 7);
    ok(service, "PATCH", "/settings", &json!({ "primary_metric": "metric.revenue:sum" }));
}

/// Revenue of `v2` on the last day.
fn earn_more(service: &Service, value: f64) {
    let at = format!("{}T13:00:00Z", DAYS[2]);
    let event = json!([{ "name": "revenue", "measured_at": at, "value": value, "release": "v2" }]);
    ok(service, "POST", "/metrics", &event);
}

fn a_logged_metric_is_optimised_day_over_day(place: &Place) {
    let service = Service::start(place);
    live(&service);
    earn(&service);
    let one = |release: &str, value: f64, n: u64| (release.to_owned(), value, n);
    assert_eq!(told(&places(&service, "")), [one("v1", 70.0, 6), one("v2", 30.0, 1)]);
    assert_eq!(places(&service, "")[1]["place"], 2, "one observation is enough");
    let first = format!("?day={}", DAYS[0]);
    assert_eq!(told(&places(&service, &first)), [one("v2", 30.0, 1), one("v1", 10.0, 2)]);
    let window = format!("?from={}&to={}&metric=metric.revenue", DAYS[0], DAYS[2]);
    assert_eq!(told(&places(&service, &window)), [one("v2", 30.0, 1), one("v1", 70.0 / 6.0, 6)]);
    let answer = service.get(&format!("{PATH}/leaderboard{window}&as-of={}", DAYS[1]));
    assert_eq!(
        (answer.status, answer.text().contains("as-of: `metric.revenue` is a logged metric")),
        (400, true)
    );
    // A new observation moves the leaderboard.
    earn_more(&service, 50.0);
    places_until(&service, |places| told(places)[0] == one("v2", 80.0, 2));
    let leaderboard = run_ok(place, &["release", "leaderboard", "-w", "credit/prod", "--format", "json"]);
    assert!(leaderboard.contains("metric.revenue:sum") && leaderboard.contains("80"), "{leaderboard}");
    let slices = service.get(&format!("{PATH}/slices?from={0}&to={0}", DAYS[0]));
    assert!(
        slices.text().contains("`metric.revenue:sum` is a logged metric, and slices are of predictions"),
        "{}",
        slices.text()
    );
    watched(&service);
    changed(place, &service);
    let report = run_ok(
        place,
        &[
            "report",
            "-w",
            "credit/prod",
            "--from",
            &DAYS[0],
            "--to",
            &DAYS[2],
            "--sections",
            "metrics,logged",
        ],
    );
    for part in ["Logged metrics", "revenue: sum by day", "revenue by day", ">30.0000<"] {
        assert!(report.contains(part), "{part}: {report}");
    }
}

/// Alert rules on the metric, of a release and of the whole workspace.
fn watched(service: &Service) {
    let tried = |rule: Value| {
        let asked = json!({ "name": rule["name"], "rules": [rule], "from": &DAYS[0], "to": &DAYS[2] });
        let days = ok(service, "POST", "/alert-rules/test", &asked)["days"].as_array().unwrap().clone();
        days.iter().map(|day| (day["value"].clone(), day["state"].clone())).collect::<Vec<_>>()
    };
    let low = json!({ "name": "low", "metric": "metric.revenue:sum", "release": "v1", "below": 15.0 });
    assert_eq!(
        tried(low),
        [(json!(10.0), json!("firing")), (json!(20.0), json!("resolved")), (json!(40.0), json!("ok"))]
    );
    let all = json!({ "name": "all", "metric": "metric.revenue:sum", "above": 50.0 });
    assert_eq!(
        tried(all),
        [(json!(40.0), json!("ok")), (json!(20.0), json!("ok")), (json!(90.0), json!("firing"))]
    );
    let none = json!({ "name": "none", "metric": "metric.clicks", "release": "v1", "above": 1.0 });
    assert!(tried(none).iter().all(|(value, state)| value.is_null() && state == "no_data"));
    let wrong = json!({ "name": "x", "metric": "metric.revenue", "tag": "a=b", "above": 1.0 });
    let wrong = json!({ "name": "x", "rules": [wrong] });
    let answer =
        service.post(&format!("{PATH}/alert-rules/test"), "application/json", None, &wrong.to_string());
    assert_eq!((answer.status, answer.text().contains("belong to metrics of evaluations")), (400, true));
    ok(
        service,
        "PUT",
        "/alert-rules",
        &json!({ "rules": [{ "name": "low", "metric": "metric.revenue:sum", "release": "v1", "below": 15.0 }] }),
    );
}

/// Asserts the changes of the metric and of metrics of evaluations.
fn changed(place: &Place, service: &Service) {
    let asked = |what: &str, query: &str| {
        let answer = service.get(&format!("{PATH}/{what}?from={}&to={}&{query}", DAYS[1], DAYS[2]));
        assert_eq!(answer.status, 200, "{}", answer.text());
        ndjson(answer.text())
    };
    let of_v1 = asked("rollups", "group-by=metric&release=v1&columns=day,value_sum&change=day");
    let row = |day: &str, value: f64, change: f64| json!({ "day": day, "value_sum": value, "value_sum_change": change });
    assert_eq!(of_v1, [row(&DAYS[1], 20.0, 10.0), row(&DAYS[2], 40.0, 20.0)]);
    let query = ["query", "rollups", "-w", "credit/prod", "--group-by", "metric", "--release", "v1"];
    let rest = ["--columns", "day,value_sum", "--change", "day", "--format", "ndjson"];
    let window = ["--from", &DAYS[1], "--to", &DAYS[2]];
    assert_eq!(ndjson(&run_ok(place, &[&query[..], &rest, &window].concat())), of_v1);
    // A week before there was nothing.
    assert!(
        asked("rollups", "group-by=metric&change=week").iter().all(|row| row["value_sum_change"].is_null())
    );
    judge(service, &DAYS[0], 0..1);
    judge(service, &DAYS[1], 0..4);
    for (day, labelled) in [(&DAYS[0], 1), (&DAYS[1], 4)] {
        let path = format!("{PATH}/evaluations?from={day}&to={day}&release=v1&columns=labelled");
        service.get_until(&path, |answer| ndjson(answer.text()) == [json!({ "labelled": labelled })]);
    }
    let rows = asked("evaluations", "release=v1&columns=day,labelled&change=period");
    assert_eq!(rows[0], json!({ "day": &DAYS[1], "labelled": 4, "labelled_change": 3 }));
    // The rows are those of the window without it, and a read version gives the same.
    let plain = asked("evaluations", "");
    let mut with = asked("evaluations", "change=day");
    for row in &mut with {
        row.as_object_mut().unwrap().retain(|name, _| !name.ends_with("_change"));
    }
    assert_eq!(with, plain);
    let read_version = service
        .get(&format!("{PATH}/evaluations?from={}&to={}&change=day&format=read-version", DAYS[1], DAYS[2]));
    let again = asked(
        "evaluations",
        &format!("release=v1&columns=day,labelled&change=day&read-version={}", read_version.text().trim()),
    );
    assert_eq!(again, rows);
    for (what, query, why) in [
        ("evaluations", "change=year", "change: `year` is none of day, week, period"),
        (
            "evaluations",
            "change=day&period=week",
            "change: rows of more than a day have none of a day before",
        ),
        ("evaluations", "change=day&period=all", "change: it is of days, weeks, months and quarters"),
        ("slices", "change=day", "change: `slices` does not take it"),
        ("head-to-head", "change=day&release=v1&against=v2", "change: `head-to-head` does not take it"),
        ("predictions", "change=day", "change: `predictions` does not take it"),
        ("evaluations", "change=day&min-completeness=0.5", "change: not with `min-completeness`"),
        ("evaluations", "change=day&group-by=feature.x", "bins at quantiles are others in each window"),
    ] {
        let answer = service.get(&format!("{PATH}/{what}?from={0}&to={0}&{query}", DAYS[1]));
        assert_eq!((answer.status, answer.text().contains(why)), (400, true), "{query}: {}", answer.text());
    }
    let first = Period::Week.first_day(DAYS[1].parse().unwrap()).to_string();
    let query = "period=week&change=period&release=v1&columns=day,labelled";
    let week = service.get(&format!("{PATH}/evaluations?from={0}&to={0}&{query}", DAYS[1]));
    let labelled = if first == DAYS[1] { 4 } else { 5 };
    let row = json!({ "day": first, "labelled": labelled, "labelled_change": null });
    assert_eq!(ndjson(week.text()), [row], "the whole week, up to the last day");
}

fn gates_and_digests_go_by_a_logged_metric(place: &Place) {
    let service = Service::start(place);
    live(&service);
    earn(&service);
    let gates = ["model", "gates", "credit/prod/risk", "--environment", "e0", "--format", "json"];
    let metric = ["--metric", "metric.revenue:sum", "--margin", "5"];
    let set: Value = serde_json::from_str(&run_ok(place, &[&gates[..], &metric].concat())).unwrap();
    assert_eq!((&set["metric"], &set["direction"]), (&json!("metric.revenue:sum"), &json!("max")));
    let ask = |release: &str| {
        let body = json!({ "release": release, "environment": "e0" }).to_string();
        let answer = service.post(&format!("{PATH}/promotions"), "application/json", None, &body);
        (answer.status, answer.text().to_owned())
    };
    let (status, said) = ask("v2");
    let why = "is 30, that of the live release `v1` is 70 (better is max), and at most 5 worse is taken";
    assert_eq!((status, said.contains(why)), (409, true), "{said}");
    let (status, said) = ask("v3");
    assert_eq!((status, said.contains("it has no metric.revenue:sum of")), (409, true), "{said}");
    run_ok(place, &["user", "create", "ann"]);
    run_ok(place, &["follow", "add", "ann", "-w", "credit/prod"]);
    let digest = || service.get("/v1/digest?user=ann").json()["digest"][0].clone();
    let told = digest();
    assert_eq!((&told["metric"], &told["better"]), (&json!("metric.revenue:sum"), &json!("max")));
    let value = |release: usize| told["live"][release]["last"].clone();
    assert_eq!(value(0), json!({ "value": 70.0, "n": 6 }));
    assert_eq!((value(1), value(2)), (json!({ "value": 30.0, "n": 1 }), Value::Null));
    // As good as the live one, but for the margin.
    earn_more(&service, 35.0);
    let enough = json!({ "value": 65.0, "n": 2 });
    service.get_until("/v1/digest?user=ann", |_| digest()["live"][1]["last"] == enough);
    let shown: Value =
        serde_json::from_str(&run_ok(place, &["follow", "digest", "ann", "--format", "json"])).unwrap();
    assert!(shown.to_string().contains(&enough.to_string()), "{shown}");
    let promoted = run_ok(place, &["release", "promote", "v2", "-w", "credit/prod", "--environment", "e0"]);
    assert!(promoted.contains("promote  v2"), "{promoted}");
}

fn estimates_and_maturity_change_day_over_day(place: &Place) {
    let service = Service::start(place);
    register(&service);
    for (place, day) in DAYS.iter().enumerate() {
        let event = |key: usize| json!({ "key": format!("k{key}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1", "score": if key < 2 + place { 0.9 } else { 0.2 } });
        ok(&service, "POST", "/predictions", &(0..4 + place).map(event).collect());
    }
    for (day, keys) in DAYS.iter().zip([4, 3]) {
        let event = |key: usize| json!({ "key": format!("k{key}"), "predicted_on": day, "observed_at": format!("{day}T09:00:00Z"), "label": if key == 0 { "default" } else { "repaid" } });
        ok(&service, "POST", "/outcomes", &(0..keys).map(event).collect());
    }
    let evaluations =
        format!("{PATH}/evaluations?from={}&to={}&columns=predictions,labelled", DAYS[0], DAYS[2]);
    let counts =
        [(4, 4), (5, 3), (6, 0)].map(|(n, labelled)| json!({ "predictions": n, "labelled": labelled }));
    service.get_until(&evaluations, |answer| ndjson(answer.text()) == counts);
    let reference = format!("reference={}..{}&release=v1", DAYS[0], DAYS[1]);
    let rows = assert_changes(&service, "estimates", &reference);
    let (first, last) = (&rows[0], &rows[1]);
    assert_eq!((&first["n_change"], &first["labelled_change"]), (&json!(1), &json!(-1)));
    assert!(last["accuracy_expected_change"].is_number() && last["accuracy_change"].is_null(), "{last}");
    assert!(last["accuracy_expected_low"].is_number() && last.get("accuracy_expected_low_change").is_none());
    let latest = |row: &&Value| row["age"] == "latest";
    let rows = assert_changes(&service, "maturity", "release=v1");
    assert_eq!(rows.iter().find(latest).unwrap()["labelled_change"], -1);
    let rows = assert_changes(&service, "maturity", "after-prediction=true");
    assert_eq!(rows.iter().find(latest).unwrap()["predictions_change"], 1);
    let query = ["query", "maturity", "-w", "credit/prod", "--from", &DAYS[1], "--to", &DAYS[1], "--change"];
    let rest = ["day", "--columns", "age,labelled", "--format", "ndjson"];
    let row = json!({ "age": "latest", "labelled": 3, "labelled_change": -1 });
    assert_eq!(ndjson(&run_ok(place, &[&query[..], &rest].concat())).last(), Some(&row));
}

/// Asserts that each change of the later days is the difference between rows that are asked for without it, and returns the rows.
fn assert_changes(service: &Service, what: &str, query: &str) -> Vec<Value> {
    let rows = |from: &str, query: &str| {
        let answer = service.get(&format!("{PATH}/{what}?from={from}&to={}&{query}", DAYS[2]));
        assert_eq!(answer.status, 200, "{}", answer.text());
        ndjson(answer.text())
    };
    let (plain, changed) = (rows(&DAYS[0], query), rows(&DAYS[1], &format!("{query}&change=day")));
    assert_eq!(changed.len(), rows(&DAYS[1], query).len());
    for row in &changed {
        let of = |day: &str| plain.iter().find(|one| one["day"] == *day && one["age"] == row["age"]);
        let at = DAYS.iter().position(|day| row["day"] == *day).unwrap();
        let (own, before) = (of(&DAYS[at]).unwrap(), of(&DAYS[at - 1]));
        for (name, value) in row.as_object().unwrap() {
            let Some(name) = name.strip_suffix("_change") else {
                assert_eq!(value, &own[name], "{what}: {name}");
                continue;
            };
            let difference = before.and_then(|before| Some(own[name].as_f64()? - before[name].as_f64()?));
            assert_eq!(value.as_f64(), difference, "{what}: {name} of {row}");
        }
    }
    changed
}
