//! Messages: what was sent, as it came, and what the broker hands out.

mod change;
mod content;
mod decimal;
mod parse;
mod sections;
mod stored;

pub(in crate::broker) use content::Content;
pub(crate) use parse::BATCH_FORMAT;
pub use stored::{MessageState, StoredMessage};
