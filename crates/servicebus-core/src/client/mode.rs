use std::sync::Arc;
use std::time::Instant;

use servicebus_amqp::engine::IncomingDelivery;

use super::clock::now;
use super::intake::Intake;
use super::link::ReceivingLink;
use super::locked_message::{LockedMessage, MessageLock};
use super::renewer::{Hold, Holder, Lock, What};
use crate::error::Result;
use crate::lock_token::LockToken;
use crate::management::ReceiveMode;
use crate::message::{Origin, ReceivedMessage};
use crate::rpc::protocol;

/// Messages are locked and have to be settled: [`LockedMessage`].
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_enums, reason = "a type without values")]
pub enum PeekLock {}

/// Messages are deleted when they are sent to the receiver: [`ReceivedMessage`]. One is lost when the program fails
/// before it is done with it.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_enums, reason = "a type without values")]
pub enum ReceiveAndDelete {}

/// How a receiver receives: [`PeekLock`] or [`ReceiveAndDelete`].
pub trait Mode: sealed::Mode {
    /// What it receives.
    type Message: Send + 'static;
}

impl Mode for PeekLock {
    type Message = LockedMessage;
}

impl Mode for ReceiveAndDelete {
    type Message = ReceivedMessage;
}

pub(crate) mod sealed {
    use super::*;

    #[allow(unnameable_types, reason = "nobody else is to be a mode")]
    pub trait Mode: Sized + Send + Sync + 'static {
        const MODE: ReceiveMode;

        /// A message for the application; `None` when it is not this receiver's any more.
        fn receive(taken: Taken, intake: &Intake) -> Result<Option<<Self as super::Mode>::Message>>
        where
            Self: super::Mode;

        /// A message that was received by its sequence number.
        fn deferred(
            message: ReceivedMessage,
            intake: &Intake,
        ) -> Result<<Self as super::Mode>::Message>
        where
            Self: super::Mode;
    }
}

/// A delivery on its way from the link to the application.
#[derive(Debug)]
#[allow(unnameable_types, reason = "an argument of the sealed trait")]
pub struct Taken {
    pub(crate) delivery: IncomingDelivery,
    pub(crate) arrived: Instant,
    pub(crate) link: Arc<ReceivingLink>,
}

impl sealed::Mode for PeekLock {
    const MODE: ReceiveMode = ReceiveMode::PeekLock;

    fn receive(taken: Taken, intake: &Intake) -> Result<Option<LockedMessage>> {
        let Taken {
            delivery,
            arrived,
            link,
        } = taken;
        let key = delivery.delivery;
        let token = LockToken::from_delivery_tag(&delivery.tag)
            .ok_or_else(|| protocol("a message came without a lock token"))?;
        let early = intake.take_early(token);
        let message = ReceivedMessage::decode(delivery.payload, Origin::Locked(token))?;
        let hold = match early {
            Some(hold) if hold.is_held() => Some(hold),
            Some(_) => {
                link.forget(key);
                return Ok(None);
            }
            None if intake.session().is_some() => None,
            None => match hold(intake, &message, token, Some((&link, key)), arrived) {
                Held::Yes(hold) => Some(hold),
                Held::Untold => None,
                Held::Over => {
                    tracing::debug!(
                        entity = %intake.node().address,
                        sequence_number = message.sequence_number(),
                        "a message waited here for longer than its lock"
                    );
                    link.forget(key);
                    return Ok(None);
                }
            },
        };
        let lock = MessageLock {
            token,
            node: Arc::clone(intake.node()),
            link: Some((link, key)),
            session: intake.session().cloned(),
            hold,
        };
        Ok(Some(LockedMessage::new(message, lock)))
    }

    fn deferred(message: ReceivedMessage, intake: &Intake) -> Result<LockedMessage> {
        let token = message
            .lock_token()
            .ok_or_else(|| protocol("a deferred message came without a lock token"))?;
        let hold = match intake.session() {
            Some(_) => None,
            None => match hold(intake, &message, token, None, now()) {
                Held::Yes(hold) => Some(hold),
                Held::Untold | Held::Over => None,
            },
        };
        let lock = MessageLock {
            token,
            node: Arc::clone(intake.node()),
            link: None,
            session: intake.session().cloned(),
            hold,
        };
        Ok(LockedMessage::new(message, lock))
    }
}

impl sealed::Mode for ReceiveAndDelete {
    const MODE: ReceiveMode = ReceiveMode::ReceiveAndDelete;

    fn receive(taken: Taken, _: &Intake) -> Result<Option<ReceivedMessage>> {
        if !taken.delivery.settled {
            // The broker did not settle as it was asked to.
            taken.link.accept(taken.delivery.delivery);
        }
        ReceivedMessage::decode(taken.delivery.payload, Origin::Deleted).map(Some)
    }

    fn deferred(message: ReceivedMessage, _: &Intake) -> Result<ReceivedMessage> {
        Ok(message)
    }
}

/// Whether a lock is held from now on.
pub(crate) enum Held {
    Yes(Hold),
    /// It ran out before.
    Over,
    /// The broker did not say when it ends.
    Untold,
}

/// Puts the lock of a message that arrived then under the care of the renewer.
pub(crate) fn hold(
    intake: &Intake,
    message: &ReceivedMessage,
    token: LockToken,
    origin: Option<(&Arc<ReceivingLink>, servicebus_amqp::engine::DeliveryKey)>,
    arrived: Instant,
) -> Held {
    let node = intake.node();
    let Some(locked_until) = message.locked_until() else {
        return Held::Untold;
    };
    let ends = node.lock_end(message.enqueued_time(), locked_until, arrived);
    let now = now();
    if ends <= now {
        return Held::Over;
    }
    let lock = Lock {
        node: Arc::downgrade(node),
        what: What::Message(token, origin.map(|(_, key)| key)),
        link: origin.map_or_else(std::sync::Weak::new, |(link, _)| Arc::downgrade(link)),
        locked_until,
        lost: None,
        holder: Holder::Present,
    };
    Held::Yes(
        node.shared
            .renewer
            .hold(lock, ends, intake.keep_lock(), now),
    )
}
