//! Parts of the events of a window: by a condition, a tag, a key, a share of keys, the first N; streamed and collected. Each on a
//! SQLite file and on DynamoDB Local.

use event::{Kind, Share, Window};
use futures::TryStreamExt;
use query::{Dataset, Format, Last, Params, Request, Scan};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    each_filter_narrows_events_alone_and_combined,
    joined_rows_are_narrowed_by_the_same_words,
    a_window_ends_at_instants_or_now,
    invalid_filter_is_refused_with_reason,
    what_is_streamed_is_what_is_collected,
    limited_query_reads_only_days_it_needs,
);

/// All of June.
fn june() -> Params<'static> {
    Params { from: "2026-06-01", to: "2026-06-30", ..Params::default() }
}

/// Four predictions on each of `days` days, of two releases; only those of Ulm have a tag.
async fn filled(scene: &Scene, days: u32) {
    for day in 1..=days {
        let prediction = |n: u32| {
            let tags = if n.is_multiple_of(2) { json!({ "city": "Ulm" }) } else { json!({}) };
            json!({
                "key": format!("k{n}"), "predicted_at": format!("2026-06-{day:02}T0{}:00:00Z", 9 - n),
                "release": if n < 3 { "v1" } else { "v2" }, "score": f64::from(n) / 4.0, "tags": tags,
            })
        };
        scene
            .append(Kind::Predictions, (1..=4).map(prediction).collect(), "2026-06-30T12:00:00Z")
            .await
            .unwrap();
    }
}

async fn asked(scene: &Scene, words: &Params<'_>) -> event::Result<(String, String)> {
    asked_of(scene, Dataset::Events(Kind::Predictions), words).await
}

/// Answer as CSV, and its read version.
async fn asked_of(scene: &Scene, what: Dataset, words: &Params<'_>) -> event::Result<(String, String)> {
    let request = Request::parse(what, words)?;
    let mut answer = scene.query(at("2026-07-02T00:00:00Z")).run(scene.id(), &request).await?;
    Ok((csv(&mut answer), answer.read_version.unwrap().to_string()))
}

/// Rows of days of June, without the month.
fn in_short(text: &str) -> String {
    let rows = text.lines().skip(1).map(|line| line["2026-06-0".len()..].replace(',', " "));
    rows.collect::<Vec<_>>().join(", ")
}

async fn each_filter_narrows_events_alone_and_combined(scene: Scene) {
    filled(&scene, 3).await;
    let columns = Some("day,key");
    let words = Params { columns, ..june() };
    let cases = [
        (
            Params { filter: Some("score > 0.5 and day < '2026-06-03'"), ..words.clone() },
            "1 k3, 1 k4, 2 k3, 2 k4",
        ),
        (
            Params { filter: Some("tag.city is null and release = 'v1' -- Bern"), ..words.clone() },
            "1 k1, 2 k1, 3 k1",
        ),
        (Params { filter: Some("predicted_at >= '2026-06-03T07:00:00Z'"), ..words.clone() }, "3 k1, 3 k2"),
        (Params { tag: Some("city=Ulm"), release: Some("v2"), ..words.clone() }, "1 k4, 2 k4, 3 k4"),
        (Params { key: Some("k'; drop"), ..words.clone() }, ""),
        (Params { key: Some("k2"), limit: Some("2"), ..words.clone() }, "1 k2, 2 k2"),
        (Params { key: Some("k2"), limit: Some("2"), order: Some("newest"), ..words.clone() }, "3 k2, 2 k2"),
        (Params { limit: Some("5"), order: Some("newest"), ..words.clone() }, "3 k1, 3 k2, 3 k3, 3 k4, 2 k1"),
        (Params { sample: Some("0"), ..words.clone() }, ""),
        (
            Params {
                filter: Some("score < 1 or key = 'k9'"),
                tag: Some("city=Ulm"),
                key: Some("k2"),
                sample: Some("1"),
                ..words.clone()
            },
            "1 k2, 2 k2, 3 k2",
        ),
    ];
    for (words, expected) in cases {
        let (text, read_version) =
            asked(&scene, &words).await.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert_eq!(in_short(&text), expected, "{words:?}");
        let (again, _) =
            asked(&scene, &Params { read_version: Some(&read_version), ..words.clone() }).await.unwrap();
        assert_eq!(again, text, "{words:?}");
        // All columns are there, also those that are only in conditions.
        let (all, _) = asked(&scene, &Params { columns: None, ..words.clone() }).await.unwrap();
        assert!(
            all.starts_with("day,key,predicted_at,release,score,")
                && all.lines().count() == text.lines().count()
        );
    }
    // A share of keys is stable, and is part of every greater one.
    let of_share =
        async |share: &str| asked(&scene, &Params { sample: Some(share), ..words.clone() }).await.unwrap().0;
    let half = of_share("0.5").await;
    let keys =
        ["k1", "k2", "k3", "k4"].into_iter().filter(|key| "0.5".parse::<Share>().unwrap().has(key)).count();
    assert_eq!(half.lines().count(), 1 + 3 * keys);
    let greater = of_share("0.9").await;
    assert!(half.lines().all(|line| greater.lines().any(|other| other == line)));
}

