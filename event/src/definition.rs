//! How the predictions of a release are judged, and the words for it.

use std::collections::BTreeMap;

use crate::{Costs, CustomFigure, Day, Error, Result, Split, Task, task::POSITIVE_SCORE};

/// How the predictions of a release are judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// What they say.
    pub task: Task,
    /// From which score on a prediction without a label is one of the positive class.
    pub threshold: f64,
    /// What predictions of a binary task gain and cost, if that is known.
    pub costs: Option<Costs>,
    /// The share of real numbers that the predicted intervals are to hold, between 0 and 1.
    pub interval_level: Option<f64>,
    /// By what evaluations are stored, beside by release.
    pub splits: Vec<Split>,
    /// Figures of its own, in the order of their names.
    pub figures: Vec<CustomFigure>,
    /// The day from which this holds; `None` from the beginning.
    pub from: Option<Day>,
}

/// What a definition says in one of its fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
}

impl Definition {
    /// The fields that say what it is, as release events and stored items have them.
    pub const FIELDS: [&str; 8] = [
        "task",
        "positive_label",
        "threshold",
        "costs",
        "interval_level",
        "splits",
        "figures",
        "effective_from",
    ];

    /// That of a task, from the beginning.
    pub fn of(task: Task) -> Self {
        Self {
            task,
            threshold: POSITIVE_SCORE,
            costs: None,
            interval_level: None,
            splits: Vec::new(),
            figures: Vec::new(),
            from: None,
        }
    }

    /// Reads a definition from the [fields](Self::FIELDS) of an event or an item.
    ///
    /// # Errors
    /// `Invalid`, when a field is no good or does not belong to the task.
    pub fn read<'a>(
        text: impl Fn(&str) -> Option<&'a str>,
        number: impl Fn(&str) -> Option<f64>,
    ) -> Result<Self> {
        let task = Task::parse(text("task").unwrap_or_default(), text("positive_label"))?;
        let name = task.name();
        let (threshold, interval_level) = (number("threshold"), number("interval_level"));
        let (costs, is_binary) = (text("costs"), task.is_binary());
        if !is_binary && (threshold.is_some() || costs.is_some()) {
            let what = if threshold.is_some() { "a threshold belongs" } else { "costs belong" };
            return Err(Error::invalid(format!("{what} to a binary task, not to `{name}`")));
        }
        if threshold.is_some_and(|threshold| !threshold.is_finite()) {
            return Err(Error::invalid("a threshold is a finite number"));
        }
        if interval_level.is_some() && task != Task::Regression {
            return Err(Error::invalid(format!(
                "the level of intervals belongs to a regression, not to `{name}`"
            )));
        }
        if interval_level.is_some_and(|level| !(level > 0.0 && level < 1.0)) {
            return Err(Error::invalid("the level of intervals is greater than 0 and less than 1"));
        }
        Ok(Self {
            task,
            threshold: threshold.unwrap_or(POSITIVE_SCORE),
            costs: costs
                .map(Costs::parse)
                .transpose()
                .map_err(|error| Error::invalid(format!("costs: {error}")))?,
            interval_level,
            splits: text("splits").map_or(Ok(Vec::new()), Split::parse_all)?,
            figures: text("figures").map_or(Ok(Vec::new()), CustomFigure::parse_all)?,
            from: text("effective_from").map(str::parse::<Day>).transpose()?,
        })
    }

    /// The same with its label as the labels of events are kept.
    #[must_use]
    pub fn plain(self) -> Self {
        Self { task: self.task.plain(), ..self }
    }

    /// What each of its [fields](Self::FIELDS) says. What it leaves out is not said.
    pub fn said(&self) -> Vec<(&'static str, Said)> {
        let text = |text: &str| Some(Said::Text(text.to_owned()));
        let [task, positive_label, threshold, costs, interval_level, splits, figures, effective_from] =
            Self::FIELDS;
        let said = [
            (task, text(self.task.name())),
            (positive_label, self.task.positive_label().and_then(text)),
            (threshold, self.task.is_binary().then_some(Said::Number(self.threshold))),
            (costs, self.costs.map(|costs| Said::Text(costs.to_string()))),
            (interval_level, self.interval_level.map(Said::Number)),
            (splits, (!self.splits.is_empty()).then(|| Said::Text(Split::text_of(&self.splits)))),
            (figures, (!self.figures.is_empty()).then(|| Said::Text(CustomFigure::text_of(&self.figures)))),
            (effective_from, self.from.map(|from| Said::Text(from.to_string()))),
        ];
        said.into_iter().filter_map(|(name, said)| Some((name, said?))).collect()
    }

    /// Whether another one has the same task, and the same of all else that this one says.
    pub fn asks_no_more_than(&self, other: &Self) -> bool {
        self.task.plain() == other.task.plain()
            && (self.threshold == POSITIVE_SCORE || self.threshold == other.threshold)
            && (self.costs.is_none() || self.costs == other.costs)
            && (self.interval_level.is_none() || self.interval_level == other.interval_level)
            && (self.splits.is_empty() || self.splits == other.splits)
            && (self.figures.is_empty() || self.figures == other.figures)
    }

    /// Whether it says the same, from whatever day on.
    pub fn is_like(&self, other: &Self) -> bool {
        Self { from: None, ..self.clone() } == Self { from: None, ..other.clone() }
    }
}

