//! Metrics: events like all others, appended in the same way.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    body::{Body, to_bytes},
    http::{Request, header},
};
use catalog::{MAX_POINTS, Point, Run, RunChange, Texts, TokenQuota, WantedPoints, Workspace};
use event::Id;
use serde_json::{Value, json};
use tower::ServiceExt;
use web::Requester;

use crate::{
    answer::{Answer, Failure},
    asked::{Asked, instant, millis, needed, number, text, whole},
    door::Door,
    experiments::{tags_of, texts},
    runs::tagging,
};

/// Maximum bytes of the answer to an append.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Number of values of a history if the request has no limit.
const POINTS: usize = 25_000;

/// The fields of a metric about its logged model.
const OF_MODELS: [&str; 3] = ["model_id", "dataset_name", "dataset_digest"];

/// Returns a number as JSON; numbers that JSON lacks by their names.
pub(crate) fn shown_number(value: f64) -> Value {
    match value {
        _ if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        value => value.into(),
    }
}

/// Converts the metrics of a run to an object of arrays.
fn columns(run: &Id, metrics: &[&Value]) -> Answer<Value> {
    let (mut names, mut times, mut values, mut steps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for metric in metrics {
        names.push(needed(text(metric.get("key"), "key")?, "key")?);
        let value = number(&metric["value"]);
        values.push(shown_number(value.ok_or_else(|| {
            Failure::invalid(format!(
                "Got invalid value {} for metric: a number is expected.",
                metric["value"]
            ))
        })?));
        let at = needed(whole(&metric["timestamp"], "timestamp")?, "timestamp")?;
        times.push(instant(at, "timestamp")?.to_string());
        steps.push(whole(&metric["step"], "step")?.unwrap_or(0));
    }
    let runs = vec![run.as_str(); names.len()];
    Ok(json!({ "name": names, "measured_at": times, "value": values, "step": steps, "run": runs }))
}

/// Returns the logged model that a metric names, if any.
pub(crate) fn model_of(metric: &Value) -> Option<&str> {
    metric["model_id"].as_str().filter(|id| !id.is_empty())
}

/// Reads the name and the value of a metric, if it is complete.
pub(crate) fn given(metric: &Value) -> Option<(&str, Point)> {
    let part = |name: &str| whole(&metric[name], name).ok();
    let at = instant(part("timestamp")??, "timestamp").ok()?;
    let point = Point { step: part("step")?, at, value: number(&metric["value"])? };
    Some((metric["key"].as_str()?, point))
}

/// Returns the order of values sent by MLflow's clients: a value without a step has step 0, and times are in milliseconds.
pub(crate) fn order(point: &Point) -> (i64, i64) {
    (point.step.unwrap_or(0), millis(point.at))
}

/// Returns the identity of a value, which is equal if it was sent twice: its [`order`] and the bits of the value.
fn identity(point: &Point) -> (i64, i64, u64) {
    let (step, at) = order(point);
    let value = if point.value.is_nan() { f64::NAN } else { point.value };
    (step, at, value.to_bits())
}

/// Returns the metrics of a batch to store. A value sent for one or several logged models is stored once, in any order of the
/// batch, and not if it `is_known`; other values are stored as often as they are sent.
fn each_once(metrics: &[Value], is_known: impl Fn(&str, &Point) -> bool) -> Vec<&Value> {
    let one = |metric| given(metric).map(|(key, point)| (key, identity(&point)));
    let of_models: BTreeSet<_> =
        metrics.iter().filter(|metric| model_of(metric).is_some()).filter_map(one).collect();
    let mut seen = BTreeSet::new();
    let new = metrics.iter().filter(|metric| {
        let Some((key, point)) = given(metric) else { return true };
        let one = (key, identity(&point));
        !of_models.contains(&one) || (seen.insert(one) && !is_known(key, &point))
    });
    new.collect()
}

/// Reads the parameters of a batch. A repeated one must have one value.
fn params(pairs: &[Value]) -> Answer<Texts> {
    let params = texts(pairs)?;
    for pair in pairs {
        let (key, value) =
            (pair["key"].as_str().unwrap_or_default(), pair["value"].as_str().unwrap_or_default());
        if params.get(key).is_some_and(|kept| kept != value) {
            return Err(Failure::invalid(format!(
                "The parameter '{key}' is given twice with different values; nothing was stored: give each parameter one value."
            )));
        }
    }
    Ok(params)
}

impl Door {
    /// Appends metrics of a run on behalf of the caller.
    async fn append(&self, workspace: &Workspace, asked: &Asked, run: &Id, metrics: &[&Value]) -> Answer<()> {
        if metrics.is_empty() {
            return Ok(());
        }
        let body = columns(run, metrics)?;
        let uri = format!("/v1/workspaces/-/{}/metrics", workspace.id());
        let mut request = Request::post(uri)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .map_err(|error| Failure::invalid(error.to_string()))?;
        // Only some extensions are copied: axum's own have the path of the door.
        if let Some(requester) = asked.extensions.get::<Requester>() {
            request.extensions_mut().insert(requester.clone());
        }
        if let Some(quota) = asked.extensions.get::<Arc<TokenQuota>>() {
            request.extensions_mut().insert(Arc::clone(quota));
        }
        let answer = match self.events.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        if answer.status().is_success() {
            return Ok(());
        }
        let status = answer.status();
        let told = to_bytes(answer.into_body(), MAX_ANSWER_BYTES).await.unwrap_or_default();
        let told: Value = serde_json::from_slice(&told).unwrap_or_default();
        let first = told["errors"][0]["message"].as_str();
        let detail = told["detail"].as_str().unwrap_or_default();
        let message = first.map_or_else(|| detail.to_owned(), |first| format!("{detail}: {first}"));
        Err(match status.as_u16() {
            422 => Failure::invalid(message),
            _ => Failure::of(status, message),
        })
    }

    /// Stores metrics of a run, and then those of logged models beside the models. The append comes first, as it checks the
    /// caller and the metrics, and refused ones must not stand beside a model.
    async fn store(&self, workspace: &Workspace, asked: &Asked, run: &Run, metrics: &[Value]) -> Answer<()> {
        for metric in metrics {
            OF_MODELS.iter().try_for_each(|name| text(metric.get(*name), name).map(|_| ()))?;
        }
        let new = self.not_repeated(workspace, run, metrics).await?;
        self.append(workspace, asked, &run.id, &new).await?;
        self.note_metrics(workspace, &run.id, metrics).await;
        Ok(())
    }

    pub(crate) async fn log_metric(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let run = self.run_of(workspace, asked).await?;
        run.check_active()?;
        let metric = Value::Object(asked.fields.clone());
        self.store(workspace, asked, &run, std::slice::from_ref(&metric)).await?;
        Ok(json!({}))
    }

    /// Stores a batch. Metrics go first, since an append may be refused until it is made; parameters and tags are tried on the
    /// run before. So nothing of a refused batch is stored, unless another request changes the run meanwhile. In that case the
    /// metrics are stored, and the client may send the batch again: equal events are counted once if repeated within ten minutes
    /// ([`REPEAT_SECONDS`](ingest::limits::REPEAT_SECONDS)), by their digest, and metrics of logged models for good, by the
    /// values of the run ([`Door::not_repeated`]).
    pub(crate) async fn log_batch(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let run = self.run_of(workspace, asked).await?;
        let params = params(asked.list("params")?)?;
        let tags = tags_of(asked.list("tags")?)?.into_iter().map(|(key, value)| (key, Some(value)));
        let change = RunChange { params, ..tagging(tags) };
        let tried = change.apply(&run, self.ingest.clock().now());
        tried.map_err(|error| Self::not_changed(&run.id, error))?;
        self.store(workspace, asked, &run, asked.list("metrics")?).await?;
        if !change.params.is_empty() || !change.tags.is_empty() || change.name.is_some() {
            self.change(workspace, asked, &change).await?;
        }
        Ok(json!({}))
    }

    /// Returns metrics without those of logged models that the run already has, each once: clients send them again to name their
    /// model, and if they got no answer. A value later than all values of its metric is new; an earlier one is looked up in the
    /// log.
    async fn not_repeated<'a>(
        &self,
        workspace: &Workspace,
        run: &Run,
        metrics: &'a [Value],
    ) -> Answer<Vec<&'a Value>> {
        if metrics.iter().all(|metric| model_of(metric).is_none()) {
            return Ok(metrics.iter().collect());
        }
        let catalog = self.ingest.catalog();
        let latest = catalog.latest_metrics(workspace.id(), &run.id).await?;
        let last = |key: &str| {
            let known = latest.metrics.get(key)?;
            Some(Point { step: known.step, at: known.at, value: known.value })
        };
        let mut unclear = WantedPoints::new();
        for (key, point) in metrics.iter().filter(|metric| model_of(metric).is_some()).filter_map(given) {
            if last(key)
                .is_some_and(|last| order(&point) <= order(&last) && identity(&point) != identity(&last))
            {
                let of_day = unclear.entry(point.at.day()).or_default();
                of_day.entry(key).or_default().insert(identity(&point));
            }
        }
        let missing = catalog.not_in_logs(run, &latest, unclear, identity).await?;
        let is_missing = |key: &str, point: &Point| {
            let of_metric = missing.get(&point.at.day()).and_then(|of_day| of_day.get(key));
            of_metric.is_some_and(|values| values.contains(&identity(point)))
        };
        let is_known = |key: &str, point: &Point| {
            last(key).is_some_and(|last| order(point) <= order(&last)) && !is_missing(key, point)
        };
        Ok(each_once(metrics, is_known))
    }

    pub(crate) async fn metric_history(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let run = self.run_of(workspace, asked).await?;
        let key = asked.text("metric_key")?;
        let page = (asked.limit(POINTS, MAX_POINTS)?, asked.text_if("page_token")?);
        let page = self.ingest.catalog().metric_history(&run, key, page, self.ingest.clock().now()).await?;
        let point = |point: &Point| {
            json!({
                "key": key,
                "value": shown_number(point.value),
                "timestamp": millis(point.at),
                "step": point.step.unwrap_or(0),
            })
        };
        let metrics: Vec<Value> = page.points.iter().map(point).collect();
        Ok(json!({ "metrics": metrics, "next_page_token": page.next }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_sent_twice_has_an_equal_identity() {
        let metric = |value: Value, at: Value, step: Value| {
            let metric = json!({ "key": "loss", "value": value, "timestamp": at, "step": step });
            given(&metric).unwrap().1
        };
        let first = metric(json!(0.5), json!(1_780_000_000_000_i64), json!(0));
        let is_same = |one: &Point, other: &Point| identity(one) == identity(other);
        assert!(is_same(&first, &metric(json!(0.5), json!("1780000000000"), Value::Null)));
        let others = [(0.25, 0, 0), (0.5, 1, 0), (0.5, 0, 1)];
        for (value, later, step) in others {
            let other = metric(json!(value), json!(1_780_000_000_000_i64 + later), json!(step));
            assert!(!is_same(&first, &other));
            assert!(order(&first) <= order(&other));
        }
        let nothing = || metric(json!("NaN"), json!(1), json!(3));
        assert!(is_same(&nothing(), &nothing()));
        assert!(given(&json!({ "key": "loss", "value": 1 })).is_none(), "it has no time");
    }

    #[test]
    fn model_metric_is_stored_once_in_any_order() {
        let plain = |step: i64| json!({ "key": "loss", "value": 0.5, "timestamp": 1_780_000_000_000_i64, "step": step });
        let of_model = |step: i64, model: &str| {
            let mut metric = plain(step);
            metric["model_id"] = model.into();
            metric
        };
        // Another value, twice and of no model, among those of the first step.
        let batch = [of_model(1, "m-one"), plain(2), plain(1), of_model(1, "m-two"), plain(2)];
        let orders = [[0, 1, 2, 3, 4], [2, 1, 0, 3, 4], [2, 4, 3, 1, 0], [3, 1, 0, 4, 2]];
        for order in orders {
            let batch = order.map(|at| batch[at].clone());
            let steps = |is_known: bool| -> Vec<i64> {
                let stored = each_once(&batch, |_, _| is_known);
                stored.iter().map(|metric| metric["step"].as_i64().unwrap()).collect()
            };
            let mut new = steps(false);
            new.sort_unstable();
            assert_eq!((new, steps(true)), (vec![1, 2, 2], vec![2, 2]), "{order:?}");
        }
    }

    #[test]
    fn a_parameter_has_one_value_in_a_batch() {
        let pair = |key: &str, value: &str| json!({ "key": key, "value": value });
        let same = [pair("x", "1"), pair("y", "2"), pair("x", "1")];
        assert_eq!(params(&same).unwrap().len(), 2);
        let refused = params(&[pair("x", "1"), pair("x", "2")]).unwrap_err();
        assert_eq!(refused.code, "INVALID_PARAMETER_VALUE");
        assert!(refused.message.contains("'x'"), "{}", refused.message);
    }
}
