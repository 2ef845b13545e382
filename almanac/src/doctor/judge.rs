//! Findings from observations: pure functions.

use std::time::Duration;

use event::{Error, Result, Timestamp};
use ingest::append::MAX_SKEW_SECONDS;
use log::{
    key::LogId,
    layout::{LAYOUT, Layout},
};
use projector::status::{Status, WorkspaceStatus};
use table::engine::Lines;

use super::Finding;
use crate::health::READY_LAG;

/// Maximum seconds between the clocks of this machine and of the table. Answers carry their time in whole seconds, and take a
/// while to arrive.
const CLOCKS_APART_SECONDS: f64 = 3.0;
/// Maximum age of the heartbeat of a live worker, in seconds; it is written every 2 s.
const ALIVE_SECONDS: f64 = 30.0;
/// Free space of a disk, in bytes, below which it needs attention, and below which the store soon accepts no writes.
const LOW_BYTES: u64 = 5 << 30;
const FULL_BYTES: u64 = 256 << 20;

/// Checks the clock of this machine against that of the table, if it has one.
pub(super) fn clock(engine: Option<Timestamp>, now: Timestamp) -> Finding {
    let Some(engine) = engine else {
        return Finding::ok("clock", "the table has no clock but this machine's");
    };
    let apart = (now.micros() - engine.micros()) as f64 / 1e6;
    let said = format!(
        "the clock of this machine is {:.1} s {} that of the table",
        apart.abs(),
        if apart < 0.0 { "behind" } else { "ahead of" }
    );
    let remedy = "let this machine take its time from a server (chrony, systemd-timesyncd)";
    match apart.abs() {
        apart if apart > MAX_SKEW_SECONDS as f64 => {
            let what = format!("{said}; ingest refuses to write from {MAX_SKEW_SECONDS} s on");
            Finding::fault("clock", what, remedy)
        }
        apart if apart > CLOCKS_APART_SECONDS => Finding::warning("clock", said, remedy),
        _ => Finding::ok("clock", said),
    }
}

/// Checks the log that is furthest ahead of this machine's clock, by workspace.
pub(super) fn times(ahead: &[(String, LogId, Duration)]) -> Finding {
    let most = ahead.iter().max_by_key(|(_, _, by)| *by);
    let Some((path, log, by)) = most.filter(|(_, _, by)| by.as_secs() > MAX_SKEW_SECONDS as u64) else {
        return Finding::ok("times", "no log of the last week is ahead of the clock of this machine");
    };
    Finding::warning(
        "times",
        format!(
            "{path}: {log} was appended to {:.1} hours ahead of the clock of this machine",
            by.as_secs_f64() / 3600.0
        ),
        "see that the clock is right: that of this machine, and that of who appended; those events count, but answers as of an instant \
         have them from that time on alone, and idempotency keys that were used then are known for longer",
    )
}

/// Splits a message of the usual form `problem; remedy`; a message of another form gets this remedy.
fn split<'a>(message: &'a str, remedy: &'a str) -> (&'a str, &'a str) {
    message.split_once("; ").unwrap_or((message, remedy))
}

/// Splits an error of the table into its problem and remedy; the default remedy helps with most errors of its kind.
fn told(error: &Error) -> (String, String) {
    let usual = if error.is_denied() {
        "give these credentials the rights of the roles in terraform/modules/almanac/iam.tf"
    } else if error.may_pass() {
        "see that the table can be reached; of a file, let this user write to the file and its folder, and see that the disk is not full"
    } else {
        "name another table with --store, or restore this one (`almanac admin restore`, a backup)"
    };
    let message = error.to_string();
    let (what, remedy) = split(&message, usual);
    (what.to_owned(), remedy.to_owned())
}

/// Finding for a refused configuration.
pub(super) fn refused(error: &Error) -> Finding {
    let remedy = "mend this value; `almanac config show` then says where each value comes from";
    Finding::fault("settings", error.to_string(), remedy)
}

/// Finding for a table that cannot be read or opened.
pub(super) fn no_table(error: &Error) -> Finding {
    let (what, remedy) = told(error);
    Finding::fault("table", what, remedy)
}

