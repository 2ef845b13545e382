use super::*;
use crate::rollup::{By, Kind, Merge, Part, Rollup};

/// The rollup and the parts of one day in every version before the current one, of which `the_states_are_golden` has one.
const GOLDENS: [&str; 4] = [
    include_str!("golden/v1.txt"),
    include_str!("golden/v2.txt"),
    include_str!("golden/v3.txt"),
    include_str!("golden/v4.txt"),
];

/// What a version stored of the day.
fn stored(version: u32) -> (Rollup, Vec<Part>) {
    let text = GOLDENS[(version - ROLLUP.oldest) as usize];
    let mut lines = text.lines();
    let rollup = lines.next().unwrap();
    assert!(rollup.starts_with(&format!("{{\"v\":{version},")), "{rollup}");
    let parts = lines.map(|line| {
        let (breakdown, text) = line.split_once(' ').unwrap();
        let by = By::ALL.into_iter().find(|by| breakdown.starts_with(by.name())).unwrap();
        let part = Part::from_state(by, text).unwrap();
        // Written again, it is of the current version and says the same.
        assert!(ROLLUP.is_current(&part.to_state()), "{}", part.to_state());
        assert_eq!(Part::from_state(by, &part.to_state()).unwrap(), part);
        part
    });
    (Rollup::from_state(rollup).unwrap(), parts.collect())
}

#[test]
fn every_version_is_read_and_written_anew() {
    assert_eq!(GOLDENS.len() as u32, ROLLUP.current() - ROLLUP.oldest, "a golden for each version");
    for versions in [&RELEASE, &METRIC, &TAG, &FEATURE] {
        assert_eq!(versions.current(), ROLLUP.current(), "{}", versions.what);
    }
    for version in ROLLUP.oldest..ROLLUP.current() {
        let (rollup, parts) = stored(version);
        assert_eq!(Kind::ALL.map(|kind| rollup.events(kind)), [2, 1, 3, 2], "version {version}");
        let score = rollup.predictions.total.score.as_ref().unwrap();
        let deviation = (version > 1).then_some(0.0);
        assert_eq!((score.n, score.mean(), score.std()), (2, Some(0.1), deviation), "version {version}");
        assert_eq!(rollup.predictions.releases.names()["delay-2"].n, 2);
        assert_eq!((rollup.metrics.with_release, rollup.metrics.names.get("latency")), (2, Some(&3)));
        assert!(ROLLUP.is_current(&rollup.to_state()));
        assert_eq!(Rollup::from_state(&rollup.to_state()).unwrap(), rollup);
        assert_eq!(parts.len(), if version == 1 { 0 } else { 3 });
    }
}

/// The figures of the parts, as far as a version kept them.
#[test]
fn the_parts_of_every_version_say_what_they_said() {
    let mut found = Vec::new();
    for version in RELEASE.oldest..RELEASE.current() {
        found.push(format!("version {version}"));
        found.extend(stored(version).1.iter().map(said));
    }
    insta::assert_snapshot!(found.join("\n"));
}

fn said(part: &Part) -> String {
    match part {
        Part::Release(part) => {
            let score = part.details.get("delay-2").unwrap().score.as_ref().unwrap();
            format!("score {} {:?}", score.numbers.n, score.quantile(0.5).unwrap())
        }
        Part::Metric(part) => {
            let metric = part.metrics.get("latency").unwrap();
            let series = metric.total.as_ref().unwrap();
            let median = metric.sketch.quantile(0.5, series.numbers.extremes()).unwrap();
            format!("latency {:?} last {} {median:?}", series.numbers.mean(), series.last)
        }
        Part::Tag(part) => {
            let carrier = part.tags.get("carrier").unwrap();
            let score = carrier.heads.get("UA").unwrap().score.as_ref().unwrap();
            let median = carrier.scores.get("UA").unwrap().quantile(0.5, score.extremes()).unwrap();
            format!("UA {:?} {:?} {median:?}", carrier.counts.get("UA").unwrap(), score.mean())
        }
        Part::Feature(_) => panic!("version 4 is the first that has features"),
    }
}

/// What an older version kept of a day goes on being added to, when the events are gone that it was folded from.
#[test]
fn an_older_part_takes_new_events() {
    let (rollup, parts) = stored(3);
    for part in &parts {
        let mut twice = part.clone();
        twice.merge(part);
        let text = twice.to_state();
        assert!(text.len() <= crate::rollup::MAX_PART_BYTES);
        let by = match part {
            Part::Release(_) => By::Release,
            Part::Metric(_) => By::Metric,
            Part::Tag(_) => By::Tag,
            Part::Feature(_) => By::Feature,
        };
        assert_eq!(Part::from_state(by, &text).unwrap(), twice);
    }
    let mut twice = stored(1).0;
    twice.merge(&rollup);
    let score = twice.predictions.total.score.as_ref().unwrap();
    assert_eq!(
        (score.n, score.mean(), score.std()),
        (4, Some(0.1), None),
        "the squares of half of them are unknown"
    );
}