async fn a_window_ends_at_instants_or_now(scene: Scene) {
    filled(&scene, 3).await;
    let now = at("2026-06-03T07:30:00.5Z");
    let last = |word| Params { last: Some(Last { word, now }), ..words_of("", "") };
    // On each day k1 is at eight, k4 at five o'clock.
    let cases = [
        (words_of("2026-06-02T06:00:00Z", "2026-06-03T07:00:00Z"), "2 k1, 2 k2, 2 k3, 3 k3, 3 k4"),
        (words_of("2026-06-02T09:00:00+02:00", "2026-06-02"), "2 k1, 2 k2"),
        (words_of("2026-06-02", "2026-06-03T00:00:00Z"), "2 k1, 2 k2, 2 k3, 2 k4"),
        (
            Params { filter: Some("key <> 'k2'"), ..words_of("2026-06-03T06:00:00Z", "2026-06-04") },
            "3 k1, 3 k3",
        ),
        (last("2d"), "2 k1, 2 k2, 2 k3, 2 k4, 3 k1, 3 k2, 3 k3, 3 k4"),
        (last("1h"), "3 k2"),
        (last("24h"), "2 k1, 3 k2, 3 k3, 3 k4"),
    ];
    for (words, expected) in cases {
        let request = Request::parse(Dataset::Events(Kind::Predictions), &words).unwrap();
        let mut answer = scene.query(at("2026-07-02T00:00:00Z")).run(scene.id(), &request).await.unwrap();
        let text = csv(&mut answer);
        assert_eq!(in_short(&text), expected, "{words:?}");
        // The resolved days of a length name the same window.
        if let Some([from, to]) = &request.last {
            assert_eq!(asked(&scene, &words_of(from, to)).await.unwrap().0, text);
        }
    }
}

