//! The table of metrics.

use super::{Direction, Evidence, Getter, Merge, Method, Metric, Of, Ranking, Row};
use crate::{
    evaluation::{Measures, Multiclass, Regression, Tested},
    formulas::{
        Bounds, ClassCounts, ClassScores, Classes, Confusion, ErrorDetail, GROUP_METRICS, GroupMeans, Ranks,
        Worth, calibration_error, ratio,
    },
};

/// Every metric of evaluations, in the order of the columns.
pub static METRICS: &[Metric] = &[
    text("release", |row| row.name.map(str::to_owned)).main(),
    count("predictions", |row| Some(row.release?.predictions)).main(),
    count("labelled", |row| Some(row.release?.judged())).main(),
    number("maturity", |row| row.release?.maturity()),
    count("positives", |row| Some(row.binary()?.positives)),
    number("accuracy", accuracy)
        .evidence(accuracy_evidence)
        .within(Method::Wilson)
        .ranked(Direction::Max, Merge::Confusion(Confusion::accuracy))
        .main(),
    number("auc", |row| row.binary().map_or_else(|| scores(row)?.auc, |of| of.auc))
        .of(Of::Scored)
        .tested(Tested::Auc)
        .within(Method::DeLong)
        .ranked(Direction::Max, Merge::MeanOfDays)
        .main(),
    number("log_loss", |row| row.binary().map_or_else(|| scores(row)?.log_loss, |of| of.log_loss))
        .of(Of::Scored)
        .evidence(|row| row.release?.singles.as_ref()?.log_loss)
        .tested(Tested::LogLoss)
        .within(Method::Student)
        .ranked(Direction::Min, Merge::Mean)
        .main(),
    number("brier", |row| row.binary()?.brier)
        .of(Of::Scored)
        .evidence(|row| row.release?.singles.as_ref()?.brier)
        .tested(Tested::Brier)
        .within(Method::Student)
        .ranked(Direction::Min, Merge::Mean)
        .main(),
    number("precision", |row| row.binary()?.precision)
        .evidence(|row| share(row, |of| (of.tp, of.tp + of.fp)))
        .within(Method::Wilson)
        .divided(|row, zero| divided(row, Confusion::precision, zero))
        .ranked(Direction::Max, Merge::Confusion(Confusion::precision))
        .main(),
    number("recall", |row| row.binary()?.recall)
        .evidence(|row| share(row, |of| (of.tp, of.tp + of.fn_)))
        .within(Method::Wilson)
        .divided(|row, zero| divided(row, Confusion::recall, zero))
        .ranked(Direction::Max, Merge::Confusion(Confusion::recall))
        .main(),
    number("f1", |row| row.binary()?.f1)
        .within(Method::Bootstrap)
        .divided(|row, zero| divided(row, Confusion::f1, zero))
        .ranked(Direction::Max, Merge::Confusion(Confusion::f1))
        .main(),
    number("ece", |row| row.binary()?.ece)
        .of(Of::Scored)
        .within(Method::Bootstrap)
        .ranked(Direction::Min, Merge::Calibration(calibration_error)),
    number("mean_score", |row| row.release?.mean_score),
    number("mae", |row| regression(row)?.mae)
        .evidence(|row| Evidence::of_errors(regression(row)?))
        .within(Method::Student)
        .ranked(Direction::Min, Merge::Mean)
        .main(),
    number("rmse", |row| regression(row)?.rmse)
        .within(Method::Bootstrap)
        .ranked(Direction::Min, Merge::RootMeanSquare)
        .main(),
    number("bias", |row| regression(row)?.bias).within(Method::Student).main(),
    count("wins", |row| Some(row.release?.record.wins)),
    count("losses", |row| Some(row.release?.record.losses)),
    count("ties", |row| Some(row.release?.record.ties)),
    count("repeated", |row| Some(row.release?.repeated)),
    count("erased", |row| Some(row.release?.erased)),
    count("orphaned", |row| row.orphaned).main(),
    text("definition_from", |row| row.release?.defined_from.map(|day| day.to_string())),
    text("positive_label", positive_label),
    number("threshold", |row| Some(row.binary()?.threshold)),
    number("balanced_accuracy", balanced_accuracy)
        .within(Method::Bootstrap)
        .ranked(Direction::Max, Merge::Both(Confusion::balanced_accuracy, recalls)),
    number("mcc", |row| row.binary()?.confusion.mcc())
        .within(Method::Bootstrap)
        .ranked(Direction::Max, Merge::Confusion(Confusion::mcc)),
    count("unlabelled", |row| Some(row.release?.unlabelled())),
    count("tp", |row| Some(row.binary()?.confusion.tp)),
    count("fp", |row| Some(row.binary()?.confusion.fp)),
    count("tn", |row| Some(row.binary()?.confusion.tn)),
    count("fn", |row| Some(row.binary()?.confusion.fn_)),
    number("specificity", |row| row.binary()?.confusion.specificity())
        .evidence(|row| share(row, |of| (of.tn, of.tn + of.fp)))
        .within(Method::Wilson)
        .divided(|row, zero| divided(row, Confusion::specificity, zero))
        .ranked(Direction::Max, Merge::Confusion(Confusion::specificity)),
    number("fpr", |row| row.binary()?.confusion.fpr())
        .evidence(|row| share(row, |of| (of.fp, of.tn + of.fp)))
        .within(Method::Wilson)
        .ranked(Direction::Min, Merge::Confusion(Confusion::fpr)),
    number("fnr", |row| row.binary()?.confusion.fnr())
        .evidence(|row| share(row, |of| (of.fn_, of.tp + of.fn_)))
        .within(Method::Wilson)
        .ranked(Direction::Min, Merge::Confusion(Confusion::fnr)),
    number("average_precision", |row| ranks(row)?.average_precision)
        .of(Of::Scored)
        .within(Method::Bootstrap)
        .ranked(Direction::Max, Merge::MeanOfDays),
    number("ks", |row| ranks(row)?.ks)
        .of(Of::Scored)
        .within(Method::Bootstrap)
        .ranked(Direction::Max, Merge::MeanOfDays),
    number("lift_at_10", |row| ranks(row)?.lift_at_10)
        .of(Of::Scored)
        .within(Method::Bootstrap)
        .ranked(Direction::Max, Merge::MeanOfDays),
    number("ece_sklearn", |row| ranks(row)?.ece_sklearn).of(Of::Scored).within(Method::Bootstrap),
    number("ece_guo", |row| ranks(row)?.ece_guo).of(Of::Scored).within(Method::Bootstrap),
    number("mse", |row| detail(row)?.mse).within(Method::Student).ranked(Direction::Min, Merge::Mean),
    number("mape", |row| detail(row)?.mape).within(Method::Student).ranked(Direction::Min, Merge::Mean),
    number("smape", |row| detail(row)?.smape).within(Method::Student).ranked(Direction::Min, Merge::Mean),
    number("msle", |row| detail(row)?.msle).within(Method::Student).ranked(Direction::Min, Merge::Mean),
    number("r2", |row| detail(row)?.r2).within(Method::Bootstrap),
    number("median_absolute_error", |row| detail(row)?.median_absolute_error).within(Method::Bootstrap),
    number("error_p10", |row| detail(row)?.error_p10).within(Method::Bootstrap),
    number("error_p50", |row| detail(row)?.error_p50).within(Method::Bootstrap),
    number("error_p90", |row| detail(row)?.error_p90).within(Method::Bootstrap),
    number("micro_precision", micro).within(Method::Wilson),
    number("micro_recall", micro).within(Method::Wilson),
    number("micro_f1", micro).within(Method::Wilson),
    number("macro_precision", |row| classes(row)?.macro_mean(ClassCounts::precision, None))
        .within(Method::Bootstrap)
        .divided(|row, zero| classes(row)?.macro_mean(ClassCounts::precision, Some(zero)))
        .ranked(Direction::Max, Merge::Classes(|of| of.macro_mean(ClassCounts::precision, None))),
    number("macro_recall", |row| classes(row)?.macro_mean(ClassCounts::recall, None))
        .within(Method::Bootstrap)
        .divided(|row, zero| classes(row)?.macro_mean(ClassCounts::recall, Some(zero)))
        .ranked(Direction::Max, Merge::Classes(|of| of.macro_mean(ClassCounts::recall, None))),
    number("macro_f1", |row| classes(row)?.macro_mean(ClassCounts::f1, None))
        .within(Method::Bootstrap)
        .divided(|row, zero| classes(row)?.macro_mean(ClassCounts::f1, Some(zero)))
        .ranked(Direction::Max, Merge::Classes(|of| of.macro_mean(ClassCounts::f1, None)))
        .main(),
    number("weighted_precision", |row| classes(row)?.weighted_mean(ClassCounts::precision, None))
        .within(Method::Bootstrap)
        .divided(|row, zero| classes(row)?.weighted_mean(ClassCounts::precision, Some(zero)))
        .ranked(Direction::Max, Merge::Classes(|of| of.weighted_mean(ClassCounts::precision, None))),
    number("weighted_recall", |row| classes(row)?.weighted_mean(ClassCounts::recall, None))
        .within(Method::Bootstrap)
        .divided(|row, zero| classes(row)?.weighted_mean(ClassCounts::recall, Some(zero)))
        .ranked(Direction::Max, Merge::Classes(|of| of.weighted_mean(ClassCounts::recall, None))),
    number("weighted_f1", |row| classes(row)?.weighted_mean(ClassCounts::f1, None))
        .within(Method::Bootstrap)
        .divided(|row, zero| classes(row)?.weighted_mean(ClassCounts::f1, Some(zero)))
        .ranked(Direction::Max, Merge::Classes(|of| of.weighted_mean(ClassCounts::f1, None))),
    top("top_2_accuracy", |row| top_accuracy(row, 0), |row| top_evidence(row, 0)),
    top("top_3_accuracy", |row| top_accuracy(row, 1), |row| top_evidence(row, 1)),
    top("top_5_accuracy", |row| top_accuracy(row, 2), |row| top_evidence(row, 2)),
    number("coverage", |row| ratio(bounds(row)?.inside, bounds(row)?.n))
        .of(Of::Bounded)
        .within(Method::Wilson),
    number("interval_width", |row| bounds(row)?.width)
        .of(Of::Bounded)
        .within(Method::Student)
        .ranked(Direction::Min, Merge::Mean),
    number("pinball", pinball)
        .of(Of::Bounded)
        .within(Method::Bootstrap)
        .ranked(Direction::Min, Merge::MeanOfDays),
    number("interval_level", |row| regression(row)?.level),
    text("costs", |row| Some(row.binary()?.costs?.to_string())),
    number("value", |row| Some(worth(row)?.value))
        .of(Of::Priced)
        .within(Method::Bootstrap)
        .ranked(Direction::Max, Merge::Sum),
    number("value_per_prediction", |row| Some(worth(row)?.value / worth(row)?.n as f64))
        .of(Of::Priced)
        .evidence(|row| Evidence::of_worth(row.binary()?))
        .within(Method::Student)
        .ranked(Direction::Max, Merge::Mean),
    number("best_threshold", |row| Some(worth(row)?.best?.threshold)),
    number("best_value", |row| Some(worth(row)?.best?.value)).of(Of::Scored).within(Method::Bootstrap),
    count("groups", |row| Some(groups(row)?.evaluated)).of(Of::Groups).main(),
    count("groups_without_relevant", |row| Some(groups(row)?.without_relevant)).of(Of::Groups),
    of_groups::<0>().main(),
    of_groups::<1>(),
    of_groups::<2>().main(),
    of_groups::<3>(),
    of_groups::<4>(),
    of_groups::<5>().main(),
    of_groups::<6>(),
    of_groups::<7>(),
    of_groups::<8>(),
    of_groups::<9>(),
];

