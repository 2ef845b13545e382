//! Streamed answers: the same bytes as those of whole ones, in bounded memory, and an error if they cannot be completed. Each on
//! a SQLite file and on DynamoDB Local.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use event::{
    Column, Columns, Error, ErrorKind, Kind, Result, Values, Window, columns::Coded, lane::MAX_LANES,
};
use futures::TryStreamExt;
use log::{key::LogId, read_version::ReadVersion, segment_item::Segment};
use query::{Bounds, Dataset, Format, Made, Params, Query, Request, Said, Scan};
use serde_json::json;
use table::{Condition, Table};
use tests::{
    hooked::{Asked, Hooked, Turn},
    on_both_engines,
    scene::Scene,
    short_pages::ShortPages,
    world::at,
};

on_both_engines!(
    Scene::on:
    streamed_answer_equals_whole_answer,
    frames_of_large_day_are_small_and_complete,
    events_come_in_the_order_of_their_lanes,
    a_large_day_is_streamed_in_little_memory,
    incomplete_stream_ends_with_an_error,
    stream_holds_its_place_until_dropped,
    what_is_streamed_is_read_once,
);

const NOW: &str = "2026-07-02T00:00:00Z";

/// Bounds that stream everything, or make everything possible as a whole.
pub(crate) const STREAMED: Bounds = Bounds { whole: 0, ..Bounds::NONE };
pub(crate) const WHOLE: Bounds = Bounds { whole: u64::MAX, ..Bounds::NONE };

pub(crate) fn query(table: &Arc<dyn Table>, bounds: Bounds) -> Query {
    Query::new(Arc::clone(table), event::Clock::from_fn(|| at(NOW))).within(bounds)
}

/// Puts a segment of predictions into a log.
pub(crate) async fn put(scene: &Scene, (day, lane, seq): (&str, u8, u64), rows: usize) {
    let segment = packed(scene, (day, lane, seq), rows);
    scene.table.put(segment.to_item(), Condition::Absent).await.unwrap();
}

/// Puts a segment of a day with several lanes.
pub(crate) async fn put_in_lane(scene: &Scene, (day, lane, seq): (&str, u8, u64), rows: usize) {
    let segment = packed(scene, (day, lane, seq), rows);
    let segment = Segment { lanes: lanes_of(lane, seq), ..segment };
    scene.table.put(segment.to_item(), Condition::Absent).await.unwrap();
}

/// Puts a segment as the first `copies` segments in each of some lanes of a day.
async fn put_copies(scene: &Scene, segment: &Segment, day: &str, lanes: std::ops::Range<u8>, copies: u64) {
    for lane in lanes {
        let log = LogId { day: day.parse().unwrap(), lane, ..segment.log.clone() };
        for seq in 1..=copies {
            let copy = Segment { log: log.clone(), seq, lanes: lanes_of(lane, seq), ..segment.clone() };
            scene.table.put(copy.to_item(), Condition::Absent).await.unwrap();
        }
    }
}

fn packed(scene: &Scene, (day, lane, seq): (&str, u8, u64), rows: usize) -> Segment {
    let day: event::Day = day.parse().unwrap();
    let each = || 0..rows;
    let keys: Vec<String> =
        each().map(|row| format!("{lane}-{seq}-{row}-{}", "x".repeat(row % 17))).collect();
    let valid = |every: usize| Some(each().map(|row| !row.is_multiple_of(every)).collect::<Vec<bool>>());
    let releases = Coded {
        codes: each().map(|row| u8::from(row % 3 == 0)).collect(),
        dictionary: ["v1", "v2"].into_iter().collect(),
    };
    let city: Vec<&str> = each().map(|row| ["Ulm", "Bern", "a city with a long name"][row % 3]).collect();
    let columns = vec![
        Column::new("key", Values::Text(keys.iter().map(String::as_str).collect())),
        Column::new(
            "predicted_at",
            Values::Time(each().map(|row| day.start().micros() + (row as i64 % 97) * 1_000_500).collect()),
        ),
        Column::new("release", Values::Coded(releases)),
        Column {
            valid: valid(5),
            ..Column::new("score", Values::Float(each().map(|row| row as f64 / rows as f64).collect()))
        },
        // Only some segments have the tag.
        Column {
            valid: valid(4),
            ..Column::new(format!("tag.city{}", seq % 2), Values::Text(city.into_iter().collect()))
        },
    ];
    let log = LogId { workspace: scene.id().clone(), day, kind: Kind::Predictions, lane };
    let appended_at = at("2026-06-05T00:00:00Z").plus_seconds(seq as i64);
    Segment::pack(log, seq, appended_at, Vec::new(), &Columns { rows, columns }).unwrap()
}

