//! What was believed of a key, and when: its outcomes in the order in which they were appended, with those that were taken back or corrected.

use std::collections::{HashMap, HashSet};

use event::{Day, Error, Id, Result, Timestamp};
use polars::prelude::DataFrame;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Format, Query, Request, What, Words, window::days_until, work};

/// How many days a history has that nobody named.
pub(crate) const DAYS: i64 = 400;

/// The columns that are read.
const COLUMNS: &str = "day,appended_at,predicted_at,observed_at,label,value,withdrawn,reason";

/// The words of a request for a history.
#[derive(Clone, Copy, Debug, Default)]
pub struct HistoryWords<'a> {
    /// The key.
    pub key: &'a str,
    /// The first day of predictions.
    pub from: Option<&'a str>,
    /// The last day of predictions.
    pub to: Option<&'a str>,
}

/// How an outcome stands today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastStanding {
    /// It judges what it is about.
    Counts,
    /// One that was observed later, or came later, judges that instead.
    Corrected,
    /// It was taken back.
    Withdrawn,
    /// It takes others back.
    Withdraws,
}

impl PastStanding {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Counts, Self::Corrected, Self::Withdrawn, Self::Withdraws];

    /// Its name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::Corrected => "corrected",
            Self::Withdrawn => "withdrawn",
            Self::Withdraws => "withdraws",
        }
    }
}

/// An outcome of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct PastOutcome {
    /// When it was appended.
    pub appended_at: Timestamp,
    /// The day of the predictions that it judges.
    pub day: Day,
    /// The instant of the prediction that it judges; `None`, when it judges all of the day.
    pub predicted_at: Option<Timestamp>,
    /// When it was observed.
    pub observed_at: Timestamp,
    /// What was true.
    pub label: Option<String>,
    /// The number that was true.
    pub value: Option<f64>,
    /// Why others are taken back.
    pub reason: Option<String>,
    /// How it stands today.
    pub standing: PastStanding,
}

impl PastOutcome {
    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "appended_at": self.appended_at.to_string(),
            "day": self.day.to_string(),
            "predicted_at": self.predicted_at.map(|at| at.to_string()),
            "observed_at": self.observed_at.to_string(),
            "label": self.label,
            "value": self.value,
            "reason": self.reason,
            "standing": self.standing.name(),
        })
    }
}

/// A row of the answer that it is made of.
#[derive(Deserialize)]
struct Row {
    day: String,
    appended_at: String,
    predicted_at: Option<String>,
    observed_at: String,
    label: Option<String>,
    value: Option<f64>,
    withdrawn: Option<String>,
    reason: Option<String>,
}

impl Row {
    fn read(self) -> Result<PastOutcome> {
        Ok(PastOutcome {
            appended_at: Timestamp::parse(&self.appended_at)?,
            day: self.day.parse()?,
            predicted_at: self.predicted_at.as_deref().map(Timestamp::parse).transpose()?,
            observed_at: Timestamp::parse(&self.observed_at)?,
            label: self.label,
            value: self.value,
            reason: self.reason,
            standing: if self.withdrawn.is_some() { PastStanding::Withdraws } else { PastStanding::Counts },
        })
    }
}

impl Query {
    /// The outcomes of a key about the predictions of some days, in the order in which they were appended, and what could not be read. Outcomes
    /// without a date are among them once it is decided what they judge.
    ///
    /// # Errors
    /// `Invalid`, when a word is wrong; as [`Query::run`].
    pub async fn outcome_history(
        &self,
        workspace: &Id,
        words: &HistoryWords<'_>,
    ) -> Result<(Vec<PastOutcome>, Vec<String>)> {
        let window = days_until(words.from, words.to, DAYS - 1, self.now())?;
        let (from, to) = (window.from().to_string(), window.to().to_string());
        let asked =
            Words { from: &from, to: &to, key: Some(words.key), columns: Some(COLUMNS), ..Words::default() };
        let request = Request::parse(What::Events(event::Kind::Outcomes), &asked)?;
        let mut answer = self.run(workspace, &request).await?;
        let mut frame = std::mem::take(&mut answer.frame);
        // A key may have many outcomes, and others wait for the threads that answer.
        let past = work::run(move || past_of(&mut frame)).await;
        let past = past.map_err(|error| Error::unavailable("reading was interrupted").because(error))??;
        Ok((past, answer.warnings))
    }
}

/// The outcomes of an answer, which come day by day.
fn past_of(frame: &mut DataFrame) -> Result<Vec<PastOutcome>> {
    let mut lines = Vec::new();
    Format::Ndjson.write(frame, &mut lines)?;
    let broken = |error: serde_json::Error| Error::corrupt(format!("a row of the answer: {error}"));
    let rows = serde_json::Deserializer::from_slice(&lines).into_iter::<Row>();
    let mut past: Vec<PastOutcome> = rows.map(|row| row.map_err(broken)?.read()).collect::<Result<_>>()?;
    stand(&mut past);
    past.sort_by_key(|one| one.appended_at);
    Ok(past)
}