fn positive_label(row: &Row<'_>) -> Option<String> {
    match row.measures()? {
        Measures::Binary(of) => Some(of.positive.clone()),
        Measures::Ranking(of) => Some(of.positive.clone()),
        Measures::Multiclass(_) | Measures::Regression(_) => None,
    }
}

fn accuracy(row: &Row<'_>) -> Option<f64> {
    match row.measures()? {
        Measures::Binary(of) => of.accuracy,
        Measures::Multiclass(of) => of.accuracy,
        Measures::Regression(_) | Measures::Ranking(_) => None,
    }
}

fn accuracy_evidence(row: &Row<'_>) -> Option<Evidence> {
    match row.measures()? {
        Measures::Binary(_) => share(row, |of| (of.tp + of.tn, of.n())),
        Measures::Multiclass(of) => Some(Evidence::share(of.correct, of.judged)),
        Measures::Regression(_) | Measures::Ranking(_) => None,
    }
}

/// Returns the evidence of a share of a confusion matrix, from its numerator and denominator.
fn share(row: &Row<'_>, counts: fn(&Confusion) -> (u64, u64)) -> Option<Evidence> {
    let (right, n) = counts(&row.binary()?.confusion);
    Some(Evidence::share(right, n))
}

/// Returns a quotient of counts, with `zero` in place of a division by zero; `None` if nothing is evaluated.
fn divided(row: &Row<'_>, metric: fn(&Confusion) -> Option<f64>, zero: f64) -> Option<f64> {
    let confusion = &row.binary()?.confusion;
    metric(confusion).or((confusion.n() > 0).then_some(zero))
}

