//! A library that makes the clocks of processes wrong.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Builds the library that makes clocks wrong: for `LD_PRELOAD`, by as many microseconds as the file says that
/// `ALMANAC_TEST_CLOCK` names.
pub(crate) fn library(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/system/clock.c");
    let library = folder.join("clock.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"]).args([&library, &source]);
    assert!(compiler.status().expect("a C compiler, which linking needs anyway").success());
    library
}
