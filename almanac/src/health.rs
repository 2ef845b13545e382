//! Whether the services are ready, and the figures by which to watch them.

use std::{sync::Arc, time::Duration};

use axum::{http::header, response::IntoResponse};
use metrics::{Counter, Gauge, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::PrometheusBuilder;
use projector::{Health, Projector};
use web::Routes;

use crate::openapi;

/// The services are ready while the oldest day that is not folded has waited no longer than this.
const READY_LAG: Duration = Duration::from_secs(60);

/// The content type of the text format of Prometheus.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `/healthz` (the process answers), `/readyz` (and lags behind no more than it should), `/metrics`.
pub(crate) fn routes(projector: Projector) -> Routes {
    let (ready, figures) = (Arc::new(projector.clone()), Arc::new(projector));
    let figures = async move || ([(header::CONTENT_TYPE, EXPOSITION)], exposition(&figures.health()));
    Routes::new()
        .add(openapi::health(), async || "ok\n")
        .add(openapi::ready(), async move || readiness(&ready.health()))
        .add(openapi::metrics(), figures)
}

fn readiness(health: &Health) -> axum::response::Response {
    match why_not_ready(health) {
        None => "ready\n".into_response(),
        Some(why) => web::not_ready(why).into_response(),
    }
}

/// Why the services are not ready, if they are not.
fn why_not_ready(health: &Health) -> Option<String> {
    if !health.has_swept {
        return Some("the projector has not found yet what is behind".into());
    }
    let seconds = health.oldest.as_secs();
    let bound = READY_LAG.as_secs();
    (health.oldest > READY_LAG).then(|| {
        format!("{} days wait to be folded, the oldest for {seconds} s (at most {bound})", health.dirty_days)
    })
}

/// The figures of a projector in the text format of Prometheus.
fn exposition(health: &Health) -> String {
    // A recorder of its own each time: the figures are kept by the projector, and two of them in one
    // process do not mix.
    let recorder = PrometheusBuilder::new().build_recorder();
    let metadata = Metadata::new(module_path!(), Level::INFO, None);
    let key = |name: &'static str| Key::from_parts(format!("almanac_projector_{name}"), Vec::<Label>::new());
    let counter = |name, value, help: &'static str| {
        let key = key(name);
        recorder.describe_counter(key.name().to_owned().into(), None, help.into());
        Counter::absolute(&recorder.register_counter(&key, &metadata), value);
    };
    let gauge = |name, value, help: &'static str| {
        let key = key(name);
        recorder.describe_gauge(key.name().to_owned().into(), None, help.into());
        Gauge::set(&recorder.register_gauge(&key, &metadata), value);
    };
    gauge("dirty_days", health.dirty_days as f64, "Days that are not folded yet.");
    gauge("lag_segments", health.waiting as f64, "Changes that were told of and are not folded yet.");
    gauge("lag_seconds", health.oldest.as_secs_f64(), "For how long the oldest of those days has waited.");
    gauge("shards", health.shards as f64, "Shards of the feed that are read under a lease.");
    gauge(
        "checkpoint_age_seconds",
        health.oldest_checkpoint.as_secs_f64(),
        "For how long the oldest checkpoint has waited to move.",
    );
    gauge("swept_behind_segments", health.swept_behind as f64, "Segments that the last sweep found behind.");
    counter("segments_folded_total", health.segments, "Segments that were folded.");
    counter("rows_evaluated_total", health.evaluated_rows, "Rows that were joined in evaluations.");
    counter("cas_retries_total", health.retries, "Days folded again since somebody else wrote meanwhile.");
    counter("dead_letters_total", health.dead_letters, "Segments that were found to be undecodable.");
    counter("sweeps_total", health.sweeps, "Sweeps of all workspaces.");
    recorder.handle().render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_when_it_has_swept_and_lags_little() {
        let fresh = Health::default();
        assert!(why_not_ready(&fresh).is_some_and(|why| why.contains("not found yet")));
        let swept = Health { has_swept: true, oldest: READY_LAG, dirty_days: 3, ..fresh };
        assert_eq!(why_not_ready(&swept), None);
        let late = Health { oldest: READY_LAG + Duration::from_secs(5), ..swept };
        assert_eq!(
            why_not_ready(&late).as_deref(),
            Some("3 days wait to be folded, the oldest for 65 s (at most 60)")
        );
    }

    #[test]
    fn figures_are_told_in_the_format_of_prometheus() {
        let health =
            Health { dirty_days: 2, segments: 40, oldest: Duration::from_millis(1_500), ..Health::default() };
        let text = exposition(&health);
        for line in [
            "# TYPE almanac_projector_dirty_days gauge",
            "almanac_projector_dirty_days 2",
            "almanac_projector_lag_seconds 1.5",
            "# TYPE almanac_projector_segments_folded_total counter",
            "almanac_projector_segments_folded_total 40",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
