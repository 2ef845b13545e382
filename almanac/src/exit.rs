//! Ends of commands: one table of exit codes, from which `almanac help` and `docs/operating.md` derive.

use std::{fmt::Write as _, io, process::ExitCode};

use event::ErrorKind;

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It succeeded.
    Done,
    /// It failed, or it found something wrong.
    Failed,
    /// It cannot run with this input.
    BadInput,
}

impl Exit {
    /// All ends, by code.
    const ALL: [Self; 3] = [Self::Done, Self::Failed, Self::BadInput];

    /// Exit code of the process.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::BadInput => 2,
        }
    }

    /// Meaning for the caller, in words for help and documents.
    const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done; also when the reader of the output is gone, or a service was asked to stop",
            Self::Failed => {
                "failed: no answer of the store or a service, a full disk; or `verify`, `snapshot verify`, `health` or `doctor` \
                 found something wrong; trying again may help"
            }
            Self::BadInput => {
                "bad input: an option, setting or file is refused, something is missing or conflicts; trying again gives the \
                 same"
            }
        }
    }

    /// Returns the end of a command that checks something.
    pub(crate) const fn of_check(is_good: bool) -> Self {
        if is_good { Self::Done } else { Self::Failed }
    }

    /// Returns the end for an error: bad input, or a failure.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let has_no_reader =
            error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if has_no_reader {
            return Self::Done;
        }
        if error.chain().any(is_bad_input) { Self::BadInput } else { Self::Failed }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

fn is_bad_input(cause: &(dyn std::error::Error + 'static)) -> bool {
    let of_batch = cause.downcast_ref::<ingest::SubmitError>();
    if matches!(of_batch, Some(ingest::SubmitError::Refused(_))) {
        return true;
    }
    let below = of_batch.and_then(|error| match error {
        ingest::SubmitError::Store(error) => Some(error),
        ingest::SubmitError::Refused(_) => None,
    });
    if let Some(error) = cause.downcast_ref::<event::Error>().or(below) {
        return matches!(
            error.kind(),
            ErrorKind::Invalid
                | ErrorKind::NotFound
                | ErrorKind::Gone
                | ErrorKind::Conflict
                | ErrorKind::Stale
                | ErrorKind::TooLarge
        );
    }
    cause.downcast_ref::<ingest::Refused>().is_some()
}

/// Exit codes, at the end of `almanac help`.
pub(crate) fn help() -> String {
    let mut help = "Exit codes:".to_owned();
    for exit in Exit::ALL {
        _ = write!(help, "\n  {}  {}", exit.code(), exit.meaning());
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the codes with the table in `docs/operating.md`.
    #[test]
    fn the_documented_codes_are_those_of_the_table() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operating.md")).unwrap();
        let (_, section) = page.split_once("\n## Exit codes\n").expect("the page has the section");
        let section = section.split("\n## ").next().unwrap();
        let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).collect();
        let mut expected = vec!["| code | means |".to_owned(), "| --- | --- |".to_owned()];
        expected.extend(Exit::ALL.map(|exit| format!("| {} | {} |", exit.code(), exit.meaning())));
        assert_eq!(rows, expected);
    }

    #[test]
    fn exit_code_finds_bad_input_anywhere_in_chain() {
        let of = |error: event::Error| Exit::of(&anyhow::Error::new(error).context("cannot do it"));
        assert_eq!(of(event::Error::invalid("it is blue")), Exit::BadInput);
        assert_eq!(of(event::Error::unavailable("nobody answers")), Exit::Failed);
        let pipe = io::Error::new(io::ErrorKind::BrokenPipe, "gone");
        assert_eq!(Exit::of(&anyhow::Error::new(pipe)), Exit::Done);
        assert_eq!(Exit::of(&anyhow::anyhow!("something else")), Exit::Failed);
    }
}
