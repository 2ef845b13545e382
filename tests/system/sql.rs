//! Statements, and conditions on events, over HTTP and on the command line.

use std::fs;

use crate::support::{Place, Service, ndjson, on_both_engines, register, run, run_ok};
use polars::prelude::{Column, DataFrame};
use serde_json::{Value, json};

on_both_engines!(
    statement_is_answered_over_http_and_command_line,
    accept_chooses_a_format_that_is_not_named,
    event_filters_work_over_http_and_command_line,
    explanation_works_over_http_and_command_line,
    command_line_refuses_join_of_too_many_rows,
    numbers_that_json_lacks_come_back,
    a_score_of_single_precision_reaches_its_threshold,
);

const PATH: &str = "/v1/workspaces/credit/prod/sql";
const STATEMENT: &str =
    "select key, tag.branch, score from predictions where day = '2026-06-01' order by score";

fn statement_is_answered_over_http_and_command_line(place: &Place) {
    let predictions = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.9,"tags":{"branch":"north"}}
{"key":"b","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.2}
{"key":"c","predicted_at":"2026-06-02T04:30:00Z","release":"v1","score":0.6}
"#;
    let service = Service::start(place);
    register(&service);
    let appended =
        service.post("/v1/workspaces/credit/prod/predictions", "application/x-ndjson", None, predictions);
    assert_eq!(appended.status, 201, "{}", appended.text());
    let ask = |path: &str, body: Value| service.post(path, "application/json", None, &body.to_string());

    let answer = ask(PATH, json!({ "sql": STATEMENT }));
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "application/x-ndjson"));
    let rows = json!([{ "key": "b", "tag.branch": null, "score": 0.2 }, { "key": "a", "tag.branch": "north", "score": 0.9 }]);
    assert_eq!(json!(ndjson(answer.text())), rows);
    let csv = ask(PATH, json!({ "sql": STATEMENT, "format": "csv" }));
    assert_eq!(
        (csv.content_type.as_str(), csv.text()),
        ("text/csv; charset=utf-8", "key,tag.branch,score\nb,,0.2\na,north,0.9\n")
    );
    for (format, begins) in [("parquet", &b"PAR1"[..]), ("ipc", b"ARROW1"), ("table", b" key")] {
        let answer = ask(PATH, json!({ "sql": STATEMENT, "format": format }));
        assert!(answer.status == 200 && answer.body.starts_with(begins), "{format}");
    }

    // The command line answers the same, and so does the read version after more has come.
    let on_line = ["sql", STATEMENT, "-w", "credit/prod", "--format", "csv"];
    assert_eq!(run_ok(place, &on_line), csv.text());
    let read_version = ask(PATH, json!({ "sql": STATEMENT, "format": "read-version" }));
    let more = r#"{"key":"d","predicted_at":"2026-06-01T05:30:00Z","release":"v1","score":0.1}"#;
    let appended = service.post("/v1/workspaces/credit/prod/predictions", "application/x-ndjson", None, more);
    assert_eq!(appended.status, 201, "{}", appended.text());
    assert_ne!(run_ok(place, &on_line), csv.text());
    let again = ask(PATH, json!({ "sql": STATEMENT, "format": "csv", "read_version": read_version.text() }));
    assert_eq!(again.text(), csv.text());
    assert_eq!(run_ok(place, &[&on_line[..], &["--read-version", read_version.text()]].concat()), csv.text());

    for (path, body, status, why) in [
        (PATH, json!({ "sql": "drop table predictions" }), 400, "only SELECT is admitted"),
        (PATH, json!({ "sql": "select key from predictions" }), 400, "say which days of predictions to read"),
        (PATH, json!({ "sql": STATEMENT, "days": 3 }), 422, "unknown field `days`"),
        (PATH, json!({ "sql": STATEMENT, "format": "xml" }), 400, "the format `xml` is none of"),
        ("/v1/workspaces/credit/none/sql", json!({ "sql": STATEMENT }), 404, "credit/none"),
    ] {
        let refused = ask(path, body);
        assert_eq!(refused.status, status, "{}", refused.text());
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(why), "{detail}");
    }
    let all = ask(PATH, json!({ "sql": "select count(*) as n from predictions", "all_days": true }));
    assert_eq!(ndjson(all.text()), [json!({ "n": 4 })]);
    let refused = run(place, &["sql", "select * from read_csv('/etc/passwd')", "-w", "credit/prod"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("there is no table read_csv"));
}