/// What somebody says of how predictions are judged. What is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewDefinition {
    /// What the predictions say.
    pub task: Option<String>,
    /// The positive label of a binary task.
    pub positive_label: Option<String>,
    /// From which score on a prediction without a label is one of the positive class.
    pub threshold: Option<f64>,
    /// What predictions gain and cost ([`Costs::parse`]), or [`NOTHING`].
    pub costs: Option<String>,
    /// The share of real numbers that the predicted intervals are to hold; 0 when it is not known.
    pub interval_level: Option<f64>,
    /// By what evaluations are stored ([`Split::parse`]); none, or [`NOTHING`] alone, by release only.
    pub splits: Option<Vec<String>>,
    /// Figures of its own: expressions by name; `None` or [`NOTHING`] takes the one of this name away.
    pub figures: Option<BTreeMap<String, Option<String>>>,
    /// The first day for which this holds.
    pub from: Option<Day>,
    /// A remark.
    pub note: Option<String>,
}

/// The word that takes costs, splits or a figure away.
pub const NOTHING: &str = "none";

impl NewDefinition {
    /// What holds from a day on, where `known` held before. Of another task only the splits and
    /// the figures of its own stay.
    ///
    /// # Errors
    /// `Invalid`, when a word is no good or does not belong to the task.
    pub fn after(&self, known: &Definition, from: Option<Day>) -> Result<Definition> {
        let text = |text: &Option<String>| text.clone().map(Said::Text);
        let number = |number: Option<f64>| number.map(Said::Number);
        let splits = self.splits.as_ref().map(|splits| Said::Text(splits.join(",")));
        let [
            task,
            positive_label,
            threshold,
            costs,
            interval_level,
            splits_field,
            figures_field,
            effective_from,
        ] = Definition::FIELDS;
        let own = [
            (task, text(&self.task)),
            (positive_label, text(&self.positive_label)),
            (threshold, number(self.threshold)),
            (costs, text(&self.costs)),
            (interval_level, number(self.interval_level)),
            (splits_field, splits),
            (figures_field, self.figures_after(known)?.map(Said::Text)),
            (effective_from, from.map(|from| Said::Text(from.to_string()))),
        ];
        let is_same_task = self.task.as_deref().is_none_or(|task| task == known.task.name());
        let known = known
            .said()
            .into_iter()
            .filter(|(name, _)| is_same_task || [splits_field, figures_field].contains(name));
        let mut said: BTreeMap<&str, Said> = known.filter(|(name, _)| *name != effective_from).collect();
        for (name, own) in own {
            match own {
                None => {}
                Some(Said::Text(text))
                    if [costs, splits_field, figures_field].contains(&name)
                        && matches!(&*text, NOTHING | "") =>
                {
                    said.remove(name);
                }
                Some(Said::Number(0.0)) if name == interval_level => _ = said.remove(name),
                Some(own) => _ = said.insert(name, own),
            }
        }
        let text =
            |name: &str| if let Said::Text(text) = said.get(name)? { Some(text.as_str()) } else { None };
        let number =
            |name: &str| if let Said::Number(number) = said.get(name)? { Some(*number) } else { None };
        Ok(Definition::read(text, number)?.plain())
    }

    /// The text of the figures that hold where those of `known` held before; `None`, when nothing is said of them.
    fn figures_after(&self, known: &Definition) -> Result<Option<String>> {
        let Some(figures) = &self.figures else { return Ok(None) };
        let mut all = CustomFigure::texts(&known.figures);
        for (name, text) in figures {
            match text.as_deref().map(str::trim).filter(|text| *text != NOTHING) {
                Some(text) => {
                    CustomFigure::check_new_name(name)?;
                    all.insert(name, text);
                }
                None => _ = all.remove(name.as_str()),
            }
        }
        Ok(Some(CustomFigure::text_of(&CustomFigure::parse_each(all)?)))
    }

