//! History of a key: its outcomes in the order in which they were appended, with those retracted or corrected.

use std::collections::{HashMap, HashSet};

use event::{Day, Error, Id, Result, Timestamp};
use polars::prelude::DataFrame;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    Answer, Dataset, Format, Params, Query, Request,
    answer::{Held, Written},
    window::days_until,
    work,
};

/// Default number of days of a history.
const DAYS: i64 = 400;

/// Maximum number of outcomes of a history.
pub(crate) const MAX_OUTCOMES: usize = 10_000;

/// Approximate bytes of an outcome on its way into an answer, besides its bytes in the dataframe.
const OUTCOME_BYTES: u64 = 2_048;

/// Approximate number of copies of the dataframe on that way: as lines, as outcomes, as JSON and as its text.
const COPIES: u64 = 4;

/// The columns that are read.
const COLUMNS: &str = "day,appended_at,predicted_at,observed_at,label,value,retracted,reason";

/// The parameters of a request for a history.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct HistoryParams {
    /// The key.
    #[param(min_length = 1, example = "loan-0000017")]
    pub key: String,
    /// The first UTC day of predictions; the 400 days up to the last one by default.
    #[param(value_type = Option<String>, format = Date)]
    pub from: Option<Day>,
    /// The last UTC day of predictions; today by default.
    #[param(value_type = Option<String>, format = Date)]
    pub to: Option<Day>,
}

/// The current standing of an outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PastStanding {
    /// It labels its predictions.
    #[default]
    Counts,
    /// A later outcome, by observation or by arrival, labels them instead.
    Corrected,
    /// It was retracted.
    Retracted,
    /// It retracts others.
    Retracts,
    /// It would retract others, but none of the same instants stands before it.
    RetractsNothing,
}

/// An outcome of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PastOutcome {
    /// Time at which it was appended.
    #[schema(value_type = String, format = DateTime)]
    pub appended_at: Timestamp,
    /// The day of the predictions that it labels.
    #[schema(value_type = String, format = Date)]
    pub day: Day,
    /// The instant of the prediction that it labels; null, when it labels all of the day.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    pub predicted_at: Option<Timestamp>,
    /// Time at which it was observed.
    #[schema(value_type = String, format = DateTime)]
    pub observed_at: Timestamp,
    /// The true label.
    #[schema(required)]
    pub label: Option<String>,
    /// The true number.
    #[schema(required)]
    pub value: Option<f64>,
    /// Why others are taken back.
    #[schema(required)]
    pub reason: Option<String>,
    /// Standing today. One that `retracts_nothing` takes nothing back: no outcome of the same key and instants stands before it.
    #[serde(default)]
    #[schema(inline, required)]
    pub standing: PastStanding,
}

/// The outcomes of a key, in the order in which they were appended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct OutcomeHistory {
    /// The outcomes, also those that were taken back or corrected.
    pub outcomes: Vec<PastOutcome>,
    /// Segments that could not be read, with the reasons.
    pub warnings: Vec<String>,
}

impl PastOutcome {
    /// Returns its identity within its key and day: the instant that it labels, and the time at which it was observed.
    fn instants(&self) -> (Option<Timestamp>, Timestamp) {
        (self.predicted_at, self.observed_at)
    }
}

/// A row of the answer that the history is built from.
#[derive(Deserialize)]
struct Row {
    #[serde(flatten)]
    outcome: PastOutcome,
    retracted: Option<String>,
}

impl Row {
    fn read(self) -> PastOutcome {
        match self.retracted {
            Some(_) => PastOutcome { standing: PastStanding::Retracts, ..self.outcome },
            None => self.outcome,
        }
    }
}

