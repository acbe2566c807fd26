use bytes::Bytes;
use bytestring::ByteString;
use servicebus_amqp::types::{Map, Value};

use super::renew_session_lock::gone_is_lost;
use super::{Effect, Operation};
use crate::error::Result;
use crate::names::operation;
use crate::rpc::{Answer, protocol};

/// Reads the state of a session that the client holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionState {
    session_id: ByteString,
}

impl SessionState {
    /// The state of this session.
    pub fn new(session_id: impl Into<ByteString>) -> Self {
        Self {
            session_id: session_id.into(),
        }
    }
}

impl Operation for SessionState {
    const NAME: &'static str = operation::GET_SESSION_STATE;
    /// The state; `None` when none is set.
    type Output = Option<Bytes>;

    fn arguments(&self) -> Map {
        Map::new().with("session-id", self.session_id.clone())
    }

    fn read(&self, answer: Answer) -> Result<Self::Output> {
        match answer.content().map_err(gone_is_lost)?.get("session-state") {
            Some(Value::Binary(state)) => Ok(Some(state.clone())),
            None | Some(Value::Null) => Ok(None),
            Some(_) => Err(protocol("the state of a session is not a binary")),
        }
    }
}

/// Sets or clears the state of a session that the client holds.
#[derive(Clone)]
#[non_exhaustive]
pub struct SetSessionState {
    session_id: ByteString,
    state: Option<Bytes>,
}

impl SetSessionState {
    /// Sets the state of this session; `None` clears it.
    pub fn new(session_id: impl Into<ByteString>, state: Option<Bytes>) -> Self {
        Self {
            session_id: session_id.into(),
            state,
        }
    }
}

impl std::fmt::Debug for SetSessionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetSessionState")
            .field("session_id", &self.session_id)
            .field("state_len", &self.state.as_ref().map(Bytes::len))
            .finish()
    }
}

impl Operation for SetSessionState {
    const NAME: &'static str = operation::SET_SESSION_STATE;
    type Output = ();

    fn arguments(&self) -> Map {
        Map::new()
            .with("session-id", self.session_id.clone())
            .with("session-state", self.state.clone())
    }

    fn read(&self, answer: Answer) -> Result<()> {
        answer.success().map_err(gone_is_lost)
    }

    fn effect(&self) -> Effect {
        Effect::Lasting
    }
}
