//! Statements.

use axum::{
    body::Body,
    http::{Request, header},
};

use super::texts;
use crate::{
    Target,
    house::{TOKEN, in_house},
};

pub(super) const TARGET: Target = Target {
    name: "sql",
    about: "statements: admitted, planned and answered",
    seeds,
    words: &[
        "select ",
        " from ",
        "predictions",
        "outcomes",
        "joined",
        "metrics",
        "rollups",
        "evaluations",
        "drift",
        " where ",
        " day = '2026-06-01'",
        " between ",
        " group by ",
        " order by ",
        " limit ",
        " join ",
        " on ",
        " union all ",
        "with x as (",
        " over (",
        "partition by ",
        "count(*)",
        "sum(",
        "case when ",
        " then ",
        " end",
        "cast(",
        " as ",
        "distinct ",
        " is null",
        "interval '1' day",
        "\"tag.b\"",
        "feature.age",
        "exists (",
        " in (",
        " having ",
        "lag(",
        "substr(",
        "'",
        "--",
        "/*",
    ],
    take,
};

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "SELECT release, count(*) AS n FROM predictions WHERE day BETWEEN '2026-06-01' AND '2026-06-02' GROUP BY release",
        "SELECT p.key, o.label FROM predictions p JOIN outcomes o ON p.key = o.key WHERE p.day = '2026-06-01' AND o.day = '2026-06-01'",
        "WITH x AS (SELECT score FROM predictions WHERE day = '2026-06-01') SELECT avg(score) FROM x ORDER BY 1 LIMIT 3",
        "SELECT * FROM metrics WHERE day = '2026-06-01' AND name IN ('a', 'b') OR value > 1e3",
        "SELECT CASE WHEN score > 0.5 THEN 'x' ELSE substr(key, 1, 2) END FROM predictions WHERE day = '2026-06-01'",
        "SELECT key, rank() OVER (PARTITION BY release ORDER BY score) FROM predictions WHERE day = '2026-06-01' UNION ALL SELECT key, 1 FROM predictions WHERE day = '2026-06-02'",
        "SELECT * FROM evaluations WHERE day >= '2026-06-01' AND day < '2026-06-03'",
        "SELECT day, count(distinct key) FROM joined WHERE day = '2026-06-01' GROUP BY day HAVING count(*) > 0",
    ])
}

fn take(input: &[u8]) -> bool {
    let Ok(statement) = std::str::from_utf8(input) else { return false };
    in_house(|house| {
        let request = Request::post("/v1/workspaces/credit/prod/sql")
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
            .header(header::CONTENT_TYPE, "application/json");
        let body = serde_json::json!({ "sql": statement }).to_string();
        house.ask(request.body(Body::from(body)).unwrap()).0.is_success()
    })
}