/// Findings for the engine's description of the table; true if the table can be used.
pub(super) fn table(shape: &Lines) -> (Vec<Finding>, bool) {
    let of = |wanted| shape.iter().filter(move |(label, _)| *label == wanted).map(|(_, value)| value);
    let problems: Vec<Finding> = of("problem")
        .map(|problem| {
            let (what, remedy) = split(problem, "see `almanac admin table describe`");
            Finding::fault("table", what, remedy)
        })
        .collect();
    if !problems.is_empty() {
        return (problems, false);
    }
    let said: Vec<&str> = of("engine").chain(of("size")).map(String::as_str).collect();
    (vec![Finding::ok("table", said.join(", "))], true)
}

/// Finding for the safety of the data from mistakes of people; `None` for a table that has no such settings.
pub(super) fn safety(shape: &Lines) -> Option<Finding> {
    let settings = [("protected", "deletion protection"), ("recovery", "point-in-time recovery")];
    let known = |label: &str| shape.iter().find(|(found, _)| *found == label).map(|(_, value)| value != "no");
    let known: Vec<_> = settings.iter().filter_map(|(label, name)| Some((*name, known(label)?))).collect();
    let names = |is_on: bool| {
        let names = known.iter().filter(|(_, found)| *found == is_on).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(" and ")
    };
    Some(match (names(true), names(false)) {
        (on, off) if on.is_empty() && off.is_empty() => return None,
        (on, off) if off.is_empty() => Finding::ok("safety", format!("on: {on}")),
        (_, off) => Finding::warning(
            "safety",
            format!("off: {off}"),
            "turn it on, with `deletion_protection` and `point_in_time_recovery` of the Terraform module; else one mistake deletes the data",
        ),
    })
}

/// Finding for trial operations of services.
pub(super) fn permissions(tries: &[(&str, Result<()>)]) -> Finding {
    let failed = tries.iter().filter_map(|(what, tried)| Some((what, told(tried.as_ref().err()?))));
    let (said, mut remedies): (Vec<String>, Vec<String>) =
        failed.map(|(what, (why, remedy))| (format!("no {what}: {why}"), remedy)).unzip();
    if said.is_empty() {
        let tried: Vec<&str> = tries.iter().map(|(what, _)| *what).collect();
        return Finding::ok("permissions", format!("the table takes a {}", tried.join(" and a ")));
    }
    remedies.dedup();
    Finding::fault("permissions", said.join("; "), remedies.join("; "))
}

/// Finding for the shards of the change feed, the last of which was read.
pub(super) fn stream(shards: Result<usize>) -> Finding {
    match shards {
        Ok(0) => Finding::warning(
            "stream",
            "the change feed has no shard",
            "wait a minute and look again: one that was just turned on has none",
        ),
        Ok(shards) => {
            Finding::ok("stream", format!("shards of the change feed: {shards}; the last can be read"))
        }
        Err(error) => {
            let remedy = match error.is_denied() {
                true => {
                    "give these credentials the rights of the projector in terraform/modules/almanac/iam.tf"
                }
                false => {
                    "try again; until it answers, the projector finds what is new by its sweeps alone, once in a while"
                }
            };
            let (why, _) = told(&error);
            Finding::fault("stream", format!("the change feed cannot be read: {why}"), remedy)
        }
    }
}

/// Finding for an unreadable status of the projector.
pub(super) fn no_status(error: &Error) -> Finding {
    let remedy = "mend what it says; what a newer Almanac has written only that one reads";
    Finding::fault("projector", format!("it cannot be seen how far it is: {error}"), remedy)
}

/// Finding for the free bytes of the disk of the data, or for the reason why they are unknown.
pub(super) fn disk(free: Result<u64, String>, path: &str) -> Finding {
    let free = match free {
        Ok(free) => free,
        Err(why) => {
            let what = format!("it cannot be seen how much is free at {path}: {why}");
            return Finding::warning("disk", what, "let this user look into the folder");
        }
    };
    let said = format!("{:.1} GiB are free at {path}", free as f64 / (1_u64 << 30) as f64);
    let remedy = "make room, move the data (`almanac admin backup`), or keep events for fewer days (`almanac workspace retention`)";
    match free {
        free if free < FULL_BYTES => Finding::fault("disk", said, remedy),
        free if free < LOW_BYTES => Finding::warning("disk", said, remedy),
        _ => Finding::ok("disk", said),
    }
}

/// Findings on the workers, the lag, and the obstacles of projections.
pub(super) fn projector(status: &Status, now: Timestamp) -> Vec<Finding> {
    let age = |at: Timestamp| (now.micros() - at.micros()) as f64 / 1e6;
    let alive = status.workers.iter().filter(|worker| age(worker.at) <= ALIVE_SECONDS).count();
    vec![workers(alive), lag(status, alive), letters(status), skipped(status), sweep(status, alive)]
}

