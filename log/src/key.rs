//! Keys of the table. All are built and parsed in this module. A key is a total function of its subject; names and ids
//! are checked ([`event::id`]), so none contains a separator.

use std::fmt;

use event::{Day, Id, Kind};
use table::{Key, KeyRange, key::END};

mod access;
mod alert;
mod audit;
mod entity;
mod filter;
mod live;
mod moved;
mod projector;
mod retention;
mod review;
mod run;
mod undone;
mod unmatched;
mod usage;
mod vintage;

pub use access::*;
pub use alert::*;
pub use audit::*;
pub use entity::*;
pub use filter::*;
pub use live::*;
pub use moved::*;
pub use projector::*;
pub use retention::*;
pub use review::*;
pub use run::*;
pub use undone::*;
pub use unmatched::*;
pub use usage::*;
pub use vintage::*;

/// A log: all events of one workspace, day, kind and lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    /// The workspace.
    pub workspace: Id,
    /// The day of the events.
    pub day: Day,
    /// Kind of the events.
    pub kind: Kind,
    /// The lane.
    pub lane: u8,
}

impl LogId {
    /// Returns its name within a day, such as `p/00`, as used in `applied`.
    pub fn name(&self) -> String {
        format!("{}/{:02}", self.kind.letter(), self.lane)
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "day#{}/{}", self.day, self.name())
    }
}

/// Partition of `GSI1` with the workspaces of a category, by age.
fn workspaces_of(category: &Id) -> String {
    format!("wc#{category}/w")
}

/// Partition with a workspace, its models, configurations, releases and free counters.
pub fn workspace_page(workspace: &Id) -> String {
    format!("w#{workspace}")
}

/// Parses the workspace of a partition of [`workspace_page`].
pub fn parse_workspace_page(pk: &str) -> Option<Id> {
    Id::parse(pk.strip_prefix("w#")?).ok()
}

/// Parses the workspace of a partition, and the rest after its id, such as `/day`.
pub fn parse_workspace_part(pk: &str) -> Option<(Id, &str)> {
    let rest = pk.strip_prefix("w#")?;
    let (id, part) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((Id::parse(id).ok()?, part))
}

/// Position of a release in `GSI1`: the releases of a model, by age.
pub fn release_index(model: &Id, release: &Id) -> (String, String) {
    (format!("m#{model}/r"), format!("r#{release}"))
}

/// Unique-name item: keeps a name unique among the children of one type under a parent (a key such as `w#<id>`, or ``
/// for the root). It holds the id of the entity with the name.
fn name_guard(parent: &str, kind: &str, name: &str) -> Key {
    Key::new(format!("@name#{parent}/{kind}"), name)
}

/// Key for testing whether the table answers. It is among the names of categories, which every reader of the catalog
/// may read, and no category can have its name.
pub fn probe() -> Key {
    name_guard("", "wc", "@")
}

/// Key that a service writes to test whether the table takes writes.
pub fn write_probe() -> Key {
    Key::new("sys/probe", "write")
}

/// The partition of the segments of a workspace.
fn day_partition(workspace: &Id) -> String {
    format!("w#{workspace}/day")
}

/// True if a partition holds segments.
pub fn is_of_logs(pk: &str) -> bool {
    pk.strip_suffix("/day").and_then(|pk| pk.strip_prefix("w#")).is_some_and(|id| Id::parse(id).is_ok())
}

/// The greatest number of a segment: ten digits.
pub const MAX_SEQ: u64 = 9_999_999_999;

/// The segment `seq` of a log; the first is 1.
pub fn segment(log: &LogId, seq: u64) -> Key {
    Key::new(day_partition(&log.workspace), format!("{log}/{seq:010}"))
}

/// The segments of a log from `first` on.
pub fn segments_from(log: &LogId, first: u64) -> KeyRange {
    KeyRange {
        pk: day_partition(&log.workspace),
        from: format!("{log}/{first:010}"),
        to: format!("{log}/{END}"),
    }
}

