//! Table of event fields. Each field is declared here and nowhere else.

use super::{Erased, Family, Field, FieldType, Rule};

/// Prefix of the column of a tag: `tag.carrier`.
pub const TAG_PREFIX: &str = "tag.";

/// Prefix of the column of the probability of a class: `score.late`.
pub const SCORE_PREFIX: &str = "score.";

/// Field of the items that are ranked together.
pub const GROUP: &str = "group";

/// Field that retracts an event.
pub const RETRACTED: &str = "retracted";

/// Field with the reason for a retraction.
pub const REASON: &str = "reason";

/// Field with the earliest time of a prediction that an unmatched outcome may label.
pub const PREDICTED_SINCE: &str = "predicted_since";

/// Field that selects the predictions of its key that an unmatched outcome labels.
pub const JUDGES: &str = "applies_to";

/// Fields that only outcomes without a date have, removed once their predictions are found.
pub const UNDATED: [&str; 2] = [PREDICTED_SINCE, JUDGES];

/// Time at which an event was known, which a file may have for each. It is stored once for all events of a segment.
pub const KNOWN_AT: Field = time("known_at", "When it was known.").required();

/// Prefix of the column of a feature: `feature.distance`.
pub const FEATURE_PREFIX: &str = "feature.";

const fn field(name: &'static str, kind: FieldType, about: &'static str) -> Field {
    Field {
        name,
        kind,
        rule: Rule::Plain,
        about,
        is_required: false,
        is_telling: false,
        at_most: None,
        needs: &[],
        is_rolled_up: false,
        is_of_retraction: false,
        erased: Erased::Never,
    }
}

const fn time(name: &'static str, about: &'static str) -> Field {
    field(name, FieldType::Time, about)
}

const fn number(name: &'static str, about: &'static str) -> Field {
    field(name, FieldType::Float, about)
}

const fn text(name: &'static str, rule: Rule, about: &'static str) -> Field {
    field(name, FieldType::Text, about).rule(rule)
}

