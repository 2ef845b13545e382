//! Restriction of evaluations to releases that were live in an environment, or were not.

use event::{Error, Result, id};

use crate::request::{Dataset, Params};

/// Restricts predictions to those of releases that were live, or were not, at the time of the prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveIn {
    /// The environment.
    pub environment: String,
    /// True to judge releases live there; false to judge the rest.
    pub is_live: bool,
}

/// Parses it from the parameters of a request.
pub(crate) fn live_of(what: Dataset, words: &Params<'_>) -> Result<Option<LiveIn>> {
    match words.environment {
        // Challengers take the environment as that of their champion.
        _ if what == Dataset::Challengers => Ok(None),
        Some(environment) => {
            id::check_name(environment).map_err(|error| Error::invalid(format!("environment: {error}")))?;
            Ok(Some(LiveIn { environment: environment.to_owned(), is_live: !words.shadow }))
        }
        None if words.shadow => Err(Error::invalid("shadow: name the environment in which it was not live")),
        None => Ok(None),
    }
}
