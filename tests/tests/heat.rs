//! The load that a table takes whose partitions throttle as those of DynamoDB do.

use std::time::Duration;

use projector::PAID_REST;
use tests::sim::heat::{Heated, Limits, Load, SPAN, heat};

/// The load and what a partition takes are both this part of what they are: so few rows are looked at.
const PART: u64 = 20;

const LIMITS: Limits =
    Limits { writes: 50.0, reads: 150.0, partitions: 4, split_after: Duration::from_secs(60) };

const LOAD: Load = Load {
    lanes: 1,
    rows_per_second: 10_000_000 / 60 / PART,
    batch: 500,
    clients: 64,
    services: 2,
    seconds: 60,
    midnight: u64::MAX,
    limits: LIMITS,
};

fn rate(heated: &Heated, spans: std::ops::Range<usize>) -> u64 {
    let count = spans.len() as u64;
    heated.spans[spans].iter().map(|span| span.stored).sum::<u64>() / (count * SPAN)
}

/// Whatever is throttled, refused and sent again: each batch that is acknowledged is there once, and is folded.
#[test]
fn throttled_writes_are_resent_and_stored_once() {
    let load = Load { seconds: 40, ..LOAD };
    let heated = heat(1, load);
    assert_eq!(heated.violations, Vec::<String>::new());
    assert!(heated.throttled.get("day").is_some_and(|throttled| *throttled > 0), "{:?}", heated.throttled);
    assert!(rate(&heated, 0..4) < LOAD.rows_per_second * 2 / 3, "{heated:?}");
    assert!(heated.caught_up.is_some());
}

/// Lanes that stand in partitions of their own take more than one partition does, as soon as a day begins.
#[test]
fn lanes_take_more_from_the_first_second_on() {
    let [together, apart] = [1, 16].map(|lanes| heat(1, Load { lanes, seconds: 40, ..LOAD }));
    for heated in [&together, &apart] {
        assert_eq!(heated.violations, Vec::<String>::new());
        assert!(heated.caught_up.is_some());
    }
    let [together, apart] = [&together, &apart].map(|heated| rate(heated, 0..4));
    assert!(apart > together * 6 / 5, "{apart} a second, {together} in one lane");
}

/// An event a second: a day that grows by less than a 64th rests between folds, so most events are folded with others; and in the end all
/// are folded, as soon as the rest is over.
#[test]
fn trickle_is_folded_rarely_but_completely() {
    let load = Load { lanes: 1, rows_per_second: 1, batch: 1, clients: 4, seconds: 3_000, ..LOAD };
    let heated = heat(3, load);
    assert_eq!(heated.violations, Vec::<String>::new());
    let caught_up = heated.caught_up.expect("all is folded");
    assert!(caught_up <= PAID_REST.as_secs() + 2, "{caught_up} s");
    // A fold writes a rollup and its parts, so folding each event at once would take several units each.
    let units = heated.written["rollup"];
    assert!(units < 0.7 * load.seconds as f64, "{units} units for {} events", load.seconds);
}

/// Prints the tables of docs/scale.md: `ALMANAC_HEAT=1` asks for it, which takes some minutes.
#[test]
fn the_page_of_scale_is_measured() {
    if std::env::var_os("ALMANAC_HEAT").is_none() {
        println!("skipped: ALMANAC_HEAT=1 measures it");
        return;
    }
    println!(
        "| lanes | stored in the first minute, of 10 million | batches that took (p50, p99) | refused | throttled | write units a second by partition key |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for lanes in [1, 4, 16] {
        let heated = heat(1, Load { lanes, ..LOAD });
        assert_eq!(heated.violations, Vec::<String>::new());
        let stored: u64 = heated.spans.iter().map(|span| span.stored).sum();
        let refused: u64 = heated.spans.iter().map(|span| span.refused).sum();
        let [half, most] = heated.millis;
        let units: Vec<String> = heated
            .written
            .iter()
            .filter(|(_, units)| **units >= 60.0)
            .map(|(key, units)| format!("`{key}` {:.0}", units / 60.0 * PART as f64))
            .collect();
        println!(
            "| {lanes} | {:.1} million | {half} ms, {most} ms | {refused} | {:?} | {} | folded {:?} s later |",
            (stored * PART) as f64 / 1e6,
            heated.throttled,
            units.join(", "),
            heated.caught_up
        );
    }
    for lanes in [1, 16] {
        println!(
            "\nlanes: {lanes}\n| seconds | stored a second | throttled | refused | partitions |\n| --- | --- | --- | --- | --- |"
        );
        let heated = heat(2, Load { lanes, seconds: 420, midnight: 240, ..LOAD });
        assert_eq!(heated.violations, Vec::<String>::new());
        for (at, spans) in heated.spans.chunks(6).enumerate() {
            let stored: u64 = spans.iter().map(|span| span.stored).sum();
            let sum = |of: fn(&tests::sim::heat::Span) -> u64| spans.iter().map(of).sum::<u64>();
            println!(
                "| {}..{} | {} | {} | {} | {} |",
                at * 60,
                at * 60 + 60,
                stored * PART / 60,
                sum(|span| span.throttled),
                sum(|span| span.refused),
                spans.last().map_or(0, |span| span.partitions)
            );
        }
        println!("throttled: {:?}; folded {:?} s later", heated.throttled, heated.caught_up);
    }
}
