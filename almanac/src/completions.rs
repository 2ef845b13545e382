//! `almanac admin completions`: scripts for shells that complete commands, options and their values.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for a shell, made from the declared commands.
pub(crate) fn command(args: &CompletionsArgs, mut command: Command) {
    let mut script = Vec::new();
    // The script is made in memory first: `generate` panics when its output accepts nothing, and `print!` here does not.
    generate(args.shell, &mut command, "almanac", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
}
