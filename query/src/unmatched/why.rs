//! An unmatched outcome in an answer, with the reason for its state.

use catalog::Kept;
use event::{Day, Id, Result, Timestamp, Window, fields::AppliesTo};
use fold::latest::{Asked, MAX_JUDGED};
use log::unmatched::{Looked, WAITS_DAYS};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::{UnmatchedPlace, UnmatchedState};
use crate::{Query, http};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// An unmatched outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UnmatchedOutcome {
    /// Its place.
    #[schema(schema_with = http::place_schema)]
    pub place: UnmatchedPlace,
    /// Its state.
    #[schema(inline)]
    pub state: UnmatchedState,
    /// Its key.
    pub key: String,
    /// Its prediction is of no later instant.
    #[schema(value_type = String, format = DateTime)]
    pub observed_at: Timestamp,
    /// Its prediction is of no earlier instant.
    #[schema(value_type = String, format = DateTime)]
    pub predicted_since: Timestamp,
    /// Which predictions of its key it labels.
    #[serde(serialize_with = "as_name")]
    #[schema(schema_with = http::applies_to)]
    pub applies_to: AppliesTo,
    /// When it was appended.
    #[schema(value_type = String, format = DateTime)]
    pub arrived_at: Timestamp,
    /// The instant of the prediction that it labels, of several of the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub predicted_at: Option<Timestamp>,
    /// Number of instants of predictions that it labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, nullable = false)]
    pub judged: Option<usize>,
    /// Instant up to whose appends predictions were looked for when it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub decided_as_of: Option<Timestamp>,
    /// When its prediction was first looked for among what there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub looked_at: Option<Timestamp>,
    /// When it labels nothing, if none is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub expires_at: Option<Timestamp>,
    /// Why it is in that state, in a sentence.
    pub why: String,
}

fn as_name<S: Serializer>(applies_to: &AppliesTo, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(applies_to.name())
}

/// The instants of the predictions that one outcome labels: their number, the first and the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct LabelledInstants {
    count: usize,
    first: Timestamp,
    last: Timestamp,
}

impl LabelledInstants {
    /// Summarises instants in their order; `None` if there are none.
    pub(super) fn of(instants: &[i64]) -> Option<Self> {
        let [first, last] = [instants.first()?, instants.last()?].map(|at| Timestamp::from_micros(*at));
        Some(Self { count: instants.len(), first: first?, last: last? })
    }

    fn told(self) -> String {
        let Self { count, first, last } = self;
        match count {
            1 => format!("it labels the prediction of {last}"),
            _ => format!("it labels the predictions of {count} instants from {first} to {last}"),
        }
    }
}

/// The facts about one outcome.
pub(super) struct UnexplainedOutcome {
    pub(super) place: UnmatchedPlace,
    pub(super) state: UnmatchedState,
    pub(super) arrived_at: Timestamp,
    pub(super) judged: Option<LabelledInstants>,
    pub(super) as_of: Option<Timestamp>,
    pub(super) looked: Option<Looked>,
    pub(super) asked: Asked,
}

impl UnexplainedOutcome {
    /// Returns the first and the last day on which its prediction may be.
    fn days(&self) -> (Day, Day) {
        let day = |micros| Timestamp::from_micros(micros).unwrap_or_default().day();
        (day(self.asked.from), day(self.asked.until))
    }

    fn explained(self, kept: &Kept) -> UnmatchedOutcome {
        let (why, instant) = (self.why(kept), |micros| Timestamp::from_micros(micros).unwrap_or_default());
        let waits = self.state == UnmatchedState::Waiting;
        UnmatchedOutcome {
            place: self.place,
            state: self.state,
            observed_at: instant(self.asked.until),
            predicted_since: instant(self.asked.from),
            key: self.asked.key,
            arrived_at: self.arrived_at,
            applies_to: self.asked.applies_to,
            predicted_at: self.judged.map(|judged| judged.last),
            judged: self.judged.map(|judged| judged.count),
            decided_as_of: self.as_of,
            looked_at: self.looked.map(|looked| looked.at).filter(|_| waits),
            expires_at: waits.then(|| self.arrived_at.plus_seconds(WAITS_DAYS * DAY_SECONDS)),
            why,
        }
    }

    fn why(&self, kept: &Kept) -> String {
        let judged = || self.judged.map_or_else(String::new, LabelledInstants::told);
        match self.state {
            UnmatchedState::Waiting => self.why_it_waits(kept),
            UnmatchedState::Decided => {
                format!("{}, and is to be appended", judged())
            }
            UnmatchedState::Appended => judged(),
            UnmatchedState::Expired => {
                format!("no prediction of its key was found for {WAITS_DAYS} days; it labels none")
            }
            UnmatchedState::Refused => {
                let (first, last) = self.days();
                format!(
                    "there are predictions of its key of more than {MAX_JUDGED} instants from {first} to {last}; it labels none, and is to be posted again with a later `predicted_since`"
                )
            }
        }
    }

    fn why_it_waits(&self, kept: &Kept) -> String {
        let (first, last) = self.days();
        let Some(Looked { at, is_all, .. }) = self.looked else {
            return "no worker has looked for its prediction yet".to_owned();
        };
        // Days are searched from the latest back, and the search ends at an expired one.
        let days = std::iter::successors(Some(last), |day| day.before()).take_while(|day| *day >= first);
        if let Some(gone) = days.into_iter().find(|day| !kept.keeps(*day)) {
            return match gone == last {
                // All days are searched for an outcome that labels all predictions.
                _ if self.asked.applies_to == AppliesTo::All => format!(
                    "no prediction of its key from {first} to {last} was found at {at}; the events of {gone} are gone, and it may have been there"
                ),
                true => format!("the events of {gone} are gone, and its prediction may have been there"),
                false => format!(
                    "no prediction of its key from {} to {last} was found at {at}; the events of {gone} are gone, and it may have been there",
                    gone.next().unwrap_or(gone)
                ),
            };
        }
        let more = match is_all {
            true => "it is looked for again when more has come",
            false => "what came less than 30 s before, and what could not be read, is looked at again",
        };
        format!("no prediction of its key from {first} to {last} was found at {at}; {more}")
    }
}

impl Query {
    /// Adds the reason of each state.
    pub(super) async fn explained(
        &self,
        workspace: &Id,
        told: Vec<UnexplainedOutcome>,
    ) -> Result<Vec<UnmatchedOutcome>> {
        let days =
            told.iter().filter(|told| told.state == UnmatchedState::Waiting).map(UnexplainedOutcome::days);
        let days = days.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let kept = match days {
            Some((first, last)) => {
                self.catalog.kept(workspace, Window::new(first, last.max(first))?, self.now()).await?
            }
            None => Kept::default(),
        };
        Ok(told.into_iter().map(|told| told.explained(&kept)).collect())
    }
}
