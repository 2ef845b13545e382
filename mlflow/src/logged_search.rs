//! Search of logged models, page by page, each limited in the runs that it looks at.

use catalog::{RunQuery, RunWithMetrics, Workspace};
use event::Id;
use serde_json::{Value, json};
use table::Cursor;

use crate::{
    answer::{Answer, Failure},
    asked::Asked,
    door::Door,
    experiments::no_page,
    filter::{Attributes, Filter, Subject},
    logged::{models_of, run_in},
    logged_metrics::latest_of,
    search::{experiments, off_the_runtime},
};

/// Number of runs listed at one time.
const RUNS_AT_ONCE: usize = 200;

/// Number of runs that a page looks at. A page with few results ends there, and the next one continues.
const MAX_RUNS: usize = 10_000;

/// Maximum number of models of a page.
const MAX_MODELS: usize = 1_000;

/// Maximum bytes of the models of a page, unless a single one has more.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The attributes by which models are searched.
const ATTRIBUTES: Attributes = Attributes {
    numbers: &["creation_timestamp"],
    texts: &["name", "model_id", "model_type", "source_run_id", "status"],
    datasets: &[],
};

/// A logged model as the subject of a filter.
struct Logged(Value);

impl Subject for Logged {
    fn text(&self, of: &str, name: &str) -> Option<String> {
        let listed = |list: &Value| {
            let found = list.as_array()?.iter().find(|pair| pair["key"] == name)?;
            found["value"].as_str().map(str::to_owned)
        };
        match of {
            "attributes" => self.0["info"][name].as_str().map(str::to_owned),
            "tags" => listed(&self.0["info"]["tags"]),
            "params" => listed(&self.0["data"]["params"]),
            _ => None,
        }
    }

    fn number(&self, of: &str, name: &str) -> Option<f64> {
        match (of, name) {
            ("attributes", "creation_timestamp") => self.0["info"]["creation_timestamp_ms"].as_f64(),
            ("metrics", name) => latest_of(&self.0["data"]["metrics"], name),
            _ => None,
        }
    }
}

/// The place at which a search continues.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The experiment, by its id.
    experiment: String,
    /// The runs of it after which it continues; from the newest one if `None`.
    after: Option<Cursor>,
    /// The last model passed and its run, if there is one. Models logged meanwhile move no place.
    passed: Option<(Id, String)>,
}

impl Place {
    /// Returns the beginning of an experiment.
    fn beginning(experiment: &str) -> Self {
        Self { experiment: experiment.to_owned(), after: None, passed: None }
    }

    /// Parses a page token.
    fn parse(token: &str) -> Answer<Self> {
        let mut parts = token.splitn(3, '.');
        let (Some(after), Some(passed), Some(experiment)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(no_page());
        };
        let after = match after {
            "" => None,
            text => Some(Cursor::from_text(text).map_err(|_| no_page())?),
        };
        let passed = match passed {
            "" => None,
            id => Some((run_in(id).ok_or_else(no_page)?, id.to_owned())),
        };
        Ok(Self { experiment: experiment.to_owned(), after, passed })
    }

    /// Returns the token of the page that begins here. No id of a model and no cursor has a point.
    fn token(&self) -> String {
        let after = self.after.as_ref().map(Cursor::to_text).unwrap_or_default();
        let passed = self.passed.as_ref().map_or("", |(_, id)| id.as_str());
        format!("{after}.{passed}.{}", self.experiment)
    }

    /// Returns true if a model was on an earlier page: runs go from the newest to the oldest, models of a run by their ids.
    fn has_passed(&self, run: &Id, model: &str) -> bool {
        let passed = self.passed.as_ref();
        passed.is_some_and(|(last, id)| run > last || (run == last && model <= id.as_str()))
    }

    /// Returns the place behind some runs: at `next`, or else at the next experiment.
    fn behind(&self, next: Option<Cursor>, experiments: &[&str]) -> Option<Self> {
        if next.is_some() {
            return Some(Self { after: next, ..self.clone() });
        }
        let mut others = experiments.iter().skip_while(|one| **one != self.experiment);
        others.nth(1).map(|next| Self::beginning(next))
    }
}

/// A page of matching models.
struct Page {
    filter: Filter,
    limit: usize,
    found: Vec<Value>,
    /// Bytes of the models.
    bytes: usize,
}

impl Page {
    fn is_full(&self) -> bool {
        self.found.len() >= self.limit || self.bytes >= MAX_BYTES
    }

    /// Adds the models of runs that are behind a place. If the page is full before their end, returns the place at which the next
    /// one begins.
    fn take(&mut self, runs: &[RunWithMetrics], from: &Place) -> Option<Place> {
        let mut last = from.passed.clone();
        let active = runs.iter().map(|of| &of.run).filter(|run| run.archived_at.is_none());
        for (run, model) in active.flat_map(|run| models_of(run).map(move |model| (run, model))) {
            let id = model["info"]["model_id"].as_str().unwrap_or_default().to_owned();
            let model = Logged(model);
            if from.has_passed(&run.id, &id) || !self.filter.matches(&model) {
                continue;
            }
            if self.is_full() {
                return Some(Place { passed: last, ..from.clone() });
            }
            self.bytes += model.0.to_string().len();
            self.found.push(model.0);
            last = Some((run.id.clone(), id));
        }
        None
    }
}

