//! SQL over what a workspace holds: statements answer what queries read, read no more than they name, and can do nothing
//! else. Each on a SQLite file and on DynamoDB Local.

mod conditions;
mod corpus;
mod groups;
mod joins;
mod numbers;
mod order;
mod truth;
mod windows;

use std::sync::{Arc, Mutex};

use event::{Clock, ErrorKind, Kind, Result};
use proptest::{prelude::*, test_runner::TestRunner};
use query::{Answer, Bounds, Dataset, Query, Sql, SqlParams};
use serde_json::json;
use table::Table;
use tests::{
    between::{Between, Call},
    engine::Engine,
    on_both_engines,
    register::register,
    scene::{NOW, Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    statements_answer_what_queries_read,
    limited_order_is_prefix_of_whole_order,
    statement_reads_only_its_named_days,
    statement_is_answered_at_instants_and_read_versions,
);

fn sql(statement: &str) -> Sql {
    Sql::parse(&SqlParams { statement, ..SqlParams::default() }).unwrap()
}

async fn ask(scene: &Scene, statement: &str) -> Result<Answer> {
    scene.query(at(NOW)).sql(scene.id(), &sql(statement)).await
}

/// Asks for what is selected of a day and chosen, and compares the rows with what they are to be.
async fn those_of(scene: &Scene, all: &[(&str, &str, &str)]) {
    for (select, rest, told) in all {
        let statement = format!("select {select} from predictions where day = '2026-06-01'{rest}");
        let answer = csv(ask(scene, &statement).await.unwrap_or_else(|error| panic!("{statement}: {error}")));
        assert_eq!(answer.split_once('\n').unwrap().1.trim_end(), *told, "{statement}");
    }
}

/// Four predictions on each of three days, of two releases, and what came true of them.
async fn filled(scene: &Scene) {
    for day in ["2026-06-01", "2026-06-02", "2026-06-03"] {
        let prediction = |n: u32| {
            json!({
                "key": format!("k{n}"), "predicted_at": format!("{day}T0{n}:00:00Z"),
                "release": if n < 3 { "v1" } else { "v2" }, "score": f64::from(n) / 4.0,
                "tags": { "city": if n.is_multiple_of(2) { "Ulm" } else { "Bern" } },
            })
        };
        let outcome = |n: u32| {
            let label = if n > 2 { "1" } else { "0" };
            json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": "2026-06-04T00:00:00Z", "label": label })
        };
        let predictions = (1..=4).map(prediction).collect();
        scene.append(Kind::Predictions, predictions, "2026-06-04T12:00:00Z").await.unwrap();
        let outcomes = (1..=4).map(outcome).collect();
        scene.append(Kind::Outcomes, outcomes, "2026-06-04T12:00:00Z").await.unwrap();
    }
    let metric =
        json!([{ "name": "profit", "value": 2.5, "measured_at": "2026-06-02T00:00:00Z", "release": "v1" }]);
    scene.append(Kind::Metrics, metric, "2026-06-04T12:00:00Z").await.unwrap();
}

async fn statements_answer_what_queries_read(scene: Scene) {
    filled(&scene).await;
    scene.project().await;
    let statements = [
        "select release, avg(score), count(*) from predictions where day between '2026-06-01' and '2026-06-02' group by release",
        "select day, count(*) n from predictions where day in ('2026-06-01', '2026-06-03') group by day",
        "select tag.city, sum(score) from predictions where day = '2026-06-01' and release = 'v1' group by tag.city",
        "select p.key, p.score, o.label from predictions p join outcomes o on p.key = o.key and p.day = o.day where p.day = '2026-06-02' and o.day = '2026-06-02' and p.tag.city = 'Ulm' order by p.key desc",
        "select outcome_label, avg(score) from joined where day >= '2026-06-02' and day < '2026-06-04' group by outcome_label",
        "select key from predictions where day = '2026-06-01' and predicted_at > '2026-06-01T02:30:00Z'",
        "select p.key from predictions p where p.day = '2026-06-01' and p.predicted_at between '2026-06-01 01:30' and '2026-06-01T03:30:00+00:00' and p.key <> 'k4'",
        "select name, value from metrics where day = '2026-06-02'",
        "select day, release, predictions from rollups where day = '2026-06-01' and release is not null",
        "select day, release, labelled, auc from evaluations where day = '2026-06-03'",
        "with d as (select day, release, max(score) best from predictions where day <= '2026-06-02' group by day, release) select release, sum(best) from d group by release",
        "select count(*) from predictions where day = '2026-06-01' union all select count(*) from outcomes where day between '2026-06-01' and '2026-06-03'",
        "select key from predictions where (day = '2026-06-01' and score > 0.9) or (day = '2026-06-03' and score < 0.3) order by score",
        "select a.n - b.n as more from (select count(*) n from predictions where day > '2026-06-01') a, (select count(*) n from metrics where day = '2026-06-02') b",
        "select avg(score) from predictions where day = '2031-01-01'",
    ];
    let mut answers = Vec::new();
    for statement in statements {
        let answer = ask(&scene, statement).await.map_or_else(|error| format!("{error}\n"), csv);
        answers.push(format!("{statement}\n{answer}"));
    }
    insta::assert_snapshot!("answers", answers.join("\n"));
    for what in Dataset::tables() {
        let table = what.name();
        let compared = if what == Dataset::Drift { " and reference = '2026-06-01'" } else { "" };
        let statement =
            format!("select * from {table} where day >= '2026-06-01' and day < '2026-06-04'{compared}");
        let answer = ask(&scene, &statement).await.unwrap_or_else(|error| panic!("{table}: {error}"));
        assert!(answer.frame.height() > 0 || what == Dataset::Events(Kind::Releases), "{table}");
    }
    let all = Sql { all_days: true, ..sql("select count(*) as n from predictions") };
    let answer = scene.query(at(NOW)).sql(scene.id(), &all).await.unwrap();
    assert!(answer.read_version.is_some() && answer.warnings.is_empty());
    assert_eq!(csv(answer), "n\n12\n");
}

async fn limited_order_is_prefix_of_whole_order(scene: Scene) {
    filled(&scene).await;
    for (table, order) in [
        ("predictions", "score desc, key"),
        ("predictions", "key"),
        ("outcomes", "key desc"),
        ("joined", "key"),
        ("joined", "score, key"),
    ] {
        let statement = format!(
            "select day, key, label from {table} where day between '2026-06-01' and '2026-06-03' order by {order}, day"
        );
        let whole = csv(ask(&scene, &statement).await.unwrap());
        let lines = |text: &str, n: usize| text.lines().take(n + 1).map(str::to_owned).collect::<Vec<_>>();
        for n in [1, 3, 100] {
            let first = csv(ask(&scene, &format!("{statement} limit {n}")).await.unwrap());
            assert_eq!(lines(&first, n), lines(&whole, n), "{statement} limit {n}");
        }
        assert!(whole.lines().count() > 4, "{whole}");
    }
}

async fn statement_reads_only_its_named_days(scene: Scene) {
    filled(&scene).await;
    let items = async |statement: &str| {
        let (answer, reads) = scene.world.reads(ask(&scene, statement)).await;
        (csv(answer.unwrap()), reads.items)
    };
    let (one, of_one) = items("select count(*) as n from predictions where day = '2026-06-02'").await;
    let (two, of_two) =
        items("select count(*) as n from predictions where day in ('2026-06-01', '2026-06-03')").await;
    let (none, of_none) = items("select count(*) as n from predictions where day = '2030-01-01'").await;
    assert_eq!((one.as_str(), two.as_str(), none.as_str()), ("n\n4\n", "n\n8\n", "n\n0\n"));
    assert_eq!((of_one - of_none, of_two - of_none), (1, 2), "a segment a day");
}

async fn statement_is_answered_at_instants_and_read_versions(scene: Scene) {
    const STATEMENT: &str =
        "select day, key, score from predictions where day >= '2026-06-01' order by day, key";
    filled(&scene).await;
    let first = ask(&scene, STATEMENT).await.unwrap();
    let read_version = first.read_version.as_ref().unwrap().to_string();
    let first = csv(first);
    assert_eq!(first.lines().count(), 13);
    let later =
        json!([{ "key": "k9", "predicted_at": "2026-06-02T09:00:00Z", "release": "v1", "score": 0.5 }]);
    scene.append(Kind::Predictions, later, "2026-06-05T12:00:00Z").await.unwrap();
    assert_ne!(csv(ask(&scene, STATEMENT).await.unwrap()), first);
    let words = SqlParams { statement: STATEMENT, ..SqlParams::default() };
    for words in [
        SqlParams { read_version: Some(&read_version), ..words.clone() },
        SqlParams { as_of: Some("2026-06-05"), ..words.clone() },
    ] {
        let again = scene.query(at(NOW)).sql(scene.id(), &Sql::parse(&words).unwrap()).await.unwrap();
        assert_eq!(csv(again), first, "{words:?}");
    }
    let of_outcomes = "select key from outcomes where day >= '2026-06-01'";
    for (statement, refusal) in [
        (of_outcomes, "read_version: it does not say how far outcomes were read"),
        (
            "select predictions from rollups where day >= '2026-06-01'",
            "read_version: it does not say how far outcomes were read",
        ),
        (
            "select psi from drift where day >= '2026-06-05' and reference = '2026-06-01..2026-06-02'",
            "sql: drift are of now, and not as of another time",
        ),
    ] {
        let words = SqlParams { statement, read_version: Some(&read_version), ..SqlParams::default() };
        let refused = scene.query(at(NOW)).sql(scene.id(), &Sql::parse(&words).unwrap()).await.unwrap_err();
        assert_eq!((refused.kind(), refused.to_string().as_str()), (ErrorKind::Invalid, refusal));
    }
}

#[tokio::test]
async fn inadmissible_statement_is_refused_with_reason() {
    let scene = Scene::on(Engine::Sqlite).await;
    filled(&scene).await;
    let nested =
        format!("select {}1{} from predictions where day = '2026-06-01'", "(".repeat(60), ")".repeat(60));
    let long = format!("select 1{} from predictions where day = '2026-06-01'", " + 1".repeat(150));
    let longer = format!("select 1{} from predictions", " + 1".repeat(1_000));
    let large = format!("select '{}' from predictions", "x".repeat(20_000));
    let statements = [
        "",
        "select 1",
        "drop table predictions",
        "delete from predictions",
        "insert into predictions values (1)",
        "select 1 from predictions; select 2 from predictions",
        "create table t as select * from predictions",
        "select * from read_csv('/etc/passwd')",
        "select * from read_parquet('x.parquet')",
        "select * from '/etc/passwd'",
        "select * from \"/etc/passwd\"",
        "select * from credit.prod.predictions",
        "select * into t from predictions",
        "copy predictions to 'x.csv'",
        "explain select * from predictions",
        "show tables",
        "table predictions",
        "select * from unnest([1, 2]) as t(a)",
        "with predictions as (select 1) select * from predictions",
        "with recursive t as (select * from predictions) select * from t",
        "select lpad(key, 1000000000, 'x') from predictions where day = '2026-06-01'",
        "select repeat(key, 1000) from predictions where day = '2026-06-01'",
        "select * from predictions",
        "select key from predictions where day = '2026-06-01' or score > 0.5",
        "select nothing from predictions where day = '2026-06-01'",
        "select tag.planet from predictions where day = '2026-06-01'",
        "select key from predictions where day = '2026-06-01' and regexp_like(key, '((((')",
        "select cast('x' as int) from predictions where day = '2026-06-01'",
        "with a as (select * from predictions where day = '2026-06-01'), b as (select * from a union all select * from a union all select * from a), c as (select * from b union all select * from b union all select * from b), d as (select * from c union all select * from c union all select * from c), e as (select * from d union all select * from d) select * from e",
        &nested,
        &long,
        &longer,
        &large,
    ];
    let mut refusals = Vec::new();
    for statement in statements {
        let refused = ask(&scene, statement).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{statement}: {refused}");
        let start: String = statement.chars().take(100).collect();
        refusals.push(format!("{start}\n    {refused}"));
    }
    insta::assert_snapshot!("refusals", refusals.join("\n"));
}

#[tokio::test]
async fn oversized_join_is_refused_before_execution() {
    let scene = Scene::on(Engine::Sqlite).await;
    let keys = (0..2_000).map(|n| {
        json!({ "key": format!("k{n}"), "predicted_at": "2026-06-01T01:00:00Z", "release": "v1", "score": 0.5 })
    });
    scene.append(Kind::Predictions, keys.collect(), "2026-06-04T12:00:00Z").await.unwrap();
    let query = scene.query(at(NOW)).within(Bounds { memory: 8 * 1024 * 1024, ..Bounds::default() });
    let within = "a.day = '2026-06-01' and b.day = '2026-06-01'";
    let joined = async |on: &str| {
        let statement = format!("select count(*) as n from predictions a {on} {within}");
        query.sql(scene.id(), &sql(&statement)).await.map(csv)
    };
    assert_eq!(joined("join predictions b on a.key = b.key where").await.unwrap(), "n\n2000\n");
    for on in [
        "join predictions b on a.release = b.release where",
        "cross join predictions b where",
        ", predictions b where",
        "join predictions b on a.score <= b.score where",
    ] {
        assert_eq!(joined(on).await.unwrap_err().kind(), ErrorKind::TooLarge, "{on}");
    }
    assert_eq!(
        joined("join predictions b on a.key = b.key where").await.unwrap(),
        "n\n2000\n",
        "nothing is held"
    );
}

#[tokio::test]
async fn text_that_a_statement_makes_counts() {
    let scene = Scene::on(Engine::Sqlite).await;
    let keys = (0..300).map(|n| {
        json!({ "key": format!("k{n:0200}"), "predicted_at": "2026-06-01T01:00:00Z", "release": "v1", "score": 0.5 })
    });
    scene.append(Kind::Predictions, keys.collect(), "2026-06-04T12:00:00Z").await.unwrap();
    let query = scene.query(at(NOW)).within(Bounds { memory: 8 * 1024 * 1024, ..Bounds::default() });
    let longest = async |text: &str| {
        let statement = format!(
            "select max(length({text})) as n from predictions a cross join predictions b where a.day = '2026-06-01' and b.day = '2026-06-01'"
        );
        query.sql(scene.id(), &sql(&statement)).await.map(csv)
    };
    assert_eq!(longest("a.key").await.unwrap(), "n\n201\n");
    for text in ["upper(a.key)", "a.key || b.key"] {
        assert_eq!(longest(text).await.unwrap_err().kind(), ErrorKind::TooLarge, "{text}");
    }
}

/// Parts of statements, harmless and hostile.
const PARTS: &str = r#"
select ~ from ~ where ~ group by ~ order by ~ having ~ limit ~ offset ~ join ~ left join ~ full join ~
cross join ~ on ~ using ~ union all ~ union ~ except ~ intersect ~ with ~ as ~ distinct ~ case ~
when ~ then ~ else ~ end ~ cast ~ :: ~ over ~ partition by ~ between ~ and ~ or ~ not ~ is null ~ in ~
exists ~ like ~ ilike ~ rlike ~ interval ~ array ~ unnest ~ lateral ~ qualify ~ values ~ * ~ , ~ ( ~
) ~ + ~ - ~ / ~ % ~ = ~ < ~ >= ~ <> ~ . ~ ; ~ -- ~ /* ~ null ~ true ~ 0 ~ -1 ~ 1e309 ~
9999999999999999999 ~ 0.5 ~ '' ~ '2026-06-01' ~ '2026-06-31' ~ date '2026-06-01' ~ '%' ~ '(' ~
"tag.city" ~ tag.city ~ score.a ~ predictions ~ outcomes ~ metrics ~ releases ~ joined ~ rollups ~
evaluations ~ p ~ q ~ day ~ key ~ score ~ release ~ predicted_at ~ label ~ read_csv('SECRET.csv') ~
read_parquet('/tmp/*') ~ 'SECRET.csv' ~ "SECRET.csv" ~ credit.other.predictions ~ "credit/other" ~
information_schema.tables ~ count(*) ~ avg(score) ~ sum(score) ~ lag(score) ~
row_number() over (order by key) ~ lpad(key, 100000000) ~ repeat(key, 100000000) ~
regexp_like(key, '(a+)+$') ~ extract(month from day) ~ date_part('x', day) ~ round(score, 400) ~
pow(score, 1e308) ~ substr(key, -1, 99999999999) ~ quantile_cont(score, 7) ~ left(key, -5) ~
strpos(key, '') ~ cast(key as int) ~ columns('.*')"#;

/// One of the parts.
fn part() -> impl Strategy<Value = String> {
    let parts: Vec<String> = PARTS.split('~').map(|part| part.trim().to_owned()).collect();
    proptest::sample::select(parts)
}

/// A statement that is sound in part: a sound frame, with parts at the places where they can do harm.
fn statement() -> impl Strategy<Value = String> {
    let some = |most| proptest::collection::vec(part(), 0..most).prop_map(|parts| parts.join(" "));
    let sound = (some(4), some(3), some(5), some(4)).prop_map(|(columns, table, condition, rest)| {
        let columns = if columns.is_empty() { "*".to_owned() } else { columns };
        format!("select {columns} from predictions {table} where day = '2026-06-01' {condition} {rest}")
    });
    let expression = (part(), part(), part()).prop_map(|(one, two, three)| {
        format!("select {one} {two} {three} x, count(*) from predictions where day between '2026-06-01' and '2026-06-02' group by {one} {two} {three}")
    });
    let scalar = (part(), part()).prop_map(|(one, two)| {
        format!("select {one}({two}) from joined where day = '2026-06-02' and {two} = {one}")
    });
    let mangled = (sound_statement(), any::<proptest::sample::Index>(), any::<char>()).prop_map(
        |(text, at, letter)| {
            let at = at.index(text.chars().count());
            text.chars().enumerate().map(|(n, was)| if n == at { letter } else { was }).collect()
        },
    );
    prop_oneof![3 => sound, 2 => expression, 2 => scalar, 2 => mangled, 1 => some(30)]
}

fn sound_statement() -> impl Strategy<Value = String> {
    proptest::sample::select(&[
        "select release, avg(score) from predictions where day between '2026-06-01' and '2026-06-03' group by release",
        "select p.key, o.label from predictions p left join outcomes o on p.key = o.key where p.day = '2026-06-02' and o.day = '2026-06-02'",
        "with d as (select * from predictions where day = '2026-06-01') select max(score) from d union all select min(score) from d",
    ][..])
    .prop_map(str::to_owned)
}

/// Whatever a client writes: no partition of another workspace is read, no file, and the service lives on.
#[test]
fn statement_cannot_reach_files_or_other_workspaces() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scene = runtime.block_on(Scene::on(Engine::Sqlite));
    runtime.block_on(async {
        filled(&scene).await;
        let other = register(&scene.table, "credit/other", &["v1"], at("2026-06-01T00:00:00Z")).await;
        let event = json!([{ "key": "SECRET", "predicted_at": "2026-06-01T01:00:00Z", "release": "v1", "score": 0.5 }]);
        let batch = ingest::json::read_json_array(Kind::Predictions, event.to_string().as_bytes(), at(NOW)).unwrap();
        let ingest = scene.ingest(at("2026-06-04T12:00:00Z"));
        ingest.submit(&other, batch, None, ingest::Remember::Week).await.unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("SECRET.csv");
    std::fs::write(&file, "key\nSECRET\n").unwrap();
    let read = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&read);
    let table: Arc<dyn Table> = Arc::new(Between::new(Arc::clone(&scene.table), move |call| {
        let partition = match call {
            Call::Query(query) => query.range.pk.clone(),
            Call::Get(key) => key.pk.clone(),
            _ => "neither read nor query".to_owned(),
        };
        noted.lock().unwrap().push(partition);
        None
    }));
    let bounds = Bounds { memory: 64 * 1024 * 1024, ..Bounds::default() };
    let query = Query::new(table, Clock::from_fn(|| at(NOW))).within(bounds);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let own = format!("w#{}", scene.id());
    let run = runner.run(&statement(), |statement| {
        let statement = statement.replace("SECRET.csv", file.to_str().unwrap());
        read.lock().unwrap().clear();
        match runtime.block_on(query.sql(scene.id(), &sql(&statement))) {
            Ok(answer) => prop_assert!(!csv(answer).contains("SECRET\n"), "{statement}"),
            Err(error) => prop_assert!(
                matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge),
                "{statement}: {error:?}"
            ),
        }
        let read = read.lock().unwrap();
        prop_assert!(read.iter().all(|partition| partition.starts_with(&own)), "{statement}: {read:?}");
        Ok(())
    });
    run.unwrap();
    let after = runtime.block_on(
        query.sql(scene.id(), &sql("select count(*) as n from predictions where day = '2026-06-01'")),
    );
    assert_eq!(csv(after.unwrap()), "n\n4\n");
}
