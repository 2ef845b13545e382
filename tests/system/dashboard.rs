//! The dashboard, in a real browser: every page shows what the API answers, to everybody, and nothing else runs in it.

use crate::support::{Place, Running, run_ok};

/// The files come with what keeps a browser from loading or running anything else, and only when they changed.
#[test]
fn the_files_are_embedded_and_a_browser_keeps_them() {
    let place = Place::sqlite();
    let service = Running::start(&place, &["--role", "query"], &[]);
    let page = service.get("/");
    assert_eq!((page.status, &*page.content_type), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(
        !page.text().contains("<style") && !page.text().contains(" style="),
        "no style stands in the page"
    );
    assert!(!page.text().contains("<script>"), "no script stands in the page");

    let script = service.get("/dashboard/main.js");
    assert_eq!((script.status, &*script.content_type), (200, "text/javascript; charset=utf-8"));
    assert_eq!(script.header("cache-control"), Some("no-cache"));
    let tag = script.header("etag").unwrap();
    let again = service.send("get", "/dashboard/main.js", &[("If-None-Match", tag)], None);
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag)));
    let other = service.send("get", "/dashboard/api.js", &[("If-None-Match", tag)], None);
    assert_eq!(other.status, 200, "the tag of another file");
    assert_eq!(service.get("/dashboard/no.js").status, 404);
    // Who takes events has no pages.
    let ingest = Running::start(&place, &["--role", "ingest"], &[]);
    assert_eq!(ingest.get("/").status, 404);
}

mod by_browser {
    use serde_json::Value;

    use super::*;
    use crate::{
        browser::Browser,
        support::{Answer, alone, ndjson},
    };

    const WORKSPACE: &str = "/v1/workspaces/flights/nyc";
    const WINDOW: &str = "from=2013-06-20&to=2013-07-08";

    /// The pages, with the names of their pictures.
    const PAGES: [(&str, &str); 6] = [
        ("workspaces", "#/"),
        ("figures", "#/w/flights/nyc/figures?from=2013-06-20&to=2013-07-08&figure=accuracy"),
        ("weeks", "#/w/flights/nyc/figures?from=2013-06-20&to=2013-07-08&figure=auc&group-by=week"),
        ("compare", "#/w/flights/nyc/compare?from=2013-07-01&to=2013-07-08"),
        ("drift", "#/w/flights/nyc/drift?from=2013-07-01&to=2013-07-08"),
        ("alerts", "#/w/flights/nyc/alerts"),
    ];

    /// Three months of the demo, with a rule that fires.
    fn scene() -> Place {
        let place = Place::sqlite();
        run_ok(&place, &["demo", "--until", "2013-07-09"]);
        place
    }

    /// Waits until the page shows what it should.
    fn shown(browser: &Browser, heading: &str) {
        browser.wait_for(
            "!document.getElementById('main').hasAttribute('aria-busy') && document.querySelector('h1')?.innerText.startsWith(arguments[0])",
            &[heading.into()],
        );
    }

    /// The cells of the first table, by row.
    fn cells(browser: &Browser) -> Vec<Vec<String>> {
        let script = "return [...document.querySelector('table').tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText))";
        serde_json::from_value(browser.run(script, &[])).unwrap()
    }

