//! Transitions that are reported before their day ends, and transitions in SQL.

use super::*;

on_both_engines!(
    World::on:
    count_rule_fires_before_its_day_ends,
    what_rule_transition_is_a_table_of_sql,
);

async fn count_rule_fires_before_its_day_ends(world: World) {
    let scene = scene(world, &[]).await;
    let catalog = &scene.world.catalog;
    let many = |name: &str, release: Option<&str>| AlertRuleBody {
        name: name.into(),
        count: Some("predictions".into()),
        release: release.map(str::to_owned),
        above: Some(4.0),
        ..AlertRuleBody::default()
    };
    catalog.delete_alert_rule(scene.id(), "few").await.unwrap();
    let rules = vec![many("all", None), many("of-v1", Some("v1"))];
    catalog.apply_alert_rules(scene.id(), rules, at(CREATED)).await.unwrap();
    let days = async |now: &str| {
        let Outcome { days, transitions, firing } = judged(&scene, now).await;
        (days, transitions, firing)
    };
    assert_eq!(days("2026-06-02T00:01:00Z").await, (2, 0, 0), "the first day of both rules");
    scene.predict_many(&day(2), "v1", 4, "2026-06-02T02:00:00Z").await;
    scene.project().await;
    assert_eq!(days("2026-06-02T03:00:00Z").await, (0, 0, 0), "four are not more than four");
    scene.predict_many(&day(2), "v2", 1, "2026-06-02T04:00:00Z").await;
    assert_eq!(days("2026-06-02T04:01:00Z").await, (0, 0, 0), "by what is projected");
    scene.project().await;
    // Events that come meanwhile do not delay it.
    scene.predict_many(&day(2), "v2", 2, "2026-06-02T04:00:20Z").await;
    let (one, other) = tokio::join!(days("2026-06-02T04:01:00Z"), days("2026-06-02T04:01:00Z"));
    assert_eq!((one.1 + other.1, one.2.max(other.2)), (1, 1), "{one:?} {other:?}");
    assert_eq!(told(&scene).await, ["all: the number of predictions on 2026-06-02 is 5, above 4"]);
    scene.project().await;
    assert_eq!(days("2026-06-02T12:00:00Z").await, (0, 0, 1), "it is told once");
    assert_eq!(days("2026-06-03T00:01:00Z").await, (1, 0, 1), "the other rule judges the second day");
    assert_eq!(days("2026-06-03T23:59:00Z").await, (0, 0, 1));
    // At the end of a day with few events it is resolved.
    assert_eq!(days("2026-06-04T00:01:00Z").await, (2, 1, 0));
}

async fn what_rule_transition_is_a_table_of_sql(world: World) {
    // The third day has no event at all, and crosses.
    let scene = scene(world, &[9, 9, 0, 9, 1]).await;
    scene.project().await;
    judged(&scene, "2026-06-06T00:01:00Z").await;
    let now = "2026-06-06T00:02:00Z";
    let ask = async |statement: &str, all_days| {
        let sql = Sql { statement: statement.into(), all_days, as_of: None, read_version: None };
        scene.query(at(now)).sql(scene.id(), &sql).await.map(csv)
    };
    let all = "select day, rule, what, value, measured, text from transitions order by day";
    let rows = "day,rule,what,value,measured,text\n\
        2026-06-03,few,fires,0.0,0.0,\"the number of predictions on 2026-06-03 is 0, below 5\"\n\
        2026-06-04,few,resolves,9.0,9.0,the number of predictions on 2026-06-04 is 9 again\n\
        2026-06-05,few,fires,1.0,1.0,\"the number of predictions on 2026-06-05 is 1, below 5\"\n";
    assert_eq!(ask(all, true).await.unwrap(), rows);
    let fired =
        "select count(*) as n, min(at) as first from transitions where day > '2026-06-03' and what = 'fires'";
    let found = ask(fired, false).await.unwrap();
    assert!(found.starts_with("n,first\n1,2026-06-06T00:01:00"), "{found}");
    // Only the named days are read.
    let last = "select id from transitions where day = '2026-06-05'";
    let (found, reads) = scene.world.reads(ask(last, false)).await;
    let id = recorded(&scene).await.pop().unwrap().id;
    assert_eq!(found.unwrap(), format!("id\n{id}\n"));
    assert_eq!(
        (reads.gets, reads.queries, reads.items),
        (0, 3, 3),
        "the first, the last, and that of the day"
    );
    assert_eq!(
        ask("select id from transitions where day = '2026-06-04' and rule = 'other'", false).await.unwrap(),
        "id\n"
    );
    assert_eq!(ask("select id from transitions where day = '2026-07-04'", false).await.unwrap(), "id\n");
    // A join with an answer of queries by the same columns.
    let joined = "select c.day, r.predictions from transitions c join rollups r on c.day = r.day where c.day = '2026-06-05' and r.day = '2026-06-05' and r.release = 'v1'";
    assert_eq!(ask(joined, false).await.unwrap(), "day,predictions\n2026-06-05,1\n");
    assert!(
        ask("select id from transitions", false)
            .await
            .unwrap_err()
            .to_string()
            .contains("say which days of transitions")
    );
    let then = Sql {
        as_of: Some(at(now)),
        ..Sql { statement: last.into(), all_days: false, as_of: None, read_version: None }
    };
    let refused = scene.query(at(now)).sql(scene.id(), &then).await.unwrap_err();
    assert!(refused.to_string().contains("transitions are of now"), "{refused}");
}
