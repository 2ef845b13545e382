//! An unmodified MLflow client logs through the door; without the setting there is none.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use almanac::up::Options;
use event::{Clock, Right, Timestamp};
use mlflow::endpoint::{ENDPOINTS, Endpoint};
use serde_json::{Value, json};
use table::sqlite::SqliteTable;

use crate::support::{Answer, Place, Running, Service, run_ok};

mod artifacts;
mod batches;
mod experiments;
mod models;
mod overtaken;
mod refusals;

/// The packages that the script needs.
const PACKAGES: [&str; 4] = ["mlflow-skinny==3.17.2", "scikit-learn", "skops", "pandas"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A Python with MLflow's client: that of `ALMANAC_TEST_MLFLOW`, or of an environment that is made once. `None`, when nothing
/// can be installed here.
fn python() -> Option<PathBuf> {
    if let Some(python) = std::env::var_os("ALMANAC_TEST_MLFLOW") {
        return Some(python.into());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mlflow-venv");
    let python = folder.join("bin/python");
    let works =
        |command: &mut Command| command.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if works(Command::new(&python).args(["-c", "import mlflow, sklearn, skops"]).stderr(Stdio::null())) {
        return Some(python);
    }
    let is_made = works(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let is_there = is_made && works(Command::new(&python).args(pip).args(PACKAGES));
    is_there.then_some(python)
}

#[test]
fn an_unmodified_client_logs_and_reads() {
    let Some(python) = python() else {
        eprintln!("MLflow's door was SKIPPED: {} cannot be installed here", PACKAGES.join(", "));
        return;
    };
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let token = run_ok(&place, &["init"]);
    let token = token.trim().to_owned();
    let served = Running::start(&place, &["--mlflow", "--mlflow-artifacts", "none"], &[]);
    let door = format!("http://{}/mlflow/credit/prod", served.address());
    let script = |variables: &[(&str, &str)]| {
        let output = Command::new(&python)
            .arg(root().join("tests/mlflow/client.py"))
            .arg("sklearn")
            .env("MLFLOW_TRACKING_URI", &door)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (is_ok, said) = script(&[]);
    assert!(!is_ok && said.contains("UNAUTHENTICATED"), "{said}");
    let (is_ok, said) = script(&[("MLFLOW_TRACKING_TOKEN", &token)]);
    assert!(is_ok && said.contains("\nok\n"), "{said}");
    let (is_ok, said) = script(&[("MLFLOW_TRACKING_USERNAME", "ann"), ("MLFLOW_TRACKING_PASSWORD", &token)]);
    assert!(
        !is_ok && said.contains("RESOURCE_ALREADY_EXISTS"),
        "it got in, and found what was there: {said}"
    );
    drop(served);
    // Runs, events and releases that it logged are like all others.
    let runs = run_ok(&place, &["run", "list", "-w", "credit/prod", "--experiment", "depths of trees"]);
    assert!(runs.contains("finished") && runs.contains("loss=0.2"), "{runs}");
    assert!(run_ok(&place, &["release", "list", "credit/prod/risk"]).contains("risk-2"));
}

/// Asks the door of a workspace, with a token where callers are asked for one.
fn ask(service: &Service, endpoint: (&str, &str), token: Option<&str>, body: &Value) -> Answer {
    let (method, path) = endpoint;
    let path = format!("/mlflow/credit/prod/api/2.0/{path}");
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
    let body = body.to_string();
    service.send(method, &path, &headers, (method != "GET").then_some(body.as_bytes()))
}

#[test]
fn each_endpoint_asks_for_its_right() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    run_ok(&place, &["workspace", "create", "rival/secret"]);
    run_ok(&place, &["init"]);
    let token = |role: &str, workspace: &str, more: &[&str]| {
        let (user, name) = (format!("{role}-{}", workspace.replace('/', "-")), more.join(" "));
        let principal = format!("user:{user}");
        if more.is_empty() {
            run_ok(&place, &["user", "create", &user]);
            run_ok(&place, &["access", "grant", &principal, role, "--workspace", workspace]);
        }
        let name = if name.is_empty() { "own" } else { "narrow" };
        let args = [&["token", "create", &principal, "--name", name][..], more].concat();
        run_ok(&place, &args).trim().to_owned()
    };
    let may = [
        (token("reader", "credit/prod", &[]), vec![Right::Read]),
        (token("writer", "credit/prod", &[]), vec![Right::Read, Right::Append]),
        (token("maintainer", "credit/prod", &[]), vec![Right::Read, Right::Append, Right::Maintain]),
    ];
    let stranger = token("maintainer", "rival/secret", &[]);
    let narrow = token("writer", "credit/prod", &["--kind", "predictions"]);
    let service = Running::start(&place, &["--mlflow"], &[]);
    let asked = |endpoint: &Endpoint, token: &str| {
        let path = endpoint.path.replace(['{', '}'], "");
        let answer = ask(&service, (endpoint.method, &path), Some(token), &json!({}));
        let code = answer.json()["error_code"].as_str().unwrap_or_default().to_owned();
        (answer.status, code)
    };
    for endpoint in ENDPOINTS {
        for (token, rights) in &may {
            let (status, code) = asked(endpoint, token);
            let is_refused = status == 403 && code == "PERMISSION_DENIED";
            assert_eq!(
                is_refused,
                !rights.contains(&endpoint.right),
                "{rights:?} {endpoint:?}: {status} {code}"
            );
        }
        // To who has no role there, the workspace is not there.
        assert_eq!(asked(endpoint, &stranger), (404, "RESOURCE_DOES_NOT_EXIST".to_owned()), "{endpoint:?}");
        let (status, code) = asked(endpoint, "alm_nothing");
        assert_eq!((status, code.as_str()), (401, "UNAUTHENTICATED"), "{endpoint:?}");
    }
    let run = ask(&service, ("POST", "mlflow/runs/create"), Some(&narrow), &json!({}));
    let run = run.json()["run"]["info"]["run_id"].as_str().unwrap().to_owned();
    let metric = json!({ "run_id": run, "key": "loss", "value": 0.5, "timestamp": 1_780_000_000_000_i64 });
    let log = |token: &str| ask(&service, ("POST", "mlflow/runs/log-metric"), Some(token), &metric).status;
    assert_eq!(log(&narrow), 403, "a token for predictions alone logs no metrics");
    assert_eq!(log(&may[0].0), 403);
    assert_eq!(log(&may[1].0), 200);
    // Changes by the door are in the audit log, with who made them.
    for (method, what) in [("POST", "create"), ("DELETE", "delete")] {
        let path = format!("mlflow/registered-models/{what}");
        let done = ask(&service, (method, &path), Some(&may[2].0), &json!({ "name": "spare" }));
        assert_eq!(done.status, 200, "{}", done.text());
    }
    drop(service);
    let audit_log = run_ok(&place, &["audit", "-w", "credit/prod", "--format", "ndjson"]);
    let changes = audit_log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_spare = changes.filter(|row| row["name"] == "spare");
    let told: Vec<_> = of_spare.map(|row| [row["action"].clone(), row["principal"].clone()]).collect();
    let by = "user:maintainer-credit-prod";
    assert_eq!(told, [["model.create", by], ["model.delete", by]], "{audit_log}");
}

/// A service with the door to `credit/prod`, which asks nobody who calls.
fn open_door() -> (Place, Running) {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let service = Running::start(&place, &["--mlflow"], &[]);
    (place, service)
}

/// The answer of an endpoint that takes a request.
fn done(service: &Service, endpoint: (&str, &str), body: &Value) -> Value {
    let answer = ask(service, endpoint, None, body);
    assert_eq!(answer.status, 200, "{endpoint:?}: {}", answer.text());
    answer.json()
}

fn post(service: &Service, path: &str, body: &Value) -> Value {
    done(service, ("POST", path), body)
}

/// Asserts that an endpoint refuses a request with a code of MLflow.
fn refused(service: &Service, path: &str, body: &Value, code: &str) {
    let answer = ask(service, ("POST", path), None, body);
    assert_eq!(
        (answer.status, &answer.json()["error_code"]),
        (400, &json!(code)),
        "{path}: {}",
        answer.text()
    );
}

fn new_run(service: &Service, name: &str) -> Value {
    let run = post(service, "mlflow/runs/create", &json!({ "experiment_id": "0", "run_name": name }));
    run["run"]["info"]["run_id"].clone()
}

#[test]
fn run_search_pages_find_each_run_once() {
    let (_place, service) = open_door();
    // All together they are more than a search keeps, and more than a page has room for.
    let value = "x".repeat(8_000);
    let params: Vec<Value> = (0..30).map(|n| json!({ "key": format!("p{n:02}"), "value": value })).collect();
    let runs = 160;
    for n in 0..runs {
        let run = new_run(&service, &format!("run {n:03}"));
        let metrics = json!([{ "key": "n", "value": n, "timestamp": 1_780_000_000_000_i64 }]);
        let batch = json!({ "run_id": run, "metrics": metrics, "params": params });
        post(&service, "mlflow/runs/log-batch", &batch);
    }
    let search = |more: Value| {
        let mut asked = json!({ "experiment_ids": ["0", "0", "0"], "order_by": ["metrics.n ASC"] });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let found = post(&service, "mlflow/runs/search", &asked);
        let names = found["runs"].as_array().unwrap().iter().map(|run| run["info"]["run_name"].clone());
        (names.collect::<Vec<_>>(), found["next_page_token"].clone())
    };
    let (few, next) = search(json!({ "filter": "metrics.n < 3" }));
    assert_eq!((few, next), (vec![json!("run 000"), json!("run 001"), json!("run 002")], Value::Null));
    let (mut all, mut next) = search(json!({}));
    assert!((2..runs).contains(&all.len()), "the first page has {} runs", all.len());
    while next != Value::Null {
        let (some, after) = search(json!({ "page_token": next }));
        all.extend(some);
        next = after;
    }
    assert_eq!(all, (0..runs).map(|n| json!(format!("run {n:03}"))).collect::<Vec<_>>());
    let path = "mlflow/runs/search";
    let ids: Vec<String> = (0..1_001).map(|id| id.to_string()).collect();
    refused(&service, path, &json!({ "experiment_ids": ids }), "INVALID_PARAMETER_VALUE");
    let foo = json!({ "experiment_ids": ["0"], "order_by": ["foo"] });
    refused(&service, path, &foo, "INVALID_PARAMETER_VALUE");
}

#[test]
fn runs_are_found_by_their_datasets() {
    let (_place, service) = open_door();
    let dataset = |name: &str, context: &str| {
        let tags = json!([{ "key": "mlflow.data.context", "value": context }]);
        json!({ "tags": tags, "dataset": { "name": name, "digest": "d1", "source_type": "s3", "source": "{}" } })
    };
    let first = new_run(&service, "first");
    let datasets = [dataset("loans", "training"), dataset("cards", "test")];
    post(&service, "mlflow/runs/log-inputs", &json!({ "run_id": first, "datasets": datasets }));
    let second = new_run(&service, "second");
    let datasets = [dataset("loans", "test")];
    post(&service, "mlflow/runs/log-inputs", &json!({ "run_id": second, "datasets": datasets }));
    let search = |filter: &str| {
        let asked = json!({ "experiment_ids": ["0"], "filter": filter });
        let found = post(&service, "mlflow/runs/search", &asked);
        let runs = found["runs"].as_array().unwrap().iter();
        let mut names: Vec<String> =
            runs.map(|run| run["info"]["run_name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(search("datasets.name = 'loans'"), ["first", "second"]);
    assert_eq!(search("dataset.name = 'cards' AND datasets.digest = 'd1'"), ["first"]);
    assert_eq!(search("dataset.context = 'training'"), ["first"]);
    assert!(search("dataset.name = 'x'").is_empty());
    let source = json!({ "experiment_ids": ["0"], "filter": "dataset.source = 'x'" });
    refused(&service, "mlflow/runs/search", &source, "INVALID_PARAMETER_VALUE");
}

#[test]
fn version_number_is_never_given_twice() {
    let (place, service) = open_door();
    post(&service, "mlflow/registered-models/create", &json!({ "name": "risk" }));
    let create = |name: &str| {
        let made =
            post(&service, "mlflow/model-versions/create", &json!({ "name": name, "source": "s3://m" }));
        made["model_version"]["version"].as_str().unwrap().to_owned()
    };
    let delete = |version: &str| {
        let named = json!({ "name": "risk", "version": version });
        done(&service, ("DELETE", "mlflow/model-versions/delete"), &named);
    };
    assert_eq!([create("risk"), create("risk")], ["1", "2"]);
    delete("2");
    assert_eq!(create("risk"), "3", "the number of what was deleted is not given again");
    // Tags that are noted besides change nothing of that.
    let tag = json!({ "name": "risk", "key": "team", "value": "lending" });
    post(&service, "mlflow/registered-models/set-tag", &tag);
    delete("1");
    delete("3");
    assert_eq!(create("risk"), "4");
    // Models whose versions were made elsewhere, or by an older Almanac, have no number noted.
    run_ok(&place, &["model", "create", "--task", "binary", "old", "-w", "credit/prod"]);
    run_ok(&place, &["release", "create", "old-6", "-w", "credit/prod", "--model", "old"]);
    assert_eq!([create("old"), create("old")], ["7", "8"]);
}

#[test]
fn deleted_run_takes_nothing_until_restored() {
    let (_place, service) = open_door();
    let run = new_run(&service, "gone");
    let metric = json!({ "key": "loss", "value": 0.5, "timestamp": 1_780_000_000_000_i64 });
    let dataset =
        json!({ "dataset": { "name": "loans", "digest": "d1", "source_type": "s3", "source": "{}" } });
    let mut changes = vec![
        ("log-metric", metric.clone()),
        ("log-parameter", json!({ "key": "depth", "value": "6" })),
        ("log-batch", json!({ "metrics": [metric] })),
        ("log-batch", json!({ "params": [{ "key": "depth", "value": "6" }] })),
        ("log-batch", json!({ "tags": [{ "key": "team", "value": "risk" }] })),
        ("log-inputs", json!({ "datasets": [dataset] })),
        ("set-tag", json!({ "key": "team", "value": "risk" })),
        ("delete-tag", json!({ "key": "team" })),
        ("update", json!({ "status": "FINISHED" })),
    ];
    changes.iter_mut().for_each(|(_, change)| change["run_id"] = run.clone());
    let data = || {
        let path = format!("mlflow/runs/get?run_id={}", run.as_str().unwrap());
        let shown = &done(&service, ("GET", &path), &json!({}))["run"];
        (shown["data"].clone(), shown["info"]["status"].clone())
    };
    let before = data();
    post(&service, "mlflow/runs/delete", &json!({ "run_id": run }));
    for (path, change) in &changes {
        refused(&service, &format!("mlflow/runs/{path}"), change, "INVALID_PARAMETER_VALUE");
    }
    assert_eq!(data(), before);
    post(&service, "mlflow/runs/restore", &json!({ "run_id": run }));
    for (path, change) in &changes {
        post(&service, &format!("mlflow/runs/{path}"), change);
    }
    assert_eq!((&data().1, data().0["metrics"][0]["value"].as_f64()), (&json!("FINISHED"), Some(0.5)));
}

#[test]
fn mlflow_metrics_behave_like_all_others() {
    let folder = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(Timestamp::parse("2026-06-02T00:00:00Z").unwrap().micros()));
    let moved = Arc::clone(&now);
    let clock =
        Clock::from_fn(move || Timestamp::from_micros(moved.load(Ordering::SeqCst)).unwrap_or_default());
    let later = || now.fetch_add(60_000_000, Ordering::SeqCst);
    let table = SqliteTable::open(&folder.path().join("almanac.db"), clock.clone()).unwrap();
    let service = Service::start_on(Arc::new(table), Options { mlflow: true, ..Options::new(clock.clone()) });
    let made = service.post("/v1/workspaces", "application/json", None, r#"{"path":"credit/prod"}"#);
    assert_eq!(made.status, 201, "{}", made.text());
    let post = |path: &str, body: Value| {
        let answer = ask(&service, ("POST", path), None, &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let run = post("mlflow/runs/create", json!({ "experiment_id": "0" }))["run"]["info"]["run_id"].clone();
    // From noon of 2026-06-01 on.
    let metric = |step: i64, value: Value| json!({ "key": "loss", "value": value, "timestamp": 1_780_315_200_000_i64 + step, "step": step });
    let first = [metric(0, json!(0.5)), metric(1, json!(0.25)), metric(2, json!("NaN"))];
    post("mlflow/runs/log-batch", json!({ "run_id": run, "metrics": first }));
    later();
    let between = clock.now();
    later();
    let mut last = metric(3, json!(0.75));
    last["run_id"] = run.clone();
    post("mlflow/runs/log-metric", last);
    later();
    let day = "/v1/workspaces/credit/prod";
    let window = "from=2026-06-01&to=2026-06-01&format=ndjson";
    let values = |more: &str| -> Vec<f64> {
        let answer = service.get(&format!("{day}/metrics?{window}&columns=run,step,value{more}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let rows = answer.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.inspect(|row| assert_eq!(row["run"], run)).map(|row| row["step"].as_f64().unwrap()).collect()
    };
    assert_eq!(values(""), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values(&format!("&as-of={between}")), [0.0, 1.0, 2.0], "as it was known then");
    let rollup = format!("{day}/rollups?{window}&group-by=metric");
    let folded = service.get_until(&rollup, |answer| answer.text().contains("\"metrics\":3"));
    let row: Value = serde_json::from_str(folded.text().trim()).unwrap();
    // Values that are no numbers are in no metric.
    assert_eq!((&row["metric"], &row["value_mean"]), (&json!("loss"), &json!(0.5)), "{row}");
}

#[test]
fn there_is_no_door_without_the_setting() {
    let place = Place::sqlite();
    let served = Running::start(&place, &[], &[]);
    let answer = served.get("/mlflow/credit/prod/api/2.0/mlflow/experiments/search");
    assert_eq!(answer.status, 404);
}
