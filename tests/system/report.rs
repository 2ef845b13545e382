//! The report of a workspace, through the real binary.

use crate::support::{Answer, Place, Service, on_both_engines, register, run, run_ok};

on_both_engines!(report_shows_available_data_and_explains_gaps);

/// The number of times that a body is sent to an engine that is busy.
const MAX_SENDS: usize = 10;

const WORKSPACE: &str = "/v1/workspaces/credit/prod";
const WINDOW: [&str; 9] = [
    "report",
    "-w",
    "credit/prod",
    "--from",
    "2026-06-01",
    "--to",
    "2026-06-14",
    "--reference",
    "2026-05-25..2026-05-31",
];

/// A value of a tag that would be more than text on a page that does not escape it.
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}";

/// Predictions of each day of the window and its reference. In the window scores are greater, and a tag has a value of its own.
fn predictions(release: &str) -> String {
    let day = |day: u32| {
        let (month, of_month) = if day < 7 { (5, 25 + day) } else { (6, day - 6) };
        (0..20).map(move |row| {
            let score = f64::from(row) / 25.0 + if day < 7 { 0.0 } else { 0.2 };
            let tag = serde_json::Value::from(if row == 0 && day >= 7 { HOSTILE } else { "✈️" });
            format!(
                "{{\"key\":\"{day}-{row}\",\"predicted_at\":\"2026-{month:02}-{of_month:02}T06:00:00Z\",\"release\":\"{release}\",\
                 \"score\":{score},\"tags\":{{\"place\":{tag}}}}}\n"
            )
        })
    };
    (0..21).flat_map(day).collect()
}

fn outcomes() -> String {
    let day = |day: u32| {
        let (month, of_month) = if day < 7 { (5, 25 + day) } else { (6, day - 6) };
        (0..20).map(move |row| {
            let label = if row % 3 == 0 { "default" } else { "paid" };
            format!(
                "{{\"key\":\"{day}-{row}\",\"predicted_on\":\"2026-{month:02}-{of_month:02}\",\"label\":\"{label}\",\
                 \"observed_at\":\"2026-{month:02}-{of_month:02}T18:00:00Z\"}}\n"
            )
        })
    };
    (0..21).flat_map(day).collect()
}

fn report_shows_available_data_and_explains_gaps(place: &Place) {
    let service = Service::start(place);
    register(&service);
    let post = |kind: &str, body: &str| {
        // An engine that is busy may not have answered in time; to send it again changes nothing.
        let send = || service.post(&format!("{WORKSPACE}/{kind}"), "application/x-ndjson", None, body);
        let answer = (0..MAX_SENDS).map(|_| send()).find(|answer| answer.status != 503);
        let answer = answer.unwrap_or_else(|| panic!("{kind} cannot be appended"));
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    };
    let day = |what: &str| format!("{WORKSPACE}/{what}?from=2026-06-14&to=2026-06-14&format=csv");
    let report = || run_ok(place, &WINDOW);
    let says = |page: &str, texts: &[&str]| {
        for text in texts {
            assert!(page.contains(text), "{text}: {page}");
        }
    };

    let empty = report();
    says(&empty, &["There are no predictions of these days.", "No release was live in these days."]);
    says(&empty, &["Nothing can be expected", "so there is nothing to compare with 2026-05-25..2026-05-31"]);
    says(&empty, &["No number of this workspace is watched.", "No metric is known of these days yet"]);
    assert!(!empty.contains("<svg"), "nothing is drawn of nothing: {empty}");

    post("predictions", &predictions("v1"));
    service.get_until(&day("rollups"), |answer| answer.text().contains("v1,1,20,"));
    let early = run_ok(place, &[&WINDOW[..], &["--sections", "metrics,compared,maturity,drift"]].concat());
    says(&early, &["No outcome has come yet", "No second release of a model predicted in these days"]);
    says(&early, &["score moved most", "&lt;script&gt;alert(1)&lt;/script&gt;"]);
    assert!(!early.contains("<script") && !early.contains("What was live"), "{early}");

    post("outcomes", &outcomes());
    // Stored evaluations of every day cover all that came.
    let judged = |answer: &Answer| answer.text().matches("v1,20").count() == 21;
    let all = "evaluations?from=2026-05-25&to=2026-06-14&format=csv&columns=release,labelled";
    service.get_until(&format!("{WORKSPACE}/{all}"), judged);
    let first = report();
    says(&first, &["accuracy by day", "Accuracy of v1: expected and realised", "Metrics by day and release"]);
    says(&first, &["as they are stored of each day", "No slice is known of these days."]);
    assert_eq!(first, report(), "one state of the logs, one page");

    // Events that come change the read version, and with it the page.
    let late = "{\"key\":\"20-0\",\"predicted_on\":\"2026-06-14\",\"label\":\"paid\",\"observed_at\":\"2026-06-20T00:00:00Z\"}\n";
    post("outcomes", late);
    let read_version = |page: &str| {
        page.split("<dt>Read version</dt><dd>").nth(1).unwrap().split("</dd>").next().unwrap().to_owned()
    };
    assert_ne!(read_version(&first), read_version(&report()));
}

#[test]
fn what_cannot_be_reported_is_refused() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    for (wrong, says) in [
        (
            &["-o", "report.pdf"][..],
            "the name of a report ends with .html, or with .svg for its charts alone",
        ),
        (&["--sections", "all"], "sections: `all` is none of live, metrics, compared, logged, gates"),
        (&["--period", "hour"], "period: `hour` is none of day, week, month, quarter"),
        (&["--model", "m"], "model: there is no `m`"),
        (&["--release", "v9"], "release: there is no `v9`"),
        (&["--reference", "May"], "reference:"),
        (&["--from", "2026-06-01"], "to: name the last day"),
    ] {
        let answer = run(&place, &[&["report", "-w", "credit/prod"], wrong].concat());
        let problem = String::from_utf8(answer.stderr).unwrap();
        assert!(answer.status.code() == Some(2) && problem.contains(says), "{wrong:?}: {problem}");
    }
    // Without a window it is of the last 30 days.
    let answer = run(&place, &["report", "-w", "credit/prod"]);
    let said = String::from_utf8(answer.stderr).unwrap();
    assert!(answer.status.success() && said.starts_with("window: "), "{said}");
}
