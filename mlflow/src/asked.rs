//! The fields of a request: those of its body, or the parameters of its query.

use axum::http::Extensions;
use event::Timestamp;
use serde_json::{Map, Value};

use crate::answer::{Answer, Failure};

/// A request to an endpoint.
pub(crate) struct Asked {
    pub(crate) fields: Map<String, Value>,
    /// The extensions of the request with its caller, for actions on its behalf.
    pub(crate) extensions: Extensions,
}

impl Asked {
    /// Returns a required text.
    pub(crate) fn text(&self, name: &str) -> Answer<&str> {
        needed(self.text_if(name)?, name)
    }

    /// Returns a text; an empty one counts as missing, as in protocol buffers.
    pub(crate) fn text_if(&self, name: &str) -> Answer<Option<&str>> {
        text(self.fields.get(name), name)
    }

    /// Returns the id of a run, which older clients send as `run_uuid`.
    pub(crate) fn run(&self) -> Answer<&str> {
        self.text_if("run_id")?.map_or_else(|| self.text("run_uuid"), Ok)
    }

    /// Returns the objects of a list.
    pub(crate) fn list(&self, name: &str) -> Answer<&[Value]> {
        objects(self.fields.get(name), name)
    }

    /// Returns the texts of a list; a single text is a list too.
    pub(crate) fn texts(&self, name: &str) -> Answer<Vec<&str>> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text]),
            Some(value @ Value::Array(texts)) => {
                let texts: Option<Vec<&str>> = texts.iter().map(Value::as_str).collect();
                texts.ok_or_else(|| wrong(value, name, "a list of texts"))
            }
            Some(value) => Err(wrong(value, name, "a list of texts")),
        }
    }

    /// Returns a whole number, which may be sent as text.
    pub(crate) fn whole(&self, name: &str) -> Answer<Option<i64>> {
        self.fields.get(name).map_or(Ok(None), |value| whole(value, name))
    }

    /// Returns an instant, given in milliseconds.
    pub(crate) fn time(&self, name: &str) -> Answer<Option<Timestamp>> {
        self.whole(name)?.map(|millis| instant(millis, name)).transpose()
    }

    /// Returns the maximum size of a page.
    pub(crate) fn limit(&self, usual: usize, most: usize) -> Answer<usize> {
        let asked = self.whole("max_results")?.filter(|limit| *limit != 0);
        let limit = asked.map_or(Ok(usual), usize::try_from).unwrap_or(0);
        match limit {
            0 => Err(Failure::invalid("Invalid value for parameter 'max_results': it must be positive.")),
            limit if limit > most => {
                let message =
                    format!("Invalid value {limit} for parameter 'max_results': it must be at most {most}");
                Err(Failure::invalid(message))
            }
            limit => Ok(limit),
        }
    }
}

/// Builds the failure of a value of a wrong type.
fn wrong(value: &Value, name: &str, expected: &str) -> Failure {
    Failure::invalid(format!("Invalid value {value} for parameter '{name}': {expected} is expected."))
}

/// Returns the value of a required parameter.
pub(crate) fn needed<T>(value: Option<T>, name: &str) -> Answer<T> {
    value.ok_or_else(|| Failure::invalid(format!("Missing value for required parameter '{name}'.")))
}

/// Reads a text; `None` for null or an empty text.
pub(crate) fn text<'a>(value: Option<&'a Value>, name: &str) -> Answer<Option<&'a str>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(value) => Err(wrong(value, name, "a text")),
    }
}

/// Reads the objects of a list; an empty list for null.
pub(crate) fn objects<'a>(value: Option<&'a Value>, name: &str) -> Answer<&'a [Value]> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) if list.iter().all(Value::is_object) => Ok(list),
        Some(value) => Err(wrong(value, name, "a list of objects")),
    }
}

/// Reads a whole number; `None` for null.
pub(crate) fn whole(value: &Value, name: &str) -> Answer<Option<i64>> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.parse().ok(),
        value => value.as_i64(),
    };
    number.map(Some).ok_or_else(|| wrong(value, name, "a whole number"))
}

/// Reads a number, which may be NaN or infinite.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            text => text.parse().ok(),
        },
        value => value.as_f64(),
    }
}

/// Converts milliseconds to an instant.
pub(crate) fn instant(millis: i64, name: &str) -> Answer<Timestamp> {
    let at = millis.checked_mul(1_000).and_then(Timestamp::from_micros);
    at.ok_or_else(|| {
        Failure::invalid(format!("Invalid value {millis} for parameter '{name}': it is no time."))
    })
}

/// Converts an instant to milliseconds.
pub(crate) fn millis(at: Timestamp) -> i64 {
    at.micros().div_euclid(1_000)
}
