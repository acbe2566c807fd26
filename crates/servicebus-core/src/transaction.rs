//! Declaring and discharging transactions at the coordinator (AMQP 1.0 §4).

use bytes::Bytes;
use servicebus_amqp::types::{
    Body, DeliveryState, Described, Descriptor, Message, Outcome, TransactionalState, Value,
};

use crate::error::{Error, ErrorKind, Result};

/// How many messages one transaction may send and settle.
pub const MAX_MESSAGES: usize = 100;

/// How long after its first operation the service rolls a transaction back.
pub const TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(120);

const DECLARE: u64 = 0x31;
const DISCHARGE: u64 = 0x32;

/// The longest id of a transaction (AMQP 1.0 §4.5.4).
const MAX_ID: usize = 32;

/// What the service calls a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransactionId(Bytes);

impl TransactionId {
    /// The state of a transfer that is sent within the transaction.
    pub fn of_send(&self) -> DeliveryState {
        self.state(None)
    }

    /// The state that settles a message within the transaction.
    pub fn of_settlement(&self, outcome: Outcome) -> DeliveryState {
        self.state(Some(outcome))
    }

    fn state(&self, outcome: Option<Outcome>) -> DeliveryState {
        DeliveryState::Transactional(Box::new(TransactionalState {
            txn_id: self.0.clone(),
            outcome,
        }))
    }
}

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Discharge {
    /// All of its operations take effect.
    Commit,
    /// None does.
    Rollback,
}

/// The message that begins a transaction.
pub fn declare() -> Message {
    described(DECLARE, vec![Value::Null])
}

/// Reads the coordinator's answer to [`declare`].
///
/// # Errors
///
/// [`ErrorKind::Transaction`] for every other answer than `declared`, with what the coordinator said.
pub fn read_declared(state: Option<&DeliveryState>) -> Result<TransactionId> {
    match state.and_then(DeliveryState::outcome) {
        Some(Outcome::Declared { txn_id }) if (1..=MAX_ID).contains(&txn_id.len()) => {
            Ok(TransactionId(txn_id.clone()))
        }
        other => Err(failure(
            other,
            "the coordinator did not begin a transaction",
        )),
    }
}

/// The message that ends a transaction.
pub fn discharge(id: &TransactionId, how: Discharge) -> Message {
    let fail = how == Discharge::Rollback;
    described(DISCHARGE, vec![id.0.clone().into(), fail.into()])
}

/// Reads the coordinator's answer to [`discharge`].
///
/// # Errors
///
/// [`ErrorKind::Transaction`] when the transaction was rolled back instead, with what the coordinator said.
pub fn read_discharged(state: Option<&DeliveryState>) -> Result<()> {
    match state.and_then(DeliveryState::outcome) {
        Some(Outcome::Accepted) => Ok(()),
        other => Err(failure(
            other,
            "the coordinator did not end the transaction as asked",
        )),
    }
}

fn failure(outcome: Option<&Outcome>, text: &'static str) -> Error {
    match outcome {
        Some(Outcome::Rejected(Some(error))) => {
            Error::from_amqp(error).with_kind(ErrorKind::Transaction)
        }
        _ => Error::new(ErrorKind::Transaction, text),
    }
}

fn described(code: u64, fields: Vec<Value>) -> Message {
    Message {
        body: Body::Value(Value::from(Described {
            descriptor: Descriptor::Code(code),
            value: Value::List(fields),
        })),
        ..Message::default()
    }
}

#[cfg(test)]
mod tests {
    use servicebus_amqp::types::AmqpError;

    use super::*;
    use crate::testing::state_in;

    fn id() -> TransactionId {
        let txn_id =
            Bytes::from_static(b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f");
        let declared = DeliveryState::from(Outcome::Declared { txn_id });
        read_declared(Some(&declared)).unwrap()
    }

    fn encoded(message: &Message) -> Vec<u8> {
        let mut out = bytes::BytesMut::new();
        message.encode(&mut out).unwrap();
        out.to_vec()
    }

    /// AMQP 1.0 §4.5.2, §4.5.3; the bytes are composed by the encoder of another project.
    #[test]
    fn discharge_on_the_wire() {
        let head = [0x00, 0x53, 0x77, 0x00, 0x53, 0x32];
        let rows = [(Discharge::Commit, 0x42), (Discharge::Rollback, 0x41)];
        for (how, fail) in rows {
            let bytes = encoded(&discharge(&id(), how));
            assert_eq!(bytes[..6], head);
            // list8 of 20 bytes: vbin8 of 16, one boolean
            assert_eq!(bytes[6..11], [0xc0, 0x14, 0x02, 0xa0, 0x10]);
            assert_eq!(bytes[11..27], id().0);
            assert_eq!(bytes[27..], [fail]);
        }
    }

    #[test]
    fn declare_on_the_wire() {
        // list8 with the one absent field "global-id"; an empty list says the same.
        let bytes = encoded(&declare());
        assert_eq!(
            bytes,
            [0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0xc0, 0x02, 0x01, 0x40]
        );
    }

    #[test]
    fn b93_the_coordinator_answers_something_else() {
        let rejected =
            |condition: &str| Outcome::Rejected(Some(Box::new(AmqpError::new(condition, "no"))));
        let rows = [
            (Some(Outcome::Accepted), None),
            (
                Some(rejected("amqp:not-implemented")),
                Some("amqp:not-implemented"),
            ),
            (Some(Outcome::Rejected(None)), None),
            (
                Some(Outcome::Declared {
                    txn_id: Bytes::new(),
                }),
                None,
            ),
            (
                Some(Outcome::Declared {
                    txn_id: vec![0; 33].into(),
                }),
                None,
            ),
            (None, None),
        ];
        for (outcome, condition) in rows {
            let state = outcome.map(DeliveryState::from);
            let error = read_declared(state.as_ref()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Transaction);
            assert_eq!(error.condition(), condition);
        }
        let state = DeliveryState::from(rejected("amqp:transaction:rollback"));
        let error = read_discharged(Some(&state)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transaction);
        assert_eq!(error.condition(), Some("amqp:transaction:rollback"));
        assert!(!error.is_transient());
        assert!(read_discharged(Some(&DeliveryState::ACCEPTED)).is_ok());
    }

    /// States composed by the encoder of another project from AMQP 1.0 §4.5.
    #[test]
    fn states_on_the_wire() {
        let declared = state_in(
            "0000002c02000000005315c01f05560143435601005333c01301a010000102030405060708090a0b0c0d0e0f",
        );
        let found = read_declared(Some(&declared)).unwrap();
        assert_eq!(found, id());
        let sent = state_in(
            "0000004702000000005314c0290852015202a00402000000435600560040005334c01301a010000102030405060708090a0b0c0d0e0f\
             005373c00601a103742d31005375a00178",
        );
        assert_eq!(id().of_send(), sent);
        let settled = state_in(
            "0000003202000000005315c025055601520752075600005334c01702a010000102030405060708090a0b0c0d0e0f00532445",
        );
        assert_eq!(id().of_settlement(Outcome::Accepted), settled);
        let refused = state_in(
            "0000004a02000000005315c03d055601520152015601005325c02f0100531dc02902a319616d71703a7472616e73616374696f6e3a72\
             6f6c6c6261636ba10b726f6c6c6564206261636b",
        );
        let error = read_discharged(Some(&refused)).unwrap_err();
        assert_eq!(error.condition(), Some("amqp:transaction:rollback"));
    }
}
