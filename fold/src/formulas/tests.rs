use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

fn close(a: Option<f64>, b: f64) {
    let a = a.unwrap();
    assert!((a - b).abs() <= 1e-14 * b.abs().max(1.0), "{a} is not {b}");
}

fn auc(rows: &[(f64, bool)]) -> Option<f64> {
    let mut scores = Scores::default();
    rows.iter().for_each(|&(score, positive)| scores.add(score, positive));
    scores.judge(None).auc
}

fn probabilities(rows: &[(f64, bool)]) -> Probabilities {
    let mut judged = Probabilities::default();
    rows.iter().for_each(|&(score, positive)| judged.add(score, positive));
    judged
}

#[test]
fn confusion_by_hand() {
    let confusion = Confusion { tp: 3, fp: 1, tn: 4, fn_: 2 };
    assert_eq!(confusion.accuracy(), Some(0.7));
    assert_eq!(confusion.precision(), Some(0.75));
    assert_eq!(confusion.recall(), Some(0.6));
    close(confusion.f1(), 2.0 / 3.0);
    let mut counted = Confusion::default();
    for (predicted, real, n) in [(true, true, 3), (true, false, 1), (false, false, 4), (false, true, 2)] {
        (0..n).for_each(|_| counted.add(predicted, real));
    }
    assert_eq!(counted, confusion);
}

#[test]
fn undefined_metrics_are_none() {
    let none = Confusion::default();
    assert_eq!((none.accuracy(), none.precision(), none.recall(), none.f1()), (None, None, None, None));
    let negatives = Confusion { tn: 5, ..none };
    assert_eq!((negatives.accuracy(), negatives.recall(), negatives.f1()), (Some(1.0), None, None));
    let missed = Confusion { fn_: 5, ..none };
    assert_eq!((missed.precision(), missed.recall(), missed.f1()), (None, Some(0.0), Some(0.0)));
    assert_eq!((auc(&[]), auc(&[(0.5, true)]), auc(&[(0.5, false), (0.1, false)])), (None, None, None));
    let nothing = probabilities(&[]);
    assert_eq!((nothing.log_loss(), nothing.brier(), nothing.ece()), (None, None, None));
    assert_eq!(Errors::default().judge(), ErrorMetrics::default());
}

#[test]
fn auc_by_hand() {
    // Example of scikit-learn's `roc_auc_score`.
    assert_eq!(auc(&[(0.1, false), (0.4, false), (0.35, true), (0.8, true)]), Some(0.75));
    assert_eq!(auc(&[(0.3, true), (0.3, false)]), Some(0.5), "a tie");
    assert_eq!(auc(&[(0.0, true), (-0.0, false)]), Some(0.5), "two zeros are a tie");
    assert_eq!(auc(&[(1.0, true), (0.0, false)]), Some(1.0));
    assert_eq!(auc(&[(0.0, true), (1.0, false)]), Some(0.0));
    // Positive 0.5 is above one and ties with one of the three negatives.
    assert_eq!(auc(&[(0.5, true), (0.5, false), (0.2, false), (0.9, false)]), Some(0.5));
}

#[test]
fn probabilities_by_hand() {
    let judged = probabilities(&[(0.9, true), (0.2, false), (0.6, false), (1.0, true)]);
    close(judged.log_loss(), (-(0.9f64.ln()) - 0.8f64.ln() - 0.4f64.ln() - (1.0 - f64::EPSILON).ln()) / 4.0);
    close(judged.brier(), (0.01 + 0.04 + 0.36) / 4.0);
    let bins = judged.calibration();
    assert_eq!((bins[9].n, bins[9].positives, bins[2].n, bins[6].n), (2, 2, 1, 1));
    assert_eq!(bins[9].sum, 1.9);
    close(judged.ece(), (0.1 + 0.2 + 0.6) / 4.0);
}

#[test]
fn certain_and_wrong_costs_what_the_clip_allows() {
    let wrong = -f64::EPSILON.ln();
    close(probabilities(&[(0.0, true)]).log_loss(), wrong);
    close(probabilities(&[(1.0, false)]).log_loss(), wrong);
    close(probabilities(&[(1.0, true)]).log_loss(), f64::EPSILON);
}

#[test]
fn errors_by_hand() {
    let mut errors = Errors::default();
    for (predicted, real) in [(3.0, 1.0), (1.0, 2.0), (5.0, 5.0)] {
        errors.add(predicted, real);
    }
    let metrics = errors.judge();
    close(metrics.mae, 1.0);
    close(metrics.rmse, (5.0f64 / 3.0).sqrt());
    close(metrics.bias, 1.0 / 3.0);
    assert_eq!(metrics.n, 3);
}

