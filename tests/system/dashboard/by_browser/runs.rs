//! Training runs: the list, one run, several side by side, and the links of MLflow's clients.

use serde_json::{Value, json};

use super::{cells, is_shown, parts::made, scene, shown};
use crate::{
    browser::Browser,
    support::{Answer, Place, Running, alone, run_ok},
};

const WORKSPACE: &str = "training/trees";

/// Runs of the scene: two, and an unfinished part of the second one.
const RUNS: [&str; 3] =
    ["2NBs0tD5Ihm2PVFzM3kZvMYdQX1", "2NBs0tD5Ihm2PVFzM3kZvMYdQX2", "2NBs0tD5Ihm2PVFzM3kZvMYdQX3"];

/// Number of values of the loss in the first two runs.
const STEPS: usize = 5;

/// Sends a body, which must be accepted.
fn sent(service: &Running, (method, path): (&str, &str), headers: &[(&str, &str)], body: &Value) -> Answer {
    let headers = [&[("Content-Type", "application/json")][..], headers].concat();
    let answer = service.send(method, path, &headers, Some(body.to_string().as_bytes()));
    assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.text());
    answer
}

/// Path of a run of the scene.
fn path_of(run: &str) -> String {
    format!("/v1/runs/{}/{run}", WORKSPACE.replace('/', "%2F"))
}

/// Adds the runs to the scene of all pages, in a workspace of their own.
pub(super) fn train(place: &Place) {
    run_ok(place, &["workspace", "create", WORKSPACE]);
    run_ok(place, &["model", "create", "--task", "binary", "risk", "-w", WORKSPACE]);
    let service = Running::start(place, &[], &[]);
    let [first, second, part] = RUNS;
    let tags = json!({"mlflow.user": "ann", "almanac.artifacts": "s3://bucket/trees"});
    let runs = [
        json!({"id": first, "name": "depth 2", "started_at": "2026-06-01T10:00:00Z", "params": {"depth": "2", "rate": "0.1"}, "tags": tags}),
        json!({"id": second, "name": "depth 6", "started_at": "2026-06-01T11:00:00Z", "params": {"depth": "6", "rate": "0.1"}, "tags": tags}),
        json!({"id": part, "name": "a fold", "started_at": "2026-06-01T12:00:00Z", "parent": second}),
    ];
    for mut run in runs {
        run["workspace"] = WORKSPACE.into();
        run["experiment"] = "depths".into();
        sent(&service, ("post", "/v1/runs"), &[], &run);
    }
    let value = |run: &str, step: usize, value: f64| json!({"name": "loss", "measured_at": format!("2026-06-01T12:00:{step:02}Z"), "value": value, "run": run, "step": step});
    let of =
        |run: &'static str, by: f64| (0..STEPS).map(move |step| value(run, step, by / (1 + step) as f64));
    let metrics: Vec<Value> = of(first, 1.0).chain(of(second, 0.5)).chain([value(part, 0, 2.0)]).collect();
    sent(&service, ("post", &format!("/v1/workspaces/{WORKSPACE}/metrics")), &[], &metrics.into());
    for run in [first, second] {
        let ended = json!({"status": "finished", "ended_at": "2026-06-01T13:02:00Z"});
        sent(&service, ("patch", &path_of(run)), &[], &ended);
    }
    service.get_until(&path_of(part), |answer| answer.json()["metrics"]["loss"]["value"] == 2.0);
    service.stop();
    run_ok(place, &["release", "create", "v3", "-w", WORKSPACE, "--model", "risk", "--from-run", second]);
}

/// Cells of the table with a caption, by row.
fn table(browser: &Browser, caption: &str) -> Vec<Vec<String>> {
    let script = "return [...document.querySelector(`[aria-label='${arguments[0]}'] table`).tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText))";
    serde_json::from_value(browser.run(script, &[caption.into()])).unwrap()
}

/// Number of points of each line of a chart.
fn points(browser: &Browser) -> Value {
    browser.run(
        "return [...document.querySelectorAll('.stage path.line')].map((one) => one.getAttribute('d').split(/[ML]/).length - 1)",
        &[],
    )
}