impl Query {
    /// Returns the outcomes of a key about the predictions of some days. Unmatched outcomes are among them once they have a match.
    ///
    /// # Errors
    /// `Invalid`, if a parameter is wrong; `TooLarge`, if there are more outcomes than a history has; errors of [`Query::run`].
    pub async fn outcome_history(&self, workspace: &Id, params: &HistoryParams) -> Result<OutcomeHistory> {
        let (history, _held) = self.history_as(workspace, params, Ok).await?;
        Ok(history)
    }

    /// Returns the history as JSON. It counts in the bounds until it is sent.
    ///
    /// # Errors
    /// Errors of [`Query::outcome_history`].
    pub(crate) async fn written_history(&self, workspace: &Id, params: &HistoryParams) -> Result<Written> {
        let (text, Held { hold, wanted, turn }) = self.history_as(workspace, params, written).await?;
        let left = text.len() as u64;
        hold.settle(left).await?;
        hold.made();
        drop((wanted, turn));
        Ok(Written { chunks: vec![text].into_iter(), left, hold })
    }

    /// Returns the result of `make` for the history of a key, and its hold on the bounds.
    async fn history_as<T: Send + 'static>(
        &self,
        workspace: &Id,
        params: &HistoryParams,
        make: impl FnOnce(OutcomeHistory) -> Result<T> + Send + 'static,
    ) -> Result<(T, Held)> {
        let window = days_until(params.from, params.to, DAYS - 1, self.now())?;
        let (from, to) = (window.from().to_string(), window.to().to_string());
        let asked = Params {
            from: &from,
            to: &to,
            key: Some(&params.key),
            columns: Some(COLUMNS),
            ..Params::default()
        };
        let request = Request::parse(Dataset::Events(event::Kind::Outcomes), &asked)?;
        let Answer { frame, warnings, held, .. } = self.run(workspace, &request).await?;
        check_count(&params.key, frame.height())?;
        let bytes = COPIES * frame.estimated_size() as u64 + OUTCOME_BYTES * frame.height() as u64;
        held.hold.take(bytes).await?;
        let hold = held.hold.clone();
        let making = work::run(move || {
            hold.check()?;
            make(OutcomeHistory { outcomes: past_of(frame)?, warnings })
        });
        let made = making.await;
        let made =
            made.map_err(|error| Error::unavailable("making the history was interrupted").because(error))?;
        Ok((made?, held))
    }
}

/// Refuses more outcomes of a key than a history has.
fn check_count(key: &str, count: usize) -> Result<()> {
    if count <= MAX_OUTCOMES {
        return Ok(());
    }
    Err(Error::too_large(format!(
        "the key `{key}` has {count} outcomes about these days, and a history has at most {MAX_OUTCOMES}; ask for fewer days with `from` and `to`, or read the outcomes of the key as events: `almanac query outcomes --key`, GET .../outcomes?key="
    )))
}

/// Reads the outcomes of a dataframe, in the order in which they were appended, with their standing.
fn past_of(mut frame: DataFrame) -> Result<Vec<PastOutcome>> {
    let mut lines = Vec::new();
    Format::Ndjson.write(&mut frame, &mut lines)?;
    let broken = |error: serde_json::Error| Error::corrupt(format!("a row of the answer: {error}"));
    let rows = serde_json::Deserializer::from_slice(&lines).into_iter::<Row>();
    let mut past: Vec<PastOutcome> =
        rows.map(|row| row.map(Row::read).map_err(broken)).collect::<Result<_>>()?;
    stand(&mut past);
    past.sort_by_key(|one| one.appended_at);
    Ok(past)
}

/// Returns a history as JSON text.
fn written(history: OutcomeHistory) -> Result<Vec<u8>> {
    serde_json::to_vec(&history).map_err(|error| Error::corrupt(format!("the history is no JSON: {error}")))
}

/// Sets the standing of the outcomes of a key, which are in the order of days and within each day of the log, by the rules of the
/// [join](fold::join).
fn stand(past: &mut [PastOutcome]) {
    for of_day in past.chunk_by_mut(|one, other| one.day == other.day) {
        take_back(of_day);
        correct(of_day);
    }
}

