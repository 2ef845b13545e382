//! `/openapi.json` is right: its examples work as it says, and the services have what it has.

use std::fmt::Write as _;

use crate::support::{
    Answer, Place, Service,
    schema::{errors, resolve},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use web::openapi::path::PathsMap;

const METHODS: [&str; 4] = ["put", "post", "patch", "get"];

#[derive(Deserialize)]
struct Ordered {
    paths: PathsMap<String, IgnoredAny>,
}

/// The document, and the paths in its order.
fn document(service: &Service) -> (Value, Vec<String>) {
    let answer = service.get("/openapi.json");
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "application/json"));
    // Until the projector has looked around once, /readyz says so.
    service.get_until("/readyz", |answer| answer.status == 200);
    let ordered: Ordered = serde_json::from_slice(&answer.body).unwrap();
    (answer.json(), ordered.paths.into_keys().collect())
}

/// A request made of the examples of an operation.
struct Call {
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

/// In a path or a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => write!(escaped, "%{byte:02X}").unwrap(),
        }
    }
    escaped
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn body(media: &str, example: &Value) -> Vec<u8> {
    match media {
        "application/x-ndjson" => {
            example.as_array().unwrap().iter().map(|row| format!("{row}\n")).collect::<String>().into()
        }
        "text/csv" => example.as_str().unwrap().into(),
        _ => example.to_string().into(),
    }
}

/// The parameters of an operation.
fn parameters<'a>(document: &'a Value, operation: &'a Value) -> impl Iterator<Item = &'a Value> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    all.map(|parameter| resolve(document, parameter))
}

/// The requests that the examples of an operation are: one for each media type of its body.
fn calls(document: &Value, path: &str, operation: &Value) -> Vec<Call> {
    let (mut path, mut query, mut headers) = (path.to_owned(), Vec::new(), Vec::new());
    for parameter in parameters(document, operation) {
        let name = parameter["name"].as_str().unwrap();
        let Some(example) = parameter.get("example") else {
            assert_ne!(parameter["required"], true, "{path}: `{name}` has no example");
            continue;
        };
        assert_eq!(errors(document, &parameter["schema"], example), [""; 0], "{path}: {name}");
        match parameter["in"].as_str().unwrap() {
            "path" => path = path.replace(&format!("{{{name}}}"), &escaped(&as_text(example))),
            "query" => query.push(format!("{name}={}", escaped(&as_text(example)))),
            "header" => headers.push((name.to_owned(), as_text(example))),
            other => panic!("{path}: a parameter in {other}"),
        }
    }
    assert!(!path.contains('{'), "{path}: a parameter is not described");
    if !query.is_empty() {
        path += &format!("?{}", query.join("&"));
    }
    let Some(contents) = operation.pointer("/requestBody/content") else {
        return vec![Call { path, headers, body: None }];
    };
    let mut calls = Vec::new();
    for (media, content) in contents.as_object().unwrap() {
        let examples = content["examples"].as_object().into_iter().flatten();
        for example in
            content.get("example").into_iter().chain(examples.map(|(_, example)| &example["value"]))
        {
            assert_eq!(errors(document, &content["schema"], example), [""; 0], "{path}: {media}");
            let mut headers = headers.clone();
            headers.push(("Content-Type".to_owned(), media.clone()));
            calls.push(Call { path: path.clone(), headers, body: Some(body(media, example)) });
        }
    }
    assert!(!calls.is_empty(), "{path} has no example of its body");
    calls
}