#[test]
fn runs_are_listed_and_compared() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    let browser = Browser::start();
    browser.resize(1360, 1000);
    let page = format!("http://{}/#/w/{WORKSPACE}/runs", service.address());
    browser.open(&page);
    shown(&browser, "Runs of training/trees");
    let heads = "return [...document.querySelectorAll('thead th')].map((head) => head.innerText)";
    let expected =
        ["Compare", "Run", "Status", "Started", "Duration", "User", "Experiment", "loss", "depth", "rate"];
    assert_eq!(browser.run(heads, &[]), json!(expected), "what differs is shown");
    let rows = cells(&browser);
    assert_eq!(rows[0][1], "a fold\npart of depth 6");
    assert_eq!(
        rows[2][1..7],
        ["depth 2", "finished", "2026-06-01 10:00:00 UTC", "3 h 2 min", "ann", "depths"]
    );
    let listed = service.get(&format!("/v1/runs?of={WORKSPACE}")).json()["runs"].clone();
    assert_eq!(rows.len(), listed.as_array().unwrap().len());
    for (row, run) in rows.iter().zip(listed.as_array().unwrap()) {
        assert!(is_shown(&row[7], &run["metrics"]["loss"]["value"]), "{row:?} {run}");
    }

    // By a metric, from the least on; and with another choice of columns, by the keyboard.
    browser.open("about:blank");
    browser.open(&format!("{page}?sort=metric.loss&order=least"));
    shown(&browser, "Runs");
    let names: Vec<String> = cells(&browser).into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(names, ["depth 6", "depth 2", "a fold\npart of depth 6"]);
    browser.run("document.querySelector('details.chooser summary').focus()", &[]);
    browser.press("\u{E007}");
    browser.wait_for("document.querySelector('details.chooser').open", &[]);
    browser.press("\u{E004}");
    browser.press(" ");
    browser.wait_for(
        "[...document.querySelectorAll('thead th')].every((head) => head.innerText !== 'loss')",
        &[],
    );
    let stays = "return document.querySelector('details.chooser').open && document.activeElement.closest('.boxes') !== null";
    assert_eq!(browser.run(stays, &[]), true, "who chooses goes on choosing");
    assert_eq!(browser.violations(), [""; 0]);

    // Two are compared.
    assert_eq!(browser.run("return document.querySelector('.answers button').disabled", &[]), true);
    browser.click("[aria-label='Compare depth 2']");
    browser.click("[aria-label='Compare depth 6']");
    browser.click(".answers button");
    shown(&browser, "Compared runs of training/trees");
    browser.wait_for("document.querySelector('.stage path.line')", &[]);
    assert_eq!(points(&browser), json!([STEPS, STEPS]));
    let differ: Vec<String> =
        table(&browser, "Runs side by side").iter().map(|row| row[1..].join(" ")).collect();
    assert!(differ.contains(&"depth 6 2".to_owned()), "{differ:?}");
    assert!(!differ.iter().any(|row| row.starts_with("rate")), "{differ:?}");
    assert_eq!(table(&browser, "loss of each run").len(), STEPS);
    assert_eq!(browser.console(), [""; 0]);
}

/// Without the last column or metric the page shows none, also by the address; the default ones do not come back.
#[test]
fn nothing_is_a_choice() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    let browser = Browser::start();
    browser.resize(1360, 1000);
    let base = format!("http://{}/#/w/{WORKSPACE}", service.address());
    let takes_away_all = |label: &str, all: usize| {
        browser.click("details.chooser summary");
        for left in (0..all).rev() {
            browser.run("document.querySelector('.boxes input:checked').click()", &[]);
            let said = format!("{label}: {left} of {all}");
            browser.wait_for("document.querySelector('details.chooser summary').innerText === arguments[0] && !document.querySelector('[aria-busy]')", &[said.into()]);
        }
    };
    let again = || {
        let address = browser.run("return location.href", &[]);
        browser.open("about:blank");
        browser.open(address.as_str().unwrap());
    };
    let heads = "return [...document.querySelectorAll('thead th')].map((head) => head.innerText)";
    let own = json!(["Compare", "Run", "Status", "Started", "Duration", "User", "Experiment"]);
    browser.open(&format!("{base}/runs"));
    shown(&browser, "Runs");
    takes_away_all("Columns", 3);
    assert_eq!(browser.run(heads, &[]), own);
    again();
    shown(&browser, "Runs");
    assert_eq!(browser.run(heads, &[]), own, "the address says it");
    browser.click("details.chooser summary");
    browser.run("document.querySelector('.boxes input').click()", &[]);
    browser.wait_for("[...document.querySelectorAll('thead th')].at(-1).innerText === 'loss'", &[]);

    let is_drawn =
        "return [...document.querySelectorAll('.card h2')].some((title) => title.innerText === 'loss')";
    browser.open("about:blank");
    browser.open(&format!("{base}/run?run={}", RUNS[1]));
    shown(&browser, "Run of");
    assert_eq!(browser.run(is_drawn, &[]), true);
    takes_away_all("Metrics step by step", 1);
    assert_eq!(browser.run(is_drawn, &[]), false);
    again();
    shown(&browser, "Run of");
    assert_eq!(browser.run(is_drawn, &[]), false, "the address says it");
    assert_eq!(browser.console(), [""; 0]);
}