/// Marks the outcomes of a day as retracted that are followed by a retraction of the same instants. A retraction retracts
/// nothing if no outcome of the same instants was sent before it.
fn take_back(of_day: &mut [PastOutcome]) {
    // The last retraction of each identity.
    let last: HashMap<(Option<Timestamp>, Timestamp), usize> = of_day
        .iter()
        .enumerate()
        .filter(|(_, one)| one.standing == PastStanding::Retracts)
        .map(|(at, one)| (one.instants(), at))
        .collect();
    let mut sent = HashSet::new();
    for (at, one) in of_day.iter_mut().enumerate() {
        let instants = one.instants();
        match one.standing {
            PastStanding::Retracts if !sent.contains(&instants) => {
                one.standing = PastStanding::RetractsNothing;
            }
            PastStanding::Counts => {
                sent.insert(instants);
                if last.get(&instants).is_some_and(|last| *last > at) {
                    one.standing = PastStanding::Retracted;
                }
            }
            _ => {}
        }
    }
}

/// Marks the counting outcomes of a day as corrected that another outcome overrides: it labels the same and was observed later,
/// or at the same time and appended later.
fn correct(of_day: &mut [PastOutcome]) {
    let mut greatest: HashMap<Option<Timestamp>, (Timestamp, usize)> = HashMap::new();
    for (at, one) in of_day.iter().enumerate() {
        if one.standing == PastStanding::Counts {
            let place = (one.observed_at, at);
            let of_same = greatest.entry(one.predicted_at).or_insert(place);
            *of_same = place.max(*of_same);
        }
    }
    let of_whole_day = greatest.get(&None).copied();
    for (at, one) in of_day.iter_mut().enumerate() {
        let corrects = greatest.get(&one.predicted_at).copied().max(of_whole_day);
        if one.standing == PastStanding::Counts && corrects > Some((one.observed_at, at)) {
            one.standing = PastStanding::Corrected;
        }
    }
}

#[cfg(test)]
mod tests {
    use event::ErrorKind;
    use proptest::prelude::*;

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

    fn standings(past: &[PastOutcome]) -> Vec<PastStanding> {
        past.iter().map(|one| one.standing).collect()
    }

    #[test]
    fn corrections_and_retractions_set_standing_of_earlier_outcomes() {
        use PastStanding::{Corrected, Counts, Retracted, Retracts};
        let (one, two) = ("2026-06-01", "2026-06-02");
        let mut all = vec![
            past(one, Some("01:00"), "10:00", Counts),
            past(one, Some("01:00"), "12:00", Counts),
            past(one, Some("01:00"), "12:00", Retracts),
            past(one, Some("02:00"), "11:00", Counts),
            past(one, None, "09:00", Counts),
            past(two, None, "12:00", Counts),
            past(two, Some("01:00"), "11:00", Counts),
            past(two, None, "12:00", Counts),
        ];
        stand(&mut all);
        let expected = [Counts, Retracted, Retracts, Counts, Counts, Corrected, Corrected, Counts];
        assert_eq!(standings(&all), expected);
        // An outcome sent again after its retraction counts.
        let mut again = vec![
            past(one, Some("01:00"), "10:00", Counts),
            past(one, Some("01:00"), "10:00", Retracts),
            past(one, Some("01:00"), "10:00", Counts),
        ];
        stand(&mut again);
        assert_eq!(standings(&again), [Retracted, Retracts, Counts]);
    }

    #[test]
    fn retraction_of_unsent_outcome_retracts_nothing() {
        use PastStanding::{Counts, Retracted, Retracts, RetractsNothing};
        let (one, two) = ("2026-06-01", "2026-06-02");
        let mut all = vec![
            past(one, Some("01:00"), "10:00", Retracts),
            past(one, Some("01:00"), "10:00", Counts),
            past(one, Some("01:00"), "11:00", Retracts),
            past(one, None, "10:00", Retracts),
            past(one, Some("01:00"), "10:00", Retracts),
            past(one, Some("01:00"), "10:00", Retracts),
            past(two, Some("01:00"), "10:00", Retracts),
        ];
        stand(&mut all);
        let nothing = RetractsNothing;
        let expected = [nothing, Retracted, nothing, nothing, Retracts, Retracts, nothing];
        assert_eq!(standings(&all), expected);
    }

