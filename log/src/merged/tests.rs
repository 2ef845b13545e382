use event::{Day, Id};
use proptest::prelude::*;

use super::*;
use crate::{
    audit::Author,
    authors::Authors,
    batch::{BatchId, BatchPart},
};

fn log() -> LogId {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let day: Day = "2026-06-01".parse().unwrap();
    LogId { workspace, day, kind: Kind::Predictions, lane: 0 }
}

fn texts(values: &[&str]) -> Values {
    Values::Text(values.iter().copied().collect())
}

/// A number that looks as if it were by chance.
fn chance(seq: u64, of: u64) -> u64 {
    let mixed = (seq ^ of << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// A segment of one prediction, appended by itself without a key, about a minute after the one before.
fn single(seq: u64) -> Segment {
    let micros = log().day.start().micros() + seq as i64 * 60_000_000 + chance(seq, 1) as i64 % 30_000_000;
    let at = Timestamp::from_micros(micros).unwrap();
    let number = |of, scale: f64| Values::Float(vec![(chance(seq, of) % 10_000) as f64 / scale]);
    let columns = Columns {
        rows: 1,
        columns: vec![
            Column::new("key", texts(&[&format!("{:08X}", chance(seq, 2) as u32)])),
            Column::new("predicted_at", Values::Time(vec![micros - chance(seq, 3) as i64 % 50_000])),
            Column::new("release", texts(&["v2"])),
            Column::new("score", number(4, 1e4)),
            Column::new("tag.carrier", texts(&[["UA", "AA", "DL"][chance(seq, 5) as usize % 3]])),
            Column::new("feature.distance", number(6, 1.0)),
            Column::new("feature.delay", number(7, 10.0)),
            Column::new("feature.wind", number(8, 100.0)),
            Column::new("feature.load", number(9, 1e4)),
        ],
    };
    let batch = name_of_content(&log(), &columns).unwrap();
    let parts = vec![BatchPart { batch, first: 0, rows: 1 }];
    let request = Some(format!("K3bXo1p9Zq-{}", 100 + seq));
    let author = Author { request, ..Author::named("system:nightly") };
    let segment = Segment::pack(log(), seq, at, parts, &columns).unwrap();
    Segment { authors: Authors::of(&[author.into()]), ..segment }
}

fn singles(count: u64) -> Vec<Segment> {
    (1..=count).map(single).collect()
}

#[test]
fn the_stored_form_stays_as_it_is() {
    let mut segments = singles(3);
    segments[1].batches[0].batch = BatchId(*b"0123456789abcdef");
    let opening = Segment { lanes: Some(4), ..Segment::opening(log(), 4, Timestamp::default()).unwrap() };
    segments.insert(0, opening);
    let segments: Vec<_> =
        segments.into_iter().zip(1..).map(|(segment, seq)| Segment { seq, ..segment }).collect();
    let item = merge(&segments).unwrap();
    insta::assert_snapshot!(table::text::line(&item).unwrap());
    assert_eq!(span(&item), Some((log(), 1, 4)));
    assert_eq!(split(&item).unwrap(), segments);
    // An Almanac that does not know it takes it for no segment.
    assert!(Segment::from_item(item).is_err());
}

#[test]
fn what_cannot_be_made_again_is_not_merged() {
    let segments = singles(4);
    assert!(merge(&segments).is_some());
    assert!(merge(&[]).is_none());
    assert!(merge(&[segments[0].clone(), segments[2].clone()]).is_none(), "a hole");
    let with = |change: fn(&mut Segment)| {
        let mut segments = segments.clone();
        change(&mut segments[2]);
        merge(&segments)
    };
    assert!(with(|segment| segment.log.lane = 1).is_none());
    assert!(with(|segment| segment.releases.clear()).is_none(), "what its item says does not follow from it");
    assert!(with(|segment| segment.times.0 -= 1).is_none());
    assert!(with(|segment| segment.data.truncate(20)).is_none(), "damaged");
    // One name of two types.
    assert!(
        with(|segment| {
            let columns = Columns { rows: 1, columns: vec![Column::new("score", texts(&["high"]))] };
            let (log, batches) = (segment.log.clone(), segment.batches.clone());
            *segment = Segment::pack(log, 3, segment.appended_at, batches, &columns).unwrap();
        })
        .is_none()
    );
}

/// A trickle of single events costs three bytes a row more than the same rows in one batch, for the time of each, and 16 more for the name of a batch
/// that has an idempotency key.
#[test]
fn a_trickle_costs_little_more_than_one_batch() {
    for (count, is_keyed, most) in [(1_000, false, 1.2), (300, false, 1.25), (1_000, true, 2.4)] {
        let mut segments = singles(count);
        let columns: Vec<Columns> =
            segments.iter().map(|segment| segment.unpack(|_| true).unwrap()).collect();
        if is_keyed {
            let name = |seq| (chance(seq, 10) as u128) << 64 | chance(seq, 11) as u128;
            segments.iter_mut().for_each(|one| one.batches[0].batch = BatchId(name(one.seq).to_be_bytes()));
        }
        let all = Columns::concat(&columns.iter().collect::<Vec<_>>());
        let parts = vec![BatchPart { batch: BatchId([7; 16]), first: 0, rows: all.rows }];
        let batch = Segment::pack(log(), 1, Timestamp::default(), parts, &all).unwrap();
        let batch = Segment { authors: segments[0].authors.clone(), ..batch }.item_bytes() as f64;
        let apart = segments.iter().map(Segment::item_bytes).sum::<usize>() as f64 / batch;
        let merged = merge(&segments).unwrap().size() as f64 / batch;
        let of_row = batch / count as f64;
        println!(
            "{count} rows, keyed {is_keyed}: {of_row:.1} bytes a row; apart {apart:.2}x, merged {merged:.2}x"
        );
        assert!(apart > 5.0 && merged <= most, "{count} {is_keyed}: {merged:.2}");
    }
}

#[test]
fn keys_are_erased_in_it() {
    let segments = singles(6);
    let item = merge(&segments).unwrap();
    let key = segments[3].unpack(|_| true).unwrap().column("key").unwrap().text(0).unwrap().to_owned();
    let pseudonyms = Pseudonyms::from([(key, "gone".to_owned())]);
    for (counted, rows) in [(0, 1), (3, 1), (4, 0)] {
        let erased = erase(item.clone(), (&pseudonyms, false), counted).unwrap().unwrap();
        assert_eq!(erased.rows, rows);
        let Write::Put(again, condition) = erased.write else { panic!("{:?}", erased.write) };
        let is = Condition::Equals(FROM, 1.into());
        assert_eq!(condition, Condition::All(vec![is, Condition::Without(VER)]));
        assert_eq!(again.int(VER).unwrap(), 1);
        let split = split(&again).unwrap();
        let expected = erased::erase(&segments[3], &pseudonyms, false).unwrap().unwrap().0;
        let bare = |segment: &Segment| Segment { data: Vec::new(), ..segment.clone() };
        assert_eq!(bare(&split[3]), bare(&expected));
        assert_eq!(split[3].unpack(|_| true).unwrap(), expected.unpack(|_| true).unwrap());
        assert_eq!(split[2], segments[2]);
        assert!(erase(again, (&pseudonyms, false), 0).unwrap().is_none());
    }
}

#[test]
fn what_is_damaged_is_an_error() {
    let item = merge(&singles(5)).unwrap();
    for name in [PARTS, EVENTS] {
        let bytes = item.bytes(name).unwrap().to_vec();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x41;
            _ = split(&item.clone().with(name, other));
            assert!(split(&item.clone().with(name, bytes[..at].to_vec())).is_err(), "{name} {at}");
        }
    }
    assert!(split(&item.clone().with(FROM, 2)).is_err());
    assert!(split(&item.with("v", 4)).is_err());
}

prop_compose! {
    fn any_segment()(
        rows in 0usize..4, columns in 0usize..5, nulls in any::<[bool; 4]>(), seed in any::<u64>(),
        gap in 0i64..1_000_000_000, batches in 0usize..3, has_author in any::<bool>(), is_chunk in any::<bool>(),
        ver in 0i64..3,
    ) -> (Segment, i64) {
        let valid: Vec<bool> = nulls[..rows].to_vec();
        let value = |row: usize| seed.wrapping_mul(row as u64 + 3) % 11;
        let names = ["score", "tag.b", "release", "predicted_at", "tag.a"];
        let column = |name: &&str| {
            let values = match *name {
                "score" => Values::Float((0..rows).map(|row| if value(row) == 1 { f64::NAN } else { value(row) as f64 }).collect()),
                "predicted_at" => Values::Time((0..rows).map(|row| value(row) as i64).collect()),
                _ => Values::Text((0..rows).map(|row| ["x", "yy", ""][value(row) as usize % 3]).collect()),
            };
            Column { name: (*name).to_owned(), values, valid: Some(valid.clone()).filter(|valid| valid.contains(&false)) }
        };
        let shift = seed as usize % names.len();
        let mut names = names.to_vec();
        names.rotate_left(shift);
        let columns = Columns { rows, columns: names[..columns].iter().map(column).collect() };
        let parts: Vec<_> = (0..batches).map(|at| BatchPart { batch: BatchId([(at as u8).wrapping_add(seed as u8); 16]), first: at * 3, rows: 1 }).collect();
        let authors: Vec<_> = parts.iter().map(|_| Author::named("user:ann").into()).collect();
        let indexes = if is_chunk && !parts.is_empty() { parts.iter().map(|part| vec![part.first as u32]).collect() } else { Vec::new() };
        let segment = Segment::pack(log(), 1, Timestamp::default(), parts, &columns).unwrap();
        let authors = if has_author { Authors::of(&authors) } else { Authors::default() };
        (Segment { indexes, authors, ver, erased: ver as u64, ..segment }, gap)
    }
}

proptest! {
    #[test]
    fn whatever_is_merged_is_split_into_the_same(all in prop::collection::vec(any_segment(), 1..20), first in 1u64..50) {
        let mut at = Timestamp::default();
        let segments: Vec<Segment> = all.into_iter().zip(first..).map(|((segment, gap), seq)| {
            at = Timestamp::from_micros(at.micros() + gap).unwrap();
            let known_at = (gap % 3 == 0).then(|| Timestamp::from_micros(at.micros() - gap).unwrap());
            Segment { seq, appended_at: at, known_at, ..segment }
        }).collect();
        let item = merge(&segments).expect("they can be merged");
        let again = split(&item).unwrap();
        let bare = split_bare(&item).unwrap();
        for ((one, other), bare) in segments.iter().zip(&again).zip(&bare) {
            prop_assert_eq!(one.unpack(|_| true).unwrap(), other.unpack(|_| true).unwrap());
            prop_assert_eq!(&Segment { data: Vec::new(), ..one.clone() }, bare);
            prop_assert_eq!(&Segment { data: Vec::new(), ..other.clone() }, bare);
        }
        prop_assert_eq!(again.len(), segments.len());
        // And what was merged is merged again.
        prop_assert_eq!(merge(&again), Some(item));
    }
}
