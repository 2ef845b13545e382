//! Events as bodies: a JSON object a line, or one object of columns.

use std::io::Write as _;

use event::{Timestamp, time::DAY_MICROS};

use super::{BRANCHES, LABELS, Outcome, Prediction, RELEASES};

/// Writer of RFC 3339 times to the millisecond; it remembers the day of the last one.
struct Times {
    day: i64,
    date: String,
}

impl Times {
    fn new() -> Self {
        Self { day: i64::MIN, date: String::new() }
    }

    fn write(&mut self, micros: i64, to: &mut Vec<u8>) {
        let day = micros.div_euclid(DAY_MICROS);
        if day != self.day {
            self.day = day;
            self.date = Timestamp::from_micros(micros).map_or(String::new(), |time| time.day().to_string());
        }
        let millis = micros.rem_euclid(DAY_MICROS) / 1_000;
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1_000 % 60, millis % 1_000);
        to.extend_from_slice(self.date.as_bytes());
        print(to, format_args!("T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"));
    }
}

fn print(to: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    to.write_fmt(what).expect("a Vec takes everything");
}

/// Writes predictions, an object a line.
pub fn prediction_lines(predictions: &[Prediction]) -> Vec<u8> {
    let mut body = Vec::with_capacity(160 * predictions.len());
    let mut times = Times::new();
    for row in predictions {
        body.extend_from_slice(b"{\"key\":\"");
        body.extend_from_slice(&row.key);
        body.extend_from_slice(b"\",\"predicted_at\":\"");
        times.write(row.predicted_at, &mut body);
        let (release, label, branch) = (RELEASES[row.release], LABELS[row.label()], BRANCHES[row.branch]);
        print(
            &mut body,
            format_args!(
                "\",\"release\":\"{release}\",\"score\":{},\"label\":\"{label}\",\"tags\":{{\"branch\":\"{branch}\"}}}}\n",
                row.score
            ),
        );
    }
    body
}

/// Writes outcomes, an object a line.
pub fn outcome_lines(outcomes: &[Outcome]) -> Vec<u8> {
    let mut body = Vec::with_capacity(140 * outcomes.len());
    let mut times = Times::new();
    for row in outcomes {
        body.extend_from_slice(b"{\"key\":\"");
        body.extend_from_slice(&row.key);
        body.extend_from_slice(b"\",\"predicted_at\":\"");
        times.write(row.predicted_at, &mut body);
        body.extend_from_slice(b"\",\"observed_at\":\"");
        times.write(row.truth.observed_at, &mut body);
        let label = LABELS[usize::from(row.truth.is_positive)];
        print(&mut body, format_args!("\",\"label\":\"{label}\"}}\n"));
    }
    body
}

/// Writes predictions as one object with a list a column; the tag is the column `tag.branch`.
pub fn prediction_columns(predictions: &[Prediction]) -> Vec<u8> {
    let mut body = Vec::with_capacity(100 * predictions.len());
    body.push(b'{');
    list(&mut body, "key", predictions, |to, row| {
        to.push(b'"');
        to.extend_from_slice(&row.key);
        to.push(b'"');
    });
    body.push(b',');
    let mut times = Times::new();
    list(&mut body, "predicted_at", predictions, |to, row| {
        to.push(b'"');
        times.write(row.predicted_at, to);
        to.push(b'"');
    });
    body.push(b',');
    list(&mut body, "release", predictions, |to, row| {
        print(to, format_args!("\"{}\"", RELEASES[row.release]))
    });
    body.push(b',');
    list(&mut body, "score", predictions, |to, row| print(to, format_args!("{}", row.score)));
    body.push(b',');
    list(&mut body, "label", predictions, |to, row| print(to, format_args!("\"{}\"", LABELS[row.label()])));
    body.push(b',');
    list(&mut body, "tag.branch", predictions, |to, row| {
        print(to, format_args!("\"{}\"", BRANCHES[row.branch]))
    });
    body.push(b'}');
    body
}

fn list(
    body: &mut Vec<u8>,
    name: &str,
    predictions: &[Prediction],
    mut write: impl FnMut(&mut Vec<u8>, &Prediction),
) {
    print(body, format_args!("\"{name}\":["));
    for (at, row) in predictions.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        write(body, row);
    }
    body.push(b']');
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::data::Data;

    #[test]
    fn lines_and_columns_say_the_same() {
        let predictions = &Data::new(3_000).predictions(4, 0);
        let lines = String::from_utf8(prediction_lines(predictions)).unwrap();
        let columns: Value = serde_json::from_slice(&prediction_columns(predictions)).unwrap();
        for (at, (line, row)) in lines.lines().zip(predictions).enumerate() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["score"].as_f64(), Some(row.score), "every digit is there");
            assert_eq!(
                Timestamp::parse(line["predicted_at"].as_str().unwrap()).unwrap().micros(),
                row.predicted_at
            );
            for name in ["key", "predicted_at", "release", "score", "label"] {
                assert_eq!(line[name], columns[name][at], "{name}");
            }
            assert_eq!(line["tags"]["branch"], columns["tag.branch"][at]);
        }
        assert_eq!(lines.lines().count(), 100);
    }

    #[test]
    fn outcomes_name_their_prediction() {
        let outcomes = Data::new(3_000).outcomes(4);
        let lines = String::from_utf8(outcome_lines(&outcomes)).unwrap();
        let line: Value = serde_json::from_str(lines.lines().nth(7).unwrap()).unwrap();
        assert_eq!(line["key"].as_str().unwrap().as_bytes(), outcomes[7].key);
        let observed_at = Timestamp::parse(line["observed_at"].as_str().unwrap()).unwrap();
        assert_eq!(observed_at.micros(), outcomes[7].truth.observed_at);
    }
}
