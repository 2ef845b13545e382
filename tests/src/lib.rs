//! Shared parts of the tests of the whole system.
//!
//! [`mod@conformance`] checks the behaviour of every engine of the table, whatever it is built on; [`faulty`] is an engine with
//! faults; [`hooked`] one that fails, hangs or panics at the choice of a test; [`between`] lets others work between two calls;
//! [`counted`] counts reads; [`webhook_sender`] is a receiver of webhooks; [`decided`] appends decisions of a projector; [`recorded`]
//! notes the calls that DynamoDB would get; [`sim`] runs several projectors on a table in memory, in virtual time.
//!
//! [`engine`] makes a table of a test's own on either engine, [`register()`](register::register) a workspace with a model and
//! releases, and [`scene`] the services on it.

pub mod between;
pub mod conformance;
pub mod counted;
pub mod crashing;
pub mod decided;
pub mod engine;
pub mod faulty;
pub mod hooked;
pub mod local;
pub mod recorded;
pub mod register;
pub mod scene;
pub mod short_pages;
pub mod sim;
pub mod webhook_sender;
pub mod world;
