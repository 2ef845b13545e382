//! Tests of whole segments.

mod golden;
mod growth;
mod hostile;
mod roundtrip;
mod strategies;

use super::checksums::with_checksums as repair;
