//! Tokens as a user meets them: the first one, services that ask for one, and where no token ever shows.

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
fn who_asks_nobody_answers_under_no_name_of_other_sites() {
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
fn a_service_with_a_preset_token_takes_that_one_and_those_that_it_makes() {
    let place = Place::sqlite();
    let preset = run_ok(&place, &["token", "generate"]).trim().to_owned();
    let service = Running::start(&place, &[], &[("ALMANAC_ADMIN_TOKEN", &preset)]);
    assert_eq!(get(&service, "/v1/workspaces", None).status, 401);
    assert_eq!(get(&service, "/v1/workspaces", Some(&preset)).status, 200);
    assert_eq!(get(&service, "/healthz", None).status, 200);
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
fn a_token_shows_when_it_is_made_and_nowhere_else() {
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
        &["table", "scan", "--format", "ndjson"][..],
        &["config", "show"],
        &["token", "list", "user:admin", "--format", "json"],
        &["access", "list", "--format", "json"],
    ] {
        let shown = run_ok(&place, args);
        assert!(!shown.contains(&token), "{args:?}");
        assert!(args[0] != "table" || shown.contains("token#"), "the scan has the items of tokens");
    }
    let log = service.stop();
    assert!(log.len() > 2 && log.iter().all(|line| !line.contains(&token[..30])), "{log:?}");
}

#[test]
fn a_service_with_a_certificate_is_asked_over_tls() {
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
fn every_answer_is_hardened_and_every_refusal_has_the_id_of_its_request() {
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
