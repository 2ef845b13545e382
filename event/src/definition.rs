//! Definition by which the predictions of a release are evaluated, and its fields.

use std::collections::BTreeMap;

use crate::{
    Costs, CustomMetric, Day, Dimension, Error, Result, Task,
    id::check_name,
    task::{LABELLED, POSITIVE_SCORE},
};

/// Name of a task that has a positive label.
const BINARY: &str = Task::NAMES[0];

/// Definition by which the predictions of a release are evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Task.
    pub task: Task,
    /// Minimum score at which a prediction without a label is of the positive class.
    pub threshold: f64,
    /// Gains and costs of predictions of a binary task, if known.
    pub costs: Option<Costs>,
    /// Share of real numbers that the predicted intervals are meant to hold, between 0 and 1.
    pub interval_level: Option<f64>,
    /// Dimensions by which evaluations are stored, beside by release.
    pub dimensions: Vec<Dimension>,
    /// Custom metrics, in the order of their names.
    pub custom_metrics: Vec<CustomMetric>,
    /// First day for which it holds; `None` from the beginning.
    pub from: Option<Day>,
}

/// Value of a field of a definition.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
}

impl Definition {
    /// Fields of a definition, as named in release events and stored items.
    pub const FIELDS: [&str; 8] = [
        "task",
        "positive_label",
        "threshold",
        "costs",
        "interval_level",
        "dimensions",
        "custom_metrics",
        "effective_from",
    ];

    /// Creates the default definition of a task, from the beginning.
    pub fn of(task: Task) -> Self {
        Self {
            task,
            threshold: POSITIVE_SCORE,
            costs: None,
            interval_level: None,
            dimensions: Vec::new(),
            custom_metrics: Vec::new(),
            from: None,
        }
    }

    /// Reads a definition from the [fields](Self::FIELDS) of an event or an item.
    ///
    /// # Errors
    /// `Invalid` if a field is invalid or does not belong to the task.
    pub fn read<'a>(
        text: impl Fn(&str) -> Option<&'a str>,
        number: impl Fn(&str) -> Option<f64>,
    ) -> Result<Self> {
        let task = Task::parse(text("task").unwrap_or_default(), text("positive_label"))?;
        let change = DefinitionChange::read(text, number)?;
        change.after(&Self { task, ..Self::of(Task::Multiclass) })
    }

    /// Normalises its positive label as the labels of events are.
    #[must_use]
    pub fn plain(self) -> Self {
        Self { task: self.task.plain(), ..self }
    }

    /// Returns the values of its [fields](Self::FIELDS), without empty ones.
    pub fn said(&self) -> Vec<(&'static str, Said)> {
        let custom_metrics =
            self.custom_metrics.iter().map(|metric| (metric.name.clone(), Some(metric.clone())));
        let whole = DefinitionChange {
            task: Some(self.task.name()),
            positive_label: self.task.positive_label().map(str::to_owned),
            threshold: self.task.is_binary().then_some(self.threshold),
            costs: self.costs.map(Some),
            interval_level: self.interval_level.map(Some),
            dimensions: Some(self.dimensions.clone()).filter(|dimensions| !dimensions.is_empty()),
            custom_metrics: custom_metrics.collect(),
            from: self.from,
        };
        whole.said()
    }

    /// Returns whether `other` has the same task, and the same values of all fields that are set here.
    pub fn asks_no_more_than(&self, other: &Self) -> bool {
        self.task.plain() == other.task.plain()
            && (self.threshold == POSITIVE_SCORE || self.threshold == other.threshold)
            && (self.costs.is_none() || self.costs == other.costs)
            && (self.interval_level.is_none() || self.interval_level == other.interval_level)
            && (self.dimensions.is_empty() || self.dimensions == other.dimensions)
            && (self.custom_metrics.is_empty() || self.custom_metrics == other.custom_metrics)
    }

    /// Returns whether both are equal apart from their first days.
    pub fn is_like(&self, other: &Self) -> bool {
        Self { from: None, ..self.clone() } == Self { from: None, ..other.clone() }
    }
}

