//! Between which limits the numbers of usual days lie.

/// How many days are needed to say what is usual: a week.
pub const MIN_FENCE_DAYS: usize = 7;

/// How many interquartile ranges beyond the quartiles a number is far out.
const FAR_OUT: f64 = 3.0;

/// The outer fences of some numbers, three interquartile ranges beyond the quartiles (Tukey, Exploratory Data Analysis, 1977),
/// widened to all of the numbers. Quartiles are numpy's default (`linear`). `None` of fewer than [`MIN_FENCE_DAYS`], or where a
/// fence is not finite.
pub fn fences(numbers: &[f64]) -> Option<[f64; 2]> {
    if numbers.len() < MIN_FENCE_DAYS {
        return None;
    }
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (quantile(&sorted, 0.25), quantile(&sorted, 0.75));
    let reach = FAR_OUT * (high - low);
    let fences = [(low - reach).min(sorted[0]), (high + reach).max(sorted[sorted.len() - 1])];
    fences.iter().all(|fence| fence.is_finite()).then_some(fences)
}

/// The number below which a share of sorted numbers lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[rank as usize], sorted[rank.ceil() as usize]);
    below + (above - below) * rank.fract()
}