    /// What holds from the beginning, of a task.
    ///
    /// # Errors
    /// As [`NewDefinition::after`].
    pub fn first(&self, task: &str) -> Result<Definition> {
        let task = Task::parse(task, self.positive_label.as_deref())?;
        Self { positive_label: None, ..self.clone() }.after(&Definition::of(task), None)
    }

    /// Whether it says anything of how predictions are judged.
    pub fn is_empty(&self) -> bool {
        let Self { task, positive_label, threshold, costs, interval_level, splits, figures, .. } = self;
        task.is_none()
            && positive_label.is_none()
            && threshold.is_none()
            && costs.is_none()
            && interval_level.is_none()
            && splits.is_none()
            && figures.is_none()
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
    fn what_a_definition_says_is_read_again() {
        let definitions = [
            Definition {
                threshold: 0.3,
                costs: Some(Costs::parse("tp=1,fn=2").unwrap()),
                splits: Split::parse_all("tag.carrier,feature.distance:500").unwrap(),
                figures: CustomFigure::parse_all("mean=avg(score)\nn=count(*)").unwrap(),
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
    fn what_is_not_given_stays_as_it_is() {
        let late = Definition {
            threshold: 0.3,
            costs: Some(Costs::parse("tp=1").unwrap()),
            splits: Split::parse_all("tag.carrier").unwrap(),
            from: "2013-06-01".parse().ok(),
            ..Definition::of(Task::Binary { positive_label: "late".into() })
        };
        let from = "2013-07-01".parse().ok();
        let after = |new: NewDefinition| new.after(&late, from).unwrap();
        assert_eq!(after(NewDefinition::default()), Definition { from, ..late.clone() });
        assert!(NewDefinition::default().is_empty());
        let none = || Some(NOTHING.to_owned());
        let nothing = after(NewDefinition { costs: none(), splits: Some(Vec::new()), ..Default::default() });
        assert_eq!(nothing, Definition { costs: None, splits: Vec::new(), from, ..late.clone() });
        let numbers = NewDefinition {
            task: Some("regression".into()),
            interval_level: Some(0.8),
            ..Default::default()
        };
        let splits = late.splits.clone();
        let expected =
            Definition { interval_level: Some(0.8), splits, from, ..Definition::of(Task::Regression) };
        assert_eq!(after(numbers), expected);
        let unknown = NewDefinition { interval_level: Some(0.0), ..Default::default() };
        assert_eq!(unknown.after(&expected, from).unwrap(), Definition { interval_level: None, ..expected });
        let first =
            NewDefinition { costs: Some("fn=3".into()), ..Default::default() }.first("binary").unwrap();
        assert_eq!((first.task.positive_label(), first.costs.unwrap().fn_), (Some("1"), 3.0));
    }

    #[test]
    fn figures_are_said_one_by_one() {
        let said = |figures: &[(&str, Option<&str>)]| {
            let figures = figures.iter().map(|(name, text)| ((*name).to_owned(), text.map(str::to_owned)));
            NewDefinition { figures: Some(figures.collect()), ..NewDefinition::default() }
        };
        let of = |definition: &Definition| CustomFigure::text_of(&definition.figures);
        let first = said(&[("b", Some("count(*)")), ("a", Some(" avg(score) "))]).first("binary").unwrap();
        assert_eq!(of(&first), "a=avg(score)\nb=count(*)");
        let more = said(&[("c", Some("max(score)")), ("b", Some("none")), ("d", None)]);
        let after = more.after(&first, None).unwrap();
        assert_eq!(of(&after), "a=avg(score)\nc=max(score)");
        let other = NewDefinition { task: Some("regression".into()), ..NewDefinition::default() };
        assert_eq!(of(&other.after(&after, None).unwrap()), of(&after));
        let nothing = said(&[("a", None), ("c", None)]).after(&after, None).unwrap();
        assert_eq!(nothing.figures, []);
        let wrong = said(&[("a", Some("score"))]).after(&after, None).unwrap_err().to_string();
        assert_eq!(wrong, "the figure `a`: the column `score` stands outside of an aggregate");
    }

    #[test]
    fn what_does_not_belong_to_the_task_is_refused() {
        let text = |text: &str| Said::Text(text.to_owned());
        let fails = |task, name, said| read(&[("task", text(task)), (name, said)]).unwrap_err().to_string();
        let lines = [
            fails("regression", "threshold", Said::Number(0.5)),
            fails("multiclass", "costs", text("tp=1")),
            fails("binary", "costs", text("tp")),
            fails("binary", "interval_level", Said::Number(0.8)),
            fails("regression", "interval_level", Said::Number(1.0)),
            fails("regression", "splits", text("carrier")),
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
                "the split `carrier` is neither tag.NAME nor feature.NAME:EDGE:EDGE",
                "a positive label belongs to a binary task, not to `regression`",
            ]
        );
    }
}
