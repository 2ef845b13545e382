//! Output of commands. The macros `print!`, `println!` and `eprintln!` of this crate shadow those of the standard library, which
//! panic when a terminal, a pipe or a disk accepts nothing: a panic would end the printing thread, and its other work.

use std::{
    fmt::Arguments,
    io::{self, ErrorKind, Write},
    process,
};

use event::plain::on_its_lines;

use crate::{exit::Exit, telemetry::logs};

/// Prints lines of the answer of a command.
macro_rules! print {
    ($($lines:tt)*) => { $crate::stdout::answer(format_args!($($lines)*), "") };
}

/// Prints a line of the answer of a command.
macro_rules! println {
    () => { $crate::stdout::answer(format_args!(""), "\n") };
    ($($line:tt)*) => { $crate::stdout::answer(format_args!($($line)*), "\n") };
}

/// Prints a line beside the answer, such as progress.
macro_rules! eprintln {
    ($($line:tt)*) => { $crate::stdout::remark(format_args!($($line)*)) };
}

/// Prints to standard output. A command that cannot print its answer has nothing more to do: a closed pipe, as by `head`, ends it
/// with success, any other error (a full disk) with the code of a failure.
pub(crate) fn answer(text: Arguments<'_>, end: &str) {
    let Err(error) = write(&mut io::stdout(), text, end) else { return };
    logs::flush();
    if error.kind() == ErrorKind::BrokenPipe {
        process::exit(Exit::Done.code().into());
    }
    remark(format_args!("almanac: the answer cannot be written: {error}"));
    process::exit(Exit::Failed.code().into());
}

/// Prints a line to standard error, if that accepts it. It may quote a file or stored text, and does not control the terminal.
pub(crate) fn remark(line: Arguments<'_>) {
    _ = write_plain(&mut io::stderr(), line);
}

fn write_plain(out: &mut dyn Write, line: Arguments<'_>) -> io::Result<()> {
    let line = line.to_string();
    write(out, format_args!("{}", on_its_lines(&line)), "\n")
}

fn write(out: &mut dyn Write, text: Arguments<'_>, end: &str) -> io::Result<()> {
    out.write_fmt(text)?;
    out.write_all(end.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_does_not_steer_the_terminal() {
        let mut out = Vec::new();
        write_plain(&mut out, format_args!("row 1: `{}` is bad\nrow 2", "\u{1b}[2J\r")).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "row 1: `\\u{1b}[2J\\r` is bad\nrow 2\n");
    }
}
