//! Messages: what was sent, as it came, and what the broker hands out.

mod content;
mod decimal;
mod sections;
mod stored;

pub(crate) use content::BATCH_FORMAT;
pub(in crate::broker) use content::Content;
pub use stored::{MessageState, StoredMessage};
