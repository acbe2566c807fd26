//! SQL filters and actions of subscription rules: the language of the service, with its three-valued logic.
//!
//! ```
//! use servicebus_emulator::sql::Filter;
//!
//! let filter = Filter::parse("sys.Label LIKE 'order-%' AND (amount > 100 OR vip = TRUE)", &[])?;
//! assert_eq!(filter.text(), "sys.Label LIKE 'order-%' AND (amount > 100 OR vip = TRUE)");
//!
//! let error = Filter::parse("amount >", &[]).unwrap_err();
//! assert_eq!(error.to_string(), "expected an expression, found the end (at character 9)");
//! # Ok::<(), servicebus_emulator::sql::ParseError>(())
//! ```

mod action;
mod evaluate;
mod lexer;
mod parser;
mod record;
mod scalar;

use std::{fmt, sync::Arc};

use servicebus_amqp::types::Value;

pub use action::Action;
pub use record::Record;
pub(crate) use record::id_text;
pub use scalar::Scalar;

/// How long the text of a filter or action may be, in characters.
pub const MAX_TEXT: usize = 1024;

/// How deep expressions may nest.
pub const MAX_DEPTH: usize = 32;

/// How many statements an action may have.
pub const MAX_STATEMENTS: usize = 32;

/// Text that is no filter or no action, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at character {position})")]
pub struct ParseError {
    position: usize,
    message: String,
}

impl ParseError {
    fn new(position: usize, message: impl Into<String>) -> Self {
        Self {
            position,
            message: message.into(),
        }
    }

    /// Where: the number of a character of the text, counted from 1.
    pub fn position(&self) -> usize {
        self.position
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// A filter or action that cannot be applied to a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvaluateError(pub(crate) String);

/// A filter: an expression that is true for the messages it takes.
#[derive(Clone)]
pub struct Filter {
    text: Arc<str>,
    expression: Arc<parser::Expression>,
}

impl Filter {
    /// Reads a filter. Parameters are named without their `@`; their values take the place of `@name`.
    ///
    /// # Errors
    ///
    /// When the text is no filter, is too long or nests too deep, or names a parameter that is not there.
    pub fn parse(text: &str, parameters: &[(&str, Value)]) -> Result<Self, ParseError> {
        Ok(Self {
            text: text.into(),
            expression: Arc::new(parser::parse_filter(text, parameters)?),
        })
    }

    /// The text that the filter was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the filter takes a message: whether it is true, and neither false nor unknown.
    ///
    /// # Errors
    ///
    /// When operands do not go together, or a system property does not exist.
    pub fn matches(&self, record: &Record) -> Result<bool, EvaluateError> {
        match evaluate::evaluate(&self.expression, record)? {
            Some(Scalar::Bool(truth)) => Ok(truth),
            None => Ok(false),
            Some(other) => Err(EvaluateError(format!(
                "the filter is {}, and not true or false",
                other.kind()
            ))),
        }
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({:?})", self.text)
    }
}
