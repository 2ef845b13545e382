//! A rolling upgrade: services of the version before and of this one on one table, in turns and at once, then only this one.
//! `ALMANAC_TEST_PREVIOUS` names the binary of the version before; `tests/previous` builds it. Without it nothing is tried.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use log::layout::{self, LAYOUT};
use serde_json::Value;

use crate::support::{Located, Place, Running, almanac, block_on, ndjson, on_both_engines, run, run_ok};

on_both_engines!(the_version_before_works_beside_this_one);

const FLIGHTS: &str = "flights/nyc";

/// The number of predictions that both versions are sent.
const COUNT: usize = 40;

/// The binary of the version before, on a table.
struct Previous<'a> {
    binary: String,
    place: &'a Place,
}

impl Previous<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let this = almanac(self.place, args);
        let mut command = Command::new(&self.binary);
        command.args(this.get_args()).stdin(Stdio::null());
        this.get_envs()
            .filter(|(_, value)| value.is_none())
            .for_each(|(name, _)| _ = command.env_remove(name));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the binary of the version before starts")
    }

    fn run_ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// All roles, as a service; and where it listens.
    fn up(&self) -> (Child, String) {
        let mut command = self.command(&["up", "--listen", "127.0.0.1:0"]);
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let base = lines.find_map(|line| {
            let base = line.split_once("listening on ").and_then(|(_, rest)| rest.split(',').next());
            base.map(str::to_owned)
        });
        // The pipe is emptied, so that nothing waits for it.
        std::thread::spawn(move || lines.for_each(drop));
        (process, base.expect("it listens"))
    }
}

fn ask_to_stop(process: &mut Child) {
    let kill = format!("kill -TERM {}", process.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    process.wait().unwrap();
}

fn figures(days: [&'static str; 2]) -> [&'static str; 8] {
    ["query", "evaluations", "-w", FLIGHTS, "--from", days[0], "--to", days[1]]
}

/// Posts a prediction to the service of the version before; whether it was stored already.
fn post_to(base: &str, path: &str, key: &str, body: &str) -> bool {
    let request = ureq::post(format!("{base}{path}")).header("content-type", "application/x-ndjson");
    let answer = request.header("idempotency-key", key).send(body).expect("it takes it");
    answer.headers().get("idempotent-replayed").is_some_and(|replayed| replayed == "true")
}

/// Posts predictions to both, each to one of them first and then to the other: it is stored once.
fn post_to_both(base: &str, this: &Running) {
    for number in 0..COUNT {
        let body = format!(
            r#"{{"key":"both-{number}","predicted_at":"2013-05-01T04:{number:02}:00Z","release":"v1","score":0.5}}"#
        );
        let (path, key) = (format!("/v1/workspaces/{FLIGHTS}/predictions"), format!("both-{number}"));
        let by_this = || {
            let answer = this.post(&path, "application/x-ndjson", Some(&key), &body);
            assert!(answer.status < 300, "{}", answer.text());
            answer.replayed
        };
        let by_previous = || post_to(base, &path, &key, &body);
        let replayed = match number % 2 {
            0 => [by_this(), by_previous()],
            _ => [by_previous(), by_this()],
        };
        assert_eq!(replayed, [false, true], "{number}");
    }
}

fn the_version_before_works_beside_this_one(place: &Place) {
    let Ok(binary) = env::var("ALMANAC_TEST_PREVIOUS") else {
        eprintln!("skipped: ALMANAC_TEST_PREVIOUS names no binary of the version before");
        return;
    };
    let previous = Previous { binary, place };
    // First it is alone, and fills the table.
    previous.run_ok(&["demo", "--until", "2013-04-02"]);
    let layout_of = || block_on(async { layout::load(&*place.store().open().await).await.unwrap() });
    let before = layout_of();
    let first_days = figures(["2013-04-01", "2013-04-02"]);
    assert_eq!(run_ok(place, &first_days), previous.run_ok(&first_days), "this version reads what it wrote");
    // The outcomes of the first day are all there by the second.
    let first_day = figures(["2013-04-01", "2013-04-01"]);
    let known = previous.run_ok(&first_day);
    assert_eq!(layout_of(), before, "who reads raises nothing");

    // Then both are at work at once, with all roles.
    let (mut old, base) = previous.up();
    let this = Running::start(place, &[], &[]);
    assert_eq!(layout_of().number, LAYOUT);
    post_to_both(&base, &this);
    run_ok(place, &["demo", "--until", "2013-04-04"]);
    if before.number < LAYOUT {
        let refused = run(place, &["upgrade"]);
        assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
    }
    let path = format!("/v1/workspaces/{FLIGHTS}/rollups?from=2013-05-01&to=2013-05-01");
    this.get_until(&path, |answer| {
        let rows = ndjson(answer.text());
        rows.iter().any(|row| row["release"].is_null() && row["predictions"] == COUNT)
    });
    ask_to_stop(&mut old);

    // An older one does not begin any more; one of the same layout may.
    let again = previous.run(&first_day);
    match before.number < LAYOUT {
        true => {
            let said = String::from_utf8_lossy(&again.stderr).into_owned();
            assert!(again.status.code() == Some(2) && said.contains("or a newer one"), "{said}");
        }
        false => assert_eq!(String::from_utf8(again.stdout).unwrap(), known),
    }
    while status(place)["workers"].as_array().unwrap().len() > 1 {
        sleep(Duration::from_millis(100));
    }
    run_ok(place, &["upgrade", "--share", "1"]);
    this.stop();
    let said = run_ok(place, &["verify"]);
    assert!(!said.contains("FAULT"), "{said}");
    assert_eq!(run_ok(place, &first_day), known, "figures stay what they were");
    let found = layout_of();
    assert_eq!((found.number, found.complete), (LAYOUT, LAYOUT));
}

fn status(place: &Place) -> Value {
    serde_json::from_str(&run_ok(place, &["status", "--format", "json"])).unwrap()
}