impl Door {
    /// Searches the models of the runs of some experiments, those of the latest runs first.
    pub(crate) async fn search_logged_models(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let limit = asked.limit(100, MAX_MODELS)?;
        if !asked.list("order_by")?.is_empty() || !asked.list("datasets")?.is_empty() {
            return Err(Failure::invalid(
                "Almanac answers logged models of the latest runs first, whatever their metrics and datasets: leave out order_by and datasets",
            ));
        }
        let filter = Filter::parse(asked.text_if("filter")?.unwrap_or_default(), &ATTRIBUTES)?;
        let experiments: Vec<&str> = experiments(asked)?.into_iter().collect();
        let mut place = match asked.text_if("page_token")? {
            Some(token) => Some(Place::parse(token)?),
            None => experiments.first().map(|first| Place::beginning(first)),
        };
        if place.as_ref().is_some_and(|at| !experiments.contains(&at.experiment.as_str())) {
            return Err(no_page());
        }
        let (mut page, mut searched) = (Page { filter, limit, found: Vec::new(), bytes: 0 }, 0);
        while let Some(at) = place.take_if(|_| !page.is_full() && searched < MAX_RUNS) {
            let query = RunQuery {
                experiment: Some(at.experiment.clone()),
                limit: RUNS_AT_ONCE,
                after: at.after.clone(),
                newest_first: true,
            };
            let runs = self.ingest.catalog().runs(workspace.id(), &query).await?;
            // A page without runs takes a read too.
            searched += runs.runs.len().max(1);
            let (from, own, next) = (at.clone(), runs.runs, runs.next);
            let full;
            (page, full) = off_the_runtime(move || {
                let full = page.take(&own, &from);
                (page, full)
            })
            .await?;
            place = full.or_else(|| at.behind(next, &experiments));
        }
        Ok(json!({ "models": page.found, "next_page_token": place.map(|at| at.token()) }))
    }
}

#[cfg(test)]
mod tests {
    use event::Timestamp;

    use super::*;
    use crate::search;

    /// Builds a run that began `seconds` after the first, and logged `models` models.
    fn run(seconds: i64, models: usize) -> RunWithMetrics {
        let mut of = search::tests::run(seconds, "");
        let said = json!({ "name": "model", "created": seconds }).to_string();
        let model =
            |_| (format!("almanac.model/m-{}-{}", of.run.id, Id::new(of.run.started_at)), said.clone());
        of.run.tags = (0..models).map(model).collect();
        of
    }

    fn page(limit: usize) -> Page {
        Page { filter: Filter::default(), limit, found: Vec::new(), bytes: 0 }
    }

    #[test]
    fn full_page_ends_and_the_next_continues() {
        let mut runs: Vec<RunWithMetrics> = (0..4).rev().map(|n| run(n, 3)).collect();
        let ids =
            |models: &[Value]| models.iter().map(|one| one["info"]["model_id"].clone()).collect::<Vec<_>>();
        let mut whole = page(100);
        let beginning = Place::beginning("0");
        assert_eq!((whole.take(&runs, &beginning), whole.found.len()), (None, 12));
        let (mut all, mut place) = (Vec::new(), Some(beginning));
        while let Some(at) = place {
            let mut some = page(5);
            place = some.take(&runs, &Place::parse(&at.token()).unwrap());
            assert!(some.found.len() == 5 || place.is_none());
            all.extend(ids(&some.found));
            // Runs that begin or are archived meanwhile move nothing else.
            runs.insert(0, run(10 + all.len() as i64, 2));
        }
        assert_eq!(all, ids(&whole.found));
    }

    #[test]
    fn exhausted_experiment_is_followed_by_the_next() {
        let first =
            Place { passed: Some((Id::new(Timestamp::default()), "m".into())), ..Place::beginning("0") };
        let cursor = Cursor::of(vec!["a".into(), "b".into()]);
        let later = first.behind(Some(cursor.clone()), &["0", "1"]).unwrap();
        assert_eq!(
            (later.after, later.experiment.as_str(), later.passed),
            (Some(cursor), "0", first.passed.clone())
        );
        assert_eq!(first.behind(None, &["0", "1"]), Some(Place::beginning("1")));
        assert_eq!(first.behind(None, &["1", "0"]), None);
    }

    #[test]
    fn a_token_says_a_place() {
        let run = Id::new(Timestamp::default());
        let id = format!("m-{run}-{run}");
        let cursor = Cursor::of(vec!["w#x/exp#1/r".into(), "run#x".into()]);
        let place = Place { experiment: "1".into(), after: Some(cursor), passed: Some((run, id)) };
        for place in [place.clone(), Place { after: None, ..place.clone() }, Place::beginning("1")] {
            assert_eq!(Place::parse(&place.token()).unwrap(), place);
        }
        for token in ["3", "", "!.m.0", ".model.0"] {
            assert_eq!(Place::parse(token).unwrap_err().message, "Invalid page token", "{token}");
        }
    }
}