    /// Sets the standing by definition: compares each outcome with all others of its day.
    fn stand_by_definition(past: &mut [PastOutcome]) {
        for of_day in past.chunk_by_mut(|one, other| one.day == other.day) {
            for at in 0..of_day.len() {
                let (before, after) = (&of_day[at], &of_day[at + 1..]);
                let is_same = |other: &&PastOutcome| {
                    (other.predicted_at, other.observed_at) == (before.predicted_at, before.observed_at)
                };
                let retracts = |other: &PastOutcome| {
                    [PastStanding::Retracts, PastStanding::RetractsNothing].contains(&other.standing)
                };
                let is_taken_back = after.iter().filter(is_same).any(retracts);
                let has_nothing = of_day[..at].iter().filter(is_same).all(retracts);
                if is_taken_back && before.standing == PastStanding::Counts {
                    of_day[at].standing = PastStanding::Retracted;
                } else if has_nothing && before.standing == PastStanding::Retracts {
                    of_day[at].standing = PastStanding::RetractsNothing;
                }
            }
            let counting: Vec<(usize, Option<Timestamp>, Timestamp)> = (0..)
                .zip(of_day.iter())
                .filter(|(_, one)| one.standing == PastStanding::Counts)
                .map(|(at, one)| (at, one.predicted_at, one.observed_at))
                .collect();
            for (at, instant, observed_at) in &counting {
                let later = counting.iter().filter(|(other, by, _)| {
                    other != at && (by == instant || by.is_none() && instant.is_some())
                });
                let mut later = later.map(|(other, _, observed)| (*observed, *other));
                if later.any(|other| other > (*observed_at, *at)) {
                    of_day[*at].standing = PastStanding::Corrected;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn outcomes_stand_as_by_the_definition(
            mut rows in prop::collection::vec((1_u8..4, 0_u8..4, 0_u8..4, 0_u8..4), 0..60),
        ) {
            rows.sort_by_key(|(day, ..)| *day);
            let rows = rows.into_iter().map(|(day, predicted, observed, standing)| {
                let predicted = (predicted > 0).then(|| format!("0{predicted}:00"));
                let standing =
                    if standing == 0 { PastStanding::Retracts } else { PastStanding::Counts };
                let (day, observed) = (format!("2026-06-0{day}"), format!("1{observed}:00"));
                past(&day, predicted.as_deref(), &observed, standing)
            });
            let mut all: Vec<PastOutcome> = rows.collect();
            let mut expected = all.clone();
            stand(&mut all);
            stand_by_definition(&mut expected);
            prop_assert_eq!(standings(&all), standings(&expected));
        }
    }

    /// Pairwise comparison would take minutes.
    #[test]
    fn many_outcomes_of_a_day_take_one_pass() {
        const OUTCOMES: usize = 200_000;
        let one = past("2026-06-01", Some("01:00"), "10:00", PastStanding::Counts);
        let mut all = vec![one; OUTCOMES];
        stand(&mut all);
        let last = all.pop().unwrap();
        assert_eq!(last.standing, PastStanding::Counts);
        assert!(all.iter().all(|one| one.standing == PastStanding::Corrected));
    }

    #[test]
    fn more_outcomes_than_a_history_has_are_refused() {
        check_count("k", MAX_OUTCOMES).unwrap();
        let error = check_count("k", MAX_OUTCOMES + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let text = error.to_string();
        assert!(text.contains("`k` has 10001 outcomes") && text.contains("`from` and `to`"), "{text}");
    }
}
