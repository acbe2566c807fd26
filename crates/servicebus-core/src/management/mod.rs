//! The operations of an entity's `$management` node, one file each: what is asked, and what the answer means.

mod add_rule;
mod cancel_scheduled;
mod delete_messages;
mod list_rules;
mod list_sessions;
mod peek;
mod receive_deferred;
mod remove_rule;
mod renew_lock;
mod renew_session_lock;
mod schedule;
mod session_state;
mod update_disposition;

use servicebus_amqp::types::{Array, Map, Value};

use crate::error::Result;
use crate::lock_token::LockToken;
use crate::rpc::{Answer, Request, protocol};

pub use add_rule::AddRule;
pub use cancel_scheduled::CancelScheduled;
pub use delete_messages::DeleteMessages;
pub use list_rules::ListRules;
pub use list_sessions::{ListSessions, SessionPage};
pub use peek::Peek;
pub use receive_deferred::{ReceiveDeferred, ReceiveMode};
pub use remove_rule::RemoveRule;
pub use renew_lock::RenewLock;
pub use renew_session_lock::RenewSessionLock;
pub use schedule::Schedule;
pub use session_state::{SessionState, SetSessionState};
pub use update_disposition::UpdateDisposition;

/// What a request does at the service, for when its answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "who reads it has to know all")]
pub enum Effect {
    /// Nothing that a repetition would not do as well: its answer is as good as the first one.
    None,
    /// It may be asked again. When the repetition fails, what became of the first request is still not known.
    Lasting,
    /// It may not be asked again.
    Once,
}

/// One operation with its arguments.
pub trait Operation {
    /// Its name on the wire.
    const NAME: &'static str;
    /// What it gives.
    type Output;

    /// The arguments, as the map of the request's body.
    fn arguments(&self) -> Map;

    /// Reads the answer.
    ///
    /// # Errors
    ///
    /// What the service's status and condition mean; `Protocol` when a success cannot be read.
    fn read(&self, answer: Answer) -> Result<Self::Output>;

    /// What it does at the service.
    fn effect(&self) -> Effect {
        Effect::None
    }

    /// The request.
    fn request(&self) -> Request {
        Request {
            operation: Self::NAME,
            to: None,
            properties: Map::new(),
            body: Value::Map(self.arguments()),
        }
    }
}

/// An array of one type, which is empty when `values` is.
fn array<T: Into<Value>>(values: impl IntoIterator<Item = T>) -> Value {
    let elements = values.into_iter().map(Into::into).collect();
    // Elements made from one type are of one type.
    Value::Array(Array::new(elements).unwrap_or_default())
}

fn lock_tokens(tokens: &[LockToken]) -> Value {
    array(tokens.iter().map(|token| token.as_uuid()))
}

/// The elements of a list or an array in an answer, each read by `read`.
fn elements<T>(map: &Map, key: &'static str, read: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>> {
    let values = crate::rpc::field(map, key, Value::as_elements)?;
    let read = |value| {
        read(value).ok_or_else(|| protocol(format!("an element of '{key}' is of a wrong type")))
    };
    values.iter().map(read).collect()
}

/// Checks that the service answered for each thing that was asked.
fn same_count(what: &str, asked: usize, answered: usize) -> Result<()> {
    if asked == answered {
        return Ok(());
    }
    Err(protocol(format!(
        "the service answered with {answered} {what} where {asked} were asked for"
    )))
}

#[cfg(test)]
mod tests;
