//! Metrics of the system about this process. Linux gives them in files; other systems give none.

use std::{fs, path::Path};

use meter::catalogue;

/// Unit of processor time in Linux, in ticks a second, on every machine that Rust runs on.
const TICKS_PER_SECOND: u64 = 100;

/// Sets the known metrics.
pub(super) fn tell() {
    let read = |name: &str| fs::read_to_string(Path::new("/proc/self").join(name)).unwrap_or_default();
    let status = read("status");
    if let Some(kib) = field(&status, "VmRSS:") {
        catalogue::PROCESS_MEMORY.gauge([]).set(kib as f64 * 1024.0);
    }
    if let Some(threads) = field(&status, "Threads:") {
        catalogue::PROCESS_THREADS.gauge([]).set(threads as f64);
    }
    if let Some(most) = field(&read("limits"), "Max open files") {
        catalogue::PROCESS_MAX_FILES.gauge([]).set(most as f64);
    }
    if let Some(ticks) = ticks(&read("stat")) {
        catalogue::PROCESS_CPU.counter([]).absolute(ticks / TICKS_PER_SECOND);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        catalogue::PROCESS_FILES.gauge([]).set(files.count() as f64);
    }
}

/// First number after `name` on its line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Ticks in user and in system mode: fields 14 and 15 of `stat`, whose second field, the name in parentheses, may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_in_what_linux_writes() {
        let status = "Name:\talmanac\nVmHWM:\t  9 kB\nVmRSS:\t  5124 kB\nThreads:\t7\n";
        assert_eq!((field(status, "VmRSS:"), field(status, "Threads:")), (Some(5_124), Some(7)));
        let limits =
            "Max processes             95  95  processes\nMax open files            1024 4096 files\n";
        assert_eq!(field(limits, "Max open files"), Some(1_024));
        assert_eq!(field("Max open files            unlimited unlimited files\n", "Max open files"), None);
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 2 0 0 0 150 50 0 0 20 0 7 0 9 1 2";
        assert_eq!(ticks(stat), Some(200));
        assert_eq!(ticks(""), None);
    }
}
