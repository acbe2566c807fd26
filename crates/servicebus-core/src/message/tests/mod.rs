mod received;
mod sent;

use std::time::UNIX_EPOCH;

use servicebus_amqp::types::Uuid;

use super::*;
use crate::lock_token::LockToken;
use crate::testing::hex;

fn at_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn received(encoded: &str) -> ReceivedMessage {
    let token = LockToken::new(Uuid::from_u128(1));
    ReceivedMessage::decode(hex(encoded), Origin::Locked(token)).unwrap()
}

/// There and back: as the broker would deliver what was sent.
fn delivered(message: &Message) -> ReceivedMessage {
    let token = LockToken::new(Uuid::from_u128(1));
    let encoded = message.encode(UNIX_EPOCH).unwrap();
    ReceivedMessage::decode(encoded, Origin::Locked(token)).unwrap()
}
