//! Origins of values.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag.
    Flag(&'static str),
    /// A variable of the environment.
    Environment(&'static str),
    /// A file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
    },
    /// Not set anywhere.
    Default,
}

impl Origin {
    /// Name of the value of `key` in the line that refuses it.
    pub(super) fn subject(&self, key: &str) -> String {
        match self {
            Origin::Flag(name) | Origin::Environment(name) => (*name).to_owned(),
            Origin::File { path, line } => format!("{}, line {line}: {key}", path.display()),
            Origin::Default => key.to_owned(),
        }
    }

    /// Resolves `path`: one in a file is relative to the folder of that file, so that it does not depend on the working
    /// directory.
    pub(super) fn locate(&self, path: &Path) -> PathBuf {
        match self {
            Origin::File { path: file, .. } => {
                let path = path.strip_prefix("./").unwrap_or(path);
                file.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
            }
            _ => path.to_owned(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => write!(f, "flag {name}"),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::File { path, line } => write!(f, "file {}, line {line}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}
