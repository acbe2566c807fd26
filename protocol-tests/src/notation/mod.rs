//! A compact notation of frames, messages and values, to compare decoded bytes with what they are said to mean.
//!
//! Composite types name their fields, `attach(name="l1", handle=uint:3, …)`; fields at their default are left out, except
//! for those that limit or settle. Values carry their type, except text: `"string"`, `:symbol`, `uint:1`, `bin:00ff`,
//! `[list, …]`, `{key=value, …}`, `array[…]`, `@descriptor value`.

mod frame;
mod message;
mod state;
mod terminus;
mod value;

use std::fmt::Display;

use bytes::Bytes;
use servicebus_amqp::types::Symbol;

pub use frame::frame;
pub use message::message;
pub use value::value;

/// A composite type that is being written.
struct Composite {
    name: &'static str,
    fields: Vec<String>,
}

impl Composite {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            fields: Vec::new(),
        }
    }

    fn field(mut self, name: &str, value: Option<String>) -> Self {
        self.fields
            .extend(value.map(|value| format!("{name}={value}")));
        self
    }

    fn flag(self, name: &str, value: bool) -> Self {
        self.field(name, value.then(|| "true".to_owned()))
    }

    fn symbols(self, name: &str, symbols: &[Symbol]) -> Self {
        let list: Vec<_> = symbols.iter().map(symbol).collect();
        let list = (!list.is_empty()).then(|| format!("[{}]", list.join(", ")));
        self.field(name, list)
    }

    fn end(self) -> String {
        format!("{}({})", self.name, self.fields.join(", "))
    }
}

fn uint(value: impl Display) -> String {
    format!("uint:{value}")
}

fn string(value: impl Display) -> String {
    format!("\"{value}\"")
}

fn symbol(value: &Symbol) -> String {
    format!(":{value}")
}

fn binary(value: &Bytes) -> String {
    format!("bin:{value:x}")
}
