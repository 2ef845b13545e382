//! The simulation of several projectors: many seeds, and bugs that it must find.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod heat;

use std::sync::atomic::{AtomicU64, Ordering};

use tests::sim::{Planted, REGRESSIONS, run, run_ops};

/// The number of seeds that run; `ALMANAC_SIM_SEEDS` asks for more.
const SEEDS: u64 = 1_000;

/// The most seeds that it may take until a planted bug is found.
const MAX_SEEDS_TO_FIND: u64 = 1_000;

/// The number of threads that run them.
const THREADS: usize = 2;

fn seeds() -> u64 {
    let asked = std::env::var("ALMANAC_SIM_SEEDS").ok();
    asked.map_or(SEEDS, |seeds| seeds.parse().expect("ALMANAC_SIM_SEEDS is a number"))
}

#[test]
fn no_seed_violates_an_invariant() {
    let (next, seeds) = (AtomicU64::new(0), seeds());
    let happened: [AtomicU64; 7] = Default::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    let outcome = run(seed, None);
                    assert_eq!(outcome.violations, Vec::<String>::new(), "almanac-sim --seed {seed}");
                    let counts = [
                        outcome.segments as u64,
                        outcome.writes,
                        outcome.skipped as u64,
                        outcome.defined as u64,
                        outcome.rebuilt,
                        outcome.taken,
                        outcome.handed,
                    ];
                    for (sum, count) in happened.iter().zip(counts) {
                        sum.fetch_add(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    // Things that never happen prove nothing.
    let happened = happened.map(|sum| sum.into_inner());
    println!(
        "{seeds} seeds: segments, writes, skipped, defined, rebuilt, leases taken, handed over: {happened:?}"
    );
    let [segments, writes, skipped, defined, rebuilt, taken, handed] = happened;
    assert!(segments > 10 * seeds && writes > 50 * seeds, "{happened:?}");
    assert!(rebuilt > seeds / 10 && taken > seeds / 2 && defined > seeds / 10, "{happened:?}");
    assert!(handed > seeds && handed < segments, "{happened:?}");
    // It takes a broken segment and an operator after it, so among few seeds it may not happen.
    assert!(seeds < 1_000 || skipped > seeds / 100, "{happened:?}");
}

/// Workers whose clocks disagree and jump delete nothing before its time, and all of it in the end.
#[test]
fn clocks_that_jump_delete_nothing_before_its_time() {
    let (mut deleted, mut jumps) = (0, 0);
    for seed in 0..(seeds() / 500).max(2) {
        let expired = tests::sim::clocks(seed);
        assert_eq!(expired.violations, Vec::<String>::new(), "seed {seed}");
        deleted += expired.deleted;
        jumps += expired.jumps;
    }
    assert!(deleted > 0 && jumps > 0, "{deleted} days were deleted, clocks jumped {jumps} times");
}

/// The only clock of a machine is hours or months ahead for minutes, while a worker starts or works: what was decided of instants that had not come
/// is decided again, in a history of late, undated, repeated and retracted events.
#[test]
fn what_a_clock_ahead_decides_is_decided_again() {
    let (mut episodes, mut vintages, mut waiting, mut posted, mut odd) = (0, 0, 0, 0, [0; 3]);
    let seeds = (seeds() / 250).max(2);
    for seed in 0..seeds {
        let ahead = tests::sim::ahead(seed);
        assert_eq!(ahead.violations, Vec::<String>::new(), "seed {seed}");
        episodes += ahead.episodes;
        vintages += ahead.vintages as u64;
        waiting += ahead.waiting as u64;
        posted += ahead.posted as u64;
        odd.iter_mut().zip(ahead.odd).for_each(|(sum, more)| *sum += more);
    }
    println!(
        "{seeds} seeds: {episodes} times ahead, {vintages} vintages, {waiting} outcomes wait, {posted} posted; repeated, retracted, undated: {odd:?}"
    );
    assert!(
        episodes > seeds && vintages > 10 * seeds && waiting > 0 && posted > seeds,
        "{episodes} {vintages}"
    );
    assert!(odd.iter().all(|count| *count as u64 > seeds), "{odd:?}");
}

/// With clocks of writers that disagree and jump, and lanes that change: the last event of a key by the order of
/// commits is the one that counts, and what had been appended by a closed instant does not change.
#[test]
fn last_event_of_key_counts_despite_clock_skew() {
    let (mut lanes, mut refused, mut died, mut misplaced) = (std::collections::BTreeSet::new(), 0, 0, 0);
    let (mut retracted, mut handed) = (0, 0);
    for seed in 0..(seeds() / 20).max(4) {
        let written = tests::sim::writers(seed);
        assert_eq!(written.violations, Vec::<String>::new(), "seed {seed}");
        lanes.extend(written.lanes);
        refused += written.refused;
        died += written.died;
        misplaced += written.misplaced_by_batch;
        retracted += written.retracted;
        handed += written.handed;
    }
    // Things that never happen prove nothing.
    assert!(lanes.len() > 1 && refused > 0 && died > 0, "{lanes:?} lanes, {refused} refused, {died} died");
    assert!(retracted > 0 && handed > 0, "{retracted} taken back, {handed} handed over");
    assert!(misplaced > 0, "lanes by batch are not found");
    println!("{lanes:?} lanes, {refused} refused, {died} died, {misplaced} misplaced by batch");
}

/// Projectors that fail, die and get into each other's way decide once what each outcome without a date judges, and append it once.
#[test]
fn undated_outcome_is_decided_and_appended_once() {
    let (mut came, mut judged, mut several, mut decisions, mut died) = (0, 0, 0, 0, 0);
    let seeds = (seeds() / 40).max(8);
    for seed in 0..seeds {
        let judging = tests::sim::resolving(seed, None);
        assert_eq!(judging.violations, Vec::<String>::new(), "seed {seed}");
        came += judging.came;
        judged += judging.judged;
        several += judging.several;
        decisions += judging.decisions;
        died += judging.died;
    }
    println!(
        "{seeds} seeds: {came} outcomes without a date, {judged} judge something, {several} several, {decisions} decisions, {died} died"
    );
    assert!(judged * 3 > came && judged < came && died > seeds, "{judged} of {came}, {died} died");
    assert!(several as u64 > seeds, "{several} of {judged}");
}

/// Keys are erased while events of them come, projectors work and die, and so do those who erase: what is left is what was appended without what
/// was erased, in the table and in all answers, as of now and as of then.
#[test]
fn erasure_covers_all_past_and_changes_nothing_else() {
    let (mut events, mut erased, mut refused, mut replayed, mut died) = (0, 0, 0, 0, 0);
    let seeds = (seeds() / 200).max(4);
    for seed in 0..seeds {
        let erasing = tests::sim::erasing(seed);
        assert_eq!(erasing.violations, Vec::<String>::new(), "seed {seed}");
        events += erasing.events;
        erased += erasing.erased;
        refused += erasing.refused;
        replayed += erasing.replayed;
        died += erasing.died;
    }
    println!(
        "{seeds} seeds: {events} events, {erased} of them erased, {refused} batches refused, {replayed} sent again, {died} died"
    );
    let seeds = seeds as usize;
    assert!(events > 20 * seeds && erased > 5 * seeds, "{erased} of {events}");
    assert!(refused > 0 && replayed > 0 && died > seeds as u64, "{refused} {replayed} {died}");
}

/// The planted bug: a decision is written over another one.
#[test]
fn a_blind_decision_is_found() {
    let planted = Some(Planted::BlindDecision);
    let run = |seed: &u64| !tests::sim::resolving(*seed, planted).violations.is_empty();
    let seed = (0..MAX_SEEDS_TO_FIND).find(run).expect("it is found");
    let violations = tests::sim::resolving(seed, planted).violations;
    println!("a blind decision is found after {} seeds: {violations:?}", seed + 1);
}

/// A day that expires while it is evaluated in parts and rebuilt keeps the metrics of all that was appended.
#[test]
fn day_expiring_during_rebuild_keeps_whole_evaluation() {
    let seeds = (seeds() / 4).max(20);
    let (mut expired, mut parts) = (0, 0);
    for seed in 0..seeds {
        let gone = tests::sim::retained(seed, None);
        assert_eq!(gone.outcome.violations, Vec::<String>::new(), "seed {seed}");
        expired += u64::from(gone.expired);
        parts += gone.parts as u64;
    }
    println!("{seeds} seeds: {expired} days expired, {parts} parts of evaluations");
    assert!(expired > seeds / 3 && parts > seeds, "{expired} days expired, {parts} parts");
}

/// The planted bug: what is left of a day is taken for all of it.
#[test]
fn a_short_read_is_found() {
    let planted = Some(Planted::ShortRead);
    let is_found = |seed: &u64| {
        let violations = tests::sim::retained(*seed, planted).outcome.violations;
        violations.iter().any(|violation| violation.contains("it is not the fold of"))
    };
    let seed = (0..MAX_SEEDS_TO_FIND).find(is_found).expect("it is found");
    println!("a short read is found after {} seeds", seed + 1);
}

/// Projectors that die and take the lease from one another record each transition once, and each came at least once under one id to receivers that
/// miss it, lose answers and hang.
#[test]
fn transitions_record_once_and_post_under_one_id() {
    let seeds = (seeds() / 50).max(4);
    let (mut came, mut repeated, mut taken) = (0, 0, 0);
    for seed in 0..seeds {
        let rule_transition = tests::sim::transitions(seed, None);
        assert_eq!(rule_transition.violations, Vec::<String>::new(), "seed {seed}");
        came += rule_transition.came as u64;
        repeated += rule_transition.repeated as u64;
        taken += rule_transition.taken;
    }
    println!("{seeds} seeds: {came} parcels came, {repeated} of them again; {taken} leases were taken");
    assert!(came >= 8 * seeds && repeated > seeds && taken > seeds, "{came} {repeated} {taken}");
}

/// The planted bugs: a condition that is not demanded, and a delivery that is recorded before it is made.
#[test]
fn blind_judging_and_false_deliveries_are_found() {
    for planted in [Planted::BlindJudging, Planted::DeliveredTooEarly, Planted::BlindDelivery] {
        let run = |seed: &u64| !tests::sim::transitions(*seed, Some(planted)).violations.is_empty();
        let seed = (0..MAX_SEEDS_TO_FIND).find(run).expect("it is found");
        let violations = tests::sim::transitions(seed, Some(planted)).violations;
        println!("{planted:?} is found after {} seeds: {violations:?}", seed + 1);
    }
}

#[test]
fn a_seed_runs_the_same_every_time() {
    for seed in [1, 2, 3, 50, 51] {
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
    assert_eq!(tests::sim::transitions(1, None), tests::sim::transitions(1, None));
}

#[test]
fn planted_bugs_are_found() {
    for planted in Planted::ALL {
        let found = (0..MAX_SEEDS_TO_FIND).find(|seed| !run(*seed, Some(planted)).violations.is_empty());
        let seed = found.unwrap_or_else(|| panic!("{planted:?} is not found"));
        println!("{planted:?} is found after {} seeds: {:?}", seed + 1, run(seed, Some(planted)).violations);
    }
}

/// A day that grows by many small segments is not read again for each of them.
#[test]
fn growing_day_evaluation_takes_at_most_three_passes() {
    let (rows, evaluated) = tests::sim::grow(1_500);
    assert!(rows > 2_000);
    assert!((rows..=3 * rows).contains(&evaluated), "{evaluated} rows were joined for {rows}");
}

/// Seeds that found something once find nothing any more.
#[test]
fn no_regression_violates_an_invariant() {
    let mut names = std::collections::BTreeSet::new();
    for one in REGRESSIONS {
        assert!(names.insert(one.name), "two are called {}", one.name);
        let outcome = run_ops(one.seed, one.ops, None);
        assert_eq!(outcome.violations, Vec::<String>::new(), "{}", one.name);
    }
}

/// Small segments are merged, by workers that die, while events arrive, projectors die and versions are rebuilt: what was appended is what is
/// read, and what is folded.
#[test]
fn merging_small_segments_changes_nothing_that_is_read() {
    let (mut merged, mut gone) = (0, 0);
    for seed in 0..(seeds() / 500).max(4) {
        let compacted = tests::sim::compacting(seed);
        assert_eq!(compacted.report.violations, Vec::<String>::new(), "seed {seed}");
        merged += compacted.merged;
        gone += compacted.gone;
    }
    assert!(merged > 4 && gone > 50, "{merged} items hold several segments, {gone} have none of their own");
}
