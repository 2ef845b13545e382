//! Building and reading the keys of segments.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use bench::data::Data;
use criterion::{Criterion, criterion_group, criterion_main};
use event::{Id, Kind, Timestamp};
use log::key::{self, LogId};

fn keys(criterion: &mut Criterion) {
    let workspace = Id::new(Timestamp::default());
    let log = LogId { workspace, day: Data::new(30).day(3), kind: Kind::Predictions, lane: 3 };
    let built = key::segment(&log, 1_234);
    criterion.bench_function("key/segment", |bencher| {
        bencher.iter(|| key::segment(black_box(&log), black_box(1_234)));
    });
    criterion.bench_function("key/parse", |bencher| {
        bencher.iter(|| key::parse_segment(black_box(&built)));
    });
}

criterion_group!(benches, keys);
criterion_main!(benches);