fn accept_chooses_a_format_that_is_not_named(place: &Place) {
    let service = Service::start(place);
    register(&service);
    let prediction = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.9}"#;
    let predictions = "/v1/workspaces/credit/prod/predictions";
    assert_eq!(service.post(predictions, "application/x-ndjson", None, prediction).status, 201);
    let path = format!("{predictions}?from=2026-06-01&to=2026-06-01&columns=key");
    let body = json!({ "sql": "select key from predictions where day = '2026-06-01'" }).to_string();
    for (accept, media, begins) in [
        ("*/*", "application/x-ndjson", &b"{\"key\":\"a\"}\n"[..]),
        ("application/x-ndjson", "application/x-ndjson", b"{"),
        ("application/json", "application/x-ndjson", b"{"),
        ("text/csv", "text/csv; charset=utf-8", b"key\na\n"),
        ("text/csv;q=0.5, application/vnd.apache.parquet;q=0.9", "application/vnd.apache.parquet", b"PAR1"),
        ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream", b"\xff\xff\xff\xff"),
        ("text/html, */*;q=0.1", "application/x-ndjson", b"{"),
    ] {
        let rows = service.send("get", &path, &[("Accept", accept)], None);
        let said = [("Accept", accept), ("Content-Type", "application/json")];
        let by_sql = service.send("post", PATH, &said, Some(body.as_bytes()));
        for answer in [rows, by_sql] {
            assert_eq!((answer.status, answer.content_type.as_str()), (200, media), "{accept}");
            assert!(answer.body.starts_with(begins), "{accept}: {:?}", answer.body);
        }
    }
    let named = service.send("get", &format!("{path}&format=csv"), &[("Accept", "application/json")], None);
    assert_eq!((named.content_type.as_str(), named.text()), ("text/csv; charset=utf-8", "key\na\n"));
    // An explanation is JSON, or text for who prefers it; a parameter without effect is refused, on any dataset.
    let explained = |accept| {
        let path = format!("{path}&explain=true&format=ipc-stream");
        service.send("get", &path, &[("Accept", accept)], None).content_type
    };
    assert_eq!(explained("application/json"), "application/json");
    assert_eq!(explained("text/plain"), "text/plain; charset=utf-8");
    for (dataset, parameter) in [
        ("predictions", "period=week"),
        ("rollups", "threshold=0.5"),
        ("drift", "interval=true"),
        ("joined", "x=1"),
    ] {
        let path = format!("/v1/workspaces/credit/prod/{dataset}?from=2026-06-01&to=2026-06-01&{parameter}");
        let refused = service.get(&path);
        let name = parameter.split('=').next().unwrap();
        assert_eq!(refused.status, 400, "{}", refused.text());
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with(&format!("{name}: `{dataset}` does not take it")), "{detail}");
    }
}

