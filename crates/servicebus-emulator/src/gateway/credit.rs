use servicebus_amqp::engine::{Connection, LinkKey};

use super::client::Client;
use super::link::LinkKind;

impl Client {
    /// The client's flow says how many messages it takes.
    pub(super) fn on_credit(
        &mut self,
        connection: &mut Connection,
        key: LinkKey,
        credit: u32,
        drain: bool,
    ) {
        self.touch(key);
        let queued = connection.link(key).map_or(0, |status| status.queued);
        let queued = u32::try_from(queued).unwrap_or(u32::MAX);
        let credit = credit.saturating_sub(queued);
        match self.links.get_mut(key).map(|link| &mut link.kind) {
            Some(LinkKind::Consumer(consumer)) => {
                if drain && !consumer.draining {
                    consumer.draining = true;
                    self.drains += 1;
                }
                let (id, taken) = (consumer.id, consumer.taken);
                let set = self.hub.with(self.mailbox(), |core, now| {
                    core.set_credit(now, id, credit, taken, drain)
                });
                if let Err(error) = set {
                    tracing::debug!(%error, "credit for a receiver that is being detached");
                }
            }
            // Replies are queued in the engine, which sends them first.
            Some(LinkKind::Replies { .. }) if drain => {
                let _ = connection.drained(key);
            }
            _ => {}
        }
    }

    /// Ends the drains that were asked for, once everything that was there has gone to the engine.
    pub(super) fn end_drains(&mut self, connection: &mut Connection) {
        if self.drains == 0 {
            return;
        }
        self.drains = 0;
        for link in self.links.iter_mut() {
            if let LinkKind::Consumer(consumer) = &mut link.kind
                && std::mem::take(&mut consumer.draining)
            {
                // The link may be on its way out.
                let _ = connection.drained(link.key);
            }
        }
    }
}
