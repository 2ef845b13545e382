//! Progress of long work: a bar on a terminal, now and then a line otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// How many lines tell of the progress where there is no terminal.
const LINES: u64 = 4;

/// Where there is no terminal, less than so many bytes are read without a word.
const TOLD_BYTES: u64 = 16 << 20;

/// The progress of one piece of work.
pub(crate) struct Progress {
    bar: ProgressBar,
    what: &'static str,
    total: u64,
    told: u64,
}

impl Progress {
    /// Work on `total` things called `what`.
    pub(crate) fn new(what: &'static str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{msg} [{bar:40}] {human_pos}/{human_len} {rate}, {eta} left");
        let rate =
            |state: &ProgressState, to: &mut dyn std::fmt::Write| _ = write!(to, "{:.0}/s", state.per_sec());
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
        bar.set_message(what);
        Self { bar, what, total, told: 0 }
    }

    /// Work on `total` bytes.
    pub(crate) fn of_bytes(what: &'static str, total: u64) -> Self {
        let progress = Self::new(what, total);
        let template = "{prefix} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}, {msg}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            progress.bar.set_style(style.progress_chars("=> "));
        }
        progress.bar.set_prefix(what);
        progress
    }

    /// `bytes` of them are done, which were `rows` rows.
    pub(crate) fn at_rows(&mut self, bytes: u64, rows: usize) {
        self.bar.set_position(bytes);
        let seconds = self.bar.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!("{rows} rows, {:.0} rows/s", rows as f64 / seconds));
        let quarter = bytes * LINES / self.total.max(1);
        if self.bar.is_hidden() && quarter > self.told && self.total >= TOLD_BYTES {
            self.told = quarter;
            eprintln!("{}: {rows} rows, {} of {} MB", self.what, bytes >> 20, self.total >> 20);
        }
    }

    /// `done` of them are done, and this is where the work is.
    pub(crate) fn at(&mut self, done: u64, place: &str) {
        self.bar.set_position(done);
        self.bar.set_message(format!("{} {place}", self.what));
        let quarter = done * LINES / self.total.max(1);
        if self.bar.is_hidden() && quarter > self.told {
            self.told = quarter;
            eprintln!("{} {place}: {done} of {}", self.what, self.total);
        }
    }

    /// It is work on `total` things by now.
    pub(crate) fn set_total(&mut self, total: u64) {
        self.bar.set_length(total);
        self.total = total;
    }

    /// The work is done.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_may_grow() {
        let mut progress = Progress::new("folding", 4);
        progress.at(4, "segments");
        progress.set_total(8);
        progress.at(5, "segments");
        assert_eq!((progress.bar.length(), progress.bar.position(), progress.total), (Some(8), 5, 8));
    }
}
