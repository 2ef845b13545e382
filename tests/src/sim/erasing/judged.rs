//! Compares what is stored and what is answered with the oracle, and does all again that must change nothing.

use std::{collections::BTreeMap, sync::Arc};

use event::{Columns, Definition, Error, ErrorKind, Kind, Result, Task, Timestamp, lane::LogPosition};
use fold::LogSegment;
use ingest::Ingest;
use log::segment_item::Segment;
use projector::verify::verify;
use query::{Dataset, Params, Query, Request};
use table::Table;

use super::{
    Erasing, Pseudonyms, Scene,
    batches::{self, Sent},
    build_again, lock,
    naive::{self, Both, Row},
};
use crate::{
    scene::csv,
    sim::resolving::{self, Judging},
};

/// Acknowledged batches, and closed instants at which the past is looked at.
type Asked<'a> = (&'a [Sent], &'a [Timestamp]);

pub(super) async fn judge(
    scene: &Scene,
    table: &Arc<dyn Table>,
    (sent, asked): Asked<'_>,
    erasing: &mut Erasing,
) -> Result<()> {
    let pseudonyms = lock(&scene.pseudonyms).clone();
    let segments = naive::segments(&scene.world)?;
    let rows = stored_is_the_rest(&segments, &pseudonyms, erasing)?;
    says_nothing(scene, erasing);
    metrics_stay(&segments, &pseudonyms, asked, erasing)?;
    let mut judging = Judging::default();
    resolving::judge(&scene.world, table, &mut judging).await?;
    erasing.violations.append(&mut judging.violations);
    let marks = naive::marks(&segments);
    let first = answers(scene, table, (&rows, &marks), asked, erasing).await?;
    is_verified(scene, table, ("at first", erasing)).await?;
    replay(scene, table, sent, erasing).await;
    build_again(scene, table).await?;
    is_verified(scene, table, ("built again", erasing)).await?;
    let again = answers(scene, table, (&rows, &marks), asked, erasing).await?;
    if first != again {
        erasing.violations.push("replays and a rebuild have changed an answer".to_owned());
    }
    if naive::segments(&scene.world)?.len() != segments.len() {
        erasing.violations.push("replays have appended something".to_owned());
    }
    Ok(())
}

/// Checks that each segment is its appended form without erased keys. Returns all events, without what was erased.
fn stored_is_the_rest(segments: &[Both], pseudonyms: &Pseudonyms, erasing: &mut Erasing) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for Both { appended, stored } in segments {
        let at = format!("{}/{}", appended.log, appended.seq);
        let Some(stored) = stored else {
            erasing.violations.push(format!("{at} is gone"));
            continue;
        };
        // All else of it stays.
        let expected =
            Segment { data: stored.data.clone(), ver: stored.ver, erased: stored.erased, ..appended.clone() };
        if *stored != expected {
            erasing.violations.push(format!("{at} is another one: {stored:?}"));
        }
        let rows = naive::rows(appended)?.into_iter().map(|row| naive::erased(row, pseudonyms));
        let (rows, was): (Vec<Row>, Vec<bool>) = rows.unzip();
        let erased = was.into_iter().filter(|was| *was).count();
        if stored.erased != erased as u64 {
            erasing.violations.push(format!("{at} says that {} are erased, not {erased}", stored.erased));
        }
        for (row, found) in rows.iter().zip(naive::rows(stored)?) {
            if row.cells != found.cells {
                erasing.violations.push(format!("{at} has {:?}, not {:?}", found.cells, row.cells));
            }
        }
        erasing.events += rows.len();
        erasing.erased += erased;
        all.extend(rows);
    }
    Ok(all)
}

/// Checks that no item has an erased key, or a text about one.
fn says_nothing(scene: &Scene, erasing: &mut Erasing) {
    let begun = lock(&scene.begun);
    let state = scene.world.lock();
    for key in begun.iter() {
        for secret in [key.clone(), batches::secret(key)] {
            let has = state.items.values().find(|stored| format!("{:?}", stored.item).contains(&secret));
            if let Some(stored) = has {
                erasing.violations.push(format!("{} has {secret}", stored.item.key));
            }
        }
    }
}

