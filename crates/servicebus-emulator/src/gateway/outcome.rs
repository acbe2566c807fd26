use servicebus_amqp::engine::{Connection, DeliveryKey, LinkKey};
use servicebus_amqp::types::{
    AmqpError, ByteString, Bytes, DeliveryState, Map, Modified, Outcome, Value,
};

use super::client::Client;
use super::locks::Locked;
use super::transfer::{answer, settle, transaction};
use crate::broker::{EntityId, Error, ErrorKind, LockToken, Settle, Settlement};
use crate::fault::Answered;
use crate::hub::{Interference, Parcel};
use crate::names::{condition, property};

impl Client {
    /// What the client made of a message that was delivered to it.
    pub(super) fn on_outcome(
        &mut self,
        connection: &mut Connection,
        key: LinkKey,
        delivery: DeliveryKey,
        context: u64,
        state: Option<DeliveryState>,
        settled: bool,
    ) {
        self.touch(key);
        let Some(Locked { entity, token, .. }) = self.locks.get(context) else {
            return;
        };
        let (outcome, txn_id) = match state {
            Some(DeliveryState::Outcome(outcome)) => (outcome, None),
            Some(DeliveryState::Transactional(state)) => match state.outcome {
                Some(outcome) => (outcome, Some(state.txn_id)),
                None => return,
            },
            // Settled without an outcome: the lock runs out, as when the client had gone away.
            None if settled => {
                self.locks.remove(context);
                return;
            }
            // Not an end yet.
            _ => return,
        };
        self.locks.remove(context);
        let echo = echo(&outcome);
        let state = self.settle(entity, token, outcome, echo, txn_id, delivery);
        if let Some(state) = state.filter(|_| !settled) {
            settle(connection, delivery, state);
        }
    }

    /// Carries a settlement out; the answer to the client, if it is to be given now.
    fn settle(
        &mut self,
        entity: EntityId,
        token: LockToken,
        outcome: Outcome,
        echo: Outcome,
        txn_id: Option<Bytes>,
        delivery: DeliveryKey,
    ) -> Option<DeliveryState> {
        let prepared = settlement(outcome)
            .and_then(|settlement| Ok((settlement, txn_id.as_ref().map(transaction).transpose()?)));
        let (settlement, transaction) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Some(answer(Err(error), echo, txn_id)),
        };
        let command = Settle {
            entity,
            token,
            settlement,
            transaction,
        };
        let now = self.time();
        self.hub.with_at(now, self.mailbox(), |core, now| {
            let fault = core.faults.take(entity, Answered::Settle);
            if fault == Some(Interference::Lose { applied: false }) {
                return None;
            }
            let state = answer(core.broker.apply(now, command), echo, txn_id);
            let Some(fault) = fault else {
                return Some(state);
            };
            let of = (entity, Answered::Settle);
            let parcel = Parcel::Answer { delivery, state };
            core.interfere(now, fault, of, &self.mailbox, parcel);
            None
        })
    }

    /// A delivery never left: give the message back, uncounted.
    pub(super) fn on_unsent(&mut self, context: u64) {
        if let Some(locked) = self.locks.remove(context) {
            self.give_back(locked.entity, locked.token);
        }
    }
}

/// What an outcome asks for.
fn settlement(outcome: Outcome) -> Result<Settlement, Error> {
    match outcome {
        Outcome::Accepted => Ok(Settlement::Complete),
        Outcome::Released => Ok(Settlement::Release),
        // Clients differ in delivery-failed; only undeliverable-here tells the two apart.
        Outcome::Modified(modified) => {
            let properties = modified
                .message_annotations
                .map(text_keys)
                .unwrap_or_default();
            Ok(match modified.undeliverable_here {
                Some(true) => Settlement::Defer { properties },
                _ => Settlement::Abandon { properties },
            })
        }
        Outcome::Rejected(error) => Ok(dead_letter(error.map(|error| *error))),
        _ => Err(Error::new(
            ErrorKind::NotAllowed,
            "A message is completed (accepted), abandoned or deferred (modified), dead-lettered (rejected) or released.",
        )),
    }
}

fn dead_letter(error: Option<AmqpError>) -> Settlement {
    let (mut reason, mut description, mut properties) = (None, None, Map::new());
    if let Some(error) = error {
        if error.condition != *condition::DEAD_LETTER.as_str() {
            reason = Some(ByteString::from(error.condition.as_str()));
            description = error.description;
        }
        for (key, value) in error.info.map(text_keys).unwrap_or_default().0 {
            match (key.as_text(), &value) {
                (Some(property::DEAD_LETTER_REASON), Value::String(text)) => {
                    reason = Some(text.clone());
                }
                (Some(property::DEAD_LETTER_ERROR_DESCRIPTION), Value::String(text)) => {
                    description = Some(text.clone());
                }
                (
                    Some(property::DEAD_LETTER_REASON | property::DEAD_LETTER_ERROR_DESCRIPTION),
                    Value::Null,
                ) => {}
                _ => properties.insert(key, value),
            }
        }
    }
    Settlement::DeadLetter {
        reason,
        description,
        properties,
    }
}

/// The keys as strings: they become application properties, and some clients send symbols.
fn text_keys(map: Map) -> Map {
    let text = |key| match key {
        Value::Symbol(symbol) => Value::String(symbol.into_inner()),
        other => other,
    };
    map.0
        .into_iter()
        .map(|(key, value)| (text(key), value))
        .collect()
}

/// The outcome that says a settlement took effect: of the same type as what was asked for, and never with an error.
fn echo(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Rejected(_) => Outcome::Rejected(None),
        Outcome::Modified(modified) => Outcome::Modified(Box::new(Modified {
            message_annotations: None,
            ..(**modified).clone()
        })),
        other => other.clone(),
    }
}
