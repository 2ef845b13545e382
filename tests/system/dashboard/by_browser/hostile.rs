//! Pages with text that clients choose, and with news.

use std::{thread::sleep, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::shown;
use crate::{
    browser::Browser,
    support::{Place, Running, alone, ndjson, register},
};

pub(super) const HOSTILE: [&str; 5] = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "\u{202e}gpj.exe \u{5e9}\u{5dc}\u{5d5}\u{5dd}",
    "👩‍🔬 \u{1f1fa}\u{1f1f3}",
    "'; drop table --",
];

/// Two runs with hostile names.
const RUNS: [&str; 2] = ["2NBs0tD5Ihm2PVFzM3kZvMYdQX8", "2NBs0tD5Ihm2PVFzM3kZvMYdQX9"];

/// Metrics of the runs: two with names that stand for folders in a path, and a usual one.
const METRICS: [&str; 3] = [".", "..", "loss"];

/// Posts events and notes in which every text that a client chooses is hostile.
fn post_hostile(service: &Running) {
    let (long, label) = ("x".repeat(256), "y".repeat(128));
    let post = |path: &str, body: Value| {
        let answer = service.post(path, "application/json", None, &body.to_string());
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
    };
    post("/v1/workspaces", json!({"path": "credit/prod"}));
    post(
        "/v1/models",
        json!({"workspace": "credit/prod", "name": "risk", "task": "binary", "positive_label": HOSTILE[0]}),
    );
    let release = json!({"workspace": "credit/prod", "name": "v1", "model": "risk", "notes": HOSTILE[1], "author": HOSTILE[2],
        "environment": "production", "attributes": {HOSTILE[0]: HOSTILE[1], "long": long}});
    post("/v1/releases", release);
    for (run, name) in RUNS.into_iter().zip(HOSTILE) {
        let run = json!({"workspace": "credit/prod", "id": run, "name": name, "experiment": HOSTILE[3],
            "params": {HOSTILE[1]: HOSTILE[4]}, "tags": {HOSTILE[2]: long}});
        post("/v1/runs", run);
    }
    let value = |run: &str, name: &str, step: u32| json!({"name": name, "measured_at": format!("2026-06-01T02:00:{step:02}Z"), "value": f64::from(step) / 2.0, "run": run, "step": step});
    let of = |run: &str| METRICS.map(|name| [value(run, name, 0), value(run, name, 1)]).concat();
    post("/v1/workspaces/credit/prod/metrics", RUNS.map(of).concat().into());
    // A key may be longer than a label.
    let texts: Vec<(&str, &str)> =
        HOSTILE.map(|text| (text, text)).into_iter().chain([(&*long, &*label)]).collect();
    let predictions: Vec<Value> = texts
        .iter()
        .map(|(key, text)| json!({"key": key, "predicted_at": "2026-06-01T02:00:00Z", "release": "v1", "score": 0.7, "label": text, "tags": {"where": text}}))
        .collect();
    post("/v1/workspaces/credit/prod/predictions", predictions.into());
    let outcomes: Vec<Value> = texts
        .iter()
        .map(|(key, text)| json!({"key": key, "observed_at": "2026-06-02T02:00:00Z", "predicted_on": "2026-06-01", "label": text}))
        .collect();
    post("/v1/workspaces/credit/prod/outcomes", outcomes.into());
}

/// Waits until the runs have the latest values of their metrics.
fn measured(service: &Running) {
    for run in RUNS {
        service.get_until(&format!("/v1/runs/credit%2Fprod/{run}"), |answer| {
            let run = answer.json();
            METRICS.iter().all(|name| run["metrics"][*name]["step"] == 1)
        });
    }
}