fn event_filters_work_over_http_and_command_line(place: &Place) {
    let prediction = |n: u32| {
        let branch = if n.is_multiple_of(2) { "north, east" } else { "south" };
        let tags = json!({ "branch": branch });
        let at = format!("2026-06-01T0{n}:30:00Z");
        json!({ "key": format!("k{n}"), "predicted_at": at, "release": "v1", "score": f64::from(n) / 10.0, "tags": tags })
    };
    let predictions: String = (1..=6).map(|n| format!("{}\n", prediction(n))).collect();
    let service = Service::start(place);
    register(&service);
    let appended =
        service.post("/v1/workspaces/credit/prod/predictions", "application/x-ndjson", None, &predictions);
    assert_eq!(appended.status, 201, "{}", appended.text());
    let of = |more: &str| {
        service.get(&format!(
            "/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-01&columns=key&format=csv&{more}"
        ))
    };
    for (parameters, arguments, keys) in [
        (
            "where=score%20%3E%200.25%20and%20tag.branch%20%3D%20%27south%27",
            &["--where", "score > 0.25 and tag.branch = 'south'"][..],
            "k3 k5",
        ),
        ("tag=branch%3Dsouth&limit=2", &["--tag", "branch=south", "--limit", "2"], "k1 k3"),
        ("key=k4", &["--key", "k4"], "k4"),
        ("order=newest&limit=2", &["--order", "newest", "--limit", "2"], "k6 k5"),
        ("sample=1&where=key%20%3C%20%27k3%27", &["--sample", "1", "--where", "key < 'k3'"], "k1 k2"),
    ] {
        let answer = of(parameters);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.text().lines().skip(1).collect::<Vec<_>>().join(" "), keys, "{parameters}");
        let window =
            ["query", "predictions", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-01"];
        let shown = ["--columns", "key", "--format", "csv"];
        assert_eq!(run_ok(place, &[&window[..], &shown, arguments].concat()), answer.text());
    }
    for (wrong, why) in [
        ("where=score%20%3E", "where: "),
        ("where=read_csv(key)%20%3D%201", "there is no function read_csv"),
        ("tag=branch", "`branch` is not NAME=VALUE"),
        ("limit=0", "`0` is not a number of events"),
        ("limit=4294967296", "from 1 to 4294967295"),
        ("columns=key,planet", "there is no column `planet`"),
    ] {
        let path = format!("/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-01&{wrong}");
        // Also where no event is read for the answer.
        for answer in [service.get(&path), service.get(&format!("{path}&format=read-version"))] {
            assert_eq!(answer.status, 400, "{wrong}");
            assert!(answer.text().contains(why), "{}", answer.text());
        }
        assert_eq!(service.send("HEAD", &path, &[], None).status, 400, "{wrong}");
    }
}

const OF_A_DAY: &str = "select key from predictions where day = '2026-06-01'";

fn explanation_works_over_http_and_command_line(place: &Place) {
    let service = Service::start(place);
    register(&service);
    for day in ["2026-06-01", "2026-06-02"] {
        let prediction =
            format!(r#"{{"key":"a","predicted_at":"{day}T04:30:00Z","release":"v1","score":0.9}}"#);
        let path = "/v1/workspaces/credit/prod/predictions";
        assert_eq!(service.post(path, "application/x-ndjson", None, &prediction).status, 201);
    }
    let window = "from=2026-06-01&to=2026-06-30&columns=key";
    let get = |rest: &str| service.get(&format!("/v1/workspaces/credit/prod/{rest}"));
    let of = |answer: &str| {
        let said: Value = serde_json::from_str(answer).unwrap();
        json!([said["rows"], said["days"]["read"], said["segments"]["unpacked"], said["segments"]["rows"]])
    };
    let answer = get(&format!("predictions?{window}&explain=true"));
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "application/json"));
    assert_eq!(of(answer.text()), json!([2, 30, 2, 2]));
    // A page, and rows in another format, are explained as well; what is stored has no segments.
    let page = get(&format!("predictions?{window}&after=begin&limit=1&format=csv&explain=true"));
    assert_eq!(
        of(page.text()),
        json!([1, 30, 2, 2]),
        "one more than the page has says whether another follows"
    );
    let stored = get("rollups?from=2026-06-01&to=2026-06-30&explain=true");
    assert_eq!((stored.status, of(stored.text())[2].clone()), (200, json!(0)));
    let text = get(&format!("predictions?{window}&explain=true&format=table"));
    assert_eq!(text.content_type, "text/plain; charset=utf-8");
    assert!(
        text.text().contains("\ndays        30 read, 0 skipped by conditions, 0 expired\n"),
        "{}",
        text.text()
    );
    assert_eq!(get("predictions?from=x&to=x&explain=true").status, 400);
    let rows = get(&format!("predictions?{window}&explain=false"));
    assert_eq!(rows.text(), "{\"key\":\"a\"}\n{\"key\":\"a\"}\n");
    let body = json!({ "sql": OF_A_DAY, "explain": true }).to_string();
    let answer = service.post(PATH, "application/json", None, &body);
    assert_eq!((answer.status, of(answer.text())), (200, json!([1, 1, 1, 1])));

    let days = ["--from", "2026-06-01", "--to", "2026-06-30", "--columns", "key"];
    let line = [&["query", "predictions", "-w", "credit/prod", "--explain"], &days[..]].concat();
    assert!(run_ok(place, &line).contains("\nsegments    2 of 2 unpacked: 2 events in "));
    assert_eq!(of(&run_ok(place, &[&line[..], &["--format", "json"]].concat())), json!([2, 30, 2, 2]));
    let line = ["sql", OF_A_DAY, "-w", "credit/prod", "--explain", "--format", "json"];
    assert_eq!(of(&run_ok(place, &line)), json!([1, 1, 1, 1]));
}

