//! Destination of log lines: a thread of their own writes them to standard error. The caller hands over a line and goes on; when
//! standard error fails (a full disk, a closed pipe) or blocks, lines are dropped and counted, without other effects.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use meter::catalogue;

/// Maximum lines that wait for standard error.
const MAX_WAITING: usize = 4_096;

/// Maximum time that the end of a process waits for lines to be written, in steps of [`STEP`].
const MAX_STEPS: usize = 1_000;
const STEP: Duration = Duration::from_millis(1);

/// Writer of log lines that never fails.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    lines: SyncSender<Vec<u8>>,
    counts: Arc<Counts>,
}

/// Counts of lines.
#[derive(Debug, Default)]
struct Counts {
    taken: AtomicU64,
    settled: AtomicU64,
    /// Lines dropped for lack of room.
    full: AtomicU64,
    /// Lines that could not be written.
    failed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::AcqRel);
}

fn counted(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Acquire)
}

impl Sink {
    /// Makes a sink that writes to `out`, on a thread of its own.
    pub(crate) fn over(out: impl Write + Send + 'static) -> Self {
        let (lines, waiting) = sync_channel(MAX_WAITING);
        let counts = Arc::<Counts>::default();
        let counting = Arc::clone(&counts);
        // Without the thread all lines are dropped.
        _ = thread::Builder::new().name("log".to_owned()).spawn(move || write_all(out, &waiting, &counting));
        Self { lines, counts }
    }

    /// Waits until all lines handed over are written or dropped, for a second at most.
    pub(crate) fn flush(&self) {
        let taken = counted(&self.counts.taken);
        for _ in 0..MAX_STEPS {
            if counted(&self.counts.settled) >= taken {
                return;
            }
            thread::sleep(STEP);
        }
    }

    /// Sets the metric of dropped lines.
    pub(crate) fn tell(&self) {
        for (reason, counter) in [("full", &self.counts.full), ("failed", &self.counts.failed)] {
            catalogue::LOG_DROPPED.counter([reason]).absolute(counted(counter));
        }
    }
}

fn write_all(mut out: impl Write, lines: &Receiver<Vec<u8>>, counts: &Counts) {
    while let Ok(line) = lines.recv() {
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            count(&counts.failed);
        }
        count(&counts.settled);
    }
}

/// Each call of `write` is one line.
impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.lines.try_send(line.to_vec()) {
            Ok(()) => count(&self.counts.taken),
            Err(_) => count(&self.counts.full),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A writer that always fails.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _line: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A writer that signals its call and then blocks for ever.
    struct Held(Sender<()>);

    impl Write for Held {
        fn write(&mut self, _line: &[u8]) -> io::Result<usize> {
            _ = self.0.send(());
            loop {
                thread::park();
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn unwritable_log_lines_are_counted_without_failure() {
        let mut sink = Sink::over(Full);
        for _ in 0..10 {
            sink.write_all(b"a line\n").unwrap();
        }
        Sink::flush(&sink);
        assert_eq!(counted(&sink.counts.failed), 10);
    }

    #[test]
    fn blocked_log_output_does_not_block_writers() {
        let (tell, held) = channel();
        let mut sink = Sink::over(Held(tell));
        sink.write_all(b"a line\n").unwrap();
        held.recv().unwrap();
        for _ in 0..MAX_WAITING + 7 {
            sink.write_all(b"a line\n").unwrap();
        }
        assert_eq!(counted(&sink.counts.full), 7);
    }
}
