//! Tools for assistants, called by the reference client of the Model Context Protocol over standard input and output and over HTTP.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::support::{Place, Running, almanac, run_ok};
use serde_json::{Value, json};

/// Runs the client against a server: the lifecycle, a URL or a command, and a token.
fn client(mode: &str, server: &[&str], token: &str, calls: &Value) -> Output {
    let python = std::env::var("ALMANAC_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/mcp_client.py");
    let mut command = Command::new(python);
    command.arg(script).arg(mode).args(server).env("MCP_TOKEN", token);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(calls.to_string().as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("No module named"), "run the tests with tests/run: {error}");
    output
}

/// The tools, and the answers to calls.
fn called(mode: &str, server: &[&str], token: &str, calls: &Value) -> Value {
    let output = client(mode, server, token, calls);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A table with some days of a release.
fn recorded() -> Place {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    run_ok(&place, &["model", "create", "risk", "-w", "credit/prod", "--task", "binary"]);
    run_ok(&place, &["release", "create", "v1", "-w", "credit/prod", "--model", "risk"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("predictions.csv");
    let rows = (0..3_000).map(|key| format!("loan-{key},2026-06-01T09:00:00Z,v1,0.9\n"));
    let rows = std::iter::once("key,predicted_at,release,score\n".to_owned()).chain(rows);
    std::fs::write(&file, rows.collect::<String>()).unwrap();
    run_ok(&place, &["import", file.to_str().unwrap(), "-w", "credit/prod", "--kind", "predictions"]);
    place
}

fn texts(answer: &Value) -> String {
    let texts = answer["texts"].as_array().unwrap().iter().filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join("\n---\n")
}

/// Calls of all that a tool may answer, and checks of the answers.
fn check_answers(server: &[&str], token: &str, mode: &str) -> Value {
    let of = "credit/prod";
    let counted = "SELECT count(*) AS n FROM predictions WHERE day = '2026-06-01'";
    let told = called(
        mode,
        server,
        token,
        &json!([
            ["list_workspaces", {}],
            ["sql", { "workspace": of, "sql": counted }],
            ["query_predictions", { "workspace": of, "from": "2026-06-01", "to": "2026-06-01" }],
            ["query_predictions", { "workspace": of, "from": "2026-06-01", "to": "2026-06-01", "limit": 1, "columns": ["key", "score"] }],
            ["query_outcomes", { "workspace": of, "from": "2026-06-01", "to": "2026-06-01" }],
            ["show_model", { "model": "credit/prod/nothing" }],
            ["live", { "workspace": of, "colour": "red" }],
            ["query_predictions", { "workspace": of, "from": "2026-06-01", "to": "2026-06-01", "after": "begin", "limit": 1000 }],
        ]),
    );
    assert_eq!(told["server"], "almanac");
    let answers = told["answers"].as_array().unwrap();
    let failed: Vec<bool> = answers.iter().map(|answer| answer["is_error"] == true).collect();
    assert_eq!(failed, [false, false, false, false, false, true, true, false], "{answers:?}");
    assert!(texts(&answers[0]).contains("\"path\":\"credit/prod\""), "{}", texts(&answers[0]));
    assert!(texts(&answers[1]).starts_with("{\"n\":3000}"), "{}", texts(&answers[1]));
    let cut = texts(&answers[2]);
    assert!(cut.len() < 66_000 && cut.contains("}\n\n---\n"), "{} bytes", cut.len());
    let asked = "`GET /v1/workspaces/credit/prod/predictions?from=2026%2D06%2D01&to=2026%2D06%2D01`";
    assert!(
        cut.contains("There is more: ") && cut.contains("(limit, after, columns") && cut.contains(asked),
        "{cut}"
    );
    assert!(texts(&answers[3]).starts_with("{\"key\":\"loan-"), "{}", texts(&answers[3]));
    assert!(texts(&answers[4]).starts_with("no rows"), "{}", texts(&answers[4]));
    assert!(texts(&answers[5]).contains("there is no model"), "{}", texts(&answers[5]));
    assert!(texts(&answers[6]).contains("live takes no argument `colour`"), "{}", texts(&answers[6]));
    let (page, notes) = (texts(&answers[7]), answers[7]["texts"][1].as_str().unwrap());
    let shown = page.lines().filter(|line| line.starts_with("{\"")).count();
    assert!(notes.contains(&format!("rows: 1000, of which {shown} are shown\n")), "{notes}");
    assert!(
        notes.contains("a smaller `limit`, and the same `after`") && !notes.contains("next page"),
        "{notes}"
    );
    told
}

#[test]
fn assistants_call_tools_over_standard_input() {
    let place = recorded();
    let command = almanac(&place, &["mcp"]);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let server: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
    let told = check_answers(&server, "", "auto");
    let asks = &told["tools"]["query_evaluations"];
    assert_eq!((&asks["type"], &asks["required"]), (&json!("object"), &json!(["workspace"])));
    assert!(asks["properties"]["min-completeness"]["description"].is_string(), "{asks}");
    assert!(told["tools"].get("create_model").is_none(), "it changes something");
    let older = check_answers(&server, "", "legacy");
    assert!(older["version"].as_str() < told["version"].as_str(), "{} {}", older["version"], told["version"]);
}

#[test]
fn unreadable_input_is_answered_or_fails() {
    let place = recorded();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    let ping = r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
    let nameless = r#"{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{}}"#;
    std::fs::write(&file, [b"\xff\xfe\n\n", ping.as_bytes(), b"\n", nameless.as_bytes()].concat()).unwrap();
    let served =
        |input: &Path| almanac(&place, &["mcp"]).stdin(std::fs::File::open(input).unwrap()).output().unwrap();
    let output = served(&file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let replies: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |id: Value| replies.iter().find(|reply| reply["id"] == id).unwrap();
    assert_eq!((replies.len(), &of(Value::Null)["error"]["code"]), (3, &json!(-32700)), "{lines}");
    assert_eq!(of(json!("a"))["result"], json!({}));
    assert_eq!(of(json!("b"))["error"]["message"], "`name` is missing");
    let failed = served(folder.path());
    assert_eq!(failed.status.code(), Some(1));
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(said.contains("the standard input cannot be read"), "{said}");
}

#[test]
fn tools_over_http_have_their_callers_rights() {
    let place = recorded();
    let admin = run_ok(&place, &["init"]).trim().to_owned();
    run_ok(&place, &["user", "create", "ann"]);
    run_ok(&place, &["user", "create", "ben"]);
    run_ok(&place, &["access", "grant", "user:ann", "reader", "-w", "credit/prod"]);
    let token =
        |user: &str| run_ok(&place, &["token", "create", user, "--name", "assistant"]).trim().to_owned();
    let (reader, stranger) = (token("user:ann"), token("user:ben"));
    let service = Running::start(&place, &[], &[]);
    let url = format!("http://{}/mcp", service.address());
    for mode in ["auto", "legacy"] {
        check_answers(&[&url], &reader, mode);
    }
    let asked = json!([["live", { "workspace": "credit/prod" }], ["list_workspaces", {}]]);
    let told = called("auto", &[&url], &stranger, &asked)["answers"].take();
    assert_eq!(told[0]["is_error"], true, "{told}");
    assert!(texts(&told[0]).contains("there is no workspace `credit/prod`"), "{told}");
    assert!(!texts(&told[1]).contains("credit/prod"), "{told}");
    assert!(!client("auto", &[&url], "", &json!([])).status.success(), "it demands a token");

    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let json = ("Content-Type", "application/json");
    let bearer = format!("Bearer {admin}");
    let send =
        |headers: &[(&str, &str)], body: &str| service.send("post", "/mcp", headers, Some(body.as_bytes()));
    assert_eq!(send(&[json], ping).status, 401);
    let answered = send(&[json, ("Authorization", &bearer)], ping);
    assert_eq!((answered.status, answered.json()), (200, json!({ "jsonrpc": "2.0", "id": 1, "result": {} })));
    assert_eq!(send(&[("Content-Type", "text/plain"), ("Authorization", &bearer)], ping).status, 415);
    let unknown = r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#;
    let refused = send(&[json, ("Authorization", &bearer)], unknown);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (200, &json!(-32601)));
    assert_eq!(send(&[json, ("Authorization", &bearer)], "[]").status, 400);
    let long = format!("{ping}{}", " ".repeat(3 << 20));
    assert_eq!(send(&[json, ("Authorization", &bearer)], &long).status, 413);
    assert_eq!(service.send("get", "/mcp", &[("Authorization", &bearer)], None).status, 405);
}

/// A page of another site reaches a service that asks nobody for a token: by a request, or by DNS rebinding.
#[test]
fn open_service_refuses_foreign_pages() {
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let send = |name: &str, value: &str| {
        let headers = [("Content-Type", "application/json"), (name, value)];
        service.send("post", "/mcp", &headers, Some(ping)).status
    };
    assert_eq!(send("Host", "localhost"), 200);
    assert_eq!(send("Host", "evil.example"), 421);
    assert_eq!(send("Origin", "https://evil.example"), 403);
}
