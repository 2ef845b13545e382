//! `almanac`: see `almanac help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    almanac::cli::main()
}
