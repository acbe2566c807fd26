//! Transactions: declared and discharged on a link to the coordinator (AMQP 1.0 §4.3).

use servicebus_amqp::engine::{Connection, IncomingDelivery};
use servicebus_amqp::types::{Body, Bytes, DeliveryState, Descriptor, Message, Outcome, Value};

use super::client::Client;
use super::link::LinkKind;
use super::transfer::{answer, malformed, settle, transaction};
use crate::broker::{BeginTransaction, EndTransaction, Error, TransactionEnd};

const DECLARE: u64 = 0x31;
const DISCHARGE: u64 = 0x32;

/// How many transactions one link may have open.
const MAX_OPEN: usize = 1000;

enum Control {
    Declare,
    Discharge { txn_id: Bytes, end: TransactionEnd },
}

impl Client {
    pub(super) fn on_control(&mut self, connection: &mut Connection, delivery: IncomingDelivery) {
        let (key, link) = (delivery.delivery, delivery.link);
        let outcome = match Control::decode(delivery.payload) {
            Some(Control::Declare) => self.declare(link),
            Some(Control::Discharge { txn_id, end }) => self.discharge(link, &txn_id, end),
            None => malformed("A message to the coordinator holds a declare or a discharge."),
        };
        if !delivery.settled {
            settle(connection, key, DeliveryState::Outcome(outcome));
        }
    }

    fn declare(&mut self, link: servicebus_amqp::engine::LinkKey) -> Outcome {
        let Some(LinkKind::Controller(open)) = self.links.get_mut(link).map(|link| &mut link.kind)
        else {
            return Outcome::Released;
        };
        if open.len() >= MAX_OPEN {
            return super::transfer::rejected(
                Error::new(
                    crate::broker::ErrorKind::QuotaExceeded,
                    format!("There are {MAX_OPEN} open transactions on this link."),
                )
                .to_amqp(),
            );
        }
        match self.hub.run(Some(&self.mailbox), BeginTransaction) {
            Ok(transaction) => {
                open.push(transaction);
                Outcome::Declared {
                    txn_id: Bytes::copy_from_slice(&transaction.to_bytes()),
                }
            }
            Err(error) => super::transfer::rejected(error.to_amqp()),
        }
    }

    fn discharge(
        &mut self,
        link: servicebus_amqp::engine::LinkKey,
        txn_id: &Bytes,
        end: TransactionEnd,
    ) -> Outcome {
        let result = transaction(txn_id).and_then(|transaction| {
            if let Some(LinkKind::Controller(open)) =
                self.links.get_mut(link).map(|link| &mut link.kind)
            {
                open.retain(|other| *other != transaction);
            }
            self.hub
                .run(self.mailbox(), EndTransaction { transaction, end })
        });
        match answer(result, Outcome::Accepted, None) {
            DeliveryState::Outcome(outcome) => outcome,
            _ => Outcome::Released,
        }
    }
}

impl Control {
    fn decode(payload: Bytes) -> Option<Self> {
        let Body::Value(Value::Described(described)) = Message::decode(payload).ok()?.body else {
            return None;
        };
        let fields = described.value.as_elements()?;
        let code = match &described.descriptor {
            Descriptor::Code(code) => *code,
            Descriptor::Name(name) if *name == *"amqp:declare:list" => DECLARE,
            Descriptor::Name(name) if *name == *"amqp:discharge:list" => DISCHARGE,
            _ => return None,
        };
        match (code, fields) {
            (DECLARE, _) => Some(Self::Declare),
            (DISCHARGE, [Value::Binary(txn_id), rest @ ..]) => {
                let end = match rest.first() {
                    Some(Value::Bool(true)) => TransactionEnd::Rollback,
                    None | Some(Value::Bool(false) | Value::Null) => TransactionEnd::Commit,
                    Some(_) => return None,
                };
                let txn_id = txn_id.clone();
                Some(Self::Discharge { txn_id, end })
            }
            _ => None,
        }
    }
}