#[test]
fn hostile_names_are_text() {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    post_hostile(&service);
    let judged = "/v1/workspaces/credit/prod/evaluations?from=2026-06-01&to=2026-06-01";
    service.get_until(judged, |answer| ndjson(answer.text()).first().is_some_and(|row| row["labelled"] == 6));
    measured(&service);
    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    browser.resize(1360, 1000);
    let encode = |text: &str| {
        browser.run("return encodeURIComponent(arguments[0])", &[text.into()]).as_str().unwrap().to_owned()
    };
    let safe = |what: &str| {
        browser.wait_for("document.querySelector('h1') && !document.querySelector('[aria-busy]') && !document.querySelector('.loading')", &[]);
        assert_eq!(
            browser.run("return document.querySelectorAll('main script, main img, main iframe').length", &[]),
            0,
            "{what}"
        );
        assert_ne!(browser.run("return document.title", &[]), "owned", "{what}");
        let wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.run(wide, &[]), 0, "{what} is wider than its window");
    };
    let [run, other] = RUNS;
    let (of_run, compared) = (format!("run?run={run}"), format!("compared?runs={run},{other}&metric=.."));
    // Pages that show the texts, and the texts shown.
    for (page, texts) in [
        ("day?day=2026-06-01&bin=14", &HOSTILE[..]),
        ("catalog", &HOSTILE[..2]),
        ("sql?sql=select+*+from+joined+where+day='2026-06-01'", &HOSTILE[..]),
        ("runs", &HOSTILE[..1]),
        (&*of_run, &HOSTILE[..]),
        (&*compared, &HOSTILE[..2]),
        ("drift?from=2026-06-01&to=2026-06-01", &[]),
        ("alerts", &[]),
    ] {
        browser.open("about:blank");
        browser.open(&format!("{base}#/w/credit/prod/{page}"));
        safe(page);
        browser.picture(&format!("hostile-{}", page.split('?').next().unwrap()));
        let said = browser.run("return document.querySelector('main').textContent", &[]);
        for text in texts {
            // A direction mark is written out.
            let text = text.replace('\u{202e}', r"\u{202e}");
            assert!(said.as_str().unwrap().contains(&text), "{page} does not show {text}");
        }
        assert_eq!(browser.violations(), [""; 0], "{page}");
        assert_eq!(browser.console(), [""; 0], "{page}");
    }
    // Text from an address is shown as text, too.
    for text in HOSTILE {
        let chosen = encode(text);
        browser.open("about:blank");
        browser.open(&format!("{base}#/w/credit/prod/metrics?metric={chosen}&from=2026-06-01&to=2026-06-02"));
        safe(text);
        browser.open("about:blank");
        browser.open(&format!("{base}#/w/{chosen}/{chosen}/metrics"));
        shown(&browser, "This cannot be shown");
        safe(text);
    }
}

/// Browsers do not request a path with `..`, so the history of such a metric is unavailable. The other metrics are still drawn.
#[test]
fn folder_like_metric_name_breaks_no_page() {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    post_hostile(&service);
    measured(&service);
    let browser = Browser::start();
    browser.resize(1360, 1000);
    let open = |page: &str| {
        browser.open("about:blank");
        browser.open(&format!("http://{}/#/w/credit/prod/{page}", service.address()));
    };
    let says = |metric: &str| {
        let script = "return [...document.querySelectorAll('section.card')].find((one) => one.querySelector('h2')?.innerText === arguments[0])?.querySelector('.empty')?.innerText";
        browser.run(script, &[metric.into()])
    };
    let [run, other] = RUNS;
    open(&format!("run?run={run}"));
    shown(&browser, "Run of credit/prod");
    browser.wait_for("document.querySelectorAll('.stage path.line').length === 1", &[]);
    for metric in [".", ".."] {
        let said = says(metric);
        let begins = format!("The history of {metric} cannot be asked for");
        assert!(said.as_str().is_some_and(|said| said.starts_with(&begins)), "{metric}: {said}");
    }
    assert_eq!(says("loss"), Value::Null);
    open(&format!("compared?runs={run},{other}&metric=.."));
    shown(&browser, "Compared runs of credit/prod");
    let said = says("..");
    assert!(said.as_str().is_some_and(|said| said.contains("cannot be asked for")), "{said}");
    open(&format!("compared?runs={run},{other}&metric=loss"));
    browser.wait_for("document.querySelectorAll('.stage path.line').length === 2", &[]);
    assert_eq!(browser.console(), [""; 0]);
}

/// Result of a script, once it has been stable for five seconds.
fn settled(browser: &Browser, script: &str) -> Value {
    let mut last = browser.run(script, &[]);
    for _ in 0..20 {
        sleep(Duration::from_secs(5));
        let now = browser.run(script, &[]);
        if now == last {
            return now;
        }
        last = now;
    }
    panic!("{script} goes on: {last}");
}

