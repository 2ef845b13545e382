//! What the tests of the whole system share.
//!
//! [`mod@conformance`] says what every engine of the table must do, whatever it is built on.

pub mod conformance;
pub mod faulty;
pub mod local;
