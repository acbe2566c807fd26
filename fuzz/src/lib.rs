//! The bodies of the fuzz targets. Each takes any bytes, and panics where a promise of the code is broken.

mod codec;
mod emulator;
mod engine;
mod management;
mod value;

pub use codec::{frame, message, sasl};
pub use emulator::{broker_message, config_json, sql_filter};
pub use engine::{connection_bytes, connection_ops};
pub use management::management_request;
pub use value::value;

/// A body of a fuzz target.
pub type Target = fn(&[u8]);

/// All targets by name, as in `corpus/`.
pub const TARGETS: [(&str, Target); 10] = [
    ("broker_message", broker_message),
    ("config_json", config_json),
    ("connection_bytes", connection_bytes),
    ("connection_ops", connection_ops),
    ("frame", frame),
    ("management_request", management_request),
    ("message", message),
    ("sasl", sasl),
    ("sql_filter", sql_filter),
    ("value", value),
];