/// Checks that an answer is one that the operation has, or a problem whose status the document explains.
fn assert_described(document: &Value, operation: &Value, answer: &Answer, what: &str) {
    let responses = &operation["responses"];
    let response = responses.get(answer.status.to_string()).unwrap_or(&responses["default"]);
    let response = resolve(document, response);
    if answer.status == 204 && responses.get("204").is_some() {
        return;
    }
    if answer.status >= 400 {
        let says = response["description"].as_str().unwrap();
        assert!(
            says.contains(&format!("`{}`", answer.status)),
            "{what}: {} {}",
            answer.status,
            answer.text()
        );
    }
    let media = answer.content_type.split(';').next().unwrap();
    let mut contents = response["content"].as_object().unwrap().iter();
    let content = contents.find(|(name, _)| name.split(';').next() == Some(media));
    let (_, content) = content.unwrap_or_else(|| panic!("{what}: {media} is not described"));
    let value = match media {
        _ if content.get("schema").is_none() => return,
        "application/x-ndjson" => crate::support::ndjson(answer.text()).into(),
        _ if media.ends_with("json") => answer.json(),
        _ if media.starts_with("text/") => answer.text().into(),
        _ => return,
    };
    assert_eq!(errors(document, &content["schema"], &value), [""; 0], "{what}: {value}");
}

#[test]
fn every_example_is_answered_as_the_document_says() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    let (document, paths) = document(&service);
    insta::assert_snapshot!(call_all(&service, &document, &paths).join("\n"));

    // By its real id a workspace is the same.
    let page = service.get("/v1/workspaces/credit/prod");
    let by_id = service.get(&format!("/v1/workspaces/-/{}", page.json()["id"].as_str().unwrap()));
    assert_eq!((by_id.status, &by_id.body), (200, &page.body));
    // Rows are compared with their schemas, so there should be some.
    let judged = "/v1/workspaces/credit/prod/evaluations?from=2026-06-01&to=2026-06-30";
    service.get_until(judged, |answer| !answer.body.is_empty());
    every_choice_can_be_made(&service, &document, &paths);
}

/// A path that answers only a holder of a link, which is a secret: that of the example was never given out.
const OF_A_LINK: &str = "/v1/judgements";

/// Makes the arena that examples ask for: of two releases that predicted the same.
fn make_arena(service: &Service) {
    let names = ["duel-a", "duel-b"];
    let registered = names.map(|name| {
        json!({"release": name, "model": "churn", "action": "register", "released_at": "2026-06-01T00:00:00Z"})
    });
    let predicted = names.map(
        |name| json!({"release": name, "key": "duel", "predicted_at": "2026-06-01T05:00:00Z", "score": 0.5}),
    );
    let arena = json!({
        "name": "duel", "from": "2026-06-01", "to": "2026-06-01", "policy": "pairs", "releases": names,
    });
    for (path, body) in
        [("releases", json!(registered)), ("predictions", json!(predicted)), ("reviews", arena)]
    {
        let path = format!("/v1/workspaces/credit/prod/{path}");
        let answer = service.post(&path, "application/json", None, &body.to_string());
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
    }
}

