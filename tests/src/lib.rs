//! What the tests of the whole system share.
//!
//! [`mod@conformance`] says what every engine of the table must do, whatever it is built on; [`faulty`] is an
//! engine on which things go wrong; [`hooked`] one that fails, hangs or panics where a test says so;
//! [`between`] lets others work between two calls; [`counted`] counts what is
//! read; [`courier`] is a receiver of webhooks; [`decided`] appends what a projector decided; [`recorded`] notes what DynamoDB would be asked for; [`sim`] runs several projectors on a table in
//! memory, in virtual time.
//!
//! [`engine`] makes a table of a test's own on either engine, [`register()`](register::register) a workspace with a model
//! and releases, and [`scene`] the services on it.

pub mod between;
pub mod conformance;
pub mod counted;
pub mod courier;
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
pub mod world;
