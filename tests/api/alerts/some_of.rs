//! Rules on a part of the events: of a tag, of a release, of live releases.

use catalog::Webhook;

use super::*;

on_both_engines!(
    World::on:
    counts_are_of_a_tag,
    what_is_missing_is_of_a_release,
    rule_on_missing_target_is_applied_with_warning,
    drift_is_of_what_is_live,
    drift_is_of_one_version_of_the_projections,
);

/// Predictions of a day by a release, all with one score, and with the tag `shop` if it is given.
async fn predicted(
    scene: &Scene,
    (day, release): (&str, &str),
    (count, score): (u32, f64),
    shop: Option<&str>,
) {
    let tags = shop.map_or(json!({}), |shop| json!({ "shop": shop }));
    let row = |n: u32| {
        json!({ "key": format!("{release}-{shop:?}-{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release,
                "score": score, "tags": tags })
    };
    let rows: Vec<Value> = (0..count).map(row).collect();
    scene.append(Kind::Predictions, rows.into(), "2026-06-06T00:00:00Z").await.unwrap();
}

async fn counts_are_of_a_tag(world: World) {
    let scene = Scene::new(world).await;
    for (number, shop, count) in [(1, "a", 3), (1, "b", 5), (2, "a", 7), (3, "b", 1)] {
        predicted(&scene, (&day(number), "v1"), (count, 0.5), Some(shop)).await;
    }
    // With more values than are kept apart, it is open whether this one is among them.
    let row = |n: u32| {
        json!({ "key": format!("k{n}"), "predicted_at": format!("{}T01:00:00Z", day(4)), "release": "v1",
                "score": 0.5, "tags": { "shop": format!("{n:0>60}") } })
    };
    let rows: Vec<Value> = (0..600).map(row).collect();
    scene.append(Kind::Predictions, rows.into(), "2026-06-06T00:00:00Z").await.unwrap();
    scene.project().await;
    let few = AlertRuleBody {
        count: Some("predictions".into()),
        tag: Some("shop=a".into()),
        below: Some(5.0),
        ..rule("few")
    };
    let known = [
        (1, Some(3.0), "firing", "fires"),
        (2, Some(7.0), "resolved", "resolves"),
        (3, Some(0.0), "firing", "fires"),
        (4, None, "firing", ""),
        (5, Some(0.0), "firing", ""),
    ];
    assert_eq!(tried(&scene, few.clone(), (1, 5), "2026-06-06T00:00:00Z").await, known);
    let other = AlertRuleBody { tag: Some("city=a".into()), ..few };
    assert_eq!(
        tried(&scene, other, (1, 1), "2026-06-06T00:00:00Z").await,
        [(1, Some(0.0), "firing", "fires")]
    );
}

async fn what_is_missing_is_of_a_release(world: World) {
    let scene = Scene::new(world).await;
    let late = AlertRuleBody {
        missing: Some("predictions".into()),
        by: Some("06:00".into()),
        release: Some("v1".into()),
        ..rule("late")
    };
    let created = at("2026-06-01T00:00:00Z");
    scene.world.catalog.apply_alert_rules(scene.id(), vec![late.clone()], created).await.unwrap();
    let judged = async |now: &str| {
        projector::alert::judge(&*scene.table, &scene.world.catalog, scene.id(), at(now)).await.unwrap()
    };
    // The first day has events of v1; the second only of another release.
    for (number, release) in [(1, "v1"), (2, "v2")] {
        scene.predict_many(&day(number), release, 2, &format!("{}T05:00:00Z", day(number))).await;
        let now = format!("{}T06:01:00Z", day(number));
        assert_eq!(judged(&now).await.days, 0, "what has come is not projected yet");
        scene.project().await;
        assert_eq!(judged(&now).await.days, 1);
    }
    let rule_transition =
        scene.world.catalog.transitions(scene.id(), day(1).parse().unwrap(), day(30).parse().unwrap(), 100);
    let told: Vec<String> = rule_transition.await.unwrap().into_iter().map(|one| one.text).collect();
    assert_eq!(told, ["no predictions of v1 had come on 2026-06-02 by 06:00"]);
    let known = [(1, Some(0.0), "ok", ""), (2, Some(1.0), "firing", "fires")];
    assert_eq!(tried(&scene, late, (1, 2), "2026-06-02T07:00:00Z").await, known);
}

async fn rule_on_missing_target_is_applied_with_warning(world: World) {
    let scene = Scene::new(world).await;
    let count =
        |name: &str| AlertRuleBody { count: Some("predictions".into()), below: Some(5.0), ..rule(name) };
    let of = |release: &str| AlertRuleBody { release: Some(release.into()), ..count(release) };
    let live = |model: &str| AlertRuleBody {
        model: Some(model.into()),
        environment: Some("production".into()),
        ..count(model)
    };
    let rules = vec![count("all"), of("v1"), of("v9"), live("m"), live("n")];
    let now = at("2026-06-01T00:00:00Z");
    let webhook =
        Webhook { name: "here".into(), url: Some("http://127.0.0.1:9/".into()), ..Webhook::default() };
    let applied = scene.world.catalog.apply_alerts(scene.id(), rules, vec![webhook], now).await.unwrap();
    assert_eq!(applied.rules.len(), 5);
    let of_nothing = [
        "alert rule `n`: there is no model `n` in this workspace yet",
        "alert rule `v9`: there is no release `v9` in this workspace yet",
        "webhook `here`: nothing is posted over http:// or to a private address, unless the projector was started with --webhooks-to-private",
    ];
    assert_eq!(applied.warnings, of_nothing);
}

async fn drift_is_of_what_is_live(world: World) {
    let scene = Scene::new(world).await;
    // The live release of the reference scores 0.1, and the live one from the third day on 0.9; the other release the reverse.
    let is_late = |number| number >= 3;
    for number in 1..=4 {
        let low = if is_late(number) { "v2" } else { "v1" };
        let high = if is_late(number) { "v1" } else { "v2" };
        let low = if number == 4 { (high, low) } else { (low, high) };
        predicted(&scene, (&day(number), low.0), (20, 0.1), None).await;
        predicted(&scene, (&day(number), low.1), (20, 0.9), None).await;
    }
    scene.project().await;
    let promote = |release: &str, when: &str| {
        json!([{ "release": release, "model": "m", "released_at": when, "action": "promote",
                 "environment": "production" }])
    };
    for (release, when) in [("v1", "2026-06-01T12:00:00Z"), ("v2", "2026-06-03T12:00:00Z")] {
        scene.append(Kind::Releases, promote(release, when), "2026-06-06T00:00:00Z").await.unwrap();
    }
    let far = AlertRuleBody {
        drift: Some("score".into()),
        reference: Some("2026-06-01..2026-06-02".into()),
        model: Some("m".into()),
        environment: Some("production".into()),
        above: Some(0.5),
        ..rule("far")
    };
    // On the third day the new release scores as the old one did.
    let known = [(3, Some(0.0), "ok", ""), (4, Some(1.0), "firing", "fires"), (5, None, "firing", "")];
    assert_eq!(tried(&scene, far.clone(), (3, 5), "2026-06-06T00:00:00Z").await, known);
    let elsewhere = AlertRuleBody { environment: Some("staging".into()), ..far };
    let days = tried(&scene, elsewhere, (3, 4), "2026-06-06T00:00:00Z").await;
    assert_eq!(days, [(3, None, "no_data", ""), (4, None, "no_data", "")]);
}

/// A rebuild activates another version, and deletes the one that is being read.
async fn drift_is_of_one_version_of_the_projections(world: World) {
    let scene = Scene::new(world).await;
    for (number, low) in [(1, 0.1), (2, 0.7)] {
        scored(&scene, &day(number), low, 40).await;
    }
    scene.project().await;
    let (inner, workspace) = (Arc::clone(&scene.table), scene.id().clone());
    let mut is_first = true;
    let table = Between::new(Arc::clone(&scene.table), move |call| {
        if !matches!(call, Call::Query(_)) || !std::mem::take(&mut is_first) {
            return None;
        }
        let (inner, workspace) = (Arc::clone(&inner), workspace.clone());
        Some(Box::pin(async move {
            let pace = Pace { share: 1.0, clock: Clock::from_fn(|| at(NOW)) };
            rebuild(&*inner, &workspace, &pace, |_| {}).await.unwrap();
        }))
    });
    let far = AlertRuleBody {
        drift: Some("score".into()),
        reference: Some(day(1)),
        above: Some(0.5),
        ..rule("far")
    };
    let (rule, window) =
        (AlertRule::of(far, Timestamp::default()).unwrap(), Window::of(day(2).parse().unwrap()));
    let catalog = Catalog::new(Arc::new(table));
    let readings = catalog.readings(scene.id(), &rule, window).await.unwrap();
    assert_eq!((readings.len(), readings[0].1.value, readings[0].1.n), (1, Some(1.0), Some(40)));
}
