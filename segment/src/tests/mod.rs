//! Tests of whole segments.

mod golden;
mod growth;
mod hostile;
mod roundtrip;
mod strategies;

use super::with_checksums as repair;
