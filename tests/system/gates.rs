//! Promotion gates from the command line and over HTTP.

use crate::support::{Place, Service, run, run_ok};
use serde_json::{Value, json};

/// Shows the gates of the model, and with more words sets them.
const GATES: [&str; 5] = ["model", "gates", "credit/prod/risk", "--format", "json"];

fn json_of(place: &Place, args: &[&str]) -> Value {
    serde_json::from_str(&run_ok(place, args)).unwrap()
}

fn refused(place: &Place, args: &[&str]) -> String {
    let output = run(place, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap().trim().to_owned()
}

/// A workspace with a model and a release.
fn registered(place: &Place) {
    run_ok(place, &["workspace", "create", "credit/prod"]);
    run_ok(place, &["model", "create", "--task", "binary", "risk", "-w", "credit/prod"]);
    run_ok(place, &["release", "create", "v1", "-w", "credit/prod", "--model", "risk"]);
}

#[test]
fn promotion_gates_work_by_command_and_http() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    let ok = |args: &[&str]| run_ok(&place, args);
    registered(&place);
    assert_eq!(json_of(&place, &GATES)["gates"], json!([]));
    let set = [
        "--min-n",
        "5",
        "--metric",
        "auc",
        "--margin",
        "0.01",
        "--second-person",
        "--environment",
        "production",
    ];
    let shown = json_of(&place, &[&GATES[..], &set].concat());
    let expected = json!({
        "model": "risk", "days": 7, "min_n": 5, "metric": "auc", "direction": "max", "margin": 0.01, "second_person": true,
        "environments": ["production"],
    });
    assert_eq!((&shown, &json_of(&place, &GATES)["gates"][0]), (&expected, &expected));
    let promote = ["release", "promote", "v1", "-w", "credit/prod", "--environment", "production"];
    let said = refused(&place, &promote);
    assert!(
        said.contains("min_n: 0 of its predictions")
            && said.contains("second_person: nobody has approved it"),
        "{said}"
    );
    let post = |path: &str, body: &Value| {
        service.post(
            &format!("/v1/workspaces/credit/prod/{path}"),
            "application/json",
            None,
            &body.to_string(),
        )
    };
    let body = json!({ "release": "v1", "environment": "production" });
    let answer = post("promotions", &body);
    assert_eq!(
        (answer.status, answer.text().contains("min_n: 0 of its predictions")),
        (409, true),
        "{}",
        answer.text()
    );
    // A service that asks nobody who they are calls its callers `anonymous`, who are no second person.
    let answer = post("approvals", &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["approvals"][0]["principal"], "anonymous");
    let said = refused(&place, &promote);
    assert!(said.contains("min_n") && said.contains("second_person"), "{said}");
    let listed = service.get("/v1/workspaces/credit/prod/promotion-gates").json();
    assert_eq!((&listed["gates"], &listed["approvals"][0]["release"]), (&json!([expected]), &json!("v1")));
    let approve = ["release", "approve", "v1", "-w", "credit/prod", "--environment", "production"];
    assert!(ok(&approve).contains("anonymous"));
    assert!(!ok(&[&approve[..], &["--retract"]].concat()).contains("local:"));
    let done = ok(&[&promote[..], &["--override", "the first one"]].concat());
    assert!(done.contains("promote  v1"), "{done}");
    let audit_log = ok(&["audit", "-w", "credit/prod", "--action", "promotion", "--format", "csv"]);
    assert_eq!(
        (audit_log.matches("promotion.refuse").count(), audit_log.matches("promotion.override").count()),
        (3, 1)
    );
}

#[test]
fn invalid_promotion_gates_are_refused_by_name() {
    let place = Place::sqlite();
    registered(&place);
    for (args, why) in [
        (&["--margin", "0.1"][..], "metric"),
        (&["--days", "3"], "gates say at least one of min_n, metric, completeness, second_person"),
        (&["--metric", "auc", "--margin", "-1"], "margin: -1 is not a number from 0 on"),
        (&["--completeness", "-0.5"], "completeness: -0.5 is not a share from 0 to 1"),
    ] {
        let said = refused(&place, &[&GATES[..], args].concat());
        assert!(said.contains(why), "{args:?}: {said}");
    }
    assert_eq!(json_of(&place, &[&GATES[..], &["--min-n", "none"]].concat()), json!({ "model": "risk" }));
}
