//! Processes: children that end with their owner, and resource usage of a process, from `/proc`.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::Context;

/// Ticks of the processor clock a second, as Linux reports them, whatever the kernel's own are.
const TICKS: f64 = 100.0;
/// Time for a process to end after a request.
const PATIENCE: Duration = Duration::from_secs(15);
/// Interval of polling.
pub const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Process groups of the running servers, for ending them when this program is signalled.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Ends all servers at once, if there is no time to drop them.
pub fn end_all() {
    for id in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        signal(*id, "-TERM");
    }
}

/// A server with all its children, ended when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
}

impl Server {
    /// Starts it as the head of a process group of its own, so that it can be ended with its children.
    ///
    /// # Errors
    /// Fails if there is no such program.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let context = format!("cannot start {:?}", command.get_program());
        let child = command.stdin(Stdio::null()).process_group(0).spawn().context(context)?;
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).insert(child.id());
        Ok(Self { child })
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its standard output, if that is a pipe and was not taken.
    pub fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self) {
        if !self.has_ended() {
            signal(self.id(), "-TERM");
            let mut waited = Duration::ZERO;
            while !self.has_ended() && waited < PATIENCE {
                thread::sleep(LOOK_EVERY);
                waited += LOOK_EVERY;
            }
        }
        // Remaining processes of the group ignored the signal.
        if RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id()) {
            signal(self.id(), "-KILL");
        }
        _ = self.child.wait();
    }
}

/// Sends a signal to a process group.
fn signal(group: u32, signal: &str) {
    let group = format!("-{group}");
    _ = Command::new("kill").args([signal, "--", &group]).stderr(Stdio::null()).status();
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the processor time of a process so far, in seconds; of this one if `id` is `None`.
pub fn cpu_seconds(id: Option<u32>) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", name(id))).unwrap_or_default();
    // The name of the program, in parentheses, may contain anything; user and system time are the 12th and 13th field
    // behind it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / TICKS
}

/// Returns the processor time of all processes of a group so far, in seconds, without ended ones.
pub fn group_cpu_seconds(group: u32) -> f64 {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| group_of(*id) == Some(group)).map(|id| cpu_seconds(Some(id))).sum()
}

fn group_of(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// Returns the peak resident memory of a process, in megabytes (10^6 bytes).
pub fn peak_megabytes(id: Option<u32>) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", name(id))).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 =
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0.0);
    kib * 1024.0 / 1e6
}

fn name(id: Option<u32>) -> String {
    id.map_or_else(|| "self".to_owned(), |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        assert!(peak_megabytes(None) > 1.0);
        assert!(cpu_seconds(None) >= 0.0);
        assert_eq!(cpu_seconds(Some(u32::MAX)), 0.0);
    }

    #[test]
    fn a_server_ends_with_its_owner() {
        let server = Server::start(Command::new("sleep").arg("600")).unwrap();
        let id = server.id();
        assert!(fs::metadata(format!("/proc/{id}")).is_ok());
        assert_eq!(group_of(id), Some(id), "it is the head of its group");
        assert!(group_cpu_seconds(id) >= cpu_seconds(Some(id)));
        drop(server);
        assert!(fs::metadata(format!("/proc/{id}")).is_err());
    }
}
