//! Tokens as a user meets them: the first one, services that ask for one, and where no token ever shows.

use std::{os::unix::fs::PermissionsExt, thread::sleep, time::Duration};

use ::access::Token;

use crate::support::{Answer, Place, Running, Service, almanac, run, run_ok};

fn get(service: &Service, path: &str, token: Option<&str>) -> Answer {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    service.send("get", path, &headers, None)
}

#[test]
fn what_others_reach_starts_with_a_token_only() {
    let place = Place::sqlite();
    let refused = run(&place, &["up", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("almanac init") && said.contains("--insecure"), "{said}");
    let wrong = almanac(&place, &["up"]).env("ALMANAC_ADMIN_TOKEN", "secret-of-mine").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("ALMANAC_ADMIN_TOKEN") && !said.contains("secret-of-mine"), "{said}");
    // It is asked for on no other machine's behalf.
    let open = Running::start(&place, &["--insecure"], &[]);
    assert_eq!(get(&open, "/v1/workspaces", None).status, 200);
}

/// A page of another site may have its name lead to this machine (DNS rebinding).
#[test]
fn open_service_refuses_foreign_host_names() {
    let place = Place::sqlite();
    let under = |service: &Service, name: &str| {
        let headers = [("Host", name), ("Content-Type", "application/json")];
        service.send("post", "/v1/users", &headers, Some(format!(r#"{{"name":"of-{name}"}}"#).as_bytes()))
    };
    let service = Running::start(&place, &[], &[]);
    let refused = under(&service, "evil.example");
    assert_eq!(refused.status, 421, "{}", refused.text());
    for said in ["`evil.example`", "almanac init", "--insecure"] {
        assert!(refused.text().contains(said), "{}", refused.text());
    }
    assert_eq!(under(&service, "localhost").status, 201);
    service.stop();
    // Behind something that asks, the name is that of the site.
    for args in [&["--insecure"][..], &["--trusted-proxy", "127.0.0.1"]] {
        let service = Running::start(&place, args, &[]);
        let name = format!("{}.example", &args[0][2..]);
        assert_eq!(under(&service, &name).status, 201, "{args:?}");
    }
}

#[test]
fn preset_token_works_beside_created_ones() {
    let place = Place::sqlite();
    let preset = run_ok(&place, &["token", "generate"]).trim().to_owned();
    let service = Running::start(&place, &[], &[("ALMANAC_ADMIN_TOKEN", &preset)]);
    assert_eq!(get(&service, "/v1/workspaces", None).status, 401);
    assert_eq!(get(&service, "/v1/workspaces", Some(&preset)).status, 200);
    assert_eq!(get(&service, "/healthz", None).status, 200);
    let digest: String =
        Token::parse(&preset).unwrap().digest().iter().map(|byte| format!("{byte:02x}")).collect();
    let by_digest = Running::start(&place, &[], &[("ALMANAC_ADMIN_TOKEN", &format!("sha256:{digest}"))]);
    assert_eq!(get(&by_digest, "/v1/workspaces", Some(&preset)).status, 200);
    assert_eq!(get(&by_digest, "/v1/workspaces", Some(&format!("sha256:{digest}"))).status, 401);
    let send = |method: &str, path: &str, body: &str| {
        let bearer = format!("Bearer {preset}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        service.send(method, path, &headers, Some(body.as_bytes()))
    };
    assert_eq!(send("post", "/v1/workspaces", r#"{"path":"credit/prod"}"#).status, 201);
    assert_eq!(send("post", "/v1/users", r#"{"name":"ann"}"#).status, 201);
    let made = send("post", "/v1/tokens/user:ann", r#"{"name":"laptop","expires_in_days":1}"#);
    assert_eq!(made.status, 201, "{}", made.text());
    let token = made.json()["token"].as_str().unwrap().to_owned();
    assert_eq!(get(&service, "/v1/whoami", Some(&token)).json()["principal"], "user:ann");
    assert_eq!(get(&service, "/v1/workspaces/credit/prod", Some(&token)).status, 404, "ann has no role");
    let listed = get(&service, "/v1/tokens/user:ann", Some(&token));
    assert_eq!(listed.json()["tokens"][0]["name"], "laptop");
    assert!(!listed.text().contains(&token));
}

#[test]
fn token_is_shown_only_at_creation() {
    let place = Place::sqlite();
    let token = run_ok(&place, &["init"]).trim().to_owned();
    assert!(token.starts_with("alm_"), "the answer is the token alone");
    let again = run(&place, &["init"]);
    assert_eq!(again.status.code(), Some(2), "there is one already");
    let service = Running::start(&place, &["--log-format", "json"], &[("ALMANAC_LOG", "trace")]);
    assert_eq!(get(&service, "/v1/workspaces", Some(&token)).status, 200);
    assert_eq!(get(&service, "/v1/users/admin", Some(&token)).status, 200);
    let in_url = get(&service, &format!("/v1/workspaces?of={token}"), Some(&token));
    assert_eq!(in_url.status, 400);
    let mistyped = get(&service, "/v1/workspaces", Some(&token[..token.len() - 1]));
    assert_eq!(mistyped.status, 401);
    for answer in [&in_url, &mistyped] {
        assert!(!answer.text().contains(&token[..30]), "{}", answer.text());
    }
    for args in [
        &["admin", "table", "scan", "--format", "ndjson"][..],
        &["config", "show"],
        &["token", "list", "user:admin", "--format", "json"],
        &["access", "list", "--format", "json"],
    ] {
        let shown = run_ok(&place, args);
        assert!(!shown.contains(&token), "{args:?}");
        assert!(args[1] != "table" || shown.contains("token#"), "the scan has the items of tokens");
    }
    let log = service.stop();
    assert!(log.len() > 2 && log.iter().all(|line| !line.contains(&token[..30])), "{log:?}");
}

#[test]
fn service_with_certificate_speaks_tls() {
    let (place, folder) = (Place::sqlite(), tempfile::tempdir().unwrap());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let certificate = write("cert.pem", made.cert.pem());
    let key = write("key.pem", made.signing_key.serialize_pem());
    let half = run(&place, &["up", "--tls-cert", &certificate]);
    assert_eq!(half.status.code(), Some(2), "there is no key");
    let service = Running::start(&place, &["--tls-cert", &certificate, "--tls-key", &key], &[]);
    let address = service.address();
    let asked = run_ok(&place, &["--listen", &address, "health", "--ready", "--tls-cert", &certificate]);
    assert_eq!(asked, "ready\n");
    let plain = run(&place, &["--listen", &address, "health"]);
    let said = String::from_utf8_lossy(&plain.stderr);
    assert!(!plain.status.success(), "it is not asked over plain HTTP");
    assert!(said.contains("does not answer: it may speak TLS: give --tls-cert"), "{said}");
}

#[test]
fn answers_are_hardened_and_refusals_carry_request_ids() {
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    for path in ["/healthz", "/openapi.json", "/v1/workspaces/no/where", "/nowhere"] {
        let answer =
            service.send("get", path, &[("X-Request-Id", "abc-1"), ("Origin", "https://evil.example")], None);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("x-request-id", "abc-1"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        assert!(
            answer.header("content-security-policy").unwrap().starts_with("default-src 'none'"),
            "{path}"
        );
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
        assert_eq!(answer.header("strict-transport-security"), None, "{path}: it is not over TLS");
        if answer.status >= 400 {
            assert_eq!(answer.json()["request_id"], "abc-1", "{path}");
        }
    }
}

#[test]
fn open_service_closes_with_first_token() {
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    assert_eq!(get(&service, "/v1/workspaces", None).status, 200);
    let token = run_ok(&place, &["init"]).trim().to_owned();
    while get(&service, "/v1/workspaces", None).status != 401 {
        sleep(Duration::from_millis(50));
    }
    assert_eq!(get(&service, "/v1/workspaces", Some(&token)).status, 200);
    assert_eq!(get(&service, "/healthz", None).status, 200);
    let log = service.stop();
    assert!(log.iter().any(|line| line.contains("callers need one from now on")), "{log:?}");
}

#[test]
fn what_is_written_is_for_its_user_alone() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("made").join("out");
    run_ok(&place, &["admin", "export", "--to", out.to_str().unwrap()]);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&out), mode(out.parent().unwrap())), (0o700, 0o700));
    let made = run_ok(&place, &["config", "show", "--format", "json"]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let store = made.as_array().unwrap().iter().find(|row| row["setting"] == "store").unwrap();
    let file =
        std::path::Path::new(store["value"].as_str().unwrap().strip_prefix("sqlite:").unwrap()).to_owned();
    assert_eq!(mode(&file), 0o600, "{}", file.display());
}

#[test]
fn tokens_expire_unless_it_is_said_otherwise() {
    let place = Place::sqlite();
    run_ok(&place, &["init"]);
    let days = |args: &[&str]| {
        run_ok(&place, &[&["token", "create", "user:admin", "--name"], args].concat());
        let listed: serde_json::Value =
            serde_json::from_str(&run_ok(&place, &["token", "list", "user:admin", "--format", "json"]))
                .unwrap();
        let of = |name: &str, row: &serde_json::Value| {
            row[name].as_str().map(|at| event::Timestamp::parse(at).unwrap())
        };
        let row = listed["tokens"].as_array().unwrap().iter().find(|row| row["name"] == args[0]).unwrap();
        let made = of("created_at", row).unwrap().micros();
        of("expires_at", row).map(|at| (at.micros() - made + 43_200_000_000) / 86_400_000_000)
    };
    let usual = [
        days(&["usual"]),
        days(&["month", "--expires-in-days", "30"]),
        days(&["ever", "--expires-in-days", "none"]),
    ];
    assert_eq!(usual, [Some(90), Some(30), None]);
    let wrong = run(&place, &["token", "create", "user:admin", "--name", "x", "--expires-in-days", "soon"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn an_audit_log_that_is_gone_is_missed() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known.txt");
    std::fs::write(&known, run_ok(&place, &["admin", "verify"])).unwrap();
    let verify = ["admin", "verify", "--known", known.to_str().unwrap()];
    run_ok(&place, &["model", "create", "--task", "binary", "m", "-w", "credit/prod"]);
    run_ok(&place, &verify);
    // Another table of the same name, as one that was made again.
    let other = Place::sqlite();
    run_ok(&other, &["workspace", "create", "credit/prod"]);
    let missed = run(&other, &verify);
    let said = String::from_utf8_lossy(&missed.stdout).into_owned();
    assert!(!missed.status.success() && said.contains("FAULT audit record"), "{said}");
    std::fs::write(&known, "nothing").unwrap();
    let wrong = run(&place, &verify);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("known: "));
}

/// A service with the workspace credit/prod, and tokens of an administrator, and of ann and bob in a role there.
fn house(role: &str) -> (Place, Running, [String; 3]) {
    let place = Place::sqlite();
    let admin = run_ok(&place, &["init"]).trim().to_owned();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    run_ok(&place, &["model", "create", "--task", "binary", "m", "-w", "credit/prod"]);
    run_ok(&place, &["release", "create", "v1", "-w", "credit/prod", "--model", "m"]);
    let token = |user: &str| {
        let principal = format!("user:{user}");
        run_ok(&place, &["user", "create", user]);
        run_ok(&place, &["access", "grant", &principal, role, "-w", "credit/prod"]);
        run_ok(&place, &["token", "create", &principal, "--name", "own"]).trim().to_owned()
    };
    let (ann, bob) = (token("ann"), token("bob"));
    let service = Running::start(&place, &[], &[]);
    (place, service, [admin, ann, bob])
}

fn call(service: &Service, token: &str, method: &str, path: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let path = format!("/v1/workspaces/credit/prod/{path}");
    service.send(method, &path, &headers, (method != "delete").then_some(body.as_bytes()))
}

#[test]
fn no_maintainer_does_without_the_second_person() {
    let (_place, service, [admin, ann, _]) = house("maintainer");
    let gates = |token: &str, body: &str| call(&service, token, "put", "promotion-gates", body).status;
    assert_eq!(gates(&ann, r#"{"model":"m","second_person":true,"min_n":1}"#), 200);
    // Neither weaker gates, nor none, nor an override.
    for body in [r#"{"model":"m"}"#, r#"{"model":"m","min_n":1}"#] {
        assert_eq!(gates(&ann, body), 409);
    }
    assert_eq!(gates(&ann, r#"{"model":"m","second_person":true,"min_n":1,"days":7}"#), 200, "the same ones");
    let promote = |token: &str| {
        let body = r#"{"release":"v1","environment":"production","override":"urgent"}"#;
        call(&service, token, "post", "promotions", body)
    };
    let refused = promote(&ann);
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("only an administrator overrides"), "{}", refused.text());
    assert_eq!(promote(&admin).status, 200);
    assert_eq!(gates(&admin, r#"{"model":"m"}"#), 200);
}

#[test]
fn a_consumer_is_moved_by_its_maker_alone() {
    let (_place, service, [admin, ann, bob]) = house("reader");
    let begin = |token: &str, name: &str, from: &str| {
        let body = format!(r#"{{"consumer":"{name}","kind":"predictions","from":"{from}"}}"#);
        call(&service, token, "put", "consumers", &body)
    };
    let made = begin(&ann, "billing", "2026-06-01");
    assert_eq!((made.status, made.json()["created_by"].as_str()), (200, Some("user:ann")));
    let moved = begin(&bob, "billing", "2026-06-05");
    assert_eq!(moved.status, 409);
    assert!(moved.text().contains("belongs to user:ann"), "{}", moved.text());
    assert_eq!(begin(&ann, "billing", "2026-06-02").status, 200);
    let along = get(&service, "/v1/workspaces/credit/prod/events/predictions?consumer=billing", Some(&bob));
    assert_eq!(along.status, 200, "others read along");
    // Nobody fills the workspace with them.
    for n in 0..100 {
        assert_eq!(begin(&bob, &format!("c{n}"), "2026-06-01").status, 200);
    }
    assert_eq!(begin(&bob, "one-more", "2026-06-01").status, 409);
    assert_eq!(begin(&ann, "second", "2026-06-01").status, 200);
    assert_eq!(call(&service, &bob, "delete", "consumers?consumer=billing", "").status, 403);
    assert_eq!(call(&service, &admin, "delete", "consumers?consumer=billing", "").status, 204);
    assert_eq!(begin(&bob, "second", "2026-06-01").status, 409);
    let audit = "/v1/audit?workspace=credit/prod&from=2026-01-01&action=consumer";
    let rows: Vec<serde_json::Value> = {
        let said = get(&service, audit, Some(&admin)).text().to_owned();
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(rows.len(), 103, "each that was made, and the one that was deleted");
    assert_eq!(rows[102]["action"], "consumer.delete");
    assert_eq!((&rows[0]["principal"], &rows[0]["object"]), (&"user:ann".into(), &"billing".into()));
}

#[test]
fn administrators_alone_state_when_events_were_known() {
    let (place, service, [_, ann, bob]) = house("maintainer");
    run_ok(&place, &["access", "grant", "user:bob", "admin", "-w", "credit/prod"]);
    let state = |token: &str, kind: &str, known_at: &[&str], body: &str| {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Authorization", bearer.as_str()), ("Content-Type", "application/x-ndjson")];
        headers.extend(known_at.iter().map(|known_at| ("Almanac-Known-At", *known_at)));
        service.send("post", &format!("/v1/workspaces/credit/prod/{kind}"), &headers, Some(body.as_bytes()))
    };
    let prediction = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.5}"#;
    let refused = state(&ann, "predictions", &["2026-06-01T05:00:00Z"], prediction);
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("by administrators of the workspace"), "{}", refused.text());
    for (known_at, status, why) in [
        (&["soon"][..], 422, "Almanac-Known-At"),
        (&["2026-06-01T05:00:00Z", "2026-06-01T05:00:00Z"], 422, "given twice"),
        (&["2026-06-01T04:00:00Z"], 422, "later than it was known"),
        (&["9999-06-01T04:00:00Z"], 422, "later than now"),
    ] {
        let answer = state(&bob, "predictions", known_at, prediction);
        assert!(answer.status == status && answer.text().contains(why), "{known_at:?}: {}", answer.text());
    }
    let stated = state(&bob, "predictions", &["2026-06-01T05:00:00Z"], prediction);
    assert_eq!((stated.status, stated.json()["appended"].as_u64()), (201, Some(1)), "{}", stated.text());
    let outcome =
        r#"{"key":"a","predicted_on":"2026-06-01","observed_at":"2026-06-10T04:30:00Z","label":"1"}"#;
    assert_eq!(state(&ann, "outcomes", &[], outcome).status, 201);
    let corrected = outcome.replace(r#""1""#, r#""0""#);
    let late = state(&bob, "outcomes", &["2026-06-11T00:00:00Z"], &corrected);
    assert!(late.status == 201 && late.text().contains("count as known only from"), "{}", late.text());
    let asked =
        "evaluations?from=2026-06-01&to=2026-06-01&columns=predictions,labelled&as-of=2026-06-12&format=csv";
    let answer = call(&service, &ann, "get", asked, "");
    assert_eq!(answer.text(), "predictions,labelled\n1,0\n");
    let said = answer.header("almanac-warning").unwrap_or_default().to_owned();
    assert!(said.contains("when their import states that they were known"), "{said}");
}
