//! Batches sent while keys are erased.

use event::Kind;

use super::KEYS;
use crate::sim::{
    random::Random,
    resolving::{UNDATED, applies_to},
};

/// On how many days of June events happened.
const DAYS: u64 = 4;

/// A batch of events, as it is sent.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Sent {
    pub(in crate::sim) kind: Kind,
    pub(in crate::sim) body: String,
    pub(in crate::sim) idempotency_key: Option<String>,
    /// The key of each row.
    pub(in crate::sim) keys: Vec<String>,
}

/// The key of a number. Nothing else has its name.
pub(in crate::sim) fn key(number: u64) -> String {
    format!("person-{number}")
}

/// Text about a key that must go with it: in tags and reasons.
pub(in crate::sim) fn secret(key: &str) -> String {
    format!("secret-of-{key}")
}

/// One to three events of a kind. Each has a number of its own, as its score or its value; one in six takes back what came before.
pub(in crate::sim) fn draw(random: &Random, (writer, number): (u64, u64)) -> Sent {
    let drawn = random.below(10);
    let kind = match drawn {
        0..4 => Kind::Predictions,
        4..9 => Kind::Outcomes,
        _ => Kind::Metrics,
    };
    let (mut rows, mut keys) = (Vec::new(), Vec::new());
    for row in 0..1 + random.below(3) {
        let key = key(random.below(KEYS));
        let mark = (writer, number, row);
        rows.push(match drawn {
            0..4 => prediction(random, &key, mark),
            4..7 => outcome(random, &key, mark),
            7..9 => undated(random, &key, mark),
            _ => metric(random, &key, mark),
        });
        keys.push(key);
    }
    let idempotency_key = random.hits(2).then(|| format!("{writer}-{number}"));
    Sent { kind, body: rows.join("\n"), idempotency_key, keys }
}

type Mark = (u64, u64, u64);

fn of_its_own((writer, number, row): Mark) -> u64 {
    writer * 1_000 + number * 10 + row
}

fn day(random: &Random) -> String {
    format!("2026-06-0{}", 1 + random.below(DAYS))
}

/// An instant of a few, so that events meet.
fn instant(random: &Random) -> String {
    format!("{}T0{}:00:00Z", day(random), random.below(3))
}

fn retracted(random: &Random, key: &str) -> String {
    match random.hits(6) {
        true => format!(r#","retracted":true,"reason":"{}""#, secret(key)),
        false => String::new(),
    }
}

fn prediction(random: &Random, key: &str, mark: Mark) -> String {
    let (at, release) = (instant(random), 1 + random.below(2));
    let (score, more) = (of_its_own(mark) as f64 / 10_000.0, retracted(random, key));
    format!(
        r#"{{"key":"{key}","predicted_at":"{at}","release":"v{release}","score":{score},"tags":{{"branch":"{}"}},"features":{{"income":{}}}{more}}}"#,
        secret(key),
        random.below(1_000_000),
    )
}

fn outcome(random: &Random, key: &str, mark: Mark) -> String {
    let applies_to = match random.hits(2) {
        true => format!(r#""predicted_at":"{}""#, instant(random)),
        false => format!(r#""predicted_on":"{}""#, day(random)),
    };
    let (observed, label, value) = (1 + random.below(3), random.below(2), of_its_own(mark));
    let more = retracted(random, key);
    format!(
        r#"{{"key":"{key}",{applies_to},"observed_at":"2026-06-08T0{observed}:00:00Z","label":"{label}","value":{value}{more}}}"#
    )
}

fn undated(random: &Random, key: &str, mark: Mark) -> String {
    let (observed, value) = (instant(random), of_its_own(mark));
    format!(
        r#"{{"key":"{key}","observed_at":"{observed}","label":"{UNDATED}{}-{}-{}","value":{value}{}}}"#,
        mark.0,
        mark.1,
        mark.2,
        applies_to(random)
    )
}

fn metric(random: &Random, key: &str, mark: Mark) -> String {
    let (at, on, value) = (instant(random), day(random), of_its_own(mark));
    format!(
        r#"{{"name":"satisfaction","measured_at":"{at}","value":{value},"key":"{key}","predicted_on":"{on}","tags":{{"asked_by":"{}"}}}}"#,
        secret(key)
    )
}