fn workers(alive: usize) -> Finding {
    match alive {
        0 => Finding::warning(
            "projector",
            "no projector has shown life lately",
            "start one: `almanac up`, or `almanac projector` beside other roles",
        ),
        alive => Finding::ok("projector", format!("{alive} at work")),
    }
}

/// Lists the workspaces for which `say` returns a text.
fn of<'a>(status: &'a Status, say: impl Fn(&'a WorkspaceStatus) -> Option<String>) -> String {
    let said: Vec<String> = status.workspaces.iter().filter_map(say).collect();
    said.join(", ")
}

fn lag(status: &Status, alive: usize) -> Finding {
    let bound = READY_LAG.as_secs_f64();
    let late = of(status, |one| {
        let is_late = one.lag_segments > 0 && one.lag_seconds > bound;
        is_late.then(|| {
            format!("{} by {} segments, the oldest for {:.0} s", one.path, one.lag_segments, one.lag_seconds)
        })
    });
    if late.is_empty() {
        return Finding::ok("lag", format!("nothing waits for more than {bound:.0} s to be folded"));
    }
    let remedy = match alive {
        0 => "start a projector: `almanac up`, or `almanac projector`",
        _ => {
            "see the projector's log; a dead letter holds its log up (`almanac admin dead-letters list`), more projectors share the work"
        }
    };
    Finding::fault("lag", format!("behind: {late}"), remedy)
}

fn letters(status: &Status) -> Finding {
    let found = of(status, |one| {
        let count = one.dead_letters + one.unwritten;
        (count > 0).then(|| format!("{} {count}", one.path))
    });
    if found.is_empty() {
        return Finding::ok("dead letters", "none");
    }
    Finding::fault(
        "dead letters",
        found,
        "`almanac admin dead-letters list` names them and says why; `almanac admin dead-letters retry` after the cause is mended, or `almanac admin dead-letters skip`",
    )
}

fn skipped(status: &Status) -> Finding {
    let found = of(status, |one| (one.skipped > 0).then(|| format!("{} {}", one.path, one.skipped)));
    match found.is_empty() {
        true => Finding::ok("skipped", "no segment was left out"),
        false => Finding::warning(
            "skipped",
            format!("segments that are left out of metrics: {found}"),
            "`almanac admin dead-letters list` names them; `almanac admin dead-letters retry` takes one in again once it can be read",
        ),
    }
}

fn sweep(status: &Status, alive: usize) -> Finding {
    match &status.sweeper {
        Some(worker) => Finding::ok("sweeps", format!("made by {worker}")),
        None if alive == 0 => Finding::ok("sweeps", "the next projector begins with one"),
        None => Finding::warning(
            "sweeps",
            "nobody has the lease of the sweep",
            "wait a minute and look again; if it stays so, see the projectors' logs for denied writes to sys/lease",
        ),
    }
}

/// Judges the layout of the table: a warning while it is older than that of this Almanac.
pub(super) fn layout(found: &Layout) -> Finding {
    let said = format!("layout {}", found.number);
    match found.number == LAYOUT {
        true => Finding::ok("layout", said),
        false => Finding::warning(
            "layout",
            said,
            "`almanac admin upgrade` raises it once no older Almanac is to be started any more; `almanac admin upgrade --dry-run` says what it does",
        ),
    }
}

/// Finding for the version of Almanac, the engine's version of its file, and the projections under construction.
pub(super) fn versions(status: &Status, shape: &Lines) -> Finding {
    let building = of(status, |one| one.building.map(|building| format!("{} v{building}", one.path)));
    let engine = shape.iter().find(|(label, _)| *label == "engine").map(|(_, value)| value.as_str());
    let this =
        format!("Almanac {} on {}", env!("CARGO_PKG_VERSION"), engine.unwrap_or("an engine of no name"));
    match building.is_empty() {
        true => Finding::ok("versions", format!("{this}; no rebuild is under way")),
        false => Finding::warning(
            "versions",
            format!("{this}; projections that are being built: {building}"),
            "if no `almanac admin rebuild` runs, call it again: it goes on where it stopped",
        ),
    }
}

#[cfg(test)]
mod tests {
    use event::{ErrorKind, Id};
    use log::compacted::Compacted;
    use projector::heartbeat::Heartbeat;

    use super::*;
    use crate::doctor::Level;

    fn now() -> Timestamp {
        Timestamp::parse("2026-06-10T00:00:30Z").unwrap()
    }

