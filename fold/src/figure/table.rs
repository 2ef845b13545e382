//! The table of figures.

use super::{Direction, Figure, Getter, Merge, Ranking, Row};
use crate::{
    evaluation::{Measures, Regression},
    metrics::{Confusion, calibration_error},
};

/// Every figure of evaluations, in the order of the columns.
pub static FIGURES: &[Figure] = &[
    text("release", |row| row.name.map(str::to_owned)),
    count("predictions", |row| Some(row.release?.predictions)),
    count("labelled", |row| Some(row.release?.labelled)),
    number("maturity", |row| row.release?.maturity()),
    count("positives", |row| Some(row.binary()?.positives)),
    number("accuracy", accuracy).ranked(Direction::Max, Merge::Confusion(Confusion::accuracy)),
    number("auc", |row| row.binary()?.auc).ranked(Direction::Max, Merge::Mean),
    number("log_loss", |row| row.binary()?.log_loss).ranked(Direction::Min, Merge::Mean),
    number("brier", |row| row.binary()?.brier).ranked(Direction::Min, Merge::Mean),
    number("precision", |row| row.binary()?.precision)
        .ranked(Direction::Max, Merge::Confusion(Confusion::precision)),
    number("recall", |row| row.binary()?.recall).ranked(Direction::Max, Merge::Confusion(Confusion::recall)),
    number("f1", |row| row.binary()?.f1).ranked(Direction::Max, Merge::Confusion(Confusion::f1)),
    number("ece", |row| row.binary()?.ece).ranked(Direction::Min, Merge::Calibration(calibration_error)),
    number("mean_score", |row| row.release?.mean_score),
    number("mae", |row| regression(row)?.mae).ranked(Direction::Min, Merge::Mean),
    number("rmse", |row| regression(row)?.rmse).ranked(Direction::Min, Merge::RootMeanSquare),
    number("bias", |row| regression(row)?.bias),
    count("wins", |row| Some(row.release?.record.wins)),
    count("losses", |row| Some(row.release?.record.losses)),
    count("ties", |row| Some(row.release?.record.ties)),
    count("repeated", |row| row.release?.repeated),
    count("unmatched", |row| row.unmatched),
    text("definition_from", |row| row.release?.defined_from.map(|day| day.to_string())),
    text("positive_label", |row| Some(row.binary()?.positive.clone())),
    number("threshold", |row| Some(row.binary()?.threshold)),
    number("balanced_accuracy", |row| row.binary()?.confusion.balanced_accuracy())
        .ranked(Direction::Max, Merge::Confusion(Confusion::balanced_accuracy)),
    number("mcc", |row| row.binary()?.confusion.mcc())
        .ranked(Direction::Max, Merge::Confusion(Confusion::mcc)),
];

fn accuracy(row: &Row<'_>) -> Option<f64> {
    match row.measures()? {
        Measures::Binary(of) => of.accuracy,
        Measures::Multiclass(of) => of.accuracy,
        Measures::Regression(_) => None,
    }
}

fn regression<'a>(row: &Row<'a>) -> Option<&'a Regression> {
    if let Measures::Regression(of) = row.measures()? { Some(of) } else { None }
}

const fn text(name: &'static str, read: fn(&Row<'_>) -> Option<String>) -> Figure {
    Figure { name, getter: Getter::Text(read), ranking: None }
}

const fn count(name: &'static str, read: fn(&Row<'_>) -> Option<u64>) -> Figure {
    Figure { name, getter: Getter::Count(read), ranking: None }
}

const fn number(name: &'static str, read: fn(&Row<'_>) -> Option<f64>) -> Figure {
    Figure { name, getter: Getter::Number(read), ranking: None }
}

impl Figure {
    const fn ranked(self, better: Direction, merge: Merge) -> Self {
        Self { ranking: Some(Ranking { better, merge }), ..self }
    }
}