#[test]
fn error_means_survive_extreme_values() {
    let of = |rows: &[(f64, f64)]| {
        let mut errors = Errors::default();
        rows.iter().for_each(|&(predicted, real)| errors.add(predicted, real));
        let metrics = errors.judge();
        (metrics.mae, metrics.rmse, metrics.bias)
    };
    assert_eq!(of(&[(1e200, 0.0)]), (Some(1e200), Some(1e200), Some(1e200)));
    assert_eq!(of(&[(1e308, 0.0), (1e308, 0.0)]), (Some(1e308), Some(1e308), Some(1e308)));
    assert_eq!(of(&[(f64::MAX, 0.0), (0.0, f64::MAX)]), (Some(f64::MAX), Some(f64::MAX), Some(0.0)));
    assert_eq!(of(&[(1e-200, 0.0)]), (Some(1e-200), Some(1e-200), Some(1e-200)));
    let (mae, rmse, _) = of(&[(1e-200, 0.0), (3e-200, 0.0), (1e-170, 0.0)]);
    close(mae.map(|mae| mae * 1e170), 1.0 / 3.0);
    close(rmse.map(|rmse| rmse * 1e170), 1.0 / 3f64.sqrt());
    // The error is twice the greatest double, its mean with a correct one is the greatest.
    let (mae, rmse, bias) = of(&[(f64::MAX, f64::MIN), (1.0, 1.0)]);
    assert_eq!((mae, bias), (Some(f64::MAX), Some(f64::MAX)));
    assert_eq!(rmse, None, "it is beyond the doubles");
    assert_eq!(of(&[(f64::MAX, f64::MIN)]), (None, None, None));
}

#[test]
fn metrics_of_numbers_by_hand() {
    let of = |rows: &[(f64, f64)]| {
        let mut errors = Errors::default();
        rows.iter().for_each(|&(predicted, real)| errors.add(predicted, real));
        errors.judge().detail
    };
    // Example of scikit-learn's `r2_score`.
    let detail = of(&[(2.5, 3.0), (0.0, -0.5), (2.0, 2.0), (8.0, 7.0)]);
    close(detail.r2, 0.948_608_137_044_967_9);
    close(detail.mse, 0.375);
    close(detail.mape, 0.327_380_952_380_952_4);
    assert_eq!((detail.median_absolute_error, detail.error_p50), (Some(0.5), Some(0.25)));
    assert_eq!(of(&[(1.0, 2.0), (3.0, 2.0)]).r2, None, "all real numbers are the same");
    assert_eq!((of(&[(-1.0, 0.0)]).msle, of(&[(0.0, 0.0)]).smape), (None, Some(0.0)));
    assert_eq!(of(&[(f64::MAX, f64::MIN)]).smape, Some(2.0));
    assert_eq!(of(&[(1e-200, 0.0), (1e-200, 0.0)]).mse, Some(0.0));
    assert_eq!(of(&[]), ErrorDetail::default());
}

fn rows() -> impl Strategy<Value = Vec<(f64, bool)>> {
    let score = prop_oneof![0.0..=1.0f64, select(vec![0.0, -0.0, 0.1, 0.5, 0.7, 1.0])];
    vec((score, any::<bool>()), 0..60)
}