/// Checks that metrics by release are, to the bit, the metrics of the events as they were appended (without erased values),
/// as of each instant.
fn metrics_stay(
    segments: &[Both],
    pseudonyms: &Pseudonyms,
    asked: &[Timestamp],
    erasing: &mut Erasing,
) -> Result<()> {
    let unpacked = |segment: &Segment| segment.unpack(|_| true);
    let mut before = Vec::new();
    let mut after = Vec::new();
    for both in segments {
        before.push(naive::under_their_keys(unpacked(&both.appended)?, pseudonyms));
        after.push(both.stored.as_ref().map_or(Ok(Columns { rows: 0, columns: Vec::new() }), unpacked)?);
    }
    let task = Definition::of(Task::Binary { positive_label: "1".into() });
    let definitions = ["v1", "v2"].map(|release| (release.to_owned(), task.clone())).into();
    let days: std::collections::BTreeSet<_> = segments.iter().map(|both| both.appended.log.day).collect();
    for (day, as_of) in days.iter().flat_map(|day| asked.iter().map(move |as_of| (*day, *as_of))) {
        let metrics = |columns: &[Columns]| -> Result<String> {
            let of = |kind| -> Vec<LogSegment<'_>> {
                let all = segments.iter().map(|both| &both.appended).zip(columns);
                let of_kind = all.filter(|(segment, _)| {
                    (segment.log.kind, segment.log.day) == (kind, day) && segment.appended_at <= as_of
                });
                let placed = |(segment, columns): (&Segment, _)| LogSegment {
                    place: LogPosition::of(segment.log.lane, segment.seq),
                    columns,
                };
                of_kind.map(placed).collect()
            };
            let evaluated = fold::evaluate(&of(Kind::Predictions), &of(Kind::Outcomes), &definitions);
            evaluated
                .map(|mut evaluation| {
                    // A mark beside them says that keys were erased.
                    evaluation.releases.values_mut().for_each(|release| release.erased = 0);
                    evaluation.to_state()
                })
                .map_err(|error| Error::corrupt(error.to_string()))
        };
        let (was, is) = (metrics(&before)?, metrics(&after)?);
        if was != is {
            erasing.violations.push(format!("metrics of {day} as of {as_of} are {is}, not {was}"));
        }
    }
    Ok(())
}

/// Asks for joined rows as of now and as of each instant, which must be those of the oracle; and for evaluations, of which those that are stored
/// must be those of the events. All answers.
async fn answers(
    scene: &Scene,
    table: &Arc<dyn Table>,
    (rows, marks): (&[Row], &Vec<String>),
    asked: &[Timestamp],
    erasing: &mut Erasing,
) -> Result<BTreeMap<String, String>> {
    let query = Query::new(Arc::clone(table), scene.world.clock.clone());
    let ask = async |what, as_of: Option<&str>, words: Params<'static>| -> Result<String> {
        let words = Params { from: "2026-06-01", to: "2026-06-09", as_of, ..words };
        Ok(csv(query.run(scene.workspace.id(), &Request::parse(what, &words)?).await?))
    };
    let now = scene.world.clock.now();
    let mut answers = BTreeMap::new();
    for as_of in asked.iter().copied().chain([now]) {
        let text = as_of.to_string();
        let as_of_text = (as_of != now).then_some(text.as_str());
        let columns = Some("key,score,outcome_value");
        let answer = ask(Dataset::Joined, as_of_text, Params { columns, ..Params::default() }).await?;
        let known: Vec<&Row> = rows.iter().filter(|row| row.appended_at <= as_of).collect();
        if parsed(&answer)? != naive::joined(&known) {
            erasing
                .violations
                .push(format!("joined as of {text}: {answer:?}, not {:?}", naive::joined(&known)));
        }
        answers.insert(format!("joined {}", as_of_text.unwrap_or("now")), answer);
    }
    let instant = scene.world.clock.now().to_string();
    for (name, by) in [("evaluations", None), ("by branch", Some("release,tag.branch"))] {
        let words = || Params { by, ..Params::default() };
        let stored = ask(Dataset::Evaluations, None, words()).await?;
        let computed = ask(Dataset::Evaluations, Some(&instant), words()).await?;
        if stored != computed {
            erasing.violations.push(format!("{name}: {stored} is stored, of events it is {computed}"));
        }
        answers.insert(name.to_owned(), stored);
    }
    for (what, columns, expected) in [
        (Dataset::Evaluations, "day,release,erased", naive::erased_predictions(rows)),
        (Dataset::Rollups, "day,release,erased", marks.clone()),
    ] {
        let words = Params { columns: Some(columns), ..Params::default() };
        let answer = ask(what, None, words).await?;
        let found: Vec<String> =
            answer.lines().skip(1).filter(|line| is_marked(line)).map(str::to_owned).collect();
        if found != expected {
            erasing.violations.push(format!("{what:?} are marked {found:?}, not {expected:?}"));
        }
    }
    // A query of one key goes by the filters of closed days.
    let pseudonyms = lock(&scene.pseudonyms).clone();
    for (pseudonym, _) in pseudonyms.into_values() {
        let words = Params {
            from: "2026-06-01",
            to: "2026-06-09",
            key: Some(&pseudonym),
            columns: Some("key,score,value"),
            ..Params::default()
        };
        let request = Request::parse(Dataset::Events(Kind::Predictions), &words)?;
        let answer = csv(query.run(scene.workspace.id(), &request).await?);
        let mut expected = naive::of_key(rows, &pseudonym);
        expected.sort();
        if parsed(&answer)? != expected {
            erasing.violations.push(format!("of {pseudonym}: {answer:?}, not {expected:?}"));
        }
        answers.insert(pseudonym, answer);
    }
    Ok(answers)
}