async fn joined_rows_are_narrowed_by_the_same_words(scene: Scene) {
    filled(&scene, 3).await;
    let outcome = |key: &str, label: &str| json!({ "key": key, "predicted_on": "2026-06-02", "observed_at": "2026-06-05T00:00:00Z", "label": label });
    let outcomes = json!([outcome("k1", "paid"), outcome("k2", "default"), outcome("k4", "paid")]);
    scene.append(Kind::Outcomes, outcomes, "2026-06-30T12:00:00Z").await.unwrap();
    // A repeated event is one row, so the first two rows are not the first two events.
    let again =
        json!([{ "key": "k4", "predicted_at": "2026-06-01T05:00:00Z", "release": "v2", "score": 0.9 }]);
    scene.append(Kind::Predictions, again, "2026-06-30T13:00:00Z").await.unwrap();
    let words = Params { columns: Some("day,key,outcome_label"), ..june() };
    let cases = [
        (Params { filter: Some("outcome_label = 'paid'"), ..words.clone() }, "2 k1 paid, 2 k4 paid"),
        (
            Params { filter: Some("observed_at > '2026-06-04' and score < 0.7"), ..words.clone() },
            "2 k1 paid, 2 k2 default",
        ),
        (Params { key: Some("k2"), ..words.clone() }, "1 k2 , 2 k2 default, 3 k2 "),
        (
            Params { key: Some("k2"), limit: Some("2"), order: Some("newest"), ..words.clone() },
            "3 k2 , 2 k2 default",
        ),
        (Params { tag: Some("city=Ulm"), release: Some("v2"), ..words.clone() }, "2 k4 paid, 3 k4 "),
        (
            Params { limit: Some("5"), order: Some("newest"), ..words.clone() },
            "3 k1 , 3 k2 , 3 k3 , 3 k4 , 2 k1 paid",
        ),
        (
            Params {
                filter: Some("outcome_label is null"),
                sample: Some("1"),
                limit: Some("3"),
                ..words.clone()
            },
            "1 k1 , 1 k2 , 1 k3 ",
        ),
        (Params { sample: Some("0"), ..words.clone() }, ""),
        (
            Params { from: "2026-06-02T06:00:00Z", to: "2026-06-02T08:00:00Z", ..words.clone() },
            "2 k2 default, 2 k3 ",
        ),
        (Params { filter: Some("score = 0.9 and day = '2026-06-01'"), ..words.clone() }, "1 k4 "),
        (Params { limit: Some("4"), ..words.clone() }, "1 k1 , 1 k2 , 1 k3 , 1 k4 "),
    ];
    for (words, expected) in cases {
        let asked = async |words: &Params<'_>| asked_of(&scene, Dataset::Joined, words).await.unwrap();
        let (text, read_version) = asked(&words).await;
        assert_eq!(in_short(&text), expected, "{words:?}");
        assert_eq!(
            asked(&Params { read_version: Some(&read_version), ..words.clone() }).await.0,
            text,
            "{words:?}"
        );
        // All columns are there, also those that are only in conditions.
        let (all, _) = asked(&Params { columns: None, ..words.clone() }).await;
        assert!(all.starts_with("day,key,predicted_at,release,score,"), "{all}");
        assert_eq!(all.lines().count(), text.lines().count(), "{words:?}");
    }
    let refused =
        async |words: Params<'_>| asked_of(&scene, Dataset::Joined, &words).await.unwrap_err().to_string();
    for (filter, says) in [("outcome_nothing = 1", "outcome_nothing"), ("retracted is null", "retracted")] {
        assert!(refused(Params { filter: Some(filter), ..words.clone() }).await.contains(says), "{filter}");
    }
    let of_limit = refused(Params { limit: Some("0"), ..words.clone() }).await;
    assert_eq!(of_limit, "limit: `0` is not a number of rows from 1 to 4294967295; leave it out for all");
    let of_planet = refused(Params { tag: Some("planet=x"), ..words }).await;
    assert!(of_planet.contains("no event of the window has the tag `tag.planet`"), "{of_planet}");
}

fn words_of<'a>(from: &'a str, to: &'a str) -> Params<'a> {
    Params { from, to, columns: Some("day,key"), ..Params::default() }
}