impl Field {
    const fn rule(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    const fn telling(self) -> Self {
        Self { is_telling: true, ..self }
    }

    const fn at_most(self, other: &'static str) -> Self {
        Self { at_most: Some(other), ..self }
    }

    const fn needs(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }

    const fn rolled_up(self) -> Self {
        Self { is_rolled_up: true, ..self }
    }

    const fn of_retraction(self) -> Self {
        Self { is_of_retraction: true, ..self }
    }

    const fn erased(self) -> Self {
        Self { erased: Erased::WithKey, ..self }
    }

    /// Marks a predicted, observed or measured value.
    const fn of_values(self) -> Self {
        Self { erased: Erased::WithValues, ..self }
    }
}

/// Creates the field of a retraction. It carries content, so that no other field is needed.
const fn retracted(about: &'static str) -> Field {
    text(RETRACTED, Rule::True, about).telling().needs(&[REASON]).of_retraction()
}

const fn reason() -> Field {
    text(REASON, Rule::Reason, "Why it is taken back.").needs(&[RETRACTED]).of_retraction().erased()
}

pub(super) const PREDICTIONS: &[Field] = &[
    text("key", Rule::Key, "Names what was predicted.").required(),
    time("predicted_at", "When it was predicted.").required(),
    text("release", Rule::Name, "The release that predicted it.").required().rolled_up(),
    number("score", "A probability; beside a group any number, by which its items are ranked.")
        .rule(Rule::Score)
        .telling()
        .rolled_up()
        .of_values(),
    text("label", Rule::Label, "The class that was predicted.").telling().rolled_up().of_values(),
    number("value", "The number that was predicted.").telling().rolled_up().of_values(),
    number("lower", "The lower end of the predicted interval; `value` may lie outside.")
        .at_most("upper")
        .of_values(),
    number("upper", "The upper end of the predicted interval; `value` may lie outside.").of_values(),
    number("latency_ms", "How long it took.").rule(Rule::Duration).rolled_up().of_values(),
    text(
        GROUP,
        Rule::Plain,
        "Names the items that are ranked together: those of a query, a session, or a user and day.",
    )
    .erased(),
    retracted("`true` takes back what was sent of this release, key and instant."),
    reason(),
];

/// Fields that may be sent for an outcome. Only outcomes that do not name the prediction that they label have the
/// last ones ([`UNDATED`]).
pub(super) const SENT_OUTCOMES: &[Field] = &[
    text("key", Rule::Key, "The key of the prediction.").required(),
    time("predicted_at", "The instant of the prediction.").rolled_up(),
    time("observed_at", "When it was observed.").required(),
    text("label", Rule::Label, "The class that was observed.").telling().rolled_up().of_values(),
    number("value", "The number that was observed.").telling().rolled_up().of_values(),
    retracted("`true` takes back what was sent of this key, prediction and time of observation."),
    reason(),
    time(PREDICTED_SINCE, "Of an outcome without a date: the earliest prediction that it may judge."),
    text(
        JUDGES,
        Rule::AppliesTo,
        "Of an outcome without a date: whether it labels the `latest` prediction of its key, as it does by default, or `all`.",
    ),
];

pub(super) const OUTCOMES: &[Field] = SENT_OUTCOMES.split_at(SENT_OUTCOMES.len() - UNDATED.len()).0;

/// Fields of an outcome that does not name the prediction that it labels: all but `predicted_at`.
pub(super) const UNMATCHED: &[Field] = &[
    SENT_OUTCOMES[0],
    SENT_OUTCOMES[2],
    SENT_OUTCOMES[3],
    SENT_OUTCOMES[4],
    SENT_OUTCOMES[5],
    SENT_OUTCOMES[6],
    SENT_OUTCOMES[7],
    SENT_OUTCOMES[8],
];

pub(super) const METRICS: &[Field] = &[
    text("name", Rule::Plain, "The name of the metric.").required().rolled_up(),
    time("measured_at", "When it was measured.").required().rolled_up(),
    number("value", "What was measured.").rule(Rule::Measured).required().rolled_up().of_values(),
    text("release", Rule::Name, "The release that it was measured of.").rolled_up(),
    text("key", Rule::Key, "The key of the prediction that it was measured of.")
        .needs(&["predicted_at", "predicted_on"]),
    time("predicted_at", "The instant of the prediction that `key` names.").needs(&["key"]),
    text("predicted_on", Rule::Day, "The UTC day of the prediction that `key` names.").needs(&["key"]),
    text("run", Rule::Run, "The run that measured it, by its id."),
    number("step", "How far the run was: a whole number that grows.").rule(Rule::Step).needs(&["run"]),
];

pub(super) const RELEASES: &[Field] = &[
    text("release", Rule::Name, "The release.").required().rolled_up(),
    time("released_at", "When it happened.").required(),
    text("model", Rule::Name, "The model of the release.").required(),
    text("action", Rule::Action, "What happened.").required().rolled_up(),
    text("configuration", Rule::Name, "The configuration of the release.").rolled_up(),
    text("environment", Rule::Name, "Where the release is live.").rolled_up(),
    text("note", Rule::Note, "A remark."),
    text("task", Rule::Task, "What the predictions of the release say."),
    text("positive_label", Rule::Label, "The positive label of a binary task."),
    number("threshold", "From which score on a prediction without a label is positive."),
    text("costs", Rule::Words, "What predictions of a binary task gain and cost: `tp=10,tn=0,fp=2,fn=50`."),
    number("interval_level", "The share of real numbers that predicted intervals are to hold."),
    text(
        "dimensions",
        Rule::Words,
        "By which tags and features evaluations are stored: `tag.carrier,feature.distance:500`.",
    ),
    text(
        "custom_metrics",
        Rule::Words,
        "Metrics of its own, one a line: `late=avg(case when outcome_label = '1' then 1 else 0 end)`.",
    ),
    text("effective_from", Rule::Day, "The day from which a definition holds."),
];

/// Texts that group events.
const TAGS: Family = Family {
    noun: "tag",
    name: "tags",
    prefix: TAG_PREFIX,
    placeholder: "NAME",
    kind: FieldType::Text,
    rule: Rule::Tag,
    name_rule: Rule::Name,
    about: "Texts by name.",
    max: 64,
    max_batch: 256,
    sums_to_one: false,
    is_telling: false,
    is_rolled_up: true,
    is_sketched: false,
    erased: Erased::WithKey,
};

/// Probability of each class.
const SCORES: Family = Family {
    noun: "score",
    name: "scores",
    prefix: SCORE_PREFIX,
    placeholder: "CLASS",
    kind: FieldType::Float,
    rule: Rule::Probability,
    name_rule: Rule::Label,
    about: "The probability of each class; they add up to 1.",
    max: 256,
    max_batch: 256,
    sums_to_one: true,
    is_telling: true,
    is_rolled_up: false,
    is_sketched: false,
    erased: Erased::WithValues,
};

/// Inputs of a prediction.
const FEATURES: Family = Family {
    noun: "feature",
    name: "features",
    prefix: FEATURE_PREFIX,
    placeholder: "NAME",
    kind: FieldType::Float,
    rule: Rule::Plain,
    name_rule: Rule::Name,
    about: "Numbers that it was predicted from, by name.",
    max: 256,
    max_batch: 256,
    sums_to_one: false,
    is_telling: false,
    is_rolled_up: false,
    is_sketched: true,
    erased: Erased::WithKey,
};

pub(super) const PREDICTION_FAMILIES: &[Family] = &[TAGS, SCORES, FEATURES];
pub(super) const METRIC_FAMILIES: &[Family] = &[TAGS];
