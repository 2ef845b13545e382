//! Repeatable answers: as of an instant, at a read version, and without unreadable segments. Each on a SQLite file and on DynamoDB Local.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use catalog::{Catalog, Workspace};
use event::{Clock, Column, Columns, Day, ErrorKind, Kind, Values};
use log::{
    key::{self, LogId},
    read_version::ReadVersion,
    segment_item::{CLOSED_AFTER_SECONDS, Segment},
};
use projector::dead_letters::{self, Stopped};
use query::{Answer, Bounds, Dataset, Params, Query, Request};
use table::{Condition, Table};
use tests::{
    between::{Between, Call},
    conformance::TestClock,
    engine::{Engine, Fresh},
    on_both_engines,
    register::register,
    scene::csv,
    world::at,
};

const DAY: &str = "2026-06-01";
const WHATS: [Dataset; 3] = [Dataset::Events(Kind::Predictions), Dataset::Joined, Dataset::Evaluations];

struct World {
    table: Arc<dyn Table>,
    workspace: Workspace,
    query: Query,
    clock: TestClock,
    _fresh: Fresh,
}

impl World {
    async fn on(engine: Engine) -> Self {
        let fresh = engine.fresh(Clock::system()).await;
        let table = Arc::clone(&fresh.table);
        let workspace = register(&table, "sim/one", &["v1"], at("2026-06-01T00:00:00Z")).await;
        let clock = TestClock::new(at("2026-06-01T13:00:00Z"));
        let query = Query::new(Arc::clone(&table), clock.clock());
        Self { table, workspace, query, clock, _fresh: fresh }
    }

    /// Moves the clock of the queries on to an instant.
    fn set_now(&self, now: &str) {
        self.clock.forward((at(now).micros() - self.clock.now().micros()) / 1_000_000);
    }

    fn log(&self, kind: Kind, lane: u8) -> LogId {
        LogId { workspace: self.workspace.id().clone(), day: day(), kind, lane }
    }

    /// Segment of one event.
    fn segment(&self, kind: Kind, lane: u8, seq: u64, key: &str, appended_at: &str) -> Segment {
        self.segment_of(kind, lane, seq, &[key], appended_at)
    }

    /// Segment of one event for each key.
    fn segment_of(&self, kind: Kind, lane: u8, seq: u64, keys: &[&str], appended_at: &str) -> Segment {
        let rows = keys.len();
        let key = Column::new("key", Values::Text(keys.iter().copied().collect()));
        let text = |text: &str| Values::Text(vec![text; rows].into_iter().collect());
        let time = || Values::Time(vec![at("2026-06-01T10:00:00Z").micros(); rows]);
        let columns = match kind {
            Kind::Predictions => vec![
                key,
                Column::new("predicted_at", time()),
                Column::new("release", text("v1")),
                Column::new("score", Values::Float(vec![0.75; rows])),
            ],
            _ => vec![key, Column::new("observed_at", time()), Column::new("label", text("1"))],
        };
        let columns = Columns { rows, columns };
        Segment::pack(self.log(kind, lane), seq, at(appended_at), Vec::new(), &columns).unwrap()
    }

    async fn append(&self, kind: Kind, lane: u8, seq: u64, key: &str, appended_at: &str) {
        let segment = self.segment(kind, lane, seq, key, appended_at);
        let segment = Segment { lanes: (lane == 0 && seq == 1).then_some(4), ..segment };
        self.table.put(segment.to_item(), Condition::Absent).await.unwrap();
    }

    fn request(&self, what: Dataset, as_of: Option<&str>, read_version: Option<&str>) -> Request {
        Request::parse(what, &Params { from: DAY, to: DAY, as_of, read_version, ..Params::default() })
            .unwrap()
    }

    async fn ask(&self, what: Dataset, as_of: Option<&str>, read_version: Option<&str>) -> (String, Answer) {
        let mut answer =
            self.query.run(self.workspace.id(), &self.request(what, as_of, read_version)).await.unwrap();
        (csv(&mut answer), answer)
    }

    /// Keys of the predictions of an answer.
    async fn keys(&self, as_of: Option<&str>, read_version: Option<&str>) -> String {
        let (_, answer) = self.ask(Dataset::Events(Kind::Predictions), as_of, read_version).await;
        let keys = answer.frame.column("key").unwrap().str().unwrap().iter();
        keys.map(Option::unwrap).collect::<Vec<_>>().join(" ")
    }
}

fn day() -> Day {
    DAY.parse().unwrap()
}

