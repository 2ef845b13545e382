//! Histories: three ingests, two projectors and two queries, processes of their own on one table. They are stopped, continued,
//! killed and started again; their clocks are wrong by up to ten seconds and jump; some of their clients are silent
//! ([`history::world`]). Clients append and read, as of now, as of instants and at read versions, each the events of a day of its own
//! ([`history::client`]). Their observations must be free of anomalies ([`history`]).
//!
//! `ALMANAC_HISTORIES=10000` requests more of them than a test run has. More of them then run side by side, so that the processes
//! are never idle; the checks, and the frequency of faults of a process, stay the same.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use crate::history::{
    Anomaly, anomalies,
    client::{Client, agent, workspaces},
    faults::{Fault, Span},
    world::{World, now},
};
use crate::support::{Located, Place, alone, block_on, run_ok};
use catalog::Catalog;
use tokio::time::Instant;

/// Default number of histories. DynamoDB Local is slower.
const ON_SQLITE: usize = 100;
const ON_DYNAMODB_LOCAL: usize = 8;
/// Number of histories for each client that works side by side, and the bounds of the number of clients.
const HISTORIES_OF_A_CLIENT: usize = 12;
const LEAST_CLIENTS: usize = 8;
const MOST_CLIENTS: usize = 48;
/// Interval at which an idle client looks again.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Maximum time for the projectors to catch up in the end.
const PATIENCE: Duration = Duration::from_secs(180);
/// Number of histories between two lines about the progress.
const TELL_EVERY: usize = 500;

/// Histories that were not begun, and those that wait for their next step.
struct Agenda<'a> {
    count: usize,
    begun: usize,
    /// Waiting histories, by the time of their next step and by number.
    waiting: BTreeMap<(i64, usize), Client<'a>>,
    ended: Ended,
    /// True if a thread has panicked: then nothing goes on.
    has_failed: bool,
}

/// Results of finished histories.
#[derive(Default)]
struct Ended {
    histories: usize,
    anomalies: BTreeMap<usize, Vec<Anomaly>>,
    events: u64,
    reads: usize,
    unanswered: usize,
    /// Spans of their writes and reads, and their whole spans.
    lived: Vec<Span>,
    whole: Vec<Span>,
}

/// Next step of a thread.
enum Next<'a> {
    Go(Box<Client<'a>>),
    Wait,
    Over,
}

impl<'a> Agenda<'a> {
    fn next(&mut self, world: &'a World, agent: &ureq::Agent) -> Next<'a> {
        if self.has_failed {
            return Next::Over;
        }
        // Due histories come first: they ask at an instant that is just being closed.
        if let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now()
        {
            return Next::Go(Box::new(first.remove()));
        }
        if self.begun < self.count {
            self.begun += 1;
            return Next::Go(Box::new(Client::new(world, agent.clone(), self.begun - 1)));
        }
        if self.ended.histories < self.count { Next::Wait } else { Next::Over }
    }
}

impl Ended {
    fn add(&mut self, client: &Client<'_>) {
        self.histories += 1;
        self.events += client.writes;
        self.reads += client.history.reads.len();
        self.unanswered += client.unanswered;
        self.lived.push(client.lived);
        if self.histories.is_multiple_of(TELL_EVERY) {
            println!("{} histories are through, {} with anomalies", self.histories, self.anomalies.len());
        }
        self.whole.push(Span { ended: now(), ..client.lived });
        let wrong = anomalies(&client.history);
        if !wrong.is_empty() {
            println!("history {}: {wrong:?}\n{:#?}", client.number, client.history);
            self.anomalies.insert(client.number, wrong.into_iter().collect());
        }
    }