proptest! {
    #[test]
    fn auc_agrees_with_comparing_every_pair(rows in rows()) {
        let side = |wanted| rows.iter().filter(move |(_, positive)| *positive == wanted).map(|(score, _)| *score);
        let (mut twice, mut pairs) = (0u32, 0u32);
        for above in side(true) {
            for below in side(false) {
                pairs += 1;
                twice += if above > below { 2 } else { u32::from(above == below) };
            }
        }
        let expected = (pairs > 0).then(|| f64::from(twice) / f64::from(2 * pairs));
        prop_assert_eq!(auc(&rows), expected);
    }

    #[test]
    fn means_agree_with_plain_sums(rows in rows()) {
        let judged = probabilities(&rows);
        prop_assert_eq!(judged.n(), rows.len() as u64);
        if !rows.is_empty() {
            let n = rows.len() as f64;
            let truth = |positive: bool| if positive { 1.0 } else { 0.0 };
            let brier = rows.iter().map(|&(p, y)| (p - truth(y)).powi(2)).sum::<f64>() / n;
            close(judged.brier(), brier);
            let of_truth = |p: f64, y: bool| if y { p } else { 1.0 - p };
            let loss = |&(p, y): &(f64, bool)| -of_truth(p, y).clamp(f64::EPSILON, 1.0 - f64::EPSILON).ln();
            close(judged.log_loss(), rows.iter().map(loss).sum::<f64>() / n);
            let ece = judged.calibration().into_iter().filter(|bin| bin.n > 0).map(|bin| {
                bin.n as f64 / n * (bin.sum / bin.n as f64 - bin.positives as f64 / bin.n as f64).abs()
            });
            close(judged.ece(), ece.sum::<f64>());
        }
    }

    #[test]
    fn order_leaves_no_trace(
        rows in rows().prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
    ) {
        let (a, b) = (probabilities(&rows.0), probabilities(&rows.1));
        let bits = |judged: &Probabilities| [judged.log_loss(), judged.brier(), judged.ece()].map(|x| x.map(f64::to_bits));
        prop_assert_eq!(bits(&a), bits(&b));
        prop_assert_eq!(a.calibration(), b.calibration());
        prop_assert_eq!(auc(&rows.0), auc(&rows.1));
    }
}

#[test]
fn metrics_of_both_classes_by_hand() {
    let of = |tp, fp, tn, fn_| {
        let confusion = Confusion { tp, fp, tn, fn_ };
        (confusion.balanced_accuracy(), confusion.mcc())
    };
    assert_eq!(of(2, 1, 1, 0), (Some(0.75), Some(2.0 / 12f64.sqrt())));
    // References of scikit-learn 1.x: balanced_accuracy_score, matthews_corrcoef.
    let (balanced, mcc) = of(90, 40, 860, 10);
    assert!((balanced.unwrap() - 0.9277777777777778).abs() < 1e-15);
    assert!((mcc.unwrap() - 0.7631996595942341).abs() < 1e-15, "{mcc:?}");
    assert_eq!(of(3, 0, 2, 0), (Some(1.0), Some(1.0)));
    assert_eq!(of(0, 2, 0, 3), (Some(0.0), Some(-1.0)));
    assert_eq!(of(5, 5, 5, 5), (Some(0.5), Some(0.0)));
    assert_eq!(of(3, 1, 0, 0), (Some(0.5), None), "nothing was predicted negative");
    assert_eq!(of(3, 0, 0, 1), (None, None), "there are no negatives");
    assert_eq!(of(0, 0, 0, 0), (None, None));
    let many = u64::MAX / 4;
    assert_eq!(of(many, 0, many, 0), (Some(1.0), Some(1.0)));
}

/// Returns the quantile of sorted numbers by numpy's `linear` method.
fn of_sorted(numbers: &[f64], q: f64) -> f64 {
    let place = q * (numbers.len() - 1) as f64;
    let (low, high) = (numbers[place as usize], numbers[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

proptest! {
    #[test]
    fn error_metrics_match_plain_sums_in_any_order(
        rows in vec((-9.0..90.0f64, select(vec![0.0, -3.0, 0.5, 7.25, 1e6])), 1..700)
            .prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
    ) {
        let judge = |rows: &[(f64, f64)]| {
            let mut errors = Errors::default();
            rows.iter().for_each(|&(predicted, real)| errors.add(predicted, real));
            assert_eq!(errors.bytes(), rows.len() * 8);
            errors.judge()
        };
        let found = judge(&rows.0);
        prop_assert_eq!(judge(&rows.1), found);
        let n = rows.0.len() as f64;
        let mut errors: Vec<f64> = rows.0.iter().map(|(predicted, real)| predicted - real).collect();
        errors.sort_by(f64::total_cmp);
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() <= 1e-9 * expected.abs().max(1.0);
        prop_assert!(near(found.mae, sizes.iter().sum::<f64>() / n));
        prop_assert!(near(found.detail.mse, sizes.iter().map(|size| size * size).sum::<f64>() / n));
        for (metric, q) in [(found.detail.error_p10, 0.1), (found.detail.error_p50, 0.5), (found.detail.error_p90, 0.9)] {
            prop_assert!(near(metric, of_sorted(&errors, q)), "{metric:?} {q} {:?}", of_sorted(&errors, q));
        }
        prop_assert!(near(found.detail.median_absolute_error, of_sorted(&sizes, 0.5)));
    }
}
