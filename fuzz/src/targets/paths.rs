//! Requests of every operation: `GET /v1/whoami`, or `ann GET /v1/whoami` by a reader, and a body of JSON on the next lines.

use axum::{
    body::Body,
    http::{Method, Request, Uri, header},
};
use serde_json::Value;

use crate::{
    Target,
    house::{TOKEN, in_house},
};

pub(super) const TARGET: Target = Target {
    name: "paths",
    about: "paths, queries and bodies of every operation",
    seeds,
    words: &[
        "ann ",
        "GET /v1/",
        "POST /v1/",
        "PUT /v1/",
        "PATCH /v1/",
        "DELETE /v1/",
        "workspaces/credit/prod",
        "credit%2Fprod",
        "risk@v1",
        "%2F",
        "%00",
        "%FF",
        "..",
        "?from=2026-06-01",
        "&to=2026-06-02",
        "&columns=",
        "&group-by=tag.b",
        "&format=arrow",
        "&as_of=",
        "&read-version=",
        "&after=",
        "&filter=score%3E0.5",
        "&limit=1",
        "release=",
        "interval=true",
        "{\"name\":",
        "\"task\":\"binary\"",
        "null",
        "[]",
    ],
    take,
};

/// What a parameter of a path may be here, where its example names nothing that is there.
fn parameter<'a>(name: &str, example: &'a str) -> &'a str {
    match name {
        "category" => "credit",
        "name" => "prod",
        "workspace" => "credit%2Fprod",
        "model" | "configuration" | "snapshot" | "entity" => "credit%2Fprod%2Frisk",
        "release" => "credit%2Fprod%2Frisk@v1",
        "type" if example != "predictions" => "model",
        "principal" => "user:ann",
        "user" => "ann",
        _ => example,
    }
}

/// A request of each operation, by the examples of the document that the service gives of itself.
fn seeds() -> Vec<Vec<u8>> {
    let document = in_house(|house| {
        let request = Request::get("/openapi.json").body(Body::empty()).unwrap();
        serde_json::from_slice::<Value>(&house.ask(request).1).unwrap()
    });
    let mut seeds = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let (mut path, mut query) = (path.clone(), Vec::new());
            for of in operation["parameters"].as_array().into_iter().flatten() {
                let place = of["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
                let of = place.and_then(|place| document.pointer(place)).unwrap_or(of);
                let name = of["name"].as_str().unwrap();
                let example = match &of["example"] {
                    Value::String(text) => text.clone(),
                    Value::Null => "x".to_owned(),
                    other => other.to_string(),
                };
                match of["in"].as_str() {
                    Some("path") => path = path.replace(&format!("{{{name}}}"), parameter(name, &example)),
                    Some("query") if of["required"] == true => query.push(format!("{name}={example}")),
                    _ => {}
                }
            }
            let body = &operation["requestBody"]["content"]["application/json"]["example"];
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let method = method.to_uppercase();
            let seed = format!("{method} {path}?{}\n{body}", query.join("&").replace(' ', "%20"));
            seeds.push(seed.replace("?\n", "\n").into_bytes());
        }
    }
    seeds
}

fn take(input: &[u8]) -> bool {
    let (first, body) = input.split_at(input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len()));
    let (is_reader, first) = first.strip_prefix(b"ann ").map_or((false, first), |rest| (true, rest));
    let Some(blank) = first.iter().position(|byte| *byte == b' ') else { return false };
    let (Ok(method), Ok(uri)) = (Method::from_bytes(&first[..blank]), Uri::try_from(&first[blank + 1..]))
    else {
        return false;
    };
    // A listener passes on no other forms.
    if !uri.path().starts_with('/') {
        return false;
    }
    in_house(|house| {
        let token = if is_reader { house.reader().to_owned() } else { TOKEN.to_owned() };
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let (status, answer) = house.ask(request.body(Body::from(body.trim_ascii().to_vec())).unwrap());
        let answer = String::from_utf8_lossy(&answer);
        let shown = house.hidden.iter().find(|id| answer.contains(id.as_str()));
        assert!(!is_reader || shown.is_none(), "a reader is shown another tenant: {answer}");
        status.is_success()
    })
}
