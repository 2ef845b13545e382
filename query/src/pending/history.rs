//! What was believed of a key, and when: its outcomes in the order in which they were appended, with those that were taken back or corrected.

use event::{Day, Error, Id, Result, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Format, Query, Request, What, Words, window::days_until};

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
        let mut lines = Vec::new();
        Format::Ndjson.write(&mut answer.frame, &mut lines)?;
        let broken = |error: serde_json::Error| Error::corrupt(format!("a row of the answer: {error}"));
        let rows = serde_json::Deserializer::from_slice(&lines).into_iter::<Row>();
        let mut past: Vec<PastOutcome> =
            rows.map(|row| row.map_err(broken)?.read()).collect::<Result<_>>()?;
        stand(&mut past);
        past.sort_by_key(|one| one.appended_at);
        Ok((past, answer.warnings))
    }
}

/// Says how the outcomes of a key stand, which come day by day, and of each day in the order of the log, by the rules of the
/// [join](fold::join).
fn stand(past: &mut [PastOutcome]) {
    for of_day in past.chunk_by_mut(|one, other| one.day == other.day) {
        for at in 0..of_day.len() {
            let (before, after) = (&of_day[at], &of_day[at + 1..]);
            let is_same = |other: &&PastOutcome| {
                (other.predicted_at, other.observed_at) == (before.predicted_at, before.observed_at)
            };
            let is_taken_back =
                after.iter().filter(is_same).any(|other| other.standing == PastStanding::Withdraws);
            if is_taken_back && before.standing == PastStanding::Counts {
                of_day[at].standing = PastStanding::Withdrawn;
            }
        }
        let counting: Vec<(usize, Option<Timestamp>, Timestamp)> = (0..)
            .zip(of_day.iter())
            .filter(|(_, one)| one.standing == PastStanding::Counts)
            .map(|(at, one)| (at, one.predicted_at, one.observed_at))
            .collect();
        for (at, judges, observed_at) in &counting {
            let later = counting
                .iter()
                .filter(|(other, by, _)| other != at && (by == judges || by.is_none() && judges.is_some()));
            let mut later = later.map(|(other, _, observed)| (*observed, *other));
            if later.any(|other| other > (*observed_at, *at)) {
                of_day[*at].standing = PastStanding::Corrected;
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
