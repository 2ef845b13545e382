//! Metrics of logged models: the latest values logged for a model are stored beside it, in tags of the run that made it.

use std::collections::BTreeMap;

use catalog::{Run, RunChange, Texts, Workspace};
use event::{Error, ErrorKind, Id, Timestamp};
use serde_json::{Value, json};

use crate::{
    asked::number,
    door::Door,
    logged::{MODEL, kept, parts, parts_of, run_in, shown},
    metrics::{given, model_of, order, shown_number},
    runs::tagging,
};

/// Name of the numbered tags that hold them, like parameters and tags of models.
const METRICS: &str = "metrics";

/// Maximum bytes of all these tags of a run, so that other content has room beside them.
const MAX_BYTES: usize = 64 * 1024;

/// Returns the key of a stored value of a metric: there is one for each run that measured it, and dataset on which it did.
fn place(key: &str, run: &Id, metric: &Value) -> String {
    let dataset = metric["dataset_name"].as_str().zip(metric["dataset_digest"].as_str());
    match dataset.filter(|(name, digest)| !name.is_empty() && !digest.is_empty()) {
        Some((name, digest)) => json!([key, run.as_str(), name, digest]).to_string(),
        None => json!([key, run.as_str()]).to_string(),
    }
}

/// Returns the order of a stored value, by which the later of two is found.
fn kept_order(value: &str) -> Option<(i64, i64)> {
    let value: Value = serde_json::from_str(value).ok()?;
    Some((value["step"].as_i64()?, value["timestamp"].as_i64()?))
}

/// Takes a value that a run measured, unless the stored one is later. A value without a stored one is taken if `takes_new`.
fn take(values: &mut Texts, run: &Id, metric: &Value, takes_new: bool) {
    let Some((key, point)) = given(metric) else { return };
    let place = place(key, run, metric);
    let (step, timestamp) = order(&point);
    let is_taken = match values.get(&place) {
        Some(known) => kept_order(known) <= Some((step, timestamp)),
        None => takes_new,
    };
    if is_taken {
        // The value as text, which holds every double, including NaN and the infinities.
        let value = json!({ "step": step, "timestamp": timestamp, "value": format!("{:?}", point.value) });
        values.insert(place, value.to_string());
    }
}

/// Returns the metrics of a model in MLflow's form, from the tags of its run.
pub(crate) fn metrics_of(run: &Run, model: &str) -> Vec<Value> {
    let metric = |(place, value): (&String, &String)| {
        let place: Vec<String> = serde_json::from_str(place).ok()?;
        let value: Value = serde_json::from_str(value).ok()?;
        let (key, run, dataset) = match place.as_slice() {
            [key, run] => (key, run, None),
            [key, run, name, digest] => (key, run, Some((name, digest))),
            _ => return None,
        };
        let mut metric = json!({
            "key": key,
            "value": shown_number(number(&value["value"])?),
            "timestamp": value["timestamp"],
            "step": value["step"],
            "model_id": model,
            "run_id": run,
        });
        if let Some((name, digest)) = dataset {
            metric["dataset_name"] = name.as_str().into();
            metric["dataset_digest"] = digest.as_str().into();
        }
        Some(metric)
    };
    kept(run, model, METRICS).iter().filter_map(metric).collect()
}

/// Returns the value of a metric by which a model is searched: the last one measured.
pub(crate) fn latest_of(metrics: &Value, name: &str) -> Option<f64> {
    let own = metrics.as_array()?.iter().filter(|metric| metric["key"] == name);
    number(&own.max_by_key(|metric| metric["timestamp"].as_i64())?["value"])
}

/// Returns the bytes of the metrics of all models of a run.
fn bytes(run: &Run) -> usize {
    let is_metrics = |name: &String| {
        let rest = name.strip_prefix(MODEL).and_then(|rest| rest.split_once('/'));
        rest.is_some_and(|(_, rest)| rest.starts_with(METRICS))
    };
    let of_metrics = run.tags.iter().filter(|(name, _)| is_metrics(name));
    of_metrics.map(|(name, value)| name.len() + value.len()).sum()
}

/// Returns the change of a run by values that a run measured for a model. If there is no room for all of them, only replacements
/// of stored values are taken.
fn noted(stored: &Run, model: &str, (by, metrics): (&Id, &[&Value]), now: Timestamp) -> RunChange {
    let (values, before) = (kept(stored, model, METRICS), parts_of(stored, model, METRICS).count());
    let change = |takes_new: bool| {
        let mut values = values.clone();
        metrics.iter().for_each(|metric| take(&mut values, by, metric, takes_new));
        tagging(parts(model, METRICS, values, before))
    };
    let all = change(true);
    match all.apply(stored, now).is_ok_and(|after| bytes(&after) <= MAX_BYTES) {
        true => all,
        false => change(false),
    }
}