/// Number of lanes, which the first segment of lane 0 states.
fn lanes_of(lane: u8, seq: u64) -> Option<u8> {
    (lane == 0 && seq == 1).then_some(MAX_LANES)
}

/// Three days: a large one of four lanes, a small one, and one of three.
pub(crate) async fn filled(scene: &Scene, rows: usize) {
    for lane in 0..4 {
        for seq in 1..=4 {
            put_in_lane(scene, ("2026-06-01", lane, seq), rows).await;
        }
    }
    put(scene, ("2026-06-02", 0, 1), 10).await;
    for (lane, seq) in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (3, 1)] {
        put_in_lane(scene, ("2026-06-03", lane, seq), rows).await;
    }
}

/// All bytes of a stream, and its end.
async fn taken(made: Made) -> Result<(Vec<u8>, String)> {
    let mut bytes = Vec::new();
    match made {
        Made::Whole(_) => Err(Error::invalid("it is made as a whole")),
        Made::Streamed(mut streamed) => loop {
            match streamed.next().await? {
                Said::Bytes(more) => bytes.extend_from_slice(&more),
                Said::End(_) => return Ok((bytes, streamed.read_version.to_string())),
            }
        },
    }
}

async fn asked(
    query: &Query,
    scene: &Scene,
    what: Dataset,
    words: &Params<'_>,
    format: Format,
) -> Result<(Vec<u8>, String)> {
    let request = Request::parse(what, words)?;
    match query.answer_as(scene.id(), &request, format).await? {
        Made::Whole(mut answer) => {
            let mut bytes = Vec::new();
            format.write(&mut answer.frame, &mut bytes)?;
            Ok((bytes, answer.read_version.unwrap().to_string()))
        }
        streamed => taken(streamed).await,
    }
}

pub(crate) fn june() -> Params<'static> {
    Params { from: "2026-06-01", to: "2026-06-30", ..Params::default() }
}

pub(crate) const PREDICTIONS: Dataset = Dataset::Events(Kind::Predictions);

async fn frames_of_large_day_are_small_and_complete(scene: Scene) {
    filled(&scene, 9_000).await;
    let window = Window::new("2026-06-01".parse().unwrap(), "2026-06-30".parse().unwrap()).unwrap();
    for limit in [usize::MAX, 40_000] {
        let scan = Scan::of(query(&scene.table, Bounds::NONE), scene.id(), window);
        let scan = if limit == usize::MAX { scan } else { scan.limit(limit) };
        let frames: Vec<_> = scan.clone().frames().await.unwrap().try_collect().await.unwrap();
        // A part ends after the segment that completes its rows.
        assert!(frames.iter().all(|frame| frame.height() <= 16_384 + 9_000) && frames.len() >= 3);
        let mut all = frames[0].clear();
        for frame in &frames {
            all.vstack_mut(frame).unwrap();
        }
        assert!(all.equals_missing(&scan.collect().await.unwrap()), "{limit}");
    }
}