/// Every object of JavaScript has a `constructor`, but there is no page, order or measure of this name.
#[test]
fn words_that_every_object_has_are_no_choice() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    let browser = Browser::start();
    let open = |page: &str, heading: &str| {
        browser.open("about:blank");
        browser.open(&format!("http://{}/#/w/{page}", service.address()));
        shown(&browser, heading);
    };
    open(&format!("{WORKSPACE}/runs?sort=constructor"), "Runs");
    let names: Vec<String> = cells(&browser).into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(names, ["a fold\npart of depth 6", "depth 6", "depth 2"], "the newest first, as usual");
    open("flights/nyc/drift?from=2013-07-01&to=2013-07-08&measure=constructor", "Drift");
    assert_eq!(browser.text("thead th:nth-child(2)"), "js_distance", "the first measure, as usual");
    open(&format!("{WORKSPACE}/constructor"), "This cannot be shown");
    assert!(browser.text("[role=alert]").contains("There is no such page."));
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn a_run_is_that_of_the_api() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    let browser = Browser::start();
    browser.resize(1360, 1000);
    browser.open(&format!("http://{}/#/w/{WORKSPACE}/runs", service.address()));
    shown(&browser, "Runs");
    browser.run(
        "[...document.querySelectorAll('td a.strong')].find((one) => one.innerText === 'depth 6').click()",
        &[],
    );
    shown(&browser, "Run of training/trees");
    let facts = browser.text(".facts");
    for fact in ["depths", RUNS[1], "s3://bucket/trees", "v3 of risk"] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
    let history = service.get(&format!("{}/metrics/loss", path_of(RUNS[1]))).json()["points"].clone();
    let rows = table(&browser, "loss of depth 6");
    assert_eq!(rows.len(), STEPS);
    for (row, point) in rows.iter().rev().zip(history.as_array().unwrap()) {
        assert_eq!(row[0], point["step"].to_string());
        assert!(is_shown(&row[1], &point["value"]), "{row:?} {point}");
    }
    browser.wait_for("document.querySelector('.stage path.line')", &[]);
    assert_eq!(points(&browser), json!([STEPS]));
    browser.run("document.querySelector('.stage').focus()", &[]);
    browser.press("\u{E014}");
    assert!(browser.text(".tip").starts_with("Step 0"), "{}", browser.text(".tip"));
    assert_eq!(table(&browser, "Parameters of depth 6"), [["depth", "6"], ["rate", "0.1"]]);
    assert_eq!(
        browser.run("return [...document.querySelectorAll('nav [aria-current]')].at(-1).innerText", &[]),
        "Runs"
    );
    // From a part to the whole.
    browser.open(&format!("http://{}/#/w/{WORKSPACE}/run?run={}", service.address(), RUNS[2]));
    browser.wait_for("document.querySelector('h2')?.innerText === 'a fold'", &[]);
    browser.click(".facts a[href*='run=']");
    browser.wait_for("document.querySelector('h2')?.innerText === 'depth 6'", &[]);
    assert_eq!(browser.console(), [""; 0]);
}