impl Door {
    /// Stores metrics of a run beside their logged models. A metric of no existing model, or of one of an archived run, is a
    /// metric of the run alone. The metrics themselves are stored already, so a failure here is only logged and does not fail the
    /// answer. A client that sends them again gets them stored beside the models, and not stored twice.
    pub(crate) async fn note_metrics(&self, workspace: &Workspace, run: &Id, metrics: &[Value]) {
        let mut of_models = BTreeMap::<&str, Vec<&Value>>::new();
        for metric in metrics {
            if let Some(model) = model_of(metric) {
                of_models.entry(model).or_default().push(metric);
            }
        }
        for (model, metrics) in of_models {
            let Some(made_by) = run_in(model) else { continue };
            let (catalog, now) = (self.ingest.catalog(), self.ingest.clock().now());
            let changed = catalog.change_run_by(workspace.id(), &made_by, now, |stored| {
                match shown(stored, model).filter(|_| stored.archived_at.is_none()) {
                    Some(_) => Ok(noted(stored, model, (run, metrics.as_slice()), now)),
                    None => {
                        Err(Error::not_found("there is no run that logged this model and is not archived"))
                    }
                }
            });
            if let Err(error) = changed.await
                && error.kind() != ErrorKind::NotFound
            {
                let workspace = workspace.id();
                tracing::warn!(%workspace, %run, model, %error, "metrics of a logged model are stored, but not noted beside it");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search;

    /// Builds a run that logged two models, and returns it with one of them.
    fn logged() -> (Run, String) {
        let mut run = search::tests::run(0, "").run;
        let [one, other] = [0, 1].map(|_| format!("m-{}-{}", run.id, Id::new(run.started_at)));
        run.tags = [&one, &other].map(|id| (format!("{MODEL}{id}"), "{}".to_owned())).into();
        (run, one)
    }

    fn metric(key: &str, step: i64, value: Value) -> Value {
        json!({ "key": key, "step": step, "timestamp": 1_780_000_000_000_i64 + step, "value": value })
    }

    /// Returns the run with these metrics of a model.
    fn with(run: &Run, model: &str, metrics: &[Value]) -> Run {
        let metrics: Vec<&Value> = metrics.iter().collect();
        noted(run, model, (&run.id, metrics.as_slice()), run.started_at).apply(run, run.started_at).unwrap()
    }

    #[test]
    fn the_latest_value_of_each_is_kept() {
        let (run, model) = logged();
        let first = with(&run, &model, &[metric("auc", 2, json!(0.1)), metric("auc", 1, json!(0.5))]);
        let mut on_loans = metric("auc", 0, json!(0.75));
        on_loans["dataset_name"] = "loans".into();
        on_loans["dataset_digest"] = "d1".into();
        let run =
            with(&first, &model, &[on_loans, metric("loss", 3, json!("NaN")), metric("auc", 1, json!(9))]);
        let told: Vec<_> = metrics_of(&run, &model)
            .iter()
            .map(|one| {
                (one["key"].clone(), one["value"].clone(), one["step"].clone(), one["dataset_name"].clone())
            })
            .collect();
        let loans = json!("loans");
        assert_eq!(
            told,
            [
                (json!("auc"), json!(0.75), json!(0), loans),
                (json!("auc"), json!(0.1), json!(2), Value::Null),
                (json!("loss"), json!("NaN"), json!(3), Value::Null),
            ]
        );
        let metrics = Value::Array(metrics_of(&run, &model));
        assert_eq!((latest_of(&metrics, "auc"), latest_of(&metrics, "none")), (Some(0.1), None));
        // Repeating a value changes nothing.
        assert_eq!(with(&run, &model, &[metric("auc", 2, json!(0.1))]), run);
    }

    #[test]
    fn logged_metrics_leave_room_in_their_run() {
        let (run, model) = logged();
        let all: Vec<Value> =
            (0..40).map(|n| metric(&format!("{n:03}{}", "x".repeat(200)), 1, json!(1))).collect();
        let some = with(&run, &model, &all);
        assert_eq!(metrics_of(&some, &model).len(), 40);
        let more: Vec<Value> =
            (0..400).map(|n| metric(&format!("{n:03}{}", "x".repeat(200)), 2, json!(2))).collect();
        let full = with(&some, &model, &more);
        assert!(bytes(&full) <= MAX_BYTES);
        let kept = metrics_of(&full, &model);
        assert_eq!(kept.len(), 40);
        assert!(kept.iter().all(|metric| metric["step"] == 2), "what is kept goes on");
    }
}
