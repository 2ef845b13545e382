//! The API does what `/openapi.json` says: Schemathesis calls every operation with what fits the
//! document, which must be accepted, and with what does not, which must be refused; no answer may be
//! another than the document has.

//!
//! `ALMANAC_SCHEMATHESIS_CASES=100` makes more cases of each kind of an operation than a test run does.

mod by_schemathesis {
    use std::{
        io::{BufRead, BufReader},
        path::Path,
        process::{Child, Command, Stdio},
    };

    use crate::support::{Place, almanac, alone, run_ok};

    /// The real binary, until it is dropped.
    struct Served {
        process: Child,
        base: String,
    }

    impl Served {
        fn start(place: &Place) -> Self {
            let mut command = almanac(place, &["--listen", "127.0.0.1:0", "up"]);
            let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
            let says = |line: String| Some(line.split_once("listening on ")?.1.split(',').next()?.to_owned());
            let base = lines.find_map(says).expect("it says where it listens");
            // The pipe is emptied, so that nothing waits for it.
            std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
            Self { process, base }
        }
    }

    impl Drop for Served {
        fn drop(&mut self) {
            _ = self.process.kill();
            _ = self.process.wait();
        }
    }

    #[test]
    fn no_answer_differs_from_the_document() {
        let _alone = alone();
        let python = std::env::var("ALMANAC_TEST_PYTHON").expect(
            "run the tests with tests/run, which installs Schemathesis (or skip it: tests/run --quick)",
        );
        let place = Place::sqlite();
        // Makes what tests/schemathesis/hooks.py counts on.
        for args in [
            &["workspace", "create", "credit/prod"][..],
            &["model", "create", "risk", "-w", "credit/prod", "--task", "binary"],
            &[
                "release",
                "create",
                "v1",
                "-w",
                "credit/prod",
                "--model",
                "risk",
                "--configuration",
                "shallow",
                "--environment",
                "production",
            ],
            &["release", "create", "v2", "-w", "credit/prod", "--model", "risk"],
            &[
                "workspace",
                "snapshot",
                "create",
                "june",
                "-w",
                "credit/prod",
                "--from",
                "2026-06-01",
                "--to",
                "2026-06-30",
            ],
            &["user", "create", "ann"],
            &["group", "create", "risk"],
            &["system", "create", "nightly"],
        ] {
            run_ok(&place, args);
        }
        let served = Served::start(&place);
        let setup = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/schemathesis");
        let scratch = tempfile::tempdir().unwrap();
        let cases = std::env::var("ALMANAC_SCHEMATHESIS_CASES").unwrap_or_else(|_| "15".to_owned());
        let output = Command::new(Path::new(&python).with_file_name("st"))
            .arg("--config-file")
            .arg(setup.join("schemathesis.toml"))
            .args(["run", "--no-color", "--max-examples", &cases])
            .arg(format!("{}/openapi.json", served.base))
            .env("PYTHONPATH", &setup)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SCHEMATHESIS_HOOKS", "hooks")
            .current_dir(scratch.path())
            .output()
            .unwrap();
        let report = String::from_utf8_lossy(&output.stdout);
        println!("{report}");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // A run that tested nothing would be no success.
        let generated = report.lines().find_map(|line| {
            line.trim().strip_suffix(" passed")?.split(" generated, ").next()?.parse::<u32>().ok()
        });
        assert!(generated.is_some_and(|cases| cases > 1_000), "only {generated:?} cases were generated");
    }
}
