//! Writes the golden segments into the folder given as argument:
//! `cargo run -p store --example segment_golden -- store/tests/golden`.
//!
//! Existing golden files are what was really stored by some version, so they are never rewritten.
//! A new version of the format adds files of its own.

use std::path::PathBuf;

use store::columns::{Coded, Column, Columns, Values};
use store::segment;

#[path = "../tests/golden/fixtures.rs"]
mod fixtures;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("give the folder to write to")?);
    for (name, columns) in fixtures::all() {
        let path = folder.join(format!("segment-v{}-{name}.seg", segment::VERSION));
        if path.exists() {
            println!("{} exists and is kept", path.display());
            continue;
        }
        let bytes = segment::encode(&columns)?;
        println!("{}: {} bytes", path.display(), bytes.len());
        std::fs::write(path, bytes)?;
    }
    Ok(())
}