    fn seen(finding: &Finding) -> (Level, &str) {
        assert_eq!(finding.remedy.is_empty(), finding.level == Level::Ok, "{finding:?}");
        (finding.level, &finding.what)
    }

    #[test]
    fn clocks_are_judged_by_what_ingest_takes() {
        let at = |seconds| clock(Some(now().plus_seconds(seconds)), now());
        assert_eq!(clock(None, now()).level, Level::Ok);
        assert_eq!(
            seen(&at(-2)),
            (Level::Ok, "the clock of this machine is 2.0 s ahead of that of the table")
        );
        assert_eq!(
            seen(&at(5)),
            (Level::Warning, "the clock of this machine is 5.0 s behind that of the table")
        );
        assert_eq!(at(MAX_SKEW_SECONDS).level, Level::Warning);
        let (level, what) = (at(MAX_SKEW_SECONDS + 1).level, at(-MAX_SKEW_SECONDS - 1).what);
        assert!(level == Level::Fault && what.contains("ingest refuses to write"), "{what}");
    }

    #[test]
    fn events_from_a_fast_clock_are_reported() {
        let log = |lane| LogId {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: "2026-06-01".parse().unwrap(),
            kind: event::Kind::Predictions,
            lane,
        };
        let ahead = |lane, seconds| ("flights/nyc".to_owned(), log(lane), Duration::from_secs(seconds));
        assert_eq!(times(&[]).level, Level::Ok);
        assert_eq!(times(&[ahead(0, MAX_SKEW_SECONDS as u64)]).level, Level::Ok);
        let found = times(&[ahead(0, 60), ahead(1, 5_400), ahead(2, 30)]);
        let what =
            "flights/nyc: day#2026-06-01/p/01 was appended to 1.5 hours ahead of the clock of this machine";
        assert_eq!(seen(&found), (Level::Warning, what));
    }

    #[test]
    fn a_disk_is_full_before_it_is() {
        let of = |free| disk(Ok(free), "/data").level;
        assert_eq!(
            [of(FULL_BYTES - 1), of(FULL_BYTES), of(LOW_BYTES)],
            [Level::Fault, Level::Warning, Level::Ok]
        );
        assert_eq!(seen(&disk(Ok(6 << 30), "/data")), (Level::Ok, "6.0 GiB are free at /data"));
        assert_eq!(disk(Err("no such folder".into()), "/data").level, Level::Warning);
    }

    #[test]
    fn table_problems_come_with_remedies() {
        let (findings, is_usable) =
            table(&vec![("engine", "DynamoDB".into()), ("problem", "it has no stream; turn it on".into())]);
        assert!(!is_usable);
        assert_eq!(findings, [Finding::fault("table", "it has no stream", "turn it on")]);
        let (findings, is_usable) = table(&vec![("engine", "SQLite".into()), ("size", "9 bytes".into())]);
        assert!(is_usable && findings == [Finding::ok("table", "SQLite, 9 bytes")], "{findings:?}");
        let missing =
            no_table(&Error::not_found("there is no table `a`; `almanac admin table create` makes it"));
        assert_eq!(
            (&*missing.what, &*missing.remedy),
            ("there is no table `a`", "`almanac admin table create` makes it")
        );
        let found = no_table(&Error::invalid("it is blue"));
        assert_eq!(seen(&found), (Level::Fault, "it is blue"));
        assert!(found.remedy.contains("`almanac admin restore`"), "{found:?}");
        let found = no_table(&Error::unavailable("it cannot be written"));
        assert_eq!(seen(&found), (Level::Fault, "it cannot be written"));
        assert!(found.remedy.contains("the file and its folder"), "the data is sound: {found:?}");
    }

