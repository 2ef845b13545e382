//! Runs a seed of the simulation again and prints what happens: `almanac-sim --seed N [--until M]`. With `--shrink`
//! it prints the shortest part of its operations that still violates something, for `tests::sim::regressions`.

use std::process::ExitCode;

use tests::sim::{Op, ops, run, run_ops, shrink};

fn number(args: &[String], name: &str) -> Option<u64> {
    let at = args.iter().position(|arg| arg == name)?;
    args.get(at + 1)?.parse().ok()
}

fn print(ops: &[Op]) {
    ops.iter().enumerate().for_each(|(at, op)| println!("{at:>3}  {op:?}"));
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let Some(seed) = number(&args, "--seed") else {
        eprintln!("usage: almanac-sim --seed N [--until M] [--shrink]");
        return ExitCode::from(2);
    };
    let until = number(&args, "--until").unwrap_or(seed);
    let mut code = ExitCode::SUCCESS;
    for seed in seed..=until {
        let outcome = run(seed, None);
        if until == seed {
            print(&ops(seed));
        }
        if until == seed || !outcome.violations.is_empty() {
            println!("seed {seed}: {} segments, {} writes", outcome.segments, outcome.writes);
        }
        for violation in &outcome.violations {
            println!("seed {seed}: VIOLATION {violation}");
            code = ExitCode::FAILURE;
        }
        if !outcome.violations.is_empty() && args.iter().any(|arg| arg == "--shrink") {
            let shortest = shrink(&ops(seed), |ops| !run_ops(seed, ops, None).violations.is_empty());
            println!("seed {seed}: {} operations are enough", shortest.len());
            print(&shortest);
        }
    }
    code
}