on_both_engines!(
    World::on:
    read_version_returns_identical_bytes_after_later_appends,
    open_instant_is_answered_as_of_last_closed,
    history_that_came_later_says_so,
    where_append_times_fall_the_longest_prefix_counts,
    day_beyond_memory_is_read_once,
    read_version_belongs_to_its_workspace_and_window,
    unreadable_segment_is_left_out_by_name,
    skipped_segment_is_absent_except_in_read_versions,
    read_version_with_missing_segments_is_refused,
);

async fn read_version_returns_identical_bytes_after_later_appends(world: World) {
    world.append(Kind::Predictions, 0, 1, "a", "2026-06-01T12:00:00Z").await;
    world.append(Kind::Predictions, 0, 2, "b", "2026-06-01T12:00:10Z").await;
    world.append(Kind::Predictions, 3, 1, "c", "2026-06-01T12:00:05Z").await;
    world.append(Kind::Outcomes, 0, 1, "a", "2026-06-01T12:00:05Z").await;
    const THEN: &str = "2026-06-01T12:00:07Z";
    let mut before = Vec::new();
    for what in WHATS {
        for as_of in
            [Some(THEN), None].into_iter().filter(|as_of| as_of.is_some() || what != Dataset::Evaluations)
        {
            let (text, answer) = world.ask(what, as_of, None).await;
            assert_eq!(answer.as_of.map(|as_of| as_of.to_string()).as_deref(), as_of);
            let read_version = answer.read_version.unwrap().to_string();
            let resolved =
                world.query.read_version(world.workspace.id(), &world.request(what, as_of, None)).await;
            assert_eq!(resolved.unwrap().heads, read_version.parse::<ReadVersion>().unwrap().heads);
            before.push((what, as_of, text, read_version));
        }
    }
    assert!(before[0].2.contains("a,") && before[0].2.contains("c,") && !before[0].2.contains("b,"));
    // Later segments, one in a lane of its own, and one with an earlier time: its writer was slow.
    world.append(Kind::Predictions, 0, 3, "d", "2026-06-01T12:30:00Z").await;
    world.append(Kind::Predictions, 1, 1, "e", "2026-06-01T12:00:06Z").await;
    world.append(Kind::Outcomes, 0, 2, "b", "2026-06-01T12:00:06Z").await;
    world.append(Kind::Outcomes, 1, 1, "c", "2026-06-01T12:30:00Z").await;
    for (what, as_of, text, read_version) in &before {
        let (again, answer) = world.ask(*what, None, Some(read_version)).await;
        assert_eq!(&again, text, "{what:?} as of {as_of:?}");
        assert_eq!(&answer.read_version.unwrap().to_string(), read_version);
        let (later, _) = world.ask(*what, None, None).await;
        assert_ne!(&later, text);
    }
    assert_eq!(world.keys(Some("2026-06-01T12:59:00Z"), None).await, "a b d e c");
}

async fn history_that_came_later_says_so(world: World) {
    world.set_now("2026-07-02T00:00:00Z");
    world.append(Kind::Predictions, 0, 1, "a", "2026-07-01T09:00:00Z").await;
    let warnings = async |what, as_of| world.ask(what, as_of, None).await.1.warnings;
    for what in WHATS {
        let said = warnings(what, Some("2026-06-20T00:00:00Z")).await;
        let [said] = &said[..] else { panic!("{what:?}: {said:?}") };
        assert!(said.contains("no prediction of 1 day(s)") && said.contains("2026-07-01T09:00:00"), "{said}");
        // The day was not over yet, or its predictions are known.
        for as_of in [Some("2026-06-01T12:00:00Z"), Some("2026-07-01T10:00:00Z"), None] {
            let said = warnings(what, as_of).await;
            assert!(
                !said.iter().any(|one| one.contains("no prediction of")),
                "{what:?} as of {as_of:?}: {said:?}"
            );
        }
    }
}

async fn open_instant_is_answered_as_of_last_closed(world: World) {
    world.append(Kind::Predictions, 0, 1, "a", "2026-06-01T12:59:00Z").await;
    world.append(Kind::Predictions, 0, 2, "b", "2026-06-01T12:59:40Z").await;
    let closed = at("2026-06-01T13:00:00Z").plus_seconds(-CLOSED_AFTER_SECONDS).to_string();
    for asked in ["2026-06-01T12:59:50Z", "2026-06-01T13:00:00Z", "2100-01-01"] {
        let (_, answer) = world.ask(WHATS[0], Some(asked), None).await;
        assert_eq!(answer.as_of.unwrap().to_string(), closed);
        assert_eq!(answer.frame.height(), 1, "{asked}");
    }
    let before = world.ask(WHATS[1], Some(&closed), None).await.0;
    // A slow writer: it comes after the question, with a time that was still open.
    world.append(Kind::Predictions, 1, 1, "c", "2026-06-01T12:59:45Z").await;
    world.set_now("2026-06-01T14:00:00Z");
    assert_eq!(world.ask(WHATS[1], Some(&closed), None).await.0, before);
    assert_eq!(world.keys(Some("2026-06-01T12:59:50Z"), None).await, "a b c");
}