/// The segments of a log from `first` to `last`.
pub fn segments_between(log: &LogId, first: u64, last: u64) -> KeyRange {
    KeyRange { to: format!("{log}/{last:010}"), ..segments_from(log, first) }
}

/// The segments of one day and kind, of all lanes.
pub fn segments_of_kind(workspace: &Id, day: Day, kind: Kind) -> KeyRange {
    KeyRange::prefix(day_partition(workspace), &format!("day#{day}/{}/", kind.letter()))
}

/// All segments of a workspace after those of `log`, for skipping from log to log.
pub fn segments_after(log: &LogId) -> KeyRange {
    KeyRange { pk: day_partition(&log.workspace), from: format!("{log}/{END}"), to: format!("day#{END}") }
}

/// All segments of a workspace from the day `first` on.
pub fn segments_since(workspace: &Id, first: Day) -> KeyRange {
    KeyRange { from: format!("day#{first}"), ..segments(workspace) }
}

/// All segments of a workspace after those of a kind on a day.
pub fn segments_after_day(workspace: &Id, day: Day, kind: Kind) -> KeyRange {
    KeyRange { from: format!("day#{day}/{}/{END}", kind.letter()), ..segments(workspace) }
}

/// Range with the segments of a kind on the days after one and before another, either of which may be missing; it also
/// contains segments of other kinds.
pub fn segments_of_kind_between(
    workspace: &Id,
    kind: Kind,
    after: Option<Day>,
    before: Option<Day>,
) -> KeyRange {
    let all = match after {
        Some(day) => segments_after_day(workspace, day, kind),
        None => segments(workspace),
    };
    match before {
        Some(day) => KeyRange { to: format!("day#{day}/{}/", kind.letter()), ..all },
        None => all,
    }
}

/// All segments of the days from `first` to `last`.
pub fn segments_of_days(workspace: &Id, first: Day, last: Day) -> KeyRange {
    KeyRange { pk: day_partition(workspace), from: format!("day#{first}/"), to: format!("day#{last}/{END}") }
}

/// All segments of a day.
pub fn segments_of_day(workspace: &Id, day: Day) -> KeyRange {
    KeyRange::prefix(day_partition(workspace), &format!("day#{day}/"))
}

/// All segments of a workspace.
pub fn segments(workspace: &Id) -> KeyRange {
    KeyRange::prefix(day_partition(workspace), "day#")
}

/// Parses the log and number of a segment's key; `None` for another key.
pub fn parse_segment(key: &Key) -> Option<(LogId, u64)> {
    parse_place(key.pk.strip_prefix("w#")?.strip_suffix("/day")?, &key.sk)
}

/// Parses the log and number of a segment as users write it: day, kind, lane and number, such as `2013-06-01/p/00/42`.
pub fn parse_segment_name(workspace: &Id, name: &str) -> Option<(LogId, u64)> {
    let (log, seq) = name.rsplit_once('/')?;
    let seq: u64 = seq.parse().ok().filter(|seq| *seq <= MAX_SEQ)?;
    parse_place(workspace.as_str(), &format!("day#{log}/{seq:010}"))
}

/// Parses the log and number of a sort key in a workspace.
fn parse_place(workspace: &str, sk: &str) -> Option<(LogId, u64)> {
    let workspace = Id::parse(workspace).ok()?;
    let mut parts = sk.strip_prefix("day#")?.split('/');
    let day = parts.next()?.parse().ok()?;
    let kind = Kind::from_letter(parts.next()?)?;
    let lane = parts.next().filter(|lane| lane.len() == 2)?.parse().ok()?;
    let seq = parts.next().filter(|seq| seq.len() == 10)?.parse().ok()?;
    parts.next().is_none().then_some((LogId { workspace, day, kind, lane }, seq))
}

/// Parses the log of a workspace from its displayed form, such as `day#2013-06-01/p/03`.
pub fn parse_log(workspace: &Id, text: &str) -> Option<LogId> {
    parse_segment(&Key::new(day_partition(workspace), format!("{text}/{:010}", 1))).map(|(log, _)| log)
}

/// Number of partitions of idempotency records: each takes about 1,000 writes a second.
const BATCH_PARTITIONS: u32 = 256;

