//! The robust z-score: the distance of a number from others, in deviations that few outliers among them do not move.

/// Quantile of the standard normal distribution at 3/4: the median deviation in standard deviations.
const NORMAL_75: f64 = 0.674_489_750_196_081_7;

/// Standard deviation of a normal distribution in mean absolute deviations: the root of π/2.
const ROOT_HALF_PI: f64 = 1.253_314_137_315_500_3;

/// Limit of deviations: if all others are equal, every other number is infinitely far away.
pub const MAX_DEVIATIONS: f64 = 1e6;

/// Returns the number of robust standard deviations above the median of others, negative below; `None` without
/// others.
///
/// The modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993): by the median absolute
/// deviation from the median, or by the mean absolute deviation if half of the numbers equal the median.
pub fn robust_z(value: f64, others: &[f64]) -> Option<f64> {
    let middle = median(others.to_vec())?;
    let deviations: Vec<f64> = others.iter().map(|other| (other - middle).abs()).collect();
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    let scale = match median(deviations)? {
        0.0 => mean * ROOT_HALF_PI,
        mad => mad / NORMAL_75,
    };
    let distance = value - middle;
    Some(match distance == 0.0 {
        true => 0.0,
        false => (distance / scale).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS),
    })
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_unstable_by(f64::total_cmp);
    let half = numbers.len() / 2;
    let upper = *numbers.get(half)?;
    Some(match numbers.len() % 2 {
        1 => upper,
        _ => f64::midpoint(numbers[half - 1], upper),
    })
}
