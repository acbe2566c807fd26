use servicebus_amqp::engine::{Connection, DeliveryKey, IncomingDelivery, Settle};
use servicebus_amqp::types::{
    AmqpError, Bytes, DeliveryState, Outcome, TransactionalState, condition,
};

use super::client::Client;
use super::link::LinkKind;
use crate::broker::{EntityId, Error, ErrorKind, Send, TransactionId, amqp_error};
use crate::fault::Answered;
use crate::hub::{Interference, Parcel};

impl Client {
    /// A message of the client.
    pub(super) fn on_delivery(&mut self, connection: &mut Connection, delivery: IncomingDelivery) {
        let key = delivery.link;
        self.touch(key);
        match self.links.get(key).map(|link| &link.kind) {
            Some(&LinkKind::Producer(entity)) => self.on_message(connection, entity, delivery),
            Some(&LinkKind::Requests(node)) => self.on_request(connection, node, delivery),
            Some(LinkKind::Controller(_)) => self.on_control(connection, delivery),
            _ => {}
        }
        // The link may be gone: then nothing is to be released.
        let _ = connection.release(key, 1);
    }

    fn on_message(
        &mut self,
        connection: &mut Connection,
        entity: EntityId,
        delivery: IncomingDelivery,
    ) {
        let (key, settled) = (delivery.delivery, delivery.settled);
        let txn_id = match delivery.state {
            Some(DeliveryState::Transactional(state)) => Some(state.txn_id),
            _ => None,
        };
        let transaction = match txn_id.as_ref().map(transaction).transpose() {
            Ok(transaction) => transaction,
            Err(error) => {
                if !settled {
                    let state = answer(Err(error), Outcome::Accepted, txn_id);
                    let _ = connection.settle(key, state, Settle::First);
                }
                return;
            }
        };
        let command = Send {
            entity,
            payload: delivery.payload,
            format: delivery.message_format,
            transaction,
        };
        let now = self.time();
        let state = self.hub.with_at(now, self.mailbox(), |core, now| {
            let fault = core.faults.take(entity, Answered::Send);
            if fault == Some(Interference::Lose { applied: false }) {
                return None;
            }
            let sent = core.broker.apply(now, command);
            let state = answer(sent, Outcome::Accepted, txn_id);
            let Some(fault) = fault else {
                return Some(state);
            };
            let parcel = Parcel::Answer {
                delivery: key,
                state,
            };
            core.interfere(now, fault, (entity, Answered::Send), &self.mailbox, parcel);
            None
        });
        if let Some(state) = state.filter(|_| !settled) {
            settle(connection, key, state);
        }
    }
}

/// States an outcome; without effect if the delivery is gone meanwhile.
pub(super) fn settle(connection: &mut Connection, delivery: DeliveryKey, state: DeliveryState) {
    if let Err(error) = connection.settle(delivery, state, Settle::First) {
        tracing::debug!(%error, "an outcome for a delivery that is gone");
    }
}

/// The transaction that a txn-id names.
pub(super) fn transaction(txn_id: &Bytes) -> Result<TransactionId, Error> {
    TransactionId::from_bytes(txn_id).ok_or_else(|| {
        Error::new(
            ErrorKind::TransactionUnknown,
            "The transaction is not known: no txn-id of this emulator looks like that.",
        )
    })
}

/// The state that answers an operation: its outcome or why it was refused, within its transaction if there is one.
pub(super) fn answer(
    result: Result<(), Error>,
    success: Outcome,
    txn_id: Option<Bytes>,
) -> DeliveryState {
    let outcome = match result {
        Ok(()) => success,
        Err(error) => rejected(error.to_amqp()),
    };
    match txn_id {
        None => DeliveryState::Outcome(outcome),
        Some(txn_id) => DeliveryState::Transactional(Box::new(TransactionalState {
            txn_id,
            outcome: Some(outcome),
        })),
    }
}

pub(super) fn rejected(error: AmqpError) -> Outcome {
    Outcome::Rejected(Some(Box::new(error)))
}

/// The answer to a message that is not what it should be.
pub(super) fn malformed(text: impl Into<String>) -> Outcome {
    rejected(amqp_error(condition::DECODE_ERROR, text.into()))
}