/// Change of some fields of a definition, and the first day for which they hold. Each holds until a change from a
/// later day names it again; changes from the same day apply in the order in which they were appended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DefinitionChange {
    task: Option<&'static str>,
    positive_label: Option<String>,
    threshold: Option<f64>,
    costs: Option<Option<Costs>>,
    interval_level: Option<Option<f64>>,
    dimensions: Option<Vec<Dimension>>,
    /// Metrics by name; `None` removes the metric.
    custom_metrics: BTreeMap<String, Option<CustomMetric>>,
    /// First day for which it holds; `None` from the beginning.
    pub from: Option<Day>,
}

impl DefinitionChange {
    /// Reads a change from the [fields](Definition::FIELDS) of an event or an item.
    ///
    /// # Errors
    /// `Invalid` if a field is invalid.
    pub fn read<'a>(
        text: impl Fn(&str) -> Option<&'a str>,
        number: impl Fn(&str) -> Option<f64>,
    ) -> Result<Self> {
        let label = |label: &str| Task::parse(BINARY, Some(label)).map(|task| task.plain());
        let label = text("positive_label").map(label).transpose()?;
        let costs =
            |text: &str| Costs::parse(text).map_err(|error| Error::invalid(format!("costs: {error}")));
        let change = Self {
            task: text("task").map(|name| Task::parse(name, None)).transpose()?.map(|task| task.name()),
            positive_label: label.as_ref().and_then(Task::positive_label).map(str::to_owned),
            threshold: number("threshold"),
            costs: text("costs").map(|text| unless_nothing(text, costs)).transpose()?,
            interval_level: number("interval_level").map(|level| (level != 0.0).then_some(level)),
            dimensions: text("dimensions")
                .map(|text| unless_nothing(text, Dimension::parse_all))
                .transpose()?
                .map(Option::unwrap_or_default),
            custom_metrics: text("custom_metrics").map_or(Ok(BTreeMap::new()), CustomMetric::parse_all)?,
            from: text("effective_from").map(str::parse::<Day>).transpose()?,
        };
        if change.threshold.is_some_and(|threshold| !threshold.is_finite()) {
            return Err(Error::invalid("a threshold is a finite number"));
        }
        if change.interval_level.flatten().is_some_and(|level| !(level > 0.0 && level < 1.0)) {
            return Err(Error::invalid("the level of intervals is greater than 0 and less than 1"));
        }
        // A named task suffices to check which fields belong to it.
        match text("task").map(|name| Task::parse(name, text("positive_label"))).transpose()? {
            Some(task) => change.after(&Definition::of(task)).map(|_| change),
            None => Ok(change),
        }
    }

    /// Returns the values of its fields, as read by [`DefinitionChange::read`].
    pub fn said(&self) -> Vec<(&'static str, Said)> {
        let text = |text: &str| Said::Text(text.to_owned());
        let or_nothing = |said: Option<String>| Said::Text(said.unwrap_or_else(|| NOTHING.to_owned()));
        let [
            task,
            positive_label,
            threshold,
            costs,
            interval_level,
            dimensions,
            custom_metrics,
            effective_from,
        ] = Definition::FIELDS;
        let dimensions_text =
            |all: &Vec<Dimension>| or_nothing((!all.is_empty()).then(|| Dimension::text_of(all)));
        let texts = self
            .custom_metrics
            .iter()
            .map(|(name, metric)| (name.as_str(), metric.as_ref().map_or(NOTHING, |metric| &metric.text)));
        let metrics_text = (!self.custom_metrics.is_empty()).then(|| CustomMetric::text_of(texts));
        let said = [
            (task, self.task.map(text)),
            (positive_label, self.positive_label.as_deref().map(text)),
            (threshold, self.threshold.map(Said::Number)),
            (costs, self.costs.map(|costs| or_nothing(costs.map(|costs| costs.to_string())))),
            (interval_level, self.interval_level.map(|level| Said::Number(level.unwrap_or_default()))),
            (dimensions, self.dimensions.as_ref().map(dimensions_text)),
            (custom_metrics, metrics_text.map(Said::Text)),
            (effective_from, self.from.map(|from| Said::Text(from.to_string()))),
        ];
        said.into_iter().filter_map(|(name, said)| Some((name, said?))).collect()
    }

    /// Returns the definition after this change of `known`. With another task only the dimensions and the custom metrics
    /// are kept. A field that does not belong to the task has no effect, nor have custom metrics that would be too
    /// many together.
    #[must_use]
    pub fn on(&self, known: &Definition) -> Definition {
        let task = self.task_on(&known.task);
        let is_same_task = task.name() == known.task.name();
        let mut after = match is_same_task {
            true => Definition { task, ..known.clone() },
            false => Definition {
                dimensions: known.dimensions.clone(),
                custom_metrics: known.custom_metrics.clone(),
                ..Definition::of(task)
            },
        };
        if after.task.is_binary() {
            after.threshold = self.threshold.unwrap_or(after.threshold);
            after.costs = self.costs.unwrap_or(after.costs);
        }
        if after.task == Task::Regression {
            after.interval_level = self.interval_level.unwrap_or(after.interval_level);
        }
        if let Some(dimensions) = &self.dimensions {
            after.dimensions.clone_from(dimensions);
        }
        if let Ok(custom_metrics) = self.metrics_on(&after.custom_metrics) {
            after.custom_metrics = custom_metrics;
        }
        after.from = self.from.or(known.from);
        after
    }

    /// Returns the task after this change of `known`.
    #[must_use]
    pub fn task_on(&self, known: &Task) -> Task {
        let name = self.task.unwrap_or(known.name());
        let own = |label: String| Task::parse(name, Some(&label)).ok();
        match self.positive_label.clone().and_then(own) {
            Some(task) => task,
            None if name == known.name() => known.clone(),
            None => Task::parse(name, None).unwrap_or_else(|_| known.clone()),
        }
    }

    /// Returns the definition after this change of `known`, or an error instead of ignoring fields.
    ///
    /// # Errors
    /// `Invalid` if a field does not belong to the task, or custom metrics would be too many together.
    pub fn after(&self, known: &Definition) -> Result<Definition> {
        let after = self.on(known);
        let name = after.task.name();
        if self.positive_label.is_some() && after.task.positive_label().is_none() {
            return Err(Error::invalid(format!("a positive label belongs to a {LABELLED}, not to `{name}`")));
        }
        if !after.task.is_binary() {
            let costs = self.costs.flatten();
            let what = [(self.threshold.is_some(), "a threshold belongs"), (costs.is_some(), "costs belong")];
            if let Some((_, what)) = what.into_iter().find(|(is_said, _)| *is_said) {
                return Err(Error::invalid(format!("{what} to a binary task, not to `{name}`")));
            }
        }
        if self.interval_level.flatten().is_some() && after.task != Task::Regression {
            return Err(Error::invalid(format!(
                "the level of intervals belongs to a regression, not to `{name}`"
            )));
        }
        self.metrics_on(&after.custom_metrics)?;
        Ok(after)
    }

    fn metrics_on(&self, known: &[CustomMetric]) -> Result<Vec<CustomMetric>> {
        let kept = known.iter().filter(|metric| !self.custom_metrics.contains_key(&metric.name));
        CustomMetric::together(kept.chain(self.custom_metrics.values().flatten()).cloned().collect())
    }

    /// Returns the names of the changed fields, and of each custom metric as `custom_metrics.NAME`.
    pub fn names(&self) -> Vec<String> {
        let own = |name: &&str| !["custom_metrics", "effective_from"].contains(name);
        let fields = self.said().into_iter().map(|(name, _)| name).filter(own).map(str::to_owned);
        fields.chain(self.custom_metrics.keys().map(|name| format!("custom_metrics.{name}"))).collect()
    }

    /// Keeps only some of its [names](Self::names).
    #[must_use]
    pub fn only(&self, is_kept: impl Fn(&str) -> bool) -> Self {
        Self {
            task: self.task.filter(|_| is_kept("task")),
            positive_label: self.positive_label.clone().filter(|_| is_kept("positive_label")),
            threshold: self.threshold.filter(|_| is_kept("threshold")),
            costs: self.costs.filter(|_| is_kept("costs")),
            interval_level: self.interval_level.filter(|_| is_kept("interval_level")),
            dimensions: self.dimensions.clone().filter(|_| is_kept("dimensions")),
            custom_metrics: {
                let mut custom_metrics = self.custom_metrics.clone();
                custom_metrics.retain(|name, _| is_kept(&format!("custom_metrics.{name}")));
                custom_metrics
            },
            from: self.from,
        }
    }

    /// Returns whether it changes the task.
    pub fn names_task(&self) -> bool {
        self.task.is_some() || self.positive_label.is_some()
    }

    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self { from: self.from, ..Self::default() }
    }
}

