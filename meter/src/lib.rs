//! The metrics: each with its name, its labels and its help, in one list.
//!
//! A crate that measures something takes a handle of one of the metrics in [`catalogue`], once at the point of use, and changes
//! it. Handles do nothing until a recorder is installed, as `almanac` does before it opens the table. The values of labels are
//! from small fixed sets: routes, operations, kinds, never workspaces, releases, keys or other values that a client can make up.
//! Only these name workspaces, in bounded number: the alert rules that fire at the moment ([`catalogue::PROJECTOR_FIRING_RULE`]) and,
//! where an operator wants them, the metrics of live releases ([`catalogue::MODEL_METRIC`] and the two behind it).
//!
//! ```
//! use almanac_meter::{ALL, catalogue::GATE_REFUSED};
//!
//! let refused = GATE_REFUSED.counter(["stopping"]);
//! refused.increment(1);
//! assert!(ALL.iter().any(|metric| metric.name == "almanac_gate_refused_total"));
//! ```

pub mod catalogue;
mod metric;

pub use catalogue::ALL;
pub use metric::{InFlight, Instrument, Of, Shape};
pub use metrics::{Counter, Gauge, Histogram};
