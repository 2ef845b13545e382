//! Writes the golden segments into the folder given as argument:
//! `cargo run -p almanac-segment --example segment_golden -- segment/tests/golden`.
//!
//! Files that are there were really stored, so they are never rewritten.

use std::path::PathBuf;

use event::{Column, Columns, Values, columns::Coded};

#[path = "../tests/golden/fixtures.rs"]
mod fixtures;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("give the folder to write to")?);
    for (name, columns) in fixtures::all() {
        let path = folder.join(format!("segment-{name}.seg"));
        if path.exists() {
            println!("{} exists and is kept", path.display());
            continue;
        }
        let bytes = almanac_segment::encode(&columns)?;
        println!("{}: {} bytes", path.display(), bytes.len());
        std::fs::write(path, bytes)?;
    }
    Ok(())
}