/// Makes the calls of all examples, in the order of the document; returns what was called.
fn call_all(service: &Service, document: &Value, paths: &[String]) -> Vec<String> {
    let mut calls_made = Vec::new();
    // Calls that give a path something come before those that take it; deletions come in the end.
    for (path, methods) in
        paths.iter().map(|path| (path, &METHODS[..])).chain(paths.iter().map(|path| (path, &["delete"][..])))
    {
        let item = &document["paths"][path];
        if path == OF_A_LINK {
            continue;
        }
        for (method, operation) in methods.iter().filter_map(|method| Some((*method, item.get(method)?))) {
            for call in calls(document, path, operation) {
                let headers: Vec<_> = call.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                let answer = service.send(method, &call.path, &headers, call.body.as_deref());
                let what = format!("{method} {}", call.path);
                assert!((200..300).contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
                assert_described(document, operation, &answer, &what);
                calls_made.push(what);
            }
        }
        if path.ends_with("/reviews") {
            make_arena(service);
        }
    }
    // Calls in another media type are the same calls.
    calls_made.dedup();
    calls_made
}

/// The breakdowns of rollups. Each has its own columns, and tags are not kept by release.
const BREAKDOWNS: [&str; 4] =
    ["group-by=release", "group-by=metric", "group-by=tag.branch", "group-by=feature"];

const ESTIMATE_BREAKDOWNS: [&str; 2] = ["group-by=tag.branch", "group-by=feature.age"];

const EVALUATION_BREAKDOWNS: [&str; 3] =
    ["group-by=release", "group-by=model", "group-by=tag.branch,feature.age&bins=3"];

/// Those of evaluations, and a prediction with columns of its own.
const MATURITY_BREAKDOWNS: [&str; 4] =
    [EVALUATION_BREAKDOWNS[0], EVALUATION_BREAKDOWNS[1], EVALUATION_BREAKDOWNS[2], "nowcast=accuracy"];

/// Asks each query for each format, each column and each breakdown that the document names, and as of
/// other times.
fn every_choice_can_be_made(service: &Service, document: &Value, paths: &[String]) {
    for path in paths {
        let operation = &document["paths"][path]["get"];
        let schema = |name: &str| {
            let mut parameters = parameters(document, operation);
            let parameter = parameters.find(|parameter| parameter["name"] == name)?;
            Some(resolve(document, &parameter["schema"]))
        };
        let Some(columns) = schema("columns") else { continue };
        let asked = calls(document, path, operation).remove(0).path;
        let is_of_two = path.ends_with("/head-to-head");
        let asked = if is_of_two { asked } else { asked.replace("&release=v1", "") };
        // No change is shown beside bins.
        let asked: Vec<&str> = asked.split('&').filter(|part| !part.starts_with("change=")).collect();
        let asked = asked.join("&");
        let answers = |more: &str| -> bool {
            let what = format!("{asked}&{more}");
            let answer = service.get(&what);
            assert_described(document, operation, &answer, &what);
            answer.status == 200
        };
        let names = |schema: &Value| -> Vec<String> {
            let schema = resolve(document, schema);
            let names = schema.get("anyOf").map_or(schema, |choices| resolve(document, &choices[0]));
            names["enum"].as_array().into_iter().flatten().map(as_text).collect()
        };
        let columns = names(&columns["items"]);
        let breakdowns: &[&str] = match schema("group-by") {
            None => &[],
            Some(_) if is_of_two => &[],
            Some(_) if ["/evaluations", "/classes", "/confusion"].iter().any(|end| path.ends_with(end)) => {
                &EVALUATION_BREAKDOWNS
            }
            Some(_) if path.ends_with("/maturity") => &MATURITY_BREAKDOWNS,
            Some(_) if path.ends_with("/estimates") => &ESTIMATE_BREAKDOWNS,
            Some(_) => &BREAKDOWNS,
        };
        let has_breakdowns = !breakdowns.is_empty();
        for column in &columns {
            let some = breakdowns.iter().any(|by| answers(&format!("columns={column}&{by}")));
            assert!(some || answers(&format!("columns={column}")), "{path}: {column}");
        }
        let needs_no_more = !has_breakdowns && !columns.is_empty();
        assert!(!needs_no_more || answers(&format!("columns={}", columns.join(","))), "{path}");
        let formats = names(schema("format").unwrap());
        let mut choices: Vec<String> = formats.iter().map(|name| format!("format={name}")).collect();
        if schema("as-of").is_some() {
            choices.extend(["as-of=2100-01-01", "as-of=2026-06-01T00:00:00%2B02:00"].map(String::from));
        }
        if has_breakdowns {
            choices.extend(breakdowns.iter().map(|by| (*by).to_owned()));
        }
        for choice in choices {
            assert!(answers(&choice), "{path}: {choice}");
        }
    }
}

#[test]
fn services_answer_exactly_the_documented_methods() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    let (document, paths) = document(&service);
    for path in &paths {
        let item = document["paths"][path].as_object().unwrap();
        let described = item.values().next().unwrap();
        let place = calls(&document, path, described).remove(0).path;
        for method in ["get", "put", "post", "patch", "delete", "options", "trace"] {
            let body = matches!(method, "put" | "post" | "patch").then_some(&b"{}"[..]);
            let answer = service.send(method, &place, &[], body);
            match item.get(method) {
                Some(operation) => {
                    assert_described(&document, operation, &answer, &format!("{method} {path}"));
                    assert!(!answer.text().contains("nothing at this path"), "{method} {path}");
                }
                None => {
                    assert_eq!(
                        (answer.status, &*answer.content_type),
                        (405, "application/problem+json"),
                        "{method} {path}"
                    );
                    let mut allowed: Vec<String> = answer.allow.split(',').map(str::to_lowercase).collect();
                    allowed.retain(|method| method != "head");
                    allowed.sort();
                    let mut described: Vec<&String> = item.keys().collect();
                    described.sort();
                    assert_eq!(allowed.iter().collect::<Vec<_>>(), described, "{path}");
                }
            }
        }
    }
}

