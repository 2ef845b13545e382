//! The live release of a model against each other release that predicts beside it, one row each.

use std::sync::Arc;

use catalog::{Catalog, Definitions, LiveSpans};
use event::{Error, ErrorKind, Result, Timestamp, id};
use fold::{
    evaluation::{Duels, Grouping},
    paired::head_to_head,
};
use polars::prelude::DataFrame;

use crate::{
    evaluations::{Way, evaluate_part},
    head_to_head::{self, Compared},
    read::Reading,
    request::{Dataset, Params, Request},
    series::{Row, series},
    work,
};

/// Parameters: the model, and the environment in which its champion is live.
pub(crate) const MODEL: &str = "model";
pub(crate) const ENVIRONMENT: &str = "environment";

/// Default environment of a champion.
pub(crate) const PRODUCTION: &str = "production";

/// The model whose champion is challenged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The model, by name.
    pub model: String,
    /// The environment in which its champion is live.
    pub environment: String,
}

/// Parses the model and the environment; `None` for anything but challengers.
pub(crate) fn challenge_of(what: Dataset, words: &Params<'_>) -> Result<Option<Challenge>> {
    match (what, words.model) {
        (Dataset::Challengers, Some(model)) => {
            let environment = words.environment.unwrap_or(PRODUCTION);
            let wrong = |name: &str, error| Error::invalid(format!("{name}: {error}"));
            id::check_name(model).map_err(|error| wrong(MODEL, error))?;
            id::check_name(environment).map_err(|error| wrong(ENVIRONMENT, error))?;
            Ok(Some(Challenge { model: model.to_owned(), environment: environment.to_owned() }))
        }
        (Dataset::Challengers, None) => {
            Err(Error::invalid("model: name the model whose live release is challenged"))
        }
        _ => Ok(None),
    }
}

/// Compares the champion with each release that met it, over the whole window together, the best first.
pub(crate) async fn challenged(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<DataFrame> {
    let Some(challenge) = &request.challenge else {
        return Err(Error::invalid("model: name the model whose live release is challenged"));
    };
    let definitions = catalog.definitions(&reading.workspace).await?;
    let definitions = &definitions.known(|one| request.is_of_now() || one.appended_at <= reading.closed);
    if request.read_version.is_none() {
        reading.warn_of_expired(reading.window);
    }
    let releases = releases_of(definitions, &challenge.model)?;
    let champion = champion(reading, catalog, (request, challenge), &releases).await?;
    let Some(champion) = champion else {
        let Challenge { model, environment } = challenge;
        reading.warn(format!("no release of {model} was live in {environment} when the window ended"));
        return rows_of(&[], Vec::new(), request);
    };
    let challengers = releases.into_iter().filter(|name| *name != champion);
    let asked = |name: &String| request.release.as_ref().is_none_or(|asked| asked == name);
    let pairs: Vec<[String; 2]> = challengers.filter(asked).map(|name| [name, champion.clone()]).collect();
    let only = head_to_head::met_only(pairs.iter().flatten().chain([&champion]));
    let grouping = Grouping { only: Some(only), ..Grouping::default() };
    let way =
        Way { definitions, grouping: &grouping, more: &[], pairs: &pairs, tested: None, is_surveyed: false };
    let buckets = evaluate_part(reading, request.window, &[], &way, request).await?;
    let predicted = |name: &String| buckets.buckets.iter().any(|(bucket, _)| bucket.name == *name);
    if !predicted(&champion) {
        reading.warn(format!("the live release {champion} predicted nothing in these days"));
    }
    for ([challenger, _], met) in pairs.iter().zip(&buckets.duels) {
        if predicted(challenger) && met.values().all(Vec::is_empty) {
            reading.warn(format!("nothing judges {challenger} and {champion} on the same prediction"));
        }
    }
    let (request, hold, duels) = (request.clone(), reading.hold.clone(), buckets.duels);
    let comparing = work::run(move || {
        hold.check()?;
        rows_of(&pairs, duels, &request)
    });
    comparing.await.map_err(|error| Error::unavailable("comparing was interrupted").because(error))?
}

/// Returns the releases of a model.
fn releases_of(definitions: &Definitions, model: &str) -> Result<Vec<String>> {
    let models = definitions.models();
    let releases: Vec<String> =
        models.iter().filter(|(_, of)| *of == model).map(|(release, _)| release.clone()).collect();
    match releases.is_empty() {
        true => Err(Error::invalid(format!("model: there is no release of a model `{model}`"))),
        false => Ok(releases),
    }
}

/// Returns the release that was live at the end of the window, as it is known now or was known then. `None`, if none was.
async fn champion(
    reading: &Reading,
    catalog: &Catalog,
    (request, Challenge { environment, .. }): (&Request, &Challenge),
    releases: &[String],
) -> Result<Option<String>> {
    let last = reading.window.to();
    let until = last.next().map_or(last.start(), |next| next.start());
    let known_by = (!request.is_of_now()).then_some(reading.closed);
    let spans = match catalog.live_spans(&reading.workspace, environment, until, known_by).await {
        // An environment in which nothing was ever live has no champion.
        Err(error) if error.kind() == ErrorKind::Invalid => {
            reading.warn(error.to_string());
            LiveSpans::new()
        }
        spans => spans?,
    };
    let is_live = |spans: &Vec<(Timestamp, Option<Timestamp>)>| spans.iter().any(|(_, to)| to.is_none());
    let live = spans.into_iter().find(|(name, spans)| releases.contains(name) && is_live(spans));
    Ok(live.map(|(name, _)| name))
}

fn rows_of(pairs: &[[String; 2]], duels: Vec<Duels>, request: &Request) -> Result<DataFrame> {
    let mut found = Vec::<(f64, Row)>::new();
    for ([challenger, champion], met) in pairs.iter().zip(duels) {
        let (measure, compared) = head_to_head(vec![met.into_values().flatten().collect()]);
        for of in compared.iter().filter(|of| of.advantage.is_some()) {
            let decided = of.decided.and_then(|decided| request.window.days().nth(decided.day as usize));
            let decided = decided.map(|day| day.to_string());
            let row = Compared { release: challenger, against: champion, measure, of, decided };
            let advantage = of.advantage.unwrap_or_default();
            found.push((advantage, (request.window.from(), head_to_head::cells(&row, &[]))));
        }
    }
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let rows: Vec<Row> = found.into_iter().map(|(_, row)| row).collect();
    series(&head_to_head::columns().collect::<Vec<_>>(), &rows, request)
}