async fn streamed_answer_equals_whole_answer(scene: Scene) {
    // More than one group of rows.
    filled(&scene, 4_500).await;
    let outcomes: Vec<_> = (0..50)
        .map(|row| {
            json!({
                "key": format!("1-1-{row}-{}", "x".repeat(row % 17)), "predicted_on": "2026-06-01",
                "observed_at": "2026-06-04T00:00:00Z", "label": "1",
            })
        })
        .collect();
    scene.append(Kind::Outcomes, json!(outcomes), "2026-06-05T12:00:00Z").await.unwrap();
    let short: Arc<dyn Table> = ShortPages::new(Arc::clone(&scene.table));
    let [whole, streamed] = [WHOLE, STREAMED].map(|bounds| query(&scene.table, bounds));
    let in_short_pages = query(&short, STREAMED);
    let cases = [
        (PREDICTIONS, june()),
        (PREDICTIONS, Params { columns: Some("tag.city1,key,day"), release: Some("v2"), ..june() }),
        (PREDICTIONS, Params { filter: Some("score > 0.9 and tag.city0 = 'Ulm'"), ..june() }),
        (PREDICTIONS, Params { order: Some("newest"), limit: Some("6000"), ..june() }),
        (
            PREDICTIONS,
            Params { sample: Some("0.3"), limit: Some("9000"), columns: Some("key,score"), ..june() },
        ),
        (PREDICTIONS, Params { limit: Some("3"), filter: Some("day > '2026-06-01'"), ..june() }),
        (Dataset::Joined, Params { columns: Some("day,key,outcome_label,tag.city0"), ..june() }),
        (Dataset::Events(Kind::Metrics), june()),
        (Dataset::Joined, Params { filter: Some("outcome_label is null and tag.city0 = 'Ulm'"), ..june() }),
        (Dataset::Joined, Params { order: Some("newest"), limit: Some("6000"), ..june() }),
        (
            Dataset::Joined,
            Params { sample: Some("0.3"), limit: Some("9000"), columns: Some("key"), ..june() },
        ),
        (Dataset::Joined, Params { limit: Some("3"), filter: Some("day > '2026-06-01'"), ..june() }),
    ];
    for (at, (what, words)) in cases.iter().enumerate() {
        // All formats of the first case, and one for each other case in turn.
        let formats = Format::ALL.into_iter().enumerate();
        for (_, format) in formats.filter(|(format, _)| at == 0 || at % Format::ALL.len() == *format) {
            let (expected, read_version) = asked(&whole, &scene, *what, words, format).await.unwrap();
            for query in [&streamed, &in_short_pages] {
                let (bytes, again) = asked(query, &scene, *what, words, format).await.unwrap();
                if words.limit.is_none() {
                    // With a limit, the read version covers the days as far as their rows were read, and some more.
                    assert_eq!(again, read_version, "{what:?} {words:?}");
                }
                assert!(
                    bytes == expected,
                    "{what:?} {words:?} {format:?}: {} and {}",
                    bytes.len(),
                    expected.len()
                );
            }
            let words = Params { read_version: Some(&read_version), ..words.clone() };
            let (bytes, _) = asked(&streamed, &scene, *what, &words, format).await.unwrap();
            assert!(bytes == expected, "{what:?} {words:?} {format:?}");
        }
    }
    let wrong = Params { columns: Some("key,tag.planet"), ..june() };
    let error = asked(&streamed, &scene, PREDICTIONS, &wrong, Format::Csv).await.unwrap_err();
    assert!(error.to_string().contains("no event of the window has the tag `tag.planet`"), "{error}");
}

async fn events_come_in_the_order_of_their_lanes(scene: Scene) {
    filled(&scene, 20).await;
    let words = Params { from: "2026-06-03", columns: Some("key"), ..june() };
    for bounds in [WHOLE, STREAMED] {
        let (text, _) =
            asked(&query(&scene.table, bounds), &scene, PREDICTIONS, &words, Format::Csv).await.unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut places: Vec<&str> = text.lines().skip(1).map(|line| &line[..3]).collect();
        places.dedup();
        assert_eq!(places, ["0-1", "0-2", "0-3", "1-1", "1-2", "3-1"]);
    }
}

async fn a_large_day_is_streamed_in_little_memory(scene: Scene) {
    put_copies(&scene, &packed(&scene, ("2026-06-01", 0, 1), 9_000), "2026-06-01", 0..8, 3).await;
    let memory = 16 << 20;
    let query = query(&scene.table, Bounds { memory, ..Bounds::default() });
    let request = Request::parse(PREDICTIONS, &june()).unwrap();
    let whole = query.run(scene.id(), &request).await.unwrap_err();
    assert_eq!(whole.kind(), ErrorKind::TooLarge, "{whole}");
    for format in [Format::Csv, Format::IpcStream] {
        let made = query.answer_as(scene.id(), &request, format).await.unwrap();
        let (bytes, _) = taken(made).await.unwrap();
        assert!(bytes.len() as u64 > memory / 2, "{}", bytes.len());
        if format == Format::Csv {
            assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1 + 24 * 9_000);
        }
    }
}

