//! The dashboard, in a real browser: every page shows the answers of the API, and nothing else runs in it.

use crate::support::{Place, Running};

/// The files come with headers that keep a browser from loading or running anything else, and only when they changed.
#[test]
fn dashboard_files_are_embedded_and_cached() {
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
    // An ingest service has no pages.
    let ingest = Running::start(&place, &["--role", "ingest"], &[]);
    assert_eq!(ingest.get("/").status, 404);
}

mod by_browser;