async fn invalid_filter_is_refused_with_reason(scene: Scene) {
    filled(&scene, 3).await;
    let words = Params { columns: Some("day,key"), ..june() };
    let long_key = "k".repeat(257);
    let refusals = [
        Params { filter: Some("score >"), ..words.clone() },
        Params { filter: Some("avg(score) > 1"), ..words.clone() },
        Params { filter: Some("key in (select key from outcomes)"), ..words.clone() },
        Params { filter: Some("score > 0.5) or (score < 2"), ..words.clone() },
        Params { filter: Some("nothing = 1"), ..words.clone() },
        Params { filter: Some("tag.planet = 'x'"), ..words.clone() },
        Params { tag: Some("city"), ..words.clone() },
        Params { limit: Some("0"), ..words.clone() },
        Params { sample: Some("2"), ..words.clone() },
        Params { order: Some("last"), ..words.clone() },
        Params { key: Some(&long_key), ..words.clone() },
    ];
    let mut said = Vec::new();
    for words in refusals {
        said.push(asked(&scene, &words).await.unwrap_err().to_string());
    }
    let of = |what| Request::parse(what, &Params { key: Some("k"), ..june() }).unwrap_err().to_string();
    said.extend([of(Dataset::Rollups), of(Dataset::Events(Kind::Releases))]);
    insta::assert_snapshot!("refusals", said.join("\n"));
}

async fn what_is_streamed_is_what_is_collected(scene: Scene) {
    filled(&scene, 5).await;
    let window = Window::new("2026-06-01".parse().unwrap(), "2026-06-30".parse().unwrap()).unwrap();
    let scan = || Scan::of(scene.query(at("2026-07-02T00:00:00Z")), scene.id(), window);
    let half: Share = "0.6".parse().unwrap();
    let scans = [
        scan(),
        scan().columns(["key", "tag.city", "day"]),
        scan().filter("score > 0.3").filter("day <> '2026-06-02'").columns(["score"]),
        scan().sample(half).newest().limit(7),
        scan().release("v1").limit(3),
        scan().limit(8).as_of(at("2026-06-30T13:00:00Z")),
        scan().kind(Kind::Metrics),
        scan().joined(),
        scan().joined().filter("outcome_label is null").sample(half).newest().limit(7).columns(["key"]),
        scan().joined().limit(8),
    ];
    for scan in scans {
        let frames: Vec<_> = scan.clone().frames().await.unwrap().try_collect().await.unwrap();
        let all = scan.clone().collect().await.unwrap();
        let rows: usize = frames.iter().map(|frame| frame.height()).sum();
        assert_eq!(rows, all.height(), "{scan:?}");
        let text = |mut frame| {
            let mut bytes = Vec::new();
            Format::Csv.write(&mut frame, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let lines: Vec<String> = frames
            .into_iter()
            .flat_map(|frame| text(frame).lines().skip(1).map(str::to_owned).collect::<Vec<_>>())
            .collect();
        assert_eq!(lines, text(all).lines().skip(1).collect::<Vec<_>>(), "{scan:?}");
    }
    // An idle stream of frames does not block other readers: a file has few readers.
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut frames = Box::pin(scan().frames().await.unwrap());
        frames.try_next().await.unwrap().unwrap();
        idle.push(frames);
    }
    assert_eq!(scan().collect().await.unwrap().height(), 20);
    drop(idle);
    let wrong = scan().filter("nothing = 1").frames().await.err().unwrap().to_string();
    assert!(wrong.contains("nothing"), "{wrong}");
    assert!(scan().release("v9").frames().await.is_err());
}

async fn limited_query_reads_only_days_it_needs(scene: Scene) {
    filled(&scene, 20).await;
    let segments = async |words: Params<'_>| {
        let (answer, reads) = scene.world.reads(asked(&scene, &words)).await;
        (answer.unwrap().0.lines().count() - 1, reads.items)
    };
    let (all, of_all) = segments(june()).await;
    let (few, of_few) = segments(Params { limit: Some("3"), order: Some("newest"), ..june() }).await;
    let (one, of_one) = segments(Params { filter: Some("day = '2026-06-07'"), ..june() }).await;
    assert_eq!((all, few, one), (80, 3, 4));
    // Some days are read ahead.
    assert!(of_all - of_few >= 10, "{of_all} {of_few}");
    assert_eq!(of_all - of_one, 19, "a segment a day");
}
