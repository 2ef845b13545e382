//! The inputs of promotion gates from the events: metrics of a release and of the live one, and completeness.

use std::collections::BTreeMap;

use catalog::{Measured, ToMeasure};
use event::{Error, Id, Period, Result, Window};
use fold::AnyMetric;
use polars::prelude::{AnyValue, DataFrame};

use crate::{Dataset, Params, Query, Request, breakdown::Breakdown};

impl Query {
    /// Computes the metrics that promotion gates ask for from the events of all days together, and the completeness of the
    /// window, as [`Dataset::Maturity`] computes it for a day.
    ///
    /// # Errors
    /// Errors of [`Query::run`].
    pub async fn measure_promotion(&self, workspace: &Id, of: &ToMeasure) -> Result<Measured> {
        let mut request = Request::of(Dataset::Evaluations, of.window, Vec::new());
        request.period = Period::All;
        request.breakdown = Breakdown { by_release: true, ..Breakdown::default() };
        let found = self.evaluated_window(workspace, &request).await?;
        let named = |name: &str| found.iter().find(|(release, _)| release == name).map(|(_, of)| of);
        let (release, metric) = (of.release.as_str(), of.metric.as_ref());
        let logged = match metric.filter(|metric| metric.logged().is_some()) {
            Some(metric) => self.logged_window(workspace, metric, of.window).await?,
            None => BTreeMap::new(),
        };
        let value = |name: &str, metric: &AnyMetric| match metric.logged() {
            Some(_) => logged.get(name)?.value(),
            None => metric.of(named(name)?),
        };
        let completeness = match of.is_of_completeness {
            true => self.completeness(workspace, of.window, release).await?,
            false => None,
        };
        Ok(Measured {
            judged: named(release).map_or(0, |of| of.judged()),
            value: metric.and_then(|metric| value(release, metric)),
            of_champion: metric.zip(of.champion.as_deref()).and_then(|(metric, name)| value(name, metric)),
            completeness,
        })
    }

    /// Returns the completeness of a release in a window: the labelled share of the predictions that will ever be labelled.
    async fn completeness(&self, workspace: &Id, window: Window, release: &str) -> Result<Option<f64>> {
        let (from, to) = (window.from().to_string(), window.to().to_string());
        let columns = Some("day,release,age,labelled,expected_labelled");
        let words = Params { from: &from, to: &to, columns, ..Params::default() };
        let answer = self.run(workspace, &Request::parse(Dataset::Maturity, &words)?).await?;
        share(&answer.frame, window, release)
    }
}

/// Returns the share over all days of a window; `None`, if it is unknown for a day or no outcome is expected at all.
fn share(frame: &DataFrame, window: Window, release: &str) -> Result<Option<f64>> {
    let value = |name: &str, row: usize| {
        let value = frame.column(name).and_then(|column| column.get(row));
        value.map_err(|error| Error::corrupt(format!("maturity: {error}")))
    };
    let (mut judged, mut expected) = (0.0, 0.0);
    for row in 0..frame.height() {
        let AnyValue::Date(day) = value("day", row)? else { continue };
        let is_of = |name: &str, wanted: &str| Ok::<_, Error>(value(name, row)? == AnyValue::String(wanted));
        let is_in = (window.from().number()..=window.to().number()).contains(&day);
        if !is_in || !is_of("release", release)? || !is_of("age", crate::maturity::LATEST)? {
            continue;
        }
        let number = |name: &str| Ok::<_, Error>(value(name, row)?.extract::<f64>());
        let Some(of_day) = number("expected_labelled")? else { return Ok(None) };
        judged += number("labelled")?.unwrap_or_default();
        expected += of_day;
    }
    Ok((expected > 0.0).then(|| judged / expected))
}
