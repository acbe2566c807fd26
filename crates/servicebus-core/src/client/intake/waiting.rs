//! The locks of messages that wait here, until a receive takes them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use servicebus_amqp::engine::IncomingDelivery;

use super::{Intake, lock};
use crate::client::clock::now;
use crate::client::link::ReceivingLink;
use crate::client::mode::{Held, hold};
use crate::lock_token::LockToken;
use crate::management::ReceiveMode;
use crate::message::{Origin, ReceivedMessage};

/// How often messages that were fetched ahead are looked through for locks to be kept.
const LOOK_THROUGH: Duration = Duration::from_secs(2);

/// Looks after the locks of messages that wait here for longer than a moment, for as long as the intake is open: they are
/// good without the link that brought them.
async fn keep_locks(intake: Weak<Intake>) {
    loop {
        tokio::time::sleep(LOOK_THROUGH).await;
        match intake.upgrade() {
            Some(intake) if !intake.is_closed() => intake.look_through(),
            _ => return,
        }
    }
}

impl Intake {
    /// Sees to the locks of messages that are fetched ahead, where each message has its own.
    pub(super) fn keep_prefetched_locks(self: &Arc<Self>) {
        let settings = &self.settings;
        if settings.prefetch > 0
            && settings.mode == ReceiveMode::PeekLock
            && settings.session.is_none()
            && !self.keeps_locks.swap(true, Ordering::AcqRel)
        {
            tokio::spawn(keep_locks(Arc::downgrade(self)));
        }
    }

    /// Puts the locks of messages that have waited under the care of the renewer.
    fn look_through(&self) {
        // Held throughout, so that a message that is taken meanwhile finds its lock here and is not held twice.
        let mut early = lock(&self.early);
        let now = now();
        let mut waiting = Vec::new();
        let mut here = std::collections::HashSet::new();
        let mut look_at = |link: &Arc<ReceivingLink>, delivery: &IncomingDelivery, arrived| {
            let Some(token) = LockToken::from_delivery_tag(&delivery.tag) else {
                return;
            };
            here.insert(token);
            if now.saturating_duration_since(arrived) >= LOOK_THROUGH {
                let (key, payload) = (delivery.delivery, delivery.payload.clone());
                waiting.push((token, Arc::clone(link), key, payload, arrived));
            }
        };
        for taken in lock(&self.kept).iter() {
            look_at(&taken.link, &taken.delivery, taken.arrived);
        }
        if let Some(link) = self.link.peek() {
            link.link
                .inspect(|delivery, arrived| look_at(&link, delivery, arrived));
        }
        early.retain(|token, _| here.contains(token));
        for (token, link, delivery, payload, arrived) in waiting {
            if early.contains_key(&token) {
                continue;
            }
            let Ok(message) = ReceivedMessage::decode(payload, Origin::Locked(token)) else {
                continue;
            };
            let origin = Some((&link, delivery));
            if let Held::Yes(hold) = hold(self, &message, token, origin, arrived) {
                early.insert(token, hold);
            }
        }
    }
}