/// A page is shown again soon after a change, rarely without one, and never if it does not want that.
#[test]
fn pages_look_rarely_where_they_are_told() {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &["--role", "query"], &[]);
    let browser = Browser::start();
    browser.open(&format!("http://{}/", service.address()));
    let script = "const done = arguments[1]; import('/dashboard/live.js').then(({ rest }) => done(arguments[0].map(([state, now]) => rest(state, now))))";
    let of = |is_stale: bool, every: Value, is_heard: bool, now: u64| json!([{"begunAt": 1_000, "isStale": is_stale, "every": every, "isHeard": is_heard}, now]);
    let asked = json!([
        of(false, 15_000.into(), false, 1_000),
        of(false, 15_000.into(), true, 1_000),
        // Each stream announces that it hears; that does not delay the next look.
        of(false, 15_000.into(), true, 41_000),
        of(false, 15_000.into(), true, 99_000),
        of(false, 90_000.into(), true, 1_000),
        of(true, 15_000.into(), true, 1_500),
        of(true, 15_000.into(), false, 9_000),
        of(true, Value::Null, true, 1_000),
        of(false, Value::Null, false, 1_000),
    ]);
    assert_eq!(
        browser.run_until_done(script, &[asked]),
        json!([15_000, 60_000, 20_000, 0, 90_000, 2_500, 0, 3_000, null])
    );
}

#[test]
fn a_new_evaluation_appears_without_a_reload() {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    register(&service);
    let path = "/v1/workspaces/credit/prod";
    let prediction = r#"[{"key":"a","predicted_at":"2026-06-01T02:00:00Z","release":"v1","score":0.9}]"#;
    assert_eq!(
        service.post(&format!("{path}/predictions"), "application/json", None, prediction).status,
        201
    );
    let browser = Browser::start();
    browser.open(&format!(
        "http://{}/#/w/credit/prod/metrics?from=2026-06-01&to=2026-06-02&metric=accuracy",
        service.address()
    ));
    shown(&browser, "Performance");
    // Without changes nothing is requested, for longer than the interval of pages without a stream.
    let asked = "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/evaluations')).length";
    let before = settled(&browser, asked);
    sleep(Duration::from_secs(20));
    assert_eq!(browser.run(asked, &[]), before);
    browser.run("document.kept = true", &[]);
    let posted = Instant::now();
    let outcome =
        r#"[{"key":"a","observed_at":"2026-06-02T02:00:00Z","predicted_on":"2026-06-01","label":"default"}]"#;
    assert_eq!(service.post(&format!("{path}/outcomes"), "application/json", None, outcome).status, 201);
    browser.wait_for("document.querySelector('td:nth-child(4)')?.innerText === '1.0000'", &[]);
    assert_eq!(browser.run("return document.kept", &[]), true, "the page was not loaded again");
    assert!(posted.elapsed() < Duration::from_secs(30), "it was told, since it asks once a minute only");
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn run_changes_appear_without_a_reload() {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    register(&service);
    let sent = |method: &str, path: &str, body: Value| {
        let headers = [("Content-Type", "application/json")];
        let answer = service.send(method, path, &headers, Some(body.to_string().as_bytes()));
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.text());
    };
    let browser = Browser::start();
    let page = format!("http://{}/#/w/credit/prod/runs", service.address());
    // Changes appear long before the interval of pages without a stream, which is a minute.
    let appears = |happens: &dyn Fn(), what: &str| {
        shown(&browser, "Run");
        browser.wait_for("document.body.dataset.hears === 'true'", &[]);
        browser.run("document.kept = true", &[]);
        let began = Instant::now();
        happens();
        browser.wait_for(&format!("document.querySelector('main').innerText.includes('{what}')"), &[]);
        assert_eq!(browser.run("return document.kept", &[]), true, "the page was not loaded again");
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: {:?}", began.elapsed());
    };
    let run = "2NBs0tD5Ihm2PVFzM3kZvMYdQX1";
    let new = json!({"workspace": "credit/prod", "id": run, "experiment": "depths", "name": "depth 6"});
    browser.open(&page);
    appears(&|| sent("POST", "/v1/runs", new.clone()), "depth 6");
    browser.open(&page.replace("/runs", &format!("/run?run={run}")));
    let loss = json!([{"name": "loss", "measured_at": "2026-06-01T12:00:00Z", "value": 0.625, "run": run}]);
    appears(&|| sent("POST", "/v1/workspaces/credit/prod/metrics", loss.clone()), "0.6250");
    let ended = json!({"status": "finished"});
    appears(&|| sent("PATCH", &format!("/v1/runs/credit%2Fprod/{run}"), ended.clone()), "finished");
    assert_eq!(browser.console(), [""; 0]);
}