    /// Summary for people.
    fn summary(&self, world: &World, took: Duration) -> String {
        let Self { histories, events, reads, unanswered, .. } = self;
        let seconds = took.as_secs();
        let mut text = format!(
            "{histories} histories in {seconds} s, {events} events, {reads} reads, {unanswered} unanswered"
        );
        let counts = world.faults.counts();
        for (what, spans) in [("while it wrote", &self.lived), ("in all", &self.whole)] {
            let (met, spared) = world.faults.met(spans);
            _ = write!(text, "\na history met {what}:");
            for fault in Fault::ALL {
                _ = write!(text, " {:.2} {},", met.get(&fault).unwrap_or(&0.0), fault.name());
            }
            _ = write!(text, " and {spared} histories met none");
        }
        for fault in Fault::ALL {
            _ = write!(text, "\n{} {}", counts.get(&fault).unwrap_or(&0), fault.name());
        }
        text
    }
}

/// Takes histories from the agenda until all are through.
fn work<'a>(agenda: &Mutex<Agenda<'a>>, world: &'a World, agent: &ureq::Agent) {
    loop {
        let next = agenda.lock().unwrap().next(world, agent);
        match next {
            Next::Over => return,
            Next::Wait => thread::sleep(LOOK_EVERY),
            Next::Go(mut client) => {
                let went = catch_unwind(AssertUnwindSafe(|| client.go_on()));
                let mut agenda = agenda.lock().unwrap();
                match went {
                    Ok(Some(due)) => _ = agenda.waiting.insert((due, client.number), *client),
                    Ok(None) => agenda.ended.add(&client),
                    Err(panic) => {
                        agenda.has_failed = true;
                        drop(agenda);
                        resume_unwind(panic);
                    }
                }
            }
        }
    }
}

/// Runs histories, some at a time, and returns their anomalies.
fn histories(place: Place, usual: usize) -> BTreeMap<usize, Vec<Anomaly>> {
    let _alone = alone();
    let asked = std::env::var("ALMANAC_HISTORIES").ok();
    let count = asked.map_or(usual, |count| count.parse().expect("ALMANAC_HISTORIES is a number"));
    let clients = (count / HISTORIES_OF_A_CLIENT).clamp(LEAST_CLIENTS, MOST_CLIENTS);
    let workspaces = workspaces(count);
    let world = World::new(place, &workspaces);
    let agent = agent(clients);
    let agenda = Mutex::new(Agenda {
        count,
        begun: 0,
        waiting: BTreeMap::new(),
        ended: Ended::default(),
        has_failed: false,
    });
    let begin = Instant::now();
    thread::scope(|scope| {
        for seed in 0..2 {
            let (world, workspace) = (&world, &workspaces[0]);
            scope.spawn(move || world.nemesis(seed));
            scope.spawn(move || world.silent(seed + 10, workspace));
        }
        let workers: Vec<_> = (0..clients).map(|_| scope.spawn(|| work(&agenda, &world, &agent))).collect();
        let failed = workers.into_iter().filter_map(|worker| worker.join().err()).next();
        world.end();
        if let Some(panic) = failed {
            resume_unwind(panic);
        }
    });
    let ended = agenda.into_inner().unwrap().ended;
    println!("{}", ended.summary(&world, begin.elapsed()));
    catch_up(&world, &workspaces);
    println!("projected and verified after {} s", begin.elapsed().as_secs());
    ended.anomalies
}

/// Waits until everything is folded, and compares it with the log.
fn catch_up(world: &World, workspaces: &[String]) {
    block_on(async {
        let table = world.place.store().open().await;
        let begin = Instant::now();
        for path in workspaces {
            let workspace = Catalog::new(Arc::clone(&table)).workspace(path).await.unwrap();
            loop {
                let behind = projector::sweep::sweep(&*table, workspace.id()).await.unwrap();
                if behind.logs.is_empty() && behind.evaluations.is_empty() {
                    break;
                }
                assert!(begin.elapsed() < PATIENCE, "{} logs of {path} are behind", behind.logs.len());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    });
    let verified = run_ok(&world.place, &["admin", "verify"]);
    let good = verified.lines().filter(|line| line.contains("all as the log says")).count();
    assert_eq!(good, workspaces.len(), "{verified}");
}

#[test]
fn histories_of_appends_and_reads_have_no_anomaly() {
    assert_eq!(histories(Place::sqlite(), ON_SQLITE), BTreeMap::new());
}

mod dynamodb_local {
    use super::{BTreeMap, ON_DYNAMODB_LOCAL, Place, histories};

    #[test]
    fn histories_of_appends_and_reads_have_no_anomaly() {
        assert_eq!(histories(Place::dynamodb_local(), ON_DYNAMODB_LOCAL), BTreeMap::new());
    }
}
