//! Headers of requests, one a line, of which only the good token opens the service.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Request, header},
};

use super::texts;
use crate::{
    Target,
    house::{TOKEN, in_house},
};

pub(super) const TARGET: Target = Target {
    name: "headers",
    about: "headers of requests, and the tokens in them",
    seeds,
    words: &[
        "Authorization: ",
        "Bearer ",
        "bearer  ",
        "Basic ",
        "alm_",
        "Content-Type: ",
        "Content-Encoding: gzip",
        "application/json",
        "application/x-ndjson",
        "charset=utf-8",
        "Idempotency-Key: ",
        "Almanac-Source: ",
        "job=a",
        "run=",
        "X-Request-Id: ",
        "X-Forwarded-For: ",
        "Accept: ",
        "If-Match: \"1\"",
        "Cookie: almanac-session=",
        "Almanac-Dashboard: yes",
        "Origin: ",
        "Sec-Fetch-Site: ",
        "eyJhbGciOiJFZERTQSIsImtpZCI6IjEifQ.",
        "\n",
    ],
    take,
};

/// Signed by nobody, for the issuer of the service.
const UNSIGNED: &str = "eyJhbGciOiJFZERTQSIsImtpZCI6IjEifQ.eyJzdWIiOiJhbm4iLCJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwiYXVkIjoiYWxtYW5hYyIsImV4cCI6MTc4MTAwMDAwMH0.c2lnbmF0dXJl";

fn seeds() -> Vec<Vec<u8>> {
    let good = format!("Authorization: Bearer {TOKEN}\n");
    let mut seeds = texts(&[
        &good,
        &format!(
            "{good}Content-Type: application/json; charset=utf-8\nIdempotency-Key: batch-1\nAlmanac-Source: job=nightly, run=1"
        ),
        &format!("{good}Content-Type: application/x-ndjson\nContent-Encoding: identity\nX-Request-Id: abc-1"),
        &format!("{good}X-Forwarded-For: 10.1.2.3, 192.0.2.1\nAccept: text/csv;q=0.5, */*"),
    ]);
    let cookie = format!("{}.03.{}", "0123456789abcdef".repeat(4), "a1B2".repeat(8));
    seeds.extend(texts(&[&format!(
        "Cookie: almanac-session={cookie}\nAlmanac-Dashboard: yes\nSec-Fetch-Site: same-origin"
    )]));
    seeds.extend(texts(&["Authorization: Basic YTpi", &format!("Authorization: Bearer {UNSIGNED}")]));
    seeds
}

/// Whether these are the headers of somebody who has the token: one line with it, whatever the case and the blanks.
fn is_good(headers: &[(HeaderName, HeaderValue)]) -> bool {
    let mut given = headers.iter().filter(|(name, _)| name == header::AUTHORIZATION);
    let Some((_, value)) = given.next() else { return false };
    let pair = value.to_str().ok().and_then(|text| text.split_once(' '));
    given.next().is_none()
        && pair.is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && token.trim() == TOKEN)
}

fn take(input: &[u8]) -> bool {
    let lines = input.split(|byte| *byte == b'\n');
    let headers: Option<Vec<_>> = lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let value = line[colon + 1..].trim_ascii();
            Some((HeaderName::from_bytes(&line[..colon]).ok()?, HeaderValue::from_bytes(value).ok()?))
        })
        .collect();
    let Some(headers) = headers else { return false };
    in_house(|house| {
        let mut whoami = Request::get("/v1/whoami");
        let mut append = Request::post("/v1/workspaces/credit/prod/metrics");
        for (name, value) in &headers {
            whoami = whoami.header(name, value);
            append = append.header(name, value);
        }
        let metric = r#"[{"name":"loss","measured_at":"2026-06-01T05:30:00Z","value":0.25}]"#;
        let (opened, _) = house.ask(whoami.body(Body::empty()).unwrap());
        assert_eq!(opened.is_success(), is_good(&headers), "{headers:?}: {opened}");
        let (appended, _) = house.ask(append.body(Body::from(metric)).unwrap());
        assert!(!appended.is_success() || opened.is_success(), "{headers:?}: {appended}");
        opened.is_success()
    })
}