/// Returns the balanced accuracy; for several classes it is the mean of the recalls of the real ones.
fn balanced_accuracy(row: &Row<'_>) -> Option<f64> {
    match row.measures()? {
        Measures::Binary(of) => of.confusion.balanced_accuracy(),
        Measures::Multiclass(of) => recalls(&of.classes),
        Measures::Regression(_) | Measures::Ranking(_) => None,
    }
}

/// Returns the mean of the recalls of the real classes.
fn recalls(classes: &Classes) -> Option<f64> {
    classes.macro_mean(ClassCounts::recall, None)
}

/// Returns the micro average: with one class for each prediction, micro precision, recall and F1 equal the accuracy.
fn micro(row: &Row<'_>) -> Option<f64> {
    let of = multiclass(row)?;
    ratio(of.correct, of.judged)
}

fn multiclass<'a>(row: &Row<'a>) -> Option<&'a Multiclass> {
    if let Measures::Multiclass(of) = row.measures()? { Some(of) } else { None }
}

fn classes<'a>(row: &Row<'a>) -> Option<&'a Classes> {
    Some(&multiclass(row)?.classes)
}

fn ranks<'a>(row: &Row<'a>) -> Option<&'a Ranks> {
    Some(&row.binary()?.ranks)
}

fn scores(row: &Row<'_>) -> Option<ClassScores> {
    Some(multiclass(row)?.scores)
}