    fn heading(page: &str) -> &'static str {
        match page {
            "workspaces" => "Workspaces",
            "alerts" => "Alerts",
            "compare" => "Compare",
            "drift" => "Drift",
            _ => "Figures",
        }
    }

    /// Whether a number on a page is this one, by its four places.
    fn is_shown(text: &str, number: &Value) -> bool {
        match number.as_f64() {
            None => text == "–",
            Some(number) => {
                let text: f64 =
                    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text} is no number"));
                (text - number).abs() <= 0.000_050_1
            }
        }
    }

    #[test]
    fn every_page_shows_what_the_api_answers_in_both_themes() {
        let _alone = alone();
        let place = scene();
        let service = Running::start(&place, &[], &[]);
        service.get_until("/readyz", |answer| answer.status == 200);
        let base = format!("http://{}/", service.address());
        let browser = Browser::start();
        let mut looked_at = 0;
        for theme in ["light", "dark"] {
            browser.resize(1360, 900);
            browser.open(&base);
            browser.run("localStorage.setItem('almanac-theme', arguments[0])", &[theme.into()]);
            for (width, height) in [(1360, 1000), (500, 900)] {
                browser.resize(width, height);
                for (name, hash) in PAGES {
                    browser.open("about:blank");
                    browser.open(&format!("{base}{hash}"));
                    shown(&browser, heading(name));
                    browser.picture(&format!("{name}-{theme}-{width}"));
                    assert_eq!(browser.violations(), [""; 0], "{name} {theme} {width}");
                    assert_eq!(browser.console(), [""; 0], "{name} {theme} {width}");
                    let wide =
                        "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
                    assert_eq!(browser.run(wide, &[]), 0, "{name} is wider than the window of {width}");
                    looked_at += 1;
                }
            }
        }
        assert_eq!(looked_at, 4 * PAGES.len());
    }

    #[test]
    fn figures_are_those_of_the_api() {
        let _alone = alone();
        let place = scene();
        let service = Running::start(&place, &[], &[]);
        service.get_until("/readyz", |answer| answer.status == 200);
        let base = format!("http://{}/", service.address());
        let browser = Browser::start();
        browser.resize(1360, 1000);

        // From the list of workspaces to a workspace, by a click.
        browser.open(&base);
        shown(&browser, "Workspaces");
        let row = &cells(&browser)[0];
        let rollups =
            ndjson(service.get(&format!("{WORKSPACE}/rollups?from=2013-01-01&to=2013-12-31")).text());
        let total: u64 = rollups
            .iter()
            .filter(|row| row["release"].is_null())
            .map(|row| row["predictions"].as_u64().unwrap())
            .sum();
        assert_eq!(row[0], "flights/nyc");
        assert!(row[1].starts_with("v2 of late-arrival in production"), "{row:?}");
        assert_eq!(row[3], "2013-07-09");
        assert_eq!(row[4].replace(',', ""), total.to_string());
        browser.click("td a.strong");
        shown(&browser, "Figures of flights/nyc");

        for (figure, group) in [("accuracy", "day"), ("auc", "day"), ("log_loss", "week"), ("mcc", "day")] {
            let hash = format!("#/w/flights/nyc/figures?{WINDOW}&figure={figure}&group-by={group}");
            browser.open("about:blank");
            browser.open(&format!("{base}{hash}"));
            shown(&browser, "Figures");
            let rows =
                ndjson(service.get(&format!("{WORKSPACE}/evaluations?{WINDOW}&group-by={group}")).text());
            let shown = cells(&browser);
            assert_eq!(shown.len(), rows.len());
            for (shown, row) in shown.iter().zip(rows.iter().rev()) {
                assert_eq!(shown[0], row["day"].as_str().unwrap());
                assert_eq!(shown[1], row["release"].as_str().unwrap());
                assert_eq!(shown[2].replace(',', ""), row["labelled"].to_string());
                assert!(is_shown(&shown[3], &row[figure]), "{figure}: {shown:?}, {}", row[figure]);
            }
        }
        // The line of a release has as many points as there are days with a figure; the promotion is marked.
        browser.open(&format!("{base}#/w/flights/nyc/figures?{WINDOW}&figure=accuracy"));
        browser.wait_for("document.querySelector('h2')?.innerText === 'accuracy'", &[]);
        let days = ndjson(service.get(&format!("{WORKSPACE}/evaluations?{WINDOW}&release=v1")).text()).len();
        let points = browser.run(
            "return document.querySelector('path.line.c0').getAttribute('d').split(/[ML]/).length - 1",
            &[],
        );
        assert_eq!(points, days);
        assert!(browser.text(".mark-text").starts_with("v2 live"), "{}", browser.text("svg"));

        // As known on a day: by the address, and the same as the API.
        let asked = format!("{WORKSPACE}/evaluations?{WINDOW}&as-of=2013-06-23");
        let rows = ndjson(service.get(&asked).text());
        browser.open(&format!("{base}#/w/flights/nyc/figures?{WINDOW}&figure=accuracy&as-of=2013-06-23"));
        browser.wait_for("document.querySelector('output')?.innerText === '2013-06-23' && !document.querySelector('[aria-busy]')", &[]);
        let shown = cells(&browser);
        assert_eq!(shown.len(), rows.len());
        assert!(
            shown.iter().zip(rows.iter().rev()).all(|(shown, row)| is_shown(&shown[3], &row["accuracy"]))
        );
        assert_eq!(browser.console(), [""; 0]);
    }

    #[test]
    fn the_keyboard_does_what_the_pointer_does() {
        let _alone = alone();
        let place = scene();
        let service = Running::start(&place, &[], &[]);
        let base = format!("http://{}/", service.address());
        let browser = Browser::start();
        browser.open(&format!("{base}#/w/flights/nyc/figures?{WINDOW}&figure=accuracy"));
        shown(&browser, "Figures");
        browser.press("\u{E004}");
        assert_eq!(browser.run("return document.activeElement.id", &[]), "skip");
        browser.press("\u{E007}");
        assert_eq!(browser.run("return document.activeElement.id", &[]), "main");
        // On a chart the arrow keys read point after point.
        browser.run("document.querySelector('.stage').focus()", &[]);
        browser.press("\u{E014}");
        browser.press("\u{E014}");
        let first =
            ndjson(service.get(&format!("{WORKSPACE}/evaluations?{WINDOW}&release=v1")).text()).remove(1);
        let said = browser.text(".tip");
        assert!(said.contains(first["day"].as_str().unwrap()), "{said}");
        assert!(said.contains(&format!("{:.4}", first["accuracy"].as_f64().unwrap())), "{said}");
        // The same request by other means; what curl would ask is answered with what is shown.
        browser.click("details.share summary");
        let ways = browser.text(".ways");
        assert!(
            ways.contains("almanac query evaluations -w flights/nyc --from 2013-06-20 --to 2013-07-08"),
            "{ways}"
        );
        let curl = browser.run("return [...document.querySelectorAll('.way pre')].at(-1).innerText", &[]);
        let path = curl
            .as_str()
            .unwrap()
            .trim_matches(|sign| sign == '\'')
            .split_once(&service.address())
            .unwrap()
            .1;
        let answer: Answer = service.get(path.trim_end_matches('\''));
        assert_eq!((answer.status, ndjson(answer.text()).len()), (200, cells(&browser).len()));
        assert_eq!(browser.console(), [""; 0]);
    }

    /// What is chosen by an address is text, whatever it is.
    #[test]
    fn hostile_names_are_text() {
        let _alone = alone();
        let place = Place::sqlite();
        run_ok(&place, &["workspace", "create", "credit/prod"]);
        let service = Running::start(&place, &[], &[]);
        let base = format!("http://{}/", service.address());
        let browser = Browser::start();
        let long = "x".repeat(256);
        for hostile in [
            "<script>document.title='owned'</script>",
            "<img src=x onerror=document.title='owned'>",
            "\u{202e}gpj.exe",
            "👩‍🔬",
            &long,
        ] {
            let chosen = browser.run("return encodeURIComponent(arguments[0])", &[hostile.into()]);
            let chosen = chosen.as_str().unwrap();
            browser.open("about:blank");
            browser.open(&format!(
                "{base}#/w/credit/prod/figures?figure={chosen}&from=2026-01-01&to=2026-01-02"
            ));
            browser.wait_for("document.querySelector('h1') && !document.querySelector('[aria-busy]')", &[]);
            assert_eq!(
                browser.run("return document.querySelectorAll('main script, main img').length", &[]),
                0
            );
            assert_ne!(browser.run("return document.title", &[]), "owned");
            // Of a workspace that is not there it is said that it is not.
            browser.open("about:blank");
            browser.open(&format!("{base}#/w/{chosen}/{chosen}/figures"));
            shown(&browser, "This cannot be shown");
            assert_ne!(browser.run("return document.title", &[]), "owned");
        }
    }

    #[test]
    fn who_has_a_token_signs_in_and_out() {
        let _alone = alone();
        let place = Place::sqlite();
        run_ok(&place, &["workspace", "create", "credit/prod"]);
        run_ok(&place, &["workspace", "create", "credit/secret"]);
        run_ok(&place, &["user", "create", "ann"]);
        run_ok(&place, &["workspace", "grant", "credit/prod", "user:ann", "reader"]);
        let token = run_ok(&place, &["token", "create", "--name", "laptop", "user:ann"]).trim().to_owned();
        let admin = run_ok(&place, &["token", "generate"]).trim().to_owned();
        let service = Running::start(&place, &[], &[("ALMANAC_ADMIN_TOKEN", &admin)]);
        let browser = Browser::start();
        browser.open(&format!("http://{}/#/w/credit/prod/alerts", service.address()));
        shown(&browser, "Sign in");
        assert_eq!(browser.violations(), [""; 0]);
        browser.picture("sign-in");
        browser.type_into("input[type=password]", "alm_wrong");
        browser.click("button.first");
        browser.wait_for("document.querySelector('[role=alert]')", &[]);
        browser.type_into("input[type=password]", &token);
        browser.click("button.first");
        shown(&browser, "Alerts of credit/prod");
        browser.open("about:blank");
        browser.open(&format!("http://{}/", service.address()));
        shown(&browser, "Workspaces");
        let named: Vec<String> = cells(&browser).into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(named, ["credit/prod"], "a reader sees only what is theirs");
        browser.run(
            "[...document.querySelectorAll('button')].find((one) => one.innerText === 'Sign out').click()",
            &[],
        );
        shown(&browser, "Sign in");
        assert_eq!(browser.run("return sessionStorage.length", &[]), 0);
        let kept = browser.run("return JSON.stringify(localStorage) + document.cookie + location.href", &[]);
        assert!(!kept.as_str().unwrap().contains(&token));
    }
}
