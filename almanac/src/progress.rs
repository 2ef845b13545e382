//! Progress of long work: a bar on a terminal, or a line at intervals.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Interval of lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress of one piece of work.
pub(crate) struct Progress {
    bar: ProgressBar,
    what: &'static str,
    total: u64,
    /// Time that the work had taken at the last line.
    told: Duration,
}

impl Progress {
    /// Begins work on `total` things called `what`.
    pub(crate) fn new(what: &'static str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{msg} [{bar:40}] {human_pos}/{human_len} {rate}, {eta} left");
        let rate =
            |state: &ProgressState, to: &mut dyn std::fmt::Write| _ = write!(to, "{:.0}/s", state.per_sec());
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
        bar.set_message(what);
        Self { bar, what, total, told: Duration::ZERO }
    }

    /// Begins work on `total` bytes.
    pub(crate) fn of_bytes(what: &'static str, total: u64) -> Self {
        let progress = Self::new(what, total);
        let template = "{prefix} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}, {msg}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            progress.bar.set_style(style.progress_chars("=> "));
        }
        progress.bar.set_prefix(what);
        progress
    }

    /// Notes that `bytes` are done, with `rows` rows.
    pub(crate) fn at_rows(&mut self, bytes: u64, rows: usize) {
        self.bar.set_position(bytes);
        let seconds = self.bar.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!("{rows} rows, {:.0} rows/s", rows as f64 / seconds));
        if self.is_line_due(self.bar.elapsed()) {
            let mb = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            eprintln!("{}: {rows} rows, {:.1} of {:.1} MB", self.what, mb(bytes), mb(self.total));
        }
    }

    /// Returns whether a line is due after this time, if there is no bar.
    fn is_line_due(&mut self, elapsed: Duration) -> bool {
        let is_due = self.bar.is_hidden() && elapsed >= self.told + LINE_EVERY;
        self.told = if is_due { elapsed } else { self.told };
        is_due
    }

    /// Notes that `done` things are done, and the place of the work.
    pub(crate) fn at(&mut self, done: u64, place: &str) {
        self.bar.set_position(done);
        self.bar.set_message(format!("{} {place}", self.what));
        if self.is_line_due(self.bar.elapsed()) {
            eprintln!("{} {place}: {done} of {}", self.what, self.total);
        }
    }

    /// Changes the total.
    pub(crate) fn set_total(&mut self, total: u64) {
        self.bar.set_length(total);
        self.total = total;
    }

    /// Ends the work.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_without_terminal_prints_every_ten_seconds() {
        let mut progress = Progress::of_bytes("importing", 1_000);
        progress.bar.set_draw_target(ProgressDrawTarget::hidden());
        let due = [0, 9, 10, 11, 19, 20, 45, 46, 54, 55].map(|seconds| {
            let is_due = progress.is_line_due(Duration::from_secs(seconds));
            is_due.then_some(seconds)
        });
        assert_eq!(due.into_iter().flatten().collect::<Vec<_>>(), [10, 20, 45, 55]);
    }

    #[test]
    fn a_total_may_grow() {
        let mut progress = Progress::new("folding", 4);
        progress.at(4, "segments");
        progress.set_total(8);
        progress.at(5, "segments");
        assert_eq!((progress.bar.length(), progress.bar.position(), progress.total), (Some(8), 5, 8));
    }
}
