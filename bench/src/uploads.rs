//! Requests that carry the events to Almanac.

use std::sync::{Arc, Mutex, PoisonError};

use event::Kind;

use crate::{
    data::{BATCH_ROWS, Data, Outcome, Prediction, frame, json},
    load::{Request, Requests, http},
    service::{NDJSON, Service},
};

/// Form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A JSON object a line.
    Lines,
    /// One JSON object of columns.
    Columns,
    /// An Arrow IPC stream.
    Arrow,
}

impl Form {
    /// Returns its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Lines => NDJSON,
            Form::Columns => "application/json",
            Form::Arrow => "application/vnd.apache.arrow.stream",
        }
    }

    /// Writes predictions in this form.
    ///
    /// # Errors
    /// Fails if polars cannot write it.
    pub fn body(self, predictions: &[Prediction]) -> anyhow::Result<Vec<u8>> {
        Ok(match self {
            Form::Lines => json::prediction_lines(predictions),
            Form::Columns => json::prediction_columns(predictions),
            Form::Arrow => frame::arrow_stream(frame::predictions(predictions)?)?,
        })
    }

    /// Returns a post of predictions in this form.
    ///
    /// # Errors
    /// See [`Form::body`].
    pub fn request(self, predictions: &[Prediction]) -> anyhow::Result<Request> {
        let body = self.body(predictions)?;
        let bytes = http::post(&Service::path(Kind::Predictions.name()), self.content_type(), &body);
        Ok(Request { bytes: bytes.into(), rows: predictions.len() })
    }
}

fn outcome_request(outcomes: &[Outcome]) -> Request {
    let body = json::outcome_lines(outcomes);
    let bytes = http::post(&Service::path(Kind::Outcomes.name()), NDJSON, &body);
    Request { bytes: bytes.into(), rows: outcomes.len() }
}

/// Returns the batches of all predictions, up to about `rows` of them, as prepared requests.
///
/// # Errors
/// See [`Form::body`].
pub fn predictions(data: &Data, form: Form, rows: usize) -> anyhow::Result<Vec<Request>> {
    let batches = data.batches().take(rows.div_ceil(BATCH_ROWS).max(1));
    batches.map(|(day, batch)| form.request(&data.predictions(day, batch))).collect()
}

/// Returns a post for each of the first `count` predictions.
///
/// # Errors
/// See [`Form::body`].
pub fn singles(data: &Data, count: usize) -> anyhow::Result<Vec<Request>> {
    let rows = data.batches().flat_map(|(day, batch)| data.predictions(day, batch));
    rows.take(count).map(|row| Form::Lines.request(&[row])).collect()
}

/// Returns the days' predictions and then their outcomes, day after day, each made on request.
pub fn days(data: &Data, days: usize) -> Requests {
    let data = *data;
    let posts: Vec<(usize, Kind, usize)> = (0..days.min(data.days()))
        .flat_map(|day| {
            let of = move |kind| (0..data.batches_of(day)).map(move |batch| (day, kind, batch));
            of(Kind::Predictions).chain(of(Kind::Outcomes))
        })
        .collect();
    let known: Mutex<(usize, Arc<Vec<Outcome>>)> = Mutex::new((usize::MAX, Arc::default()));
    Arc::new(move |at| {
        let &(day, kind, batch) = posts.get(at)?;
        if kind == Kind::Predictions {
            let predictions = data.predictions(day, batch);
            let body = json::prediction_lines(&predictions);
            let bytes = http::post(&Service::path(kind.name()), NDJSON, &body);
            return Some(Request { bytes: bytes.into(), rows: predictions.len() });
        }
        let outcomes = {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.0 != day {
                *known = (day, Arc::new(data.outcomes(day)));
            }
            Arc::clone(&known.1)
        };
        // As many batches as of predictions, each a little smaller, since some are never judged.
        let batches = data.batches_of(day);
        let share = |batch: usize| outcomes.len() * batch / batches;
        Some(outcome_request(&outcomes[share(batch)..share(batch + 1)]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_carry_every_event_once() {
        let data = Data::new(45_000);
        let requests = days(&data, data.days());
        let all: Vec<Request> = (0..).map_while(|at| requests(at)).collect();
        let judged: usize = (0..data.days()).map(|day| data.outcomes(day).len()).sum();
        assert_eq!(all.iter().map(|request| request.rows).sum::<usize>(), 45_000 + judged);
        assert_eq!(all.len(), 60);
        assert_eq!(singles(&data, 7).unwrap().len(), 7);
    }
}