#[test]
fn head_checks_a_query_and_reads_nothing() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    let (document, paths) = document(&service);
    call_all(&service, &document, &paths);
    let window = "/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-30";
    let head = |more: &str| {
        let answer = service.send("head", &format!("{window}{more}"), &[], None);
        assert_eq!(answer.body, b"");
        (answer.status, answer.content_type, answer.content_length)
    };
    let ndjson = "application/x-ndjson".to_owned();
    assert_eq!(head(""), (200, ndjson.clone(), None), "the length of what was not read is not known");
    assert_eq!(head("&format=csv"), (200, "text/csv; charset=utf-8".into(), None));
    // Only who reads the events can know that none of them has this tag.
    let tag = "&columns=tag.nobody";
    assert_eq!(service.get(&format!("{window}{tag}")).status, 400);
    assert_eq!(head(tag), (200, ndjson, None));
    for wrong in ["&release=v9", "&format=odt", "&as-of=noon"] {
        assert_eq!(head(wrong).0, 400, "{wrong}");
    }
}

#[test]
fn undocumented_input_is_refused_by_name() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    let (document, paths) = document(&service);
    call_all(&service, &document, &paths);
    let of_workspace = "/v1/workspaces/credit/prod";
    for (wrong, because) in [
        (
            "/v1/runs?of=credit/prod&experiment=a%C2%8Bb",
            "the name of an experiment holds a control character",
        ),
        ("/v1/runs?of=credit/prod&experiment=", "the name of an experiment is empty"),
        (&*format!("{of_workspace}/evaluations?from=&last=7d"), "from is empty; leave it out"),
        (&*format!("{of_workspace}/classes?from=&last=7d"), "from is empty; leave it out"),
        (&*format!("{of_workspace}/predictions?to=&last=7d"), "to is empty; leave it out"),
        (&*format!("{of_workspace}/rollups?from=2026-06-01&to="), "to is empty; leave it out"),
    ] {
        let answer = service.get(wrong);
        assert_eq!((answer.status, &*answer.content_type), (400, "application/problem+json"), "{wrong}");
        assert!(answer.text().contains(because), "{wrong}: {}", answer.text());
    }
    for right in ["/v1/runs?of=credit/prod&experiment=depths", "/v1/runs?of=credit/prod&experiment=unknown"] {
        assert_eq!(service.get(right).status, 200, "{right}");
    }
    assert_eq!(service.get(&format!("{of_workspace}/evaluations?last=7d")).status, 200);
    // The audit log says how long a window is that it takes: one day more is refused.
    let mut parameters = parameters(&document, &document["paths"]["/v1/audit"]["get"]);
    let from = parameters.find(|parameter| parameter["name"] == "from").unwrap();
    let says = from["description"].as_str().unwrap();
    let days = says.split("at most ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let days: i64 = days.parse().unwrap();
    let last: event::Day = "2026-06-30".parse().unwrap();
    let of_days = |days: i64| {
        let from = last.start().plus_seconds(-(days - 1) * 24 * 60 * 60).day();
        service.get(&format!("/v1/audit?from={from}&to={last}")).status
    };
    assert_eq!((of_days(days), of_days(days + 1)), (200, 400), "{says}");
}
