use servicebus_amqp::types::{AmqpError, DeliveryState, Outcome};

use super::value::{described, map};
use super::{Composite, binary, string, symbol, uint};

pub(super) fn delivery_state(state: &DeliveryState) -> String {
    match state {
        DeliveryState::Outcome(state) => outcome(state),
        DeliveryState::Received {
            section_number,
            section_offset,
        } => Composite::new("received")
            .field("section-number", Some(uint(section_number)))
            .field("section-offset", Some(format!("ulong:{section_offset}")))
            .end(),
        DeliveryState::Transactional(state) => Composite::new("transactional-state")
            .field("txn-id", Some(binary(&state.txn_id)))
            .field("outcome", state.outcome.as_ref().map(outcome))
            .end(),
        DeliveryState::Unknown(any) => described(any),
        _ => unreachable!("a state that the specification does not have"),
    }
}

pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Accepted => "accepted()".to_owned(),
        Outcome::Released => "released()".to_owned(),
        Outcome::Rejected(why) => Composite::new("rejected")
            .field("error", why.as_deref().map(error))
            .end(),
        Outcome::Modified(modified) => Composite::new("modified")
            .field(
                "delivery-failed",
                modified.delivery_failed.map(|b| b.to_string()),
            )
            .field(
                "undeliverable-here",
                modified.undeliverable_here.map(|b| b.to_string()),
            )
            .field(
                "message-annotations",
                modified.message_annotations.as_ref().map(map),
            )
            .end(),
        Outcome::Declared { txn_id } => Composite::new("declared")
            .field("txn-id", Some(binary(txn_id)))
            .end(),
        _ => unreachable!("an outcome that the specification does not have"),
    }
}

pub(super) fn error(error: &AmqpError) -> String {
    Composite::new("error")
        .field("condition", Some(symbol(&error.condition)))
        .field("description", error.description.as_ref().map(string))
        .field("info", error.info.as_ref().map(map))
        .end()
}
