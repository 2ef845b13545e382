//! Whether only what was live in an environment is judged, or what was not.

use event::{Error, Result, id};

use crate::request::{What, Words, of_evaluations};

/// Predictions of what was live, or was not, when they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveIn {
    /// The environment.
    pub environment: String,
    /// Whether what was live there is judged, or what was not.
    pub is_live: bool,
}

/// Reads it from the words of a request.
pub(crate) fn live_of(what: What, words: &Words<'_>) -> Result<Option<LiveIn>> {
    match words.environment {
        // There it says where the champion is live.
        _ if what == What::Challengers && !words.shadow => Ok(None),
        Some(environment) => {
            of_evaluations(what, "environment")?;
            id::check_name(environment).map_err(|error| Error::invalid(format!("environment: {error}")))?;
            Ok(Some(LiveIn { environment: environment.to_owned(), is_live: !words.shadow }))
        }
        None if words.shadow => Err(Error::invalid("shadow: name the environment in which it was not live")),
        None => Ok(None),
    }
}