/// Parses a text; `None` if it is empty or [`NOTHING`].
pub(crate) fn unless_nothing<T>(text: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Option<T>> {
    if matches!(text, NOTHING | "") { Ok(None) } else { parse(text).map(Some) }
}

/// A requested change of a definition. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewDefinition {
    /// Name of the task.
    pub task: Option<String>,
    /// Positive label of a binary task or a ranking.
    pub positive_label: Option<String>,
    /// Minimum score at which a prediction without a label is of the positive class.
    pub threshold: Option<f64>,
    /// Gains and costs of predictions ([`Costs::parse`]), or [`NOTHING`].
    pub costs: Option<String>,
    /// Share of real numbers that the predicted intervals are meant to hold; 0 for unknown.
    pub interval_level: Option<f64>,
    /// Dimensions by which evaluations are stored ([`Dimension::parse`]); empty, or [`NOTHING`] alone, for none.
    pub dimensions: Option<Vec<String>>,
    /// Custom metrics: expressions by name; `None` or [`NOTHING`] removes a metric.
    pub custom_metrics: Option<BTreeMap<String, Option<String>>>,
    /// First day for which it holds.
    pub from: Option<Day>,
    /// A remark.
    pub note: Option<String>,
}

/// Word that removes costs, dimensions or a metric.
pub const NOTHING: &str = "none";