/// Says how the outcomes of a key stand, which come day by day, and of each day in the order of the log, by the rules of the
/// [join](fold::join).
fn stand(past: &mut [PastOutcome]) {
    for of_day in past.chunk_by_mut(|one, other| one.day == other.day) {
        let mut taken_back = HashSet::new();
        for one in of_day.iter_mut().rev() {
            let named = (one.predicted_at, one.observed_at);
            match one.standing {
                PastStanding::Withdraws => _ = taken_back.insert(named),
                PastStanding::Counts if taken_back.contains(&named) => one.standing = PastStanding::Withdrawn,
                _ => {}
            }
        }
        // Of each instant that outcomes judge, and of those that judge the whole day, the one that wins.
        let mut winners: HashMap<Option<Timestamp>, (Timestamp, usize)> = HashMap::new();
        let counts = |one: &PastOutcome| one.standing == PastStanding::Counts;
        for (at, one) in of_day.iter().enumerate().filter(|(_, one)| counts(one)) {
            let winner = winners.entry(one.predicted_at).or_insert((one.observed_at, at));
            *winner = (one.observed_at, at).max(*winner);
        }
        for (at, one) in of_day.iter_mut().enumerate().filter(|(_, one)| counts(one)) {
            let mut others = [one.predicted_at, None].into_iter().filter_map(|judges| winners.get(&judges));
            if others.any(|other| *other > (one.observed_at, at)) {
                one.standing = PastStanding::Corrected;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(day: &str, predicted_at: Option<&str>, observed_at: &str, standing: PastStanding) -> PastOutcome {
        let at = |text: &str| Timestamp::parse(&format!("{day}T{text}:00Z")).unwrap();
        PastOutcome {
            appended_at: at(observed_at),
            day: day.parse().unwrap(),
            predicted_at: predicted_at.map(at),
            observed_at: at(observed_at),
            label: None,
            value: None,
            reason: None,
            standing,
        }
    }

    /// Whether each of the outcomes of a day counts, by the rules as they are written.
    fn counting(of_day: &[PastOutcome]) -> Vec<bool> {
        let is_withdrawal = |one: &PastOutcome| one.standing == PastStanding::Withdraws;
        let is_kept = |at: usize| {
            let named = |one: &PastOutcome| (one.predicted_at, one.observed_at);
            let mut after = of_day[at + 1..].iter();
            !is_withdrawal(&of_day[at])
                && !after.any(|other| is_withdrawal(other) && named(other) == named(&of_day[at]))
        };
        let wins = |at: usize| {
            let (judges, observed_at) = (of_day[at].predicted_at, of_day[at].observed_at);
            let rivals = (0..of_day.len()).filter(|other| is_kept(*other));
            let mut rivals = rivals.filter(|other| {
                let by = of_day[*other].predicted_at;
                by == judges || by.is_none()
            });
            rivals.all(|other| (of_day[other].observed_at, other) <= (observed_at, at))
        };
        (0..of_day.len()).map(|at| is_kept(at) && wins(at)).collect()
    }

    proptest::proptest! {
        #[test]
        fn outcomes_stand_as_the_rules_say(
            drawn in proptest::collection::vec((0_u32..3, 0_u32..4, proptest::bool::weighted(0.2)), 0..24),
        ) {
            let judged = [None, Some("01:00"), Some("02:00")];
            let observed = ["03:00", "04:00", "05:00", "06:00"];
            let mut all: Vec<PastOutcome> = drawn
                .into_iter()
                .map(|(judges, at, withdraws)| {
                    let standing = if withdraws { PastStanding::Withdraws } else { PastStanding::Counts };
                    past("2026-06-01", judged[judges as usize], observed[at as usize], standing)
                })
                .collect();
            let expected = counting(&all);
            stand(&mut all);
            let found: Vec<bool> = all.iter().map(|one| one.standing == PastStanding::Counts).collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }

    fn standings(past: &[PastOutcome]) -> Vec<&'static str> {
        past.iter().map(|one| one.standing.name()).collect()
    }

    #[test]
    fn later_observations_correct_and_withdrawals_take_back_what_stands_before_them() {
        use PastStanding::{Counts, Withdraws};
        let (one, two) = ("2026-06-01", "2026-06-02");
        let mut all = vec![
            past(one, Some("01:00"), "10:00", Counts),
            past(one, Some("01:00"), "12:00", Counts),
            past(one, Some("01:00"), "12:00", Withdraws),
            past(one, Some("02:00"), "11:00", Counts),
            past(one, None, "09:00", Counts),
            past(two, None, "12:00", Counts),
            past(two, Some("01:00"), "11:00", Counts),
            past(two, None, "12:00", Counts),
        ];
        stand(&mut all);
        let expected =
            ["counts", "withdrawn", "withdraws", "counts", "counts", "corrected", "corrected", "counts"];
        assert_eq!(standings(&all), expected);
        // What is sent again after it was taken back counts.
        let mut again = vec![
            past(one, Some("01:00"), "10:00", Counts),
            past(one, Some("01:00"), "10:00", Withdraws),
            past(one, Some("01:00"), "10:00", Counts),
        ];
        stand(&mut again);
        assert_eq!(standings(&again), ["withdrawn", "withdraws", "counts"]);
    }
}