/// Idempotency record of a batch of a kind.
pub fn batch(workspace: &Id, kind: Kind, idempotency_key: &str) -> Key {
    let sk = format!("{}/key/{idempotency_key}", kind.letter());
    let bucket = crc32fast::hash(sk.as_bytes()) % BATCH_PARTITIONS;
    Key::new(format!("w#{workspace}/batch/{bucket:02x}"), sk)
}

/// Record of a chunk of a file, by the digest of its bytes and the group of days.
pub fn chunk(workspace: &Id, kind: Kind, digest: &str, group: i32) -> Key {
    let sk = format!("{}/chunk/{digest}/{group}", kind.letter());
    let bucket = crc32fast::hash(sk.as_bytes()) % BATCH_PARTITIONS;
    Key::new(format!("w#{workspace}/batch/{bucket:02x}"), sk)
}

/// The layout of the table ([`crate::layout`]).
pub fn layout() -> Key {
    Key::new("sys/layout", "table")
}

/// Partition of a lane; that of lane 0 belongs to the workspace.
pub fn lane_partition(workspace: &Id, lane: u8) -> String {
    format!("{}/{lane:02}", day_partition(workspace))
}

/// Parses the partition that one of [`lane_partition`] extends.
pub fn parse_lane_partition(pk: &str) -> Option<&str> {
    let (logs, lane) = pk.rsplit_once('/')?;
    let is_lane = lane.len() == 2 && lane.bytes().all(|byte| byte.is_ascii_digit());
    (is_lane && is_of_logs(logs)).then_some(logs)
}

/// Returns the log that contains a sort key of a partition of segments, if any.
pub fn log_at(pk: &str, sk: &str) -> Option<LogId> {
    // `day#2013-06-01/p/03/`
    const NAME: usize = 20;
    parse_segment(&Key::new(pk, format!("{}{:010}", sk.get(..NAME)?, 1))).map(|(log, _)| log)
}