async fn incomplete_stream_ends_with_an_error(scene: Scene) {
    // More than is read ahead.
    let segment = packed(&scene, ("2026-06-01", 0, 1), 9_000);
    put_copies(&scene, &segment, "2026-06-01", 0..14, 2).await;
    put_copies(&scene, &segment, "2026-06-03", 0..4, 1).await;
    let request = Request::parse(PREDICTIONS, &Params { columns: Some("key"), ..june() }).unwrap();
    let begun = async |query: &Query| match query.answer_as(scene.id(), &request, Format::Csv).await.unwrap()
    {
        Made::Streamed(mut streamed) => {
            let Ok(Said::Bytes(_)) = streamed.next().await else { panic!("it begins") };
            Made::Streamed(streamed)
        }
        Made::Whole(_) => panic!("it is a stream"),
    };
    // A read of events, without the attributes of a count, fails.
    let fails = Hooked::new(Arc::clone(&scene.table), move |asked| match asked {
        Asked::Query(query)
            if query.range.from.starts_with("day#2026-06-03") && query.attributes.is_none() =>
        {
            Turn::Fail(ErrorKind::Unavailable)
        }
        _ => Turn::Pass,
    });
    let fails: Arc<dyn Table> = fails;
    let error = taken(begun(&query(&fails, STREAMED)).await).await.unwrap_err();
    assert!(error.to_string().contains("the hook of a test"), "{error}");
    // Events are deleted between their count and their read.
    let table = Arc::clone(&scene.table);
    let log = LogId {
        workspace: scene.id().clone(),
        day: "2026-06-03".parse().unwrap(),
        kind: Kind::Predictions,
        lane: 3,
    };
    let begun = begun(&query(&scene.table, STREAMED)).await;
    table.delete(&log::key::segment(&log, 1), Condition::None).await.unwrap();
    let error = taken(begun).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
}

/// An answer with too many rows is not tried as a whole before.
async fn what_is_streamed_is_read_once(scene: Scene) {
    for day in ["2026-06-01", "2026-06-02"] {
        put(&scene, (day, 0, 1), 100).await;
    }
    // Rollups give the number of rows.
    scene.project().await;
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&scene.table), move |asked| {
        // A survey asks for some attributes only.
        if let Asked::Query(query) = asked
            && query.range.from.starts_with("day#2026-06-0")
            && query.attributes.is_none()
        {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Turn::Pass
    });
    let words = Params { to: "2026-06-02", columns: Some("key"), ..june() };
    for bounds in [STREAMED, WHOLE] {
        let (text, _) =
            asked(&query(&table, bounds), &scene, PREDICTIONS, &words, Format::Csv).await.unwrap();
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1 + 200);
        assert_eq!(reads.swap(0, Ordering::Relaxed), 2, "{bounds:?}");
    }
}

async fn stream_holds_its_place_until_dropped(scene: Scene) {
    let segment = packed(&scene, ("2026-06-01", 0, 1), 9_000);
    put_copies(&scene, &segment, "2026-06-01", 0..8, 2).await;
    let request = Request::parse(PREDICTIONS, &june()).unwrap();
    let bounds = Bounds { memory: 64 << 20, whole: 0, wait: Duration::ZERO, ..Bounds::default() };
    let query = query(&scene.table, bounds);
    let ask = async || query.answer_as(scene.id(), &request, Format::Csv).await;
    // As many streams as have their share in three quarters of the memory.
    let mut streams = vec![ask().await.unwrap(), ask().await.unwrap(), ask().await.unwrap()];
    let refused = ask().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    // A whole answer still gets memory.
    let small = Request::parse(PREDICTIONS, &Params { limit: Some("3"), ..june() }).unwrap();
    assert_eq!(query.run(scene.id(), &small).await.unwrap().frame.height(), 3);
    streams.pop();
    let (bytes, read_version) = taken(ask().await.unwrap()).await.unwrap();
    assert!(!bytes.is_empty() && read_version.parse::<ReadVersion>().is_ok());
}