    #[test]
    fn unprotected_table_needs_attention() {
        let of = |lines: &[(&'static str, &str)]| {
            let lines = lines.iter().map(|(label, value)| (*label, (*value).to_owned())).collect();
            safety(&lines).map(|finding| (finding.level, finding.what))
        };
        assert_eq!(of(&[("engine", "SQLite")]), None);
        let both = "on: deletion protection and point-in-time recovery";
        let (yes, always) = (("protected", "yes: it is"), ("recovery", "to any second"));
        assert_eq!(of(&[yes, always]), Some((Level::Ok, both.into())));
        assert_eq!(of(&[yes]), Some((Level::Ok, "on: deletion protection".into())));
        let off = "off: point-in-time recovery";
        assert_eq!(of(&[yes, ("recovery", "no")]), Some((Level::Warning, off.into())));
        let off = "off: deletion protection and point-in-time recovery";
        assert_eq!(of(&[("protected", "no"), ("recovery", "no")]), Some((Level::Warning, off.into())));
    }

    #[test]
    fn what_is_denied_names_the_rights() {
        let denied = || Error::new(ErrorKind::Denied, "AccessDeniedException");
        let found = permissions(&[("read", Ok(())), ("write", Err(denied()))]);
        assert_eq!(seen(&found), (Level::Fault, "no write: AccessDeniedException"));
        assert!(found.remedy.contains("iam.tf"), "{found:?}");
        let found = permissions(&[("read", Ok(())), ("write", Err(Error::unavailable("read-only")))]);
        assert!(found.remedy.contains("the file and its folder"), "{found:?}");
        let held = || Error::unavailable("somebody holds it; wait");
        let found = permissions(&[("read", Err(held())), ("write", Err(held()))]);
        assert_eq!(seen(&found), (Level::Fault, "no read: somebody holds it; no write: somebody holds it"));
        assert_eq!(found.remedy, "wait");
        assert_eq!(permissions(&[("read", Ok(())), ("write", Ok(()))]).level, Level::Ok);
        assert_eq!([stream(Ok(0)).level, stream(Ok(2)).level], [Level::Warning, Level::Ok]);
        let found = stream(Err(denied()));
        assert!(found.level == Level::Fault && found.remedy.contains("projector in terraform"), "{found:?}");
    }

    /// A workspace that lags by a segment for `seconds`, and a worker with a heartbeat `beat` seconds old.
    fn lagging(seconds: f64, beat: i64) -> Status {
        let workspace = WorkspaceStatus {
            path: "flights/nyc".into(),
            id: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            version: 1,
            building: None,
            lag_segments: 1,
            lag_seconds: seconds,
            dirty_days: 1,
            unevaluated_days: 0,
            dead_letters: 0,
            unwritten: 0,
            skipped: 0,
            compacted: Compacted::default(),
            warnings: None,
        };
        let worker = Heartbeat { worker: "w1".into(), at: now().plus_seconds(-beat), ..Heartbeat::default() };
        Status { workspaces: vec![workspace], workers: vec![worker], leases: Vec::new(), sweeper: None }
    }

    fn levels(status: &Status) -> Vec<(&'static str, Level)> {
        let findings = projector(status, now());
        findings.iter().for_each(|finding| _ = seen(finding));
        findings.iter().map(|finding| (finding.check, finding.level)).collect()
    }

    #[test]
    fn missing_or_late_projector_is_reported() {
        use Level::{Fault, Ok, Warning};
        let names = ["projector", "lag", "dead letters", "skipped", "sweeps"];
        let levels = |status: &Status| {
            let found = levels(status);
            assert_eq!(found.iter().map(|(check, _)| *check).collect::<Vec<_>>(), names);
            found.into_iter().map(|(_, level)| level).collect::<Vec<_>>()
        };
        let mut status = lagging(2.0, 1);
        status.sweeper = Some("w1".into());
        assert_eq!(levels(&status), [Ok; 5]);
        let late = lagging(READY_LAG.as_secs_f64() + 1.0, 1);
        assert_eq!(levels(&late), [Ok, Fault, Ok, Ok, Warning]);
        let gone = lagging(2.0, ALIVE_SECONDS as i64 + 1);
        assert_eq!(levels(&gone), [Warning, Ok, Ok, Ok, Ok]);
        status.workspaces[0].dead_letters = 1;
        status.workspaces[0].unwritten = 1;
        status.workspaces[0].skipped = 3;
        assert_eq!(levels(&status), [Ok, Ok, Fault, Warning, Ok]);
        assert_eq!(letters(&status).what, "flights/nyc 2");
    }

    #[test]
    fn a_rebuild_that_was_left_is_told() {
        let mut status = lagging(0.0, 1);
        let shape = vec![("engine", "SQLite, file version 1".to_owned())];
        let this = concat!("Almanac ", env!("CARGO_PKG_VERSION"), " on SQLite, file version 1; ");
        let found = versions(&status, &shape);
        assert_eq!(seen(&found), (Level::Ok, &*format!("{this}no rebuild is under way")));
        status.workspaces[0].building = Some(2);
        let found = versions(&status, &shape);
        let what = format!("{this}projections that are being built: flights/nyc v2");
        assert_eq!(seen(&found), (Level::Warning, &*what));
    }
}