fn command_line_refuses_join_of_too_many_rows(place: &Place) {
    let service = Service::start(place);
    register(&service);
    let prediction = |n: u32| {
        let at = format!("2026-06-01T04:{:02}:{:02}Z", n / 60, n % 60);
        format!("{{\"key\":\"a\",\"predicted_at\":\"{at}\",\"release\":\"v1\",\"score\":0.9}}\n")
    };
    let predictions: String = (0..400).map(prediction).collect();
    let path = "/v1/workspaces/credit/prod/predictions";
    assert_eq!(service.post(path, "application/x-ndjson", None, &predictions).status, 201);
    let statement = "select count(*) n from predictions a join predictions b on a.key = b.key where a.day = '2026-06-01' and b.day = '2026-06-01'";
    let line = ["sql", statement, "-w", "credit/prod", "--format", "csv", "--query-memory"];
    let refused = run(place, &[&line[..], &["4MiB"]].concat());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    for why in ["more than the 4.0 MiB", "joins them to ", "--query-memory"] {
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(run_ok(place, &[&line[..], &["64MiB"]].concat()), "n\n160000\n");

    // Other commands that ask have the same bound; events are written as they come.
    let prediction = |n: u32| {
        format!(
            "{{\"key\":\"key-{n}\",\"predicted_at\":\"2026-06-02T04:00:00Z\",\"release\":\"v1\",\"score\":0.9}}\n"
        )
    };
    let predictions: String = (0..40_000).map(prediction).collect();
    assert_eq!(service.post(path, "application/x-ndjson", None, &predictions).status, 201);
    let days = ["-w", "credit/prod", "--from", "2026-06-02", "--to", "2026-06-02", "--query-memory"];
    let refused = run(place, &[&["query", "joined", "--format", "csv"], &days[..], &["1MiB"]].concat());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("more than the 1.0 MiB") && said.contains("a larger --query-memory"), "{said}");
    let written = run_ok(place, &[&["query", "joined", "--format", "csv"], &days[..], &["64MiB"]].concat());
    assert_eq!(written.lines().count(), 40_001);
    let written =
        run_ok(place, &[&["query", "predictions", "--format", "csv"], &days[..], &["8MiB"]].concat());
    assert_eq!(written.lines().count(), 40_001);
}

