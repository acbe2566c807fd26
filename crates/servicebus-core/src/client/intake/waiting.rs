//! The locks of messages that wait in the inbox, until a receive takes them.

use std::sync::Weak;
use std::time::Duration;

use super::{Intake, lock};
use crate::client::clock::now;
use crate::client::link::ReceivingLink;
use crate::client::mode::{Held, hold};
use crate::lock_token::LockToken;
use crate::management::ReceiveMode;
use crate::message::{Origin, ReceivedMessage};

/// How often messages that were fetched ahead are looked through for locks to be kept.
const LOOK_THROUGH: Duration = Duration::from_secs(2);

/// Looks after the locks of messages that wait in the inbox for longer than a moment.
pub(super) fn keep_prefetched_locks(intake: Weak<Intake>, link: &ReceivingLink) {
    if let Some(intake) = intake.upgrade()
        && (intake.settings.mode != ReceiveMode::PeekLock || intake.session().is_some())
    {
        return;
    }
    let ended = link.link.ended();
    tokio::spawn(async move {
        let look_through = async {
            loop {
                tokio::time::sleep(LOOK_THROUGH).await;
                let Some(intake) = intake.upgrade() else {
                    return;
                };
                intake.look_through();
            }
        };
        tokio::select! {
            _ = ended => {}
            () = look_through => {}
        }
    });
}

impl Intake {
    /// Puts the locks of messages that have waited under the care of the renewer.
    fn look_through(&self) {
        let Some(link) = self.link.living() else {
            return;
        };
        let now = now();
        let mut waiting = Vec::new();
        let mut here = std::collections::HashSet::new();
        link.link.inspect(|delivery, arrived| {
            let Some(token) = LockToken::from_delivery_tag(&delivery.tag) else {
                return;
            };
            here.insert(token);
            if now.saturating_duration_since(arrived) >= LOOK_THROUGH {
                waiting.push((token, delivery.delivery, delivery.payload.clone(), arrived));
            }
        });
        let mut early = lock(&self.early);
        early.retain(|token, _| here.contains(token));
        for (token, delivery, payload, arrived) in waiting {
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
