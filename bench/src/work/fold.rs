//! Folding a backlog: segments unpacked and folded into rollups, beside only unpacking them.

use ::fold::{
    Delta, LogSegment,
    rollup::{Folding, Merge},
};
use event::Kind;
use log::{scan, segment_item::Segment};
use table::Table;
use tokio::time::Instant;

use crate::{
    context::{Context, Opened},
    line::Line,
    rounds::{Readings, Side, interleave, reading},
};

/// Kinds of the events.
const KINDS: [Kind; 2] = [Kind::Predictions, Kind::Outcomes];
/// Maximum number of events of the backlog: their segments are held in memory.
const MAX_EVENTS: usize = 4_000_000;

/// Reads the segments of the first days into memory, up to about [`MAX_EVENTS`].
fn backlog(context: &Context, opened: &Opened) -> anyhow::Result<Vec<Vec<Segment>>> {
    let table: &dyn Table = &*opened.table;
    let (mut days, mut events) = (Vec::new(), 0);
    for day in (0..context.data.days()).map(|day| context.data.day(day)) {
        if events >= MAX_EVENTS {
            break;
        }
        let segments = context.runtime.block_on(async {
            let mut segments = Vec::new();
            for kind in KINDS {
                for head in scan::heads_of_kind(table, &opened.workspace, day, kind).await? {
                    segments.extend(scan::segments(table, &head.log, 1, head.seq).await?);
                }
            }
            Ok::<_, event::Error>(segments)
        })?;
        events += segments.iter().map(|segment| segment.rows).sum::<usize>();
        days.push(segments);
    }
    Ok(days)
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let opened = context.open(context.stored()?)?;
    let days = backlog(context, &opened)?;
    let events: usize = days.iter().flatten().map(|segment| segment.rows).sum();
    let rate = |work: fn(&[Segment]) -> anyhow::Result<u64>| {
        let days = &days;
        move || -> anyhow::Result<Readings> {
            let started = Instant::now();
            let counted = days.iter().map(|day| work(day)).sum::<anyhow::Result<u64>>()?;
            anyhow::ensure!(counted == events as u64, "{counted} of {events} events");
            Ok(reading("rows_per_s", events as f64 / started.elapsed().as_secs_f64()))
        }
    };
    let found = interleave(
        context.rounds,
        vec![Side::new("fold", rate(folded)), Side::new("unpack", rate(unpacked))],
    );
    let work = "fold of a backlog, one thread: unpack and fold";
    let peer = ("unpacking all columns, and no more", &found[1]);
    Ok(vec![Line::of("fold/decode", work, ("rows/s", "rows_per_s"), &found[0], peer)])
}

/// Folds a day; returns the number of its events.
fn folded(segments: &[Segment]) -> anyhow::Result<u64> {
    let mut day = Delta::default();
    for segment in segments {
        let kind = segment.log.kind;
        let columns = &segment.unpack(|name| Folding::Rollup.wants(kind, name))?;
        day.merge(&Delta::of(kind, LogSegment { place: segment.place(), columns })?);
    }
    Ok(KINDS.iter().map(|kind| day.rollup.events(*kind)).sum())
}

/// Unpacks a day; returns the number of its events.
fn unpacked(segments: &[Segment]) -> anyhow::Result<u64> {
    let mut rows = 0;
    for segment in segments {
        rows += std::hint::black_box(segment.unpack(|_| true)?).rows;
    }
    Ok(rows as u64)
}