/// NaN and infinities have names in every answer that is JSON, and what was exported can be imported.
fn numbers_that_json_lacks_come_back(place: &Place) {
    let service = Service::start(place);
    register(&service);
    let made = service.post("/v1/runs", "application/json", None, r#"{"workspace":"credit/prod"}"#);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let values = [json!("NaN"), json!("Infinity"), json!("-Infinity"), json!(0.5)];
    let row = |(step, value): (usize, &Value)| {
        let at = format!("2026-06-01T02:00:0{step}Z");
        format!("{}\n", json!({ "name": "loss", "measured_at": at, "value": value, "run": id, "step": step }))
    };
    let body: String = values.iter().enumerate().map(row).collect();
    let sent = service.post("/v1/workspaces/credit/prod/metrics", "application/x-ndjson", None, &body);
    assert_eq!(sent.status, 201, "{}", sent.text());
    let of = |text: &str| {
        let mut rows = ndjson(text);
        rows.sort_by_key(|row| row["step"].as_f64().unwrap() as i64);
        rows.iter().map(|row| row["value"].clone()).collect::<Vec<_>>()
    };
    let window = "from=2026-06-01&to=2026-06-01&columns=name,measured_at,value,run,step&format=ndjson";
    let answer = service.get(&format!("/v1/workspaces/credit/prod/metrics?{window}"));
    assert_eq!(of(answer.text()), values, "{}", answer.text());
    let columns = ["--columns", "name,measured_at,value,run,step", "--format", "ndjson"];
    let days = ["--from", "2026-06-01", "--to", "2026-06-01"];
    let asked = [&["query", "metrics", "-w", "credit/prod"], &days[..], &columns[..]].concat();
    let exported = run_ok(place, &asked);
    assert_eq!(of(&exported), values);
    // A column of another type beside it is no reason for nulls.
    let statement = "select step, value, -value as less, cast(step as real) as single from metrics where day = '2026-06-01'";
    let answer = service.post(PATH, "application/json", None, &json!({ "sql": statement }).to_string());
    assert_eq!(of(answer.text()), values, "{}", answer.text());
    assert!(answer.text().contains("\"less\":\"-Infinity\""), "{}", answer.text());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("loss.ndjson");
    fs::write(&file, &exported).unwrap();
    run_ok(place, &["import", file.to_str().unwrap(), "-w", "credit/prod", "-k", "metrics"]);
    let again = of(&run_ok(place, &asked));
    assert_eq!(again.len(), 2 * values.len());
    assert!(values.iter().all(|value| again.iter().filter(|one| *one == value).count() == 2), "{again:?}");
}

/// 0.7 in single precision is a little less than 0.7; what is meant is 0.7.
fn a_score_of_single_precision_reaches_its_threshold(place: &Place) {
    let service = Service::start(place);
    register(&service);
    for (name, format) in [("parquet", query::Format::Parquet), ("stream", query::Format::IpcStream)] {
        let key = format!("of {name}");
        let columns = vec![
            Column::new("key".into(), [key.as_str()]),
            Column::new("predicted_at".into(), ["2026-06-01T04:30:00Z"]),
            Column::new("release".into(), ["v1"]),
            Column::new("score".into(), [0.7f32]),
            Column::new("feature.ratio".into(), [0.1f32]),
        ];
        let mut body = Vec::new();
        format.write(&mut DataFrame::new(1, columns).unwrap(), &mut body).unwrap();
        let media = match name {
            "parquet" => "application/vnd.apache.parquet",
            _ => "application/vnd.apache.arrow.stream",
        };
        let path = "/v1/workspaces/credit/prod/predictions";
        let sent = service.send("POST", path, &[("Content-Type", media)], Some(&body));
        assert_eq!(sent.status, 201, "{}", sent.text());
    }
    let statement = "select key, score, feature.ratio from predictions where day = '2026-06-01' and score >= 0.7 order by key";
    let answer = service.post(PATH, "application/json", None, &json!({ "sql": statement }).to_string());
    let row = |key: &str| json!({ "key": key, "score": 0.7, "feature.ratio": 0.1 });
    assert_eq!(json!(ndjson(answer.text())), json!([row("of parquet"), row("of stream")]));
}
