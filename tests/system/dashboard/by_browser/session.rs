//! Signing in, in a real browser: the state it keeps, its end, and its protection from other pages.

use std::{
    io::{Read, Write},
    net::TcpListener,
};

use super::shown;
use crate::{
    browser::Browser,
    support::{Place, Running, alone, run_ok},
};

/// Script that returns the status of the page's own request for its identity.
const WHOAMI: &str = "const done = arguments[arguments.length - 1]; fetch('/v1/whoami', { headers: { 'Almanac-Dashboard': 'yes' } }).then((answer) => done(answer.status), () => done('refused'))";

/// A workspace that ann may read, one that she may not, and her token.
fn scene() -> (Place, String) {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    run_ok(&place, &["workspace", "create", "credit/secret"]);
    run_ok(&place, &["user", "create", "ann"]);
    run_ok(&place, &["access", "grant", "user:ann", "reader", "-w", "credit/prod"]);
    let token = run_ok(&place, &["token", "create", "--name", "laptop", "user:ann"]).trim().to_owned();
    (place, token)
}

fn sign_in(browser: &Browser, token: &str) {
    shown(browser, "Sign in");
    browser.type_into("input[type=password]", token);
    browser.click("button.first");
}

/// Waits until there are this many workspaces to choose from.
fn choices(browser: &Browser, count: usize) {
    browser
        .wait_for("document.querySelectorAll('#workspace option').length === arguments[0]", &[count.into()]);
}

fn sign_out(browser: &Browser) {
    browser.run(
        "[...document.querySelectorAll('button')].find((one) => one.innerText === 'Sign out').click()",
        &[],
    );
    shown(browser, "Sign in");
}

/// All data that scripts of the page can read.
fn within_reach(browser: &Browser) -> String {
    browser
        .run(
            "return JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie + location.href + document.documentElement.outerHTML",
            &[],
        )
        .to_string()
}

#[test]
fn who_has_a_token_signs_in_and_out() {
    let _alone = alone();
    let (place, token) = scene();
    let admin = run_ok(&place, &["token", "generate"]).trim().to_owned();
    let service = Running::start(&place, &[], &[("ALMANAC_ADMIN_TOKEN", &admin)]);
    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    browser.open(&format!("{base}#/w/credit/prod/alerts"));
    shown(&browser, "Sign in");
    assert_eq!(browser.violations(), [""; 0]);
    browser.picture("sign-in");
    sign_in(&browser, "alm_wrong");
    browser.wait_for("document.querySelector('[role=alert]')", &[]);
    sign_in(&browser, &token);
    shown(&browser, "Alerts of credit/prod");
    // Another page, a reload and another tab are signed in; no script can read the credentials.
    browser.open("about:blank");
    browser.open(&base);
    shown(&browser, "Overview of credit/prod");
    choices(&browser, 1);
    let named = browser
        .run("return [...document.querySelectorAll('#workspace option')].map((one) => one.value)", &[]);
    assert_eq!(named, serde_json::json!(["credit/prod"]), "a reader sees only what is theirs");
    let first = browser.window();
    browser.open_window();
    browser.open(&format!("{base}#/w/credit/prod/catalog"));
    shown(&browser, "Catalog of credit/prod");
    let kept = within_reach(&browser);
    assert!(!kept.contains(&token) && !kept.contains("almanac-session="), "{kept}");
    // Signing out in one tab signs out of all.
    sign_out(&browser);
    browser.switch_to(&first);
    shown(&browser, "Sign in");
    assert!(!within_reach(&browser).contains(&token));
    browser.open("about:blank");
    browser.open(&base);
    shown(&browser, "Sign in");

    // The token that the service was started with opens a session, too; revoking a token ends its sessions.
    sign_in(&browser, &admin);
    shown(&browser, "Overview of credit/prod");
    choices(&browser, 2);
    sign_out(&browser);
    sign_in(&browser, &token);
    shown(&browser, "Overview");
    run_ok(&place, &["token", "revoke", "user:ann", "laptop"]);
    // The service notices within 5 seconds.
    let is_refused = |_: &i32| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        browser.run_until_done(WHOAMI, &[]) == 401
    };
    assert!((0..600).find(is_refused).is_some(), "the session ends with its token");
    browser.run("location.hash = '#/operate'", &[]);
    shown(&browser, "Sign in");
    assert!(browser.text("[role=alert]").contains("session has ended"), "{}", browser.text("main"));
}

/// Source of a page of another origin that is open beside the dashboard.
const EVIL: &str = r#"<!doctype html><title>evil</title><form method=post action="TARGET/v1/session"><input type=hidden name=a></form>"#;

/// Serves a page of another origin (another port) to every request.
fn evil(target: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let page = EVIL.replace("TARGET", target);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            // All requests get this page.
            _ = stream.read(&mut [0; 4_096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
            _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    address
}

/// Another port of this host is another origin but the same site: its pages make the browser send the cookie.
#[test]
fn foreign_origin_page_cannot_use_the_session() {
    let _alone = alone();
    let (place, token) = scene();
    let service = Running::start(&place, &[], &[]);
    let base = format!("http://{}", service.address());
    let browser = Browser::start();
    browser.open(&format!("{base}/"));
    sign_in(&browser, &token);
    shown(&browser, "Overview");
    assert_eq!(browser.run_until_done(WHOAMI, &[]), 200, "the page itself may ask");
    let bare = WHOAMI.replace("'Almanac-Dashboard': 'yes'", "");
    assert_eq!(
        browser.run_until_done(&bare, &[]),
        401,
        "the cookie alone is nobody, from the page itself too"
    );

    browser.open(&evil(&base));
    browser.wait_for("document.title === 'evil'", &[]);
    let ask = "const [url, options, done] = arguments; fetch(url, { credentials: 'include', ...options }).then(async (answer) => done(`${answer.type} ${answer.status} ${await answer.text()}`), () => done('refused'))";
    let whoami = format!("{base}/v1/whoami");
    for options in [
        serde_json::json!({}),
        serde_json::json!({"headers": {"Almanac-Dashboard": "yes"}}),
        serde_json::json!({"method": "POST", "headers": {"Almanac-Dashboard": "yes"}}),
        serde_json::json!({"method": "DELETE"}),
    ] {
        assert_eq!(
            browser.run_until_done(ask, &[whoami.clone().into(), options.clone()]),
            "refused",
            "{options}"
        );
    }
    let blind = serde_json::json!({"mode": "no-cors"});
    let seen = browser.run_until_done(ask, &[whoami.into(), blind]);
    assert_eq!(seen, "opaque 0 ", "it is sent, and refused; nothing of the answer is seen");
    browser.run("document.forms[0].submit()", &[]);
    browser.wait_for("document.body.innerText.includes('Almanac-Dashboard')", &[]);
    assert!(browser.text("body").contains("401"), "a form is refused: {}", browser.text("body"));
    // The user is still signed in.
    browser.open(&format!("{base}/"));
    shown(&browser, "Overview");
}
