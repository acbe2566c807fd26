//! Forwarding: entities that pass their messages on.

use super::{
    Broker, EntityId, Error, ErrorKind, EventKind, dead_letter::state_reason, log::Entry,
    message::Content, options::ForwardFailure, registry::normalise, send::Origin,
};
use crate::names::dead_letter;

/// How often a message may be forwarded.
const MAX_HOPS: u8 = 4;

/// Why a message was not passed on.
#[derive(Debug)]
pub(super) enum ForwardError {
    /// It was passed on too often.
    Hops,
    /// The target does not take it.
    Refused(Error),
}

impl Broker {
    /// Passes a message that is in no log on to where its entity says.
    pub(super) fn forward_entry(&mut self, id: EntityId, number: i64, entry: Entry) {
        let Some(target) = self
            .entities
            .get_mut(id)
            .and_then(|entity| entity.policy.forward_to.clone())
        else {
            return;
        };
        let content = entry.content.clone();
        let first = entry.first_number(number);
        if let Err(error) = self.forward(id, &target, content, entry.hops, first) {
            self.keep_unforwardable(id, number, entry, &error);
        }
    }

    /// Passes a message on to another entity.
    pub(super) fn forward(
        &mut self,
        from: EntityId,
        target: &str,
        content: Content,
        hops: u8,
        origin_number: i64,
    ) -> Result<(), ForwardError> {
        if hops >= MAX_HOPS {
            return Err(ForwardError::Hops);
        }
        let namespace = self
            .entities
            .get_mut(from)
            .map(|entity| entity.namespace.clone())
            .unwrap_or_default();
        let to = self
            .entities
            .find(&namespace, &normalise(target))
            .ok_or_else(|| ForwardError::Refused(Error::entity_not_found(&namespace, target)))?;
        let entity = self.sendable(to).map_err(ForwardError::Refused)?;
        if let Some(limit) = entity.policy.max_size.or(self.limits.entity_size)
            && self.stored_size(entity).saturating_add(content.size()) > limit
        {
            return Err(ForwardError::Refused(Error::new(
                ErrorKind::QuotaExceeded,
                format!(
                    "The maximum entity size has been reached or exceeded for '{}'.",
                    entity.path
                ),
            )));
        }
        let path = entity.path.clone();
        self.record(from, || EventKind::Forwarded { to: path });
        self.admit(
            to,
            content,
            Origin {
                hops: hops + 1,
                number: origin_number,
                time_to_live: None,
            },
        );
        Ok(())
    }

    fn keep_unforwardable(
        &mut self,
        id: EntityId,
        number: i64,
        mut entry: Entry,
        error: &ForwardError,
    ) {
        let (reason, text) = match error {
            ForwardError::Hops => (dead_letter::HOP_COUNT, dead_letter::HOP_COUNT_DESCRIPTION),
            ForwardError::Refused(error) => (dead_letter::FORWARDING_FAILED, error.text()),
        };
        if self.limits.forward_failure == ForwardFailure::DeadLetter {
            return self.dead_letter_entry(id, number, entry, reason, text);
        }
        let Some(queue) = self
            .entities
            .get_mut(id)
            .and_then(|entity| entity.transfer_dead_letter())
        else {
            return;
        };
        state_reason(&mut entry, reason, text);
        self.store_dead_letter(queue, number, entry);
    }
}
