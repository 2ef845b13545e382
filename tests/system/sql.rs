//! Statements over HTTP and on the command line.

use crate::support::{Place, Service, ndjson, on_both_engines, register, run, run_ok};
use serde_json::{Value, json};

on_both_engines!(a_statement_is_answered_over_http_and_on_the_command_line);

const PATH: &str = "/v1/workspaces/credit/prod/sql";
const STATEMENT: &str =
    "select key, tag.branch, score from predictions where day = '2026-06-01' order by score";

fn a_statement_is_answered_over_http_and_on_the_command_line(place: &Place) {
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
    let csv = ask("/v1/workspaces/credit%2Fprod/sql", json!({ "sql": STATEMENT, "format": "csv" }));
    assert_eq!(
        (csv.content_type.as_str(), csv.text()),
        ("text/csv; charset=utf-8", "key,tag.branch,score\nb,,0.2\na,north,0.9\n")
    );
    for (format, begins) in [("parquet", &b"PAR1"[..]), ("ipc", b"ARROW1"), ("table", b" key")] {
        let answer = ask(PATH, json!({ "sql": STATEMENT, "format": format }));
        assert!(answer.status == 200 && answer.body.starts_with(begins), "{format}");
    }

    // The same on the command line, and by the cut after more has come.
    let on_line = ["sql", STATEMENT, "-w", "credit/prod", "--format", "csv"];
    assert_eq!(run_ok(place, &on_line), csv.text());
    let cut = ask(PATH, json!({ "sql": STATEMENT, "format": "cut" }));
    let more = r#"{"key":"d","predicted_at":"2026-06-01T05:30:00Z","release":"v1","score":0.1}"#;
    let appended = service.post("/v1/workspaces/credit/prod/predictions", "application/x-ndjson", None, more);
    assert_eq!(appended.status, 201, "{}", appended.text());
    assert_ne!(run_ok(place, &on_line), csv.text());
    let again = ask(PATH, json!({ "sql": STATEMENT, "format": "csv", "cut": cut.text() }));
    assert_eq!(again.text(), csv.text());
    assert_eq!(run_ok(place, &[&on_line[..], &["--cut", cut.text()]].concat()), csv.text());

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