/// Links as MLflow's clients print them: below the tracking URI, and without it.
#[test]
fn mlflow_client_links_lead_to_the_run() {
    let _alone = alone();
    let place = Place::sqlite();
    for workspace in ["credit/dev", "credit/prod"] {
        run_ok(&place, &["workspace", "create", workspace]);
    }
    let token = run_ok(&place, &["init"]).trim().to_owned();
    let service = Running::start(&place, &["--mlflow", "--mlflow-artifacts", "none"], &[]);
    let base = format!("http://{}", service.address());
    let bearer = format!("Bearer {token}");
    let ask = |workspace: &str, path: &str, body: Value| {
        let path = format!("/mlflow/{workspace}/api/2.0/mlflow/{path}");
        sent(&service, ("post", &path), &[("Authorization", &*bearer)], &body).json()
    };
    let new_run = |workspace: &str, experiment: &str, name: &str| {
        let made = ask(workspace, "runs/create", json!({"experiment_id": experiment, "run_name": name}));
        made["run"]["info"]["run_id"].as_str().unwrap().to_owned()
    };
    let made = ask("credit/prod", "experiments/create", json!({"name": "depths & more"}));
    let experiment = made["experiment_id"].as_str().unwrap();
    let deep = new_run("credit/prod", experiment, "deep");
    let usual = new_run("credit/prod", "0", "usual");
    new_run("credit/dev", "0", "other");

    let browser = Browser::start();
    let is_run = |name: &str| {
        shown(&browser, "Run of credit/prod");
        browser.wait_for("document.querySelector('h2')?.innerText === arguments[0]", &[name.into()]);
    };
    let open = |link: &str| {
        browser.open("about:blank");
        browser.open(&format!("{base}{link}"));
    };
    // After signing in, a user arrives at the link.
    open(&format!("/mlflow/credit/prod/#/experiments/{experiment}/runs/{deep}"));
    shown(&browser, "Sign in");
    browser.type_into("input[type=password]", &token);
    browser.click("button.first");
    is_run("deep");
    browser.console();
    open(&format!("/mlflow/credit/prod/#/experiments/0/runs/{usual}"));
    is_run("usual");
    open(&format!("/mlflow/credit/prod/#/experiments/{experiment}"));
    shown(&browser, "Runs of credit/prod");
    browser.wait_for("document.querySelector('h2')?.innerText === 'Runs of depths & more'", &[]);
    open("/mlflow/credit/dev");
    shown(&browser, "Runs of credit/dev");
    // A link without a workspace is searched for.
    open(&format!("/#/experiments/{experiment}/runs/{deep}"));
    is_run("deep");
    open("/#/experiments/0");
    browser.wait_for("document.querySelector('h2')?.innerText === 'Which workspace is meant?'", &[]);
    let found: Vec<String> = cells(&browser).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(found, ["credit/dev", "credit/prod"]);
    assert_eq!(browser.violations(), [""; 0]);
    open("/#/experiments/17");
    shown(&browser, "This cannot be shown");
    assert_eq!(browser.console(), [""; 0]);
    // The default experiment is in both, so the run decides.
    open(&format!("/#/experiments/0/runs/{usual}"));
    is_run("usual");
}

/// Columns, order and lines of runs on the pages.
#[test]
fn differing_columns_lead_and_histories_are_thinned() {
    let columns = "(async () => {
        const run = (name, params, metrics) => ({ name, started_at: '2026-06-01T00:00:00Z', params, metrics: Object.fromEntries(Object.entries(metrics).map(([key, value]) => [key, { value }])) });
        const runs = given.map((one) => run(...one));
        const { columnsOf: of, sorted, valueOf } = part;
        const all = of(runs);
        const loss = all.find((one) => one.id === 'metric.loss');
        const depth = all.find((one) => one.id === 'param.depth');
        const order = (column, isLeast) => sorted(runs, (one) => valueOf(one, column), isLeast).map((one) => one.name).join('');
        return [all.map((one) => one.id), all.map((one) => one.differs), order(loss, true), order(loss, false), order(depth, true)];
    })()";
    let runs = json!([
        ["a", {"depth": "10", "rate": "0.1"}, {"loss": 0.5, "system/cpu": 1.0, "auc": 0.9}],
        ["b", {"depth": "9", "rate": "0.1", "constructor": "x"}, {"loss": "NaN", "system/cpu": 2.0, "auc": 0.9}],
        ["c", {"depth": "none", "rate": "0.1"}, {"loss": 0.25, "system/cpu": 3.0, "auc": 0.9}],
        ["d", {"rate": "0.1"}, {"system/cpu": 3.0, "auc": 0.9}],
    ]);
    let ids =
        ["metric.loss", "param.constructor", "param.depth", "metric.system/cpu", "metric.auc", "param.rate"];
    assert_eq!(
        made("runs.js", columns, runs),
        json!([ids, [true, true, true, true, false, false], "cabd", "acbd", "bacd"])
    );
    let lines = "(() => {
        const points = (many, stepped) => Array.from({ length: many }, (_, at) => ({ step: stepped ? at : 0, at: '', value: at === 1 ? 'NaN' : at }));
        const of = (...histories) => {
            const { axis, rows, note, chart } = part.drawn('loss', histories.map((points, at) => ({ name: `${at}`, points, isCut: false })), 200);
            return [axis, rows.length, rows.at(-1).x, note, Boolean(chart)];
        };
        return [of(points(given, true)), of(points(3, false)), of(points(1, true)), of(points(3, true), points(5, true))];
    })()";
    assert_eq!(
        made("runs.js", lines, json!(5_000)),
        json!([
            ["Step", 5_000, 4_999, "by step; a line is drawn through one of 5 values", true],
            ["Number", 3, 3, "by the order in which the values came", true],
            ["Step", 1, 0, "by step", false],
            ["Step", 5, 4, "by step", true],
        ])
    );
    let durations = json!([0.04, 42, 59.6, 61, 3_600, 90_000, null]);
    assert_eq!(
        made("words.js", "given.map((one) => part.duration(one))", durations),
        json!(["0.0 s", "42 s", "1 min 0 s", "1 min 1 s", "1 h 0 min", "1 d 1 h", "–"])
    );
}