/// True if a line ends with a count of erased events that is not zero.
fn is_marked(line: &str) -> bool {
    line.rsplit(',').next().is_some_and(|count| !["", "0"].contains(&count))
}

/// The rows of an answer in CSV, as the oracle says them.
pub(in crate::sim) fn parsed(csv: &str) -> Result<Vec<(String, String, String)>> {
    let bits = |number: &str| match number {
        "" => Ok(String::new()),
        number => number
            .parse()
            .map(|number: f64| format!("{:016x}", number.to_bits()))
            .map_err(|_| Error::new(ErrorKind::Corrupt, format!("{number} is no number"))),
    };
    let row = |line: &str| {
        let mut cells = line.split(',');
        let mut next = || cells.next().unwrap_or_default();
        Ok((next().to_owned(), bits(next())?, bits(next())?))
    };
    let mut rows: Vec<_> = csv.lines().skip(1).map(row).collect::<Result<_>>()?;
    rows.sort();
    Ok(rows)
}

async fn is_verified(
    scene: &Scene,
    table: &Arc<dyn Table>,
    (when, erasing): (&str, &mut Erasing),
) -> Result<()> {
    let report = verify(table, scene.workspace.id(), |_, _| ()).await?;
    erasing.violations.extend(report.faults.iter().map(|fault| format!("{when}: {fault}")));
    if report.behind > 0 {
        erasing.violations.push(format!("{when} {} are behind: {report:?}", report.behind));
    }
    Ok(())
}

/// Sends what has an idempotency key again, which is known; and what has an erased key as something new, which is refused.
async fn replay(scene: &Scene, table: &Arc<dyn Table>, sent: &[Sent], erasing: &mut Erasing) {
    let ingest = Ingest::new(Arc::clone(table), scene.world.clock.clone());
    let begun = lock(&scene.begun).clone();
    let is_erased = |sent: &Sent| sent.keys.iter().any(|key| begun.contains(key));
    for batch in sent.iter().filter(|sent| sent.idempotency_key.is_some()) {
        match scene.submit(&ingest, batch).await {
            Ok(receipt) if receipt.replayed => erasing.replayed += usize::from(is_erased(batch)),
            other => erasing.violations.push(format!("{batch:?} comes again: {other:?}")),
        }
    }
    for batch in sent.iter().filter(|batch| is_erased(batch)) {
        let new = Sent { idempotency_key: Some("new".to_owned()), ..batch.clone() };
        match scene.submit(&ingest, &new).await {
            Err(error) if scene.is_for_erased(&new, &error) => {}
            other => erasing.violations.push(format!("{new:?} is taken: {other:?}")),
        }
    }
}
