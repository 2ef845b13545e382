//! Progress of long work: a bar on a terminal, now and then a line otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// How many lines tell of the progress where there is no terminal.
const LINES: u64 = 4;

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

    /// The work is done.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}