/// Returns the log that contains both ends of a range, if it is one.
pub fn log_of_range(range: &KeyRange) -> Option<LogId> {
    log_at(&range.pk, &range.from).filter(|log| log_at(&range.pk, &range.to).as_ref() == Some(log))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{projector::rollup_partition, *};

    fn log() -> LogId {
        LogId {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: "2013-06-01".parse().unwrap(),
            kind: Kind::Predictions,
            lane: 3,
        }
    }

    #[test]
    fn golden_strings() {
        let (w, day) = (log().workspace, log().day);
        let other = Id::parse("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").unwrap();
        let category = EntityId::Category(w.clone());
        let (gsi1pk, gsi1sk) = release_index(&w, &other);
        let children: [fn(Id, Id) -> EntityId; 4] =
            [EntityId::Model, EntityId::Configuration, EntityId::Snapshot, EntityId::Release];
        let lines = [
            category.key().to_string(),
            EntityId::Workspace(w.clone()).key().to_string(),
            children.map(|of| of(w.clone(), other.clone()).key().to_string()).join("\n"),
            format!("{gsi1pk} / {gsi1sk}"),
            counter(&w, &Counted::Workspace, &day.month()).to_string(),
            counter(&w, &Counted::Release("v1".into()), &day.month()).to_string(),
            guard(None, EntityKind::Category, "flights").to_string(),
            guard(Some(&EntityId::Workspace(w.clone())), EntityKind::Model, "late-arrival").to_string(),
            segment(&log(), 42).to_string(),
            batch(&w, Kind::Predictions, "nightly-2013-06-01").to_string(),
            chunk(&w, Kind::Predictions, "0af1", 61).to_string(),
            alert_rules(&w).to_string(),
            quota_used(&w, day, &w).to_string(),
            consumer(&w, "billing").to_string(),
            format!("{}\n{}", retention(&w), expired(&w, day)),
            rollup(&w, 1, day).to_string(),
            evaluation(&w, 1, day).to_string(),
            evaluation_part(&w, 1, day, Generation { ver: 7, digest: 0xab }, 3).to_string(),
            slice_part(&w, 1, day, Generation { ver: 7, digest: 0xab }, 3).to_string(),
            vintage_part(&w, day, 24, VintagePart { digest: 0xab, part: 3 }).to_string(),
            format!("{}\n{}", vintage(&w, day, 24), vintage_until(&w)),
            breakdown(&w, 1, day, Breakdown::of(By::Release, "v1")).to_string(),
            breakdown(&w, 1, day, Breakdown::of(By::Metric, "latency")).to_string(),
            breakdown(&w, 1, day, Breakdown::of(By::Tag, "carrier")).to_string(),
            breakdown(&w, 1, day, Breakdown { by: By::Tag, bucket: 0 }).to_string(),
            features(&w, 1, day).to_string(),
            breakdown(&w, 1, day, Breakdown::of(By::Feature, "distance")).to_string(),
            active(&w).to_string(),
            dead_letter(&log(), 2, 42).to_string(),
            unwritten(&w, 2, day, OfDay::Evaluation).to_string(),
            undone(&w, 2, OfWorkspace::Expiry).to_string(),
            lease("2026-01-01T00:00:00.000", "shardId-1").to_string(),
            worker("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").to_string(),
            format!("{}\n{}", sweep_cursor(), full_sweep()),
            format!("{}\n{}\n{}", write_probe(), restored(), layout()),
            lane_partition(&w, 3),
            [EntityId::User, EntityId::Group, EntityId::System]
                .map(|of| of(w.clone()).key().to_string())
                .join("\n"),
            pointer(&w).to_string(),
            member(&w, &EntityId::User(other.clone())).to_string(),
            membership(&EntityId::System(other.clone()), &w).to_string(),
            grant(&Scope::Workspace(w.clone()), &EntityId::System(other.clone())).to_string(),
            granted(&EntityId::System(other.clone()), &Scope::Workspace(w.clone())).to_string(),
            grant(&Scope::Category(w.clone()), &EntityId::User(other.clone())).to_string(),
            granted(&EntityId::User(other.clone()), &Scope::Category(w.clone())).to_string(),
            grant(&Scope::Server, &EntityId::Group(other.clone())).to_string(),
            granted(&EntityId::Group(other.clone()), &Scope::Server).to_string(),
            token(&[0xab; 32]).to_string(),
            token_of(&EntityId::User(w.clone()), &other).to_string(),
            tokens_made(&EntityId::User(w.clone())).to_string(),
            format!("{}\n{}", session(&[0xab; 32], 7), access()),
            audit_record(&AuditLog::Workspace(w.clone()), 7).to_string(),
            audit_record(&AuditLog::Server, 7).to_string(),
            free_counter(&EntityId::Model(w.clone(), other.clone()), "views").to_string(),
            format!("{}\n{}", activity(&w, &other), answered(&other, day, &w, "june")),
            format!("{:?}", entity_index(EntityKind::User, None, &w)),
            format!("{:?}", entity_index(EntityKind::Workspace, Some(&category), &other)),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn export_leaves_behind_only_process_items() {
        let w = log().workspace;
        for key in [lease("s", "1"), worker("w"), sweep_cursor(), full_sweep(), write_probe(), restored()] {
            assert!(stays_behind(&key), "{key}");
        }
        for key in [
            segment(&log(), 1),
            rollup(&w, 1, log().day),
            counted_time(),
            layout(),
            access(),
            audit_record(&AuditLog::Server, 1),
        ] {
            assert!(!stays_behind(&key), "{key}");
        }
    }

    #[test]
    fn malformed_segment_keys_are_not_parsed() {
        let good = segment(&log(), 42);
        assert_eq!(parse_segment(&good), Some((log(), 42)));
        for sk in [
            "day#2013-06-01",
            "day#2013-06-31/p/03/0000000042",
            "day#2013-06-01/x/03/0000000042",
            "day#2013-06-01/p/3/0000000042",
            "day#2013-06-01/p/03/42",
            "day#2013-06-01/p/03/0000000042/x",
        ] {
            assert_eq!(parse_segment(&Key::new(good.pk.clone(), sk)), None, "{sk}");
        }
        assert_eq!(parse_log(&log().workspace, &log().to_string()), Some(log()));
        assert_eq!(parse_log(&log().workspace, "day#2013-06-01/p"), None);
        assert_eq!(parse_segment(&rollup(&log().workspace, 1, log().day)), None);
    }

    #[test]
    fn projections_are_parsed_as_what_they_are() {
        let (w, day) = (log().workspace, log().day);
        let tag = Breakdown::of(By::Tag, "carrier");
        let generation = Generation { ver: 12, digest: u64::MAX };
        for (key, expected) in [
            (rollup(&w, 2, day), Projection::Rollup),
            (evaluation(&w, 2, day), Projection::Evaluation),
            (evaluation_part(&w, 2, day, generation, 99), Projection::EvaluationPart(generation, 99)),
            (breakdown(&w, 2, day, tag), Projection::Breakdown(tag)),
            (features(&w, 2, day), Projection::Features),
        ] {
            assert_eq!(parse_projection(&key).unwrap(), (day, expected));
            let range = projections(&w, 2, day, day);
            assert!(range.from <= key.sk && key.sk <= range.to && range.pk == key.pk);
        }
        let slice = slice_part(&w, 2, day, generation, 99);
        assert_eq!(parse_slice(&slice), Some((day, generation, 99)));
        assert_eq!(parse_slice(&evaluation_part(&w, 2, day, generation, 99)), None);
        let (range, window) = (slices_between(&w, 2, day, day), projections(&w, 2, day, day));
        assert!(range.from <= slice.sk && slice.sk <= range.to && range.pk == slice.pk);
        assert!(slice.sk > window.to, "a window is without them");
        let feature = Breakdown::of(By::Feature, "distance");
        let (key, range) = (breakdown(&w, 2, day, feature), features_between(&w, 2, day, day));
        assert_eq!(parse_projection(&key).unwrap(), (day, Projection::Breakdown(feature)));
        assert!(range.from <= key.sk && key.sk <= range.to && range.pk == key.pk);
        for sk in [
            "day#2013-06-31",
            "day#2013-06-01/",
            "day#2013-06-01/eval/00",
            "day#2013-06-01/eval/0000000001-00000000000000ab",
            "day#2013-06-01/eval/0000000001-00000000000000ab/1",
            "day#2013-06-01/eval/0000000001-ab/00001",
            "day#2013-06-01/eval/0000000001-00000000000000ab/00001/x",
            "day#2013-06-01/tag",
            "day#2013-06-01/tag/0",
            "day#2013-06-01/tag/0A",
            "day#2013-06-01/tag/+a",
            "day#2013-06-01/tag/00/00",
            "day#2013-06-01/carrier/00",
        ] {
            assert!(parse_projection(&Key::new(rollup_partition(&w, 1), sk)).is_err(), "{sk}");
        }
    }

    #[test]
    fn keys_of_the_projector_are_parsed() {
        assert_eq!(parse_active(&active(&log().workspace)), Some(log().workspace));
        assert_eq!(parse_active(&segment(&log(), 1)), None);
        assert_eq!(parse_segment_name(&log().workspace, "2013-06-01/p/03/42"), Some((log(), 42)));
        assert_eq!(parse_segment_name(&log().workspace, "2013-06-01/p/03"), None);
        assert_eq!(parse_dead_letter(&dead_letter(&log(), 7, 42)), Some((log(), 42, 7)));
        assert_eq!(parse_dead_letter(&segment(&log(), 42)), None);
        for what in OfDay::ALL {
            let key = unwritten(&log().workspace, 7, log().day, what);
            assert_eq!(parse_unwritten(&key), Some((log().workspace, 7, log().day, what)));
            assert_eq!(parse_dead_letter(&key), None);
        }
        assert_eq!(parse_unwritten(&dead_letter(&log(), 7, 42)), None);
        for what in OfWorkspace::ALL {
            let key = undone(&log().workspace, 7, what);
            assert_eq!(parse_undone(&key), Some((log().workspace, 7, what)));
            assert_eq!((parse_unwritten(&key), parse_dead_letter(&key)), (None, None));
        }
        assert_eq!(parse_undone(&dead_letter(&log(), 7, 42)), None);
        assert_eq!(parse_lease(&lease("s", "a/b")), Some("a/b"));
        assert_eq!(parse_lease(&worker("shard#1")), None);
    }

    #[test]
    fn entity_ids_are_parsed_from_keys_and_text() {
        let (w, other) = (log().workspace, Id::parse("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").unwrap());
        for kind in EntityKind::ALL {
            let within = (kind.parent() == Some(EntityKind::Workspace)).then(|| w.clone());
            let entity = EntityId::new(kind, other.clone(), within).unwrap();
            assert_eq!(EntityId::of_key(&entity.key()), Some(entity.clone()));
            assert_eq!(parse_id(&entity.to_string()), Some((Some(kind), other.clone())));
        }
        assert_eq!(EntityId::new(EntityKind::Model, other.clone(), None), None);
        for key in [
            member(&w, &EntityId::User(other.clone())),
            grant(&Scope::Workspace(w.clone()), &EntityId::User(other.clone())),
            counter(&w, &Counted::Workspace, "2013-06"),
            segment(&log(), 1),
        ] {
            assert_eq!(EntityId::of_key(&key), None, "{key}");
        }
        assert_eq!(parse_id(other.as_str()), Some((None, other.clone())));
        assert_eq!(parse_id("x_2NBs0tD5Ihm2PVFzM3kZvMYdQX9"), None);
        let june = answered(&other, log().day, &w, "june");
        assert_eq!(parse_answered(&june), Some((log().day, w.clone(), "june")));
        assert_eq!(parse_answered(&activity(&other, &w)), None);
        let counter = free_counter(&EntityId::Group(w.clone()), "a/b");
        assert_eq!(parse_free_counter(&counter.sk), Some(((EntityKind::Group, w), "a/b")));
    }

    proptest! {
        #[test]
        fn segment_keys_round_trip_and_sort_in_order(
            a in (0i32..40_000, 0usize..4, 0u8..16, 1u64..9_999_999_999),
            b in (0i32..40_000, 0usize..4, 0u8..16, 1u64..9_999_999_999),
        ) {
            let make = |(day, kind, lane, seq): (i32, usize, u8, u64)| {
                let day = event::Timestamp::from_micros(i64::from(day) * event::time::DAY_MICROS).unwrap().day();
                (LogId { day, kind: Kind::ALL[kind], lane, ..log() }, seq)
            };
            let (x, y) = (make(a), make(b));
            let (kx, ky) = (segment(&x.0, x.1), segment(&y.0, y.1));
            prop_assert_eq!(parse_segment(&kx), Some(x.clone()));
            let letters = |log: &LogId, seq: u64| (log.day, log.kind.letter(), log.lane, seq);
            prop_assert_eq!(kx.sk.cmp(&ky.sk), letters(&x.0, x.1).cmp(&letters(&y.0, y.1)));
        }
    }

    #[test]
    fn only_lane_partitions_are_parsed_as_such() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let log = LogId {
            workspace: workspace.clone(),
            day: "2013-06-01".parse().unwrap(),
            kind: Kind::Outcomes,
            lane: 3,
        };
        let pk = lane_partition(&workspace, 3);
        assert_eq!(pk, "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/day/03");
        assert_eq!(parse_lane_partition(&pk), Some(segment(&log, 1).pk.as_str()));
        for other in [
            segment(&log, 1).pk,
            batch(&workspace, Kind::Outcomes, "k").pk,
            format!("{pk}/03"),
            "a/03".into(),
        ] {
            assert_eq!(parse_lane_partition(&other), None, "{other}");
        }
        assert_eq!(log_of_range(&segments_between(&log, 3, 9)), Some(log.clone()));
        assert_eq!(log_of_range(&segments_from(&log, 3)), Some(log.clone()));
        for range in
            [segments_after(&log), segments_of_kind(&workspace, log.day, log.kind), segments(&workspace)]
        {
            assert_eq!(log_of_range(&range), None, "{range:?}");
        }
    }
}