async fn where_append_times_fall_the_longest_prefix_counts(world: World) {
    for (seq, appended_at) in (1..).zip(["12:00:00Z", "12:00:09Z", "12:00:03Z", "12:00:20Z"]) {
        world.append(Kind::Predictions, 0, seq, &seq.to_string(), &format!("{DAY}T{appended_at}")).await;
    }
    for (as_of, keys) in
        [("12:00:05Z", "1"), ("12:00:09Z", "1 2 3"), ("12:00:20Z", "1 2 3 4"), ("11:00:00Z", "")]
    {
        assert_eq!(world.keys(Some(&format!("{DAY}T{as_of}")), None).await, keys, "{as_of}");
    }
}

async fn day_beyond_memory_is_read_once(world: World) {
    const THEN: &str = "2026-06-01T12:30:00Z";
    let keys: Vec<String> = (0..1_000).map(|key| format!("k{key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let outcomes =
        |seq, keys| world.segment_of(Kind::Outcomes, 0, seq, keys, "2026-06-01T12:00:05Z").to_item();
    let predictions = world.segment_of(Kind::Predictions, 0, 1, &keys, "2026-06-01T12:00:00Z").to_item();
    for item in [predictions, outcomes(1, &keys[..400])] {
        world.table.put(item, Condition::Absent).await.unwrap();
    }
    let at_once = world.ask(Dataset::Evaluations, Some(THEN), None).await.0;
    let of = key::segments_of_kind(world.workspace.id(), day(), Kind::Outcomes);
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let table = Between::new(Arc::clone(&world.table), move |call| {
        if let Call::Query(query) = call
            && query.range.pk == of.pk
            && query.range.from <= of.to
            && query.range.to >= of.from
        {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        None
    });
    let bounds = Bounds { memory: 64 * 1024, ..Bounds::default() };
    let query = Query::new(Arc::new(table), world.clock.clock()).within(bounds);
    let request = world.request(Dataset::Evaluations, Some(THEN), None);
    let mut answer = query.run(world.workspace.id(), &request).await.unwrap();
    assert_eq!(csv(&mut answer), at_once);
    assert_eq!(reads.load(Ordering::Relaxed), 1);
    // The read version gives the answer again after a slow writer has appended.
    world.table.put(outcomes(2, &keys[400..]), Condition::Absent).await.unwrap();
    let read_version = answer.read_version.unwrap().to_string();
    assert_eq!(world.ask(Dataset::Evaluations, None, Some(&read_version)).await.0, at_once);
    assert_ne!(world.ask(Dataset::Evaluations, Some(THEN), None).await.0, at_once);
}

async fn read_version_belongs_to_its_workspace_and_window(world: World) {
    world.append(Kind::Predictions, 0, 1, "a", "2026-06-01T12:00:00Z").await;
    let read_version = world.ask(WHATS[0], None, None).await.1.read_version.unwrap();
    let text = read_version.to_string();
    let refused = |what, from: &str, to: &str| {
        Request::parse(what, &Params { from, to, read_version: Some(&text), ..Params::default() })
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refused(WHATS[0], DAY, "2026-06-02"), "read-version: it is of 2026-06-01 to 2026-06-01");
    assert_eq!(
        refused(Dataset::Joined, DAY, DAY),
        "read-version: it does not say how far outcomes were read"
    );
    let words =
        Params { from: DAY, to: DAY, read_version: Some(&text), as_of: Some(DAY), ..Params::default() };
    assert!(Request::parse(WHATS[0], &words).is_err(), "two times at once");
    assert_eq!(
        refused(Dataset::Rollups, DAY, DAY),
        "read-version: it does not say how far outcomes were read"
    );
    let other =
        ReadVersion { workspace: event::Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(), ..read_version }
            .to_string();
    let request = world.request(WHATS[0], None, Some(&other));
    let error = world.query.run(world.workspace.id(), &request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// Three predictions and outcomes; the second segment of predictions is bad.
async fn with_bad_segment(world: &World) {
    for (seq, key) in (1..).zip(["a", "b", "c"]) {
        let mut segment = world.segment(Kind::Predictions, 0, seq, key, "2026-06-01T12:00:00Z");
        segment.lanes = (seq == 1).then_some(4);
        if key == "b" {
            let middle = segment.data.len() / 2;
            segment.data[middle..].fill(0xff);
        }
        world.table.put(segment.to_item(), Condition::Absent).await.unwrap();
        world.append(Kind::Outcomes, 0, seq, key, "2026-06-01T12:00:00Z").await;
    }
}

async fn unreadable_segment_is_left_out_by_name(world: World) {
    with_bad_segment(&world).await;
    for as_of in [None, Some("2026-06-01T12:30:00Z")] {
        assert_eq!(world.keys(as_of, None).await, "a c");
        for what in WHATS.into_iter().filter(|what| as_of.is_some() || *what != Dataset::Evaluations) {
            let (text, answer) = world.ask(what, as_of, None).await;
            let [warning] = answer.warnings.as_slice() else { panic!("{:?}", answer.warnings) };
            assert!(
                warning.starts_with("segment 2026-06-01/p/00/2 is left out: it cannot be read"),
                "{warning}"
            );
            if what == Dataset::Evaluations {
                assert!(text.contains("v1,2,2,"), "{text}");
            }
            let read_version = answer.read_version.unwrap().to_string();
            let (again, answer) = world.ask(what, None, Some(&read_version)).await;
            assert_eq!((again, answer.warnings.len()), (text, 1));
        }
    }
    // An item that is no segment at all is left out as well.
    let item = world.segment(Kind::Predictions, 0, 4, "d", "2026-06-01T12:00:00Z").to_item();
    let mut bare = table::Item::new(item.key.clone());
    bare = bare.with("v", 99);
    world.table.put(bare, Condition::Absent).await.unwrap();
    world.append(Kind::Predictions, 0, 5, "e", "2026-06-01T12:00:00Z").await;
    assert_eq!(world.keys(None, None).await, "a c e");
    assert_eq!(world.keys(Some("2026-06-01T12:30:00Z"), None).await, "a c e");
}

async fn skipped_segment_is_absent_except_in_read_versions(world: World) {
    with_bad_segment(&world).await;
    world.append(Kind::Predictions, 1, 1, "e", "2026-06-01T12:00:00Z").await;
    let (text, answer) = world.ask(WHATS[0], None, None).await;
    let read_version = answer.read_version.unwrap().to_string();
    let log = world.log(Kind::Predictions, 1);
    let stopped = Stopped { log: log.clone(), seq: 1, reason: "it does not please".into() };
    let letter =
        dead_letters::DeadLetter::new(1, stopped, dead_letters::Refused::Rollup, at("2026-06-01T12:10:00Z"));
    assert!(dead_letters::record(&*world.table, &letter).await.unwrap());
    assert_eq!(world.keys(None, None).await, "a c e", "nobody has skipped it yet");
    dead_letters::skip(&*world.table, &letter).await.unwrap();
    assert_eq!(world.keys(None, None).await, "a c");
    let warnings = world.ask(Dataset::Joined, None, None).await.1.warnings;
    assert!(warnings.contains(&"segment 2026-06-01/p/01/1 is left out: an operator skipped it".to_owned()));
    assert_eq!(world.ask(WHATS[0], None, Some(&read_version)).await.0, text);
    // A segment that only evaluations could not read still has events.
    let stopped = Stopped { log, seq: 1, reason: "no".into() };
    let letter = dead_letters::DeadLetter::new(
        1,
        stopped,
        dead_letters::Refused::Evaluation,
        at("2026-06-01T12:10:00Z"),
    );
    let other = LogId { lane: 0, ..letter.log.clone() };
    let letter = dead_letters::DeadLetter { log: other, ..letter };
    dead_letters::record(&*world.table, &letter).await.unwrap();
    dead_letters::skip(&*world.table, &letter).await.unwrap();
    assert_eq!(world.keys(None, None).await, "a c");
    assert_eq!(world.ask(Dataset::Joined, None, None).await.1.frame.height(), 1);
}

async fn read_version_with_missing_segments_is_refused(world: World) {
    world.append(Kind::Predictions, 0, 1, "a", "2026-06-01T12:00:00Z").await;
    world.append(Kind::Predictions, 0, 2, "b", "2026-06-01T12:00:00Z").await;
    let read_version = world.ask(WHATS[0], None, None).await.1.read_version.unwrap().to_string();
    let last = world.segment(Kind::Predictions, 0, 2, "b", "2026-06-01T12:00:00Z").to_item().key;
    world.table.delete(&last, Condition::None).await.unwrap();
    let request = world.request(WHATS[0], None, Some(&read_version));
    let error = world.query.run(world.workspace.id(), &request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let catalog = Catalog::new(Arc::clone(&world.table));
    world.set_now("2026-09-01T00:00:00Z");
    catalog.set_retention(world.workspace.id(), Some(30), world.clock.now()).await.unwrap();
    let error = world.query.run(world.workspace.id(), &request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}
