use bytestring::ByteString;
use servicebus_amqp::types::Map;

use super::renew_lock::gone_is_lost;
use super::{Effect, Operation, lock_tokens};
use crate::error::Result;
use crate::lock_token::LockToken;
use crate::names::operation;
use crate::rpc::Answer;
use crate::settlement::Settlement;

/// Settles messages by their locks alone: deferred ones, and those whose link is gone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpdateDisposition {
    tokens: Vec<LockToken>,
    settlement: Settlement,
    session_id: Option<ByteString>,
}

impl UpdateDisposition {
    /// Settles the messages of these locks; at least one.
    pub fn new(tokens: impl IntoIterator<Item = LockToken>, settlement: Settlement) -> Self {
        Self {
            tokens: tokens.into_iter().collect(),
            settlement,
            session_id: None,
        }
    }

    /// Messages of this session, which the client holds.
    #[must_use]
    pub fn session(mut self, session_id: impl Into<ByteString>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }
}

impl Operation for UpdateDisposition {
    const NAME: &'static str = operation::UPDATE_DISPOSITION;
    type Output = ();

    fn arguments(&self) -> Map {
        let status = self.settlement.disposition_status();
        let mut map = Map::new()
            .with("disposition-status", status)
            .with("lock-tokens", lock_tokens(&self.tokens));
        let properties = match &self.settlement {
            Settlement::Complete => None,
            Settlement::Abandon { properties } | Settlement::Defer { properties } => {
                Some(properties)
            }
            Settlement::DeadLetter(why) => {
                let texts = [
                    ("deadletter-reason", &why.reason),
                    ("deadletter-description", &why.description),
                ];
                for (key, text) in texts {
                    if let Some(text) = text {
                        map.insert(key, text.as_str());
                    }
                }
                Some(&why.properties)
            }
        };
        if let Some(properties) = properties.filter(|properties| !properties.is_empty()) {
            map.insert("properties-to-modify", properties.clone());
        }
        if let Some(session_id) = &self.session_id {
            map.insert("session-id", session_id.clone());
        }
        map
    }

    fn read(&self, answer: Answer) -> Result<()> {
        answer.success().map_err(gone_is_lost)
    }

    fn effect(&self) -> Effect {
        Effect::Lasting
    }
}