fn top_accuracy(row: &Row<'_>, at: usize) -> Option<f64> {
    let scores = scores(row)?;
    ratio(scores.top[at], scores.scored)
}

fn top_evidence(row: &Row<'_>, at: usize) -> Option<Evidence> {
    let scores = scores(row)?;
    Some(Evidence::share(scores.top[at], scores.scored))
}

fn bounds(row: &Row<'_>) -> Option<Bounds> {
    Some(regression(row)?.bounds)
}

/// Returns the mean of the losses of both ends as quantiles, which enclose the nominal share of the intervals.
fn pinball(row: &Row<'_>) -> Option<f64> {
    let (bounds, level) = (bounds(row)?, regression(row)?.level?);
    let (lower, upper) =
        (bounds.lower.pinball((1.0 - level) / 2.0)?, bounds.upper.pinball((1.0 + level) / 2.0)?);
    Some(lower / 2.0 + upper / 2.0)
}

fn worth(row: &Row<'_>) -> Option<Worth> {
    row.binary()?.worth
}

fn regression<'a>(row: &Row<'a>) -> Option<&'a Regression> {
    if let Measures::Regression(of) = row.measures()? { Some(of) } else { None }
}

fn detail<'a>(row: &Row<'a>) -> Option<&'a ErrorDetail> {
    Some(&regression(row)?.detail)
}

fn groups<'a>(row: &Row<'a>) -> Option<&'a GroupMeans> {
    if let Measures::Ranking(of) = row.measures()? { Some(&of.groups) } else { None }
}

const fn text(name: &'static str, read: fn(&Row<'_>) -> Option<String>) -> Metric {
    metric(name, Getter::Text(read))
}

const fn count(name: &'static str, read: fn(&Row<'_>) -> Option<u64>) -> Metric {
    metric(name, Getter::Count(read))
}

const fn number(name: &'static str, read: fn(&Row<'_>) -> Option<f64>) -> Metric {
    metric(name, Getter::Number(read))
}

const fn metric(name: &'static str, getter: Getter) -> Metric {
    Metric {
        name,
        getter,
        ranking: None,
        is_main: false,
        method: None,
        of: Of::Judged,
        divided: None,
        evidence: None,
        tested: None,
    }
}

/// Creates the metric of the accuracy of the classes with the greatest scores.
const fn top(
    name: &'static str,
    read: fn(&Row<'_>) -> Option<f64>,
    evidence: fn(&Row<'_>) -> Option<Evidence>,
) -> Metric {
    number(name, read)
        .of(Of::Scored)
        .evidence(evidence)
        .within(Method::Wilson)
        .ranked(Direction::Max, Merge::Mean)
}

/// Creates the metric of the mean over groups at a place of [`GROUP_METRICS`].
const fn of_groups<const AT: usize>() -> Metric {
    number(GROUP_METRICS[AT].0, |row| groups(row)?.mean(AT))
        .of(Of::Groups)
        .within(Method::Student)
        .ranked(Direction::Max, Merge::Mean)
}

impl Metric {
    const fn ranked(self, better: Direction, merge: Merge) -> Self {
        Self { ranking: Some(Ranking { better, merge }), ..self }
    }

    const fn of(self, of: Of) -> Self {
        Self { of, ..self }
    }

    const fn within(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    const fn evidence(self, read: fn(&Row<'_>) -> Option<Evidence>) -> Self {
        Self { evidence: Some(read), ..self }
    }

    const fn tested(self, tested: Tested) -> Self {
        Self { tested: Some(tested), ..self }
    }

    const fn divided(self, read: fn(&Row<'_>, f64) -> Option<f64>) -> Self {
        Self { divided: Some(read), ..self }
    }

    const fn main(self) -> Self {
        Self { is_main: true, ..self }
    }
}