impl NewDefinition {
    /// Returns the requested change of a definition, from a day on.
    ///
    /// # Errors
    /// `Invalid` if a value is invalid.
    pub fn change(&self, from: Option<Day>) -> Result<DefinitionChange> {
        let dimensions = self.dimensions.as_ref().map(|dimensions| dimensions.join(","));
        let text = |name: &str| match name {
            "task" => self.task.as_deref(),
            "positive_label" => self.positive_label.as_deref(),
            "costs" => self.costs.as_deref(),
            "dimensions" => dimensions.as_deref(),
            _ => None,
        };
        let number = |name: &str| match name {
            "threshold" => self.threshold,
            "interval_level" => self.interval_level,
            _ => None,
        };
        let mut change = DefinitionChange { from, ..DefinitionChange::read(text, number)? };
        for (name, text) in self.custom_metrics.iter().flatten() {
            check_name(name)?;
            let text = text.as_deref().filter(|text| text.trim() != NOTHING);
            if text.is_some() {
                CustomMetric::check_new_name(name)?;
            }
            let metric = text.map(|text| CustomMetric::parse(name, text)).transpose()?;
            change.custom_metrics.insert(name.clone(), metric);
        }
        change.metrics_on(&[])?;
        Ok(change)
    }

    /// Returns the initial definition of a task.
    ///
    /// # Errors
    /// `Invalid` if a value is invalid or does not belong to the task.
    pub fn first(&self, task: &str) -> Result<Definition> {
        Self { task: Some(task.to_owned()), ..self.clone() }
            .change(None)?
            .after(&Definition::of(Task::parse(task, self.positive_label.as_deref())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, Said)]) -> Result<Definition> {
        let said = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, said)| said);
        Definition::read(
            |name| if let Some(Said::Text(text)) = said(name) { Some(text.as_str()) } else { None },
            |name| if let Some(Said::Number(number)) = said(name) { Some(*number) } else { None },
        )
    }

    #[test]
    fn a_definition_survives_the_round_trip() {
        let definitions = [
            Definition {
                threshold: 0.3,
                costs: Some(Costs::parse("tp=1,fn=2").unwrap()),
                dimensions: Dimension::parse_all("tag.carrier,feature.distance:500").unwrap(),
                custom_metrics: vec![
                    CustomMetric::parse("mean", "avg(score)").unwrap(),
                    CustomMetric::parse("n", "count(*)").unwrap(),
                ],
                from: "2013-06-01".parse().ok(),
                ..Definition::of(Task::Binary { positive_label: "late".into() })
            },
            Definition { interval_level: Some(0.8), ..Definition::of(Task::Regression) },
            Definition::of(Task::Multiclass),
        ];
        for definition in definitions {
            assert_eq!(read(&definition.said()).unwrap(), definition);
        }
    }

    #[test]
    fn omitted_fields_stay_unchanged() {
        let late = Definition {
            threshold: 0.3,
            costs: Some(Costs::parse("tp=1").unwrap()),
            dimensions: Dimension::parse_all("tag.carrier").unwrap(),
            from: "2013-06-01".parse().ok(),
            ..Definition::of(Task::Binary { positive_label: "late".into() })
        };
        let from = "2013-07-01".parse().ok();
        let after = |new: NewDefinition| new.change(from).unwrap().after(&late).unwrap();
        assert_eq!(after(NewDefinition::default()), Definition { from, ..late.clone() });
        assert!(NewDefinition::default().change(from).unwrap().is_empty());
        let none = || Some(NOTHING.to_owned());
        let nothing =
            after(NewDefinition { costs: none(), dimensions: Some(Vec::new()), ..Default::default() });
        assert_eq!(nothing, Definition { costs: None, dimensions: Vec::new(), from, ..late.clone() });
        let numbers = NewDefinition {
            task: Some("regression".into()),
            interval_level: Some(0.8),
            ..Default::default()
        };
        let dimensions = late.dimensions.clone();
        let expected =
            Definition { interval_level: Some(0.8), dimensions, from, ..Definition::of(Task::Regression) };
        assert_eq!(after(numbers), expected);
        let unknown = NewDefinition { interval_level: Some(0.0), ..Default::default() };
        let unknown = unknown.change(from).unwrap().after(&expected).unwrap();
        assert_eq!(unknown, Definition { interval_level: None, ..expected });
        let first =
            NewDefinition { costs: Some("fn=3".into()), ..Default::default() }.first("binary").unwrap();
        assert_eq!((first.task.positive_label(), first.costs.unwrap().fn_), (Some("1"), 3.0));
    }

    #[test]
    fn metrics_are_listed_one_by_one() {
        let said = |custom_metrics: &[(&str, Option<&str>)]| {
            let custom_metrics =
                custom_metrics.iter().map(|(name, text)| ((*name).to_owned(), text.map(str::to_owned)));
            NewDefinition { custom_metrics: Some(custom_metrics.collect()), ..NewDefinition::default() }
        };
        let of =
            |definition: &Definition| CustomMetric::text_of(CustomMetric::texts(&definition.custom_metrics));
        let first = said(&[("b", Some("count(*)")), ("a", Some(" avg(score) "))]).first("binary").unwrap();
        assert_eq!(of(&first), "a=avg(score)\nb=count(*)");
        let more = said(&[("c", Some("max(score)")), ("b", Some("none")), ("d", None)]);
        let next = |new: &NewDefinition, known: &Definition| new.change(None)?.after(known);
        let after = next(&more, &first).unwrap();
        assert_eq!(of(&after), "a=avg(score)\nc=max(score)");
        let other = NewDefinition { task: Some("regression".into()), ..NewDefinition::default() };
        assert_eq!(of(&next(&other, &after).unwrap()), of(&after));
        let nothing = next(&said(&[("a", None), ("c", None)]), &after).unwrap();
        assert_eq!(nothing.custom_metrics, []);
        let wrong = next(&said(&[("a", Some("score"))]), &after).unwrap_err().to_string();
        assert_eq!(wrong, "the metric `a`: the column `score` stands outside of an aggregate");
    }

    #[test]
    fn a_change_reads_again_what_it_says() {
        let custom_metrics = [("a", Some("avg(score)")), ("b", None)];
        let custom_metrics = custom_metrics.map(|(name, text)| (name.to_owned(), text.map(str::to_owned)));
        let some = NewDefinition {
            threshold: Some(0.0),
            custom_metrics: Some(custom_metrics.into()),
            ..Default::default()
        };
        let none = NewDefinition {
            costs: Some(NOTHING.into()),
            dimensions: Some(Vec::new()),
            interval_level: Some(0.0),
            ..Default::default()
        };
        let task = NewDefinition {
            task: Some("binary".into()),
            positive_label: Some("late".into()),
            costs: Some("tp=1".into()),
            dimensions: Some(vec!["tag.carrier".into(), "feature.distance:500".into()]),
            ..Default::default()
        };
        for new in [some, none, task, NewDefinition { interval_level: Some(0.8), ..Default::default() }] {
            let change = new.change("2013-06-01".parse().ok()).unwrap();
            let said = change.said();
            let find = |name: &str| said.iter().find(|(known, _)| *known == name).map(|(_, said)| said);
            let again = DefinitionChange::read(
                |name| if let Some(Said::Text(text)) = find(name) { Some(text.as_str()) } else { None },
                |name| if let Some(Said::Number(number)) = find(name) { Some(*number) } else { None },
            );
            assert_eq!(again.unwrap(), change);
            let names = change.names();
            assert_eq!(change.only(|name| names.iter().any(|known| known == name)), change);
            assert!(change.only(|_| false).is_empty() && !change.is_empty(), "{names:?}");
        }
    }

    #[test]
    fn fields_of_another_task_have_no_effect() {
        let binary = Definition::of(Task::Binary { positive_label: "1".into() });
        let numbers = Definition::of(Task::Regression);
        let threshold = NewDefinition { threshold: Some(0.4), ..Default::default() }.change(None).unwrap();
        assert_eq!(threshold.on(&numbers), numbers);
        assert_eq!(threshold.on(&binary).threshold, 0.4);
        let error = threshold.after(&numbers).unwrap_err().to_string();
        assert_eq!(error, "a threshold belongs to a binary task, not to `regression`");
    }

    #[test]
    fn fields_foreign_to_the_task_are_refused() {
        let text = |text: &str| Said::Text(text.to_owned());
        let fails = |task, name, said| read(&[("task", text(task)), (name, said)]).unwrap_err().to_string();
        let lines = [
            fails("regression", "threshold", Said::Number(0.5)),
            fails("multiclass", "costs", text("tp=1")),
            fails("binary", "costs", text("tp")),
            fails("binary", "interval_level", Said::Number(0.8)),
            fails("regression", "interval_level", Said::Number(1.0)),
            fails("regression", "dimensions", text("carrier")),
            fails("regression", "positive_label", text("late")),
        ];
        assert_eq!(
            lines,
            [
                "a threshold belongs to a binary task, not to `regression`",
                "costs belong to a binary task, not to `multiclass`",
                "costs: `tp` is not of the form NAME=NUMBER",
                "the level of intervals belongs to a regression, not to `binary`",
                "the level of intervals is greater than 0 and less than 1",
                "the dimension `carrier` is neither tag.NAME nor feature.NAME:EDGE:EDGE",
                "a positive label belongs to a binary task or a ranking, not to `regression`",
            ]
        );
    }
}
