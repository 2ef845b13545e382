//! A small chart for the terminal.

/// Eighths of a cell, from the least to the whole.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bars of `values`, `height` lines high, with the scale at the left. Values that are no number leave
/// a gap.
pub(super) fn bars(values: &[f64], height: usize) -> Vec<String> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (least, greatest) =
        (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if least > greatest {
        return Vec::new();
    }
    // The scale begins a little below the least value, so that it is seen.
    let bottom = (least - (greatest - least) * 0.1).max(0.0);
    let span = (greatest - bottom).max(f64::MIN_POSITIVE);
    let eighths = |value: f64| ((value - bottom) / span * (height * 8) as f64).round() as usize;
    (0..height)
        .rev()
        .map(|line| {
            let cells = values.iter().map(|value| match value.is_finite() {
                true => BARS[eighths(*value).saturating_sub(line * 8).min(8)],
                false => ' ',
            });
            let label = match line {
                0 => format!("{bottom:.2}"),
                _ if line + 1 == height => format!("{greatest:.2}"),
                _ => String::new(),
            };
            format!("{label:>5} │{}", cells.collect::<String>())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::bars;

    #[test]
    fn the_greatest_value_fills_its_column_and_a_gap_is_empty() {
        let lines = bars(&[0.5, 1.0, f64::NAN, 0.75], 2);
        assert_eq!(lines, [" 1.00 │ █ ▁", " 0.45 │▁█ █"]);
        assert!(bars(&[f64::NAN], 3).is_empty());
        assert_eq!(bars(&[0.5], 1).len(), 1);
    }
}
