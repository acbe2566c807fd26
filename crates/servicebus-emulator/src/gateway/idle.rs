use std::sync::Arc;
use std::time::{Duration, Instant};

use servicebus_amqp::engine::{Connection, LinkKey};
use servicebus_amqp::types::{ByteString, Timestamp, condition};

use super::client::Client;
use super::link::LinkKind;
use crate::broker::amqp_error;
use crate::hub::{Parcel, after};

impl Client {
    /// Notes that something was done on a link.
    pub(super) fn touch(&mut self, key: LinkKey) {
        if self.hub.idle.link.is_some() {
            let now = self.hub.now();
            if let Some(link) = self.links.get_mut(key) {
                link.used_at = now;
            }
        }
    }

    /// The same for a link by its name, which requests over management give.
    pub(super) fn touch_named(&mut self, name: &str) {
        if self.hub.idle.link.is_some() {
            let now = self.hub.now();
            for link in self.links.iter_mut().filter(|link| link.name == *name) {
                link.used_at = now;
            }
        }
    }

    /// Looks at the links again once one of them may have been idle for too long.
    pub(super) fn watch_links(&mut self) {
        if let Some(limit) = self.hub.idle.link {
            self.check_after(self.hub.now(), limit);
        }
    }

    /// The same for a connection that has no links.
    pub(super) fn watch_connection(&mut self) {
        if let Some(limit) = self.hub.idle.connection {
            self.check_after(self.hub.now(), limit);
        }
    }

    fn check_after(&mut self, start: Timestamp, limit: Duration) {
        let at = after(start, limit);
        if self.idle_check.is_some_and(|check| check <= at) {
            return;
        }
        self.idle_check = Some(at);
        let mailbox = Arc::clone(&self.mailbox);
        self.hub.with(self.mailbox(), |core, _| {
            core.post_at(at, &mailbox, Parcel::CheckIdle);
        });
    }

    pub(super) fn check_idle(&mut self, connection: &mut Connection, instant: Instant) {
        let now = self.hub.now();
        if self.idle_check.is_some_and(|check| check <= now) {
            self.idle_check = None;
        }
        if self.links.is_empty() {
            if let Some(limit) = self.hub.idle.connection {
                self.check_connection(connection, limit, now, instant);
            }
        } else if let Some(limit) = self.hub.idle.link {
            self.check_links(connection, limit, now);
        } else {
            self.watch_connection();
        }
    }

    fn check_connection(
        &mut self,
        connection: &mut Connection,
        limit: Duration,
        now: Timestamp,
        instant: Instant,
    ) {
        if after(self.unused_since, limit) > now {
            self.check_after(self.unused_since, limit);
            return;
        }
        let millis = limit.as_millis();
        let error = amqp_error(
            condition::CONNECTION_FORCED,
            format!(
                "The connection was inactive for more than the allowed {millis} milliseconds and is closed by container \
                 'servicebus-emulator'."
            ),
        );
        connection.close(instant, Some(error));
    }

    fn check_links(&mut self, connection: &mut Connection, limit: Duration, now: Timestamp) {
        let mut idle: Vec<(LinkKey, ByteString)> = Vec::new();
        for link in self.links.iter_mut() {
            // Locked messages mean that the client is at work; a wait for a session ends by itself.
            let busy = match &link.kind {
                LinkKind::Consumer(consumer) => {
                    consumer.waiting.is_some()
                        || connection
                            .link(link.key)
                            .is_ok_and(|link| link.unsettled > 0)
                }
                _ => false,
            };
            if busy {
                link.used_at = now;
            } else if after(link.used_at, limit) <= now {
                idle.push((link.key, link.name.clone()));
            }
        }
        for (key, name) in idle {
            let seconds = limit.as_secs();
            let error = amqp_error(
                condition::DETACH_FORCED,
                format!(
                    "The link '{name}' is force detached. Details: IdleTimerExpired: Idle timeout: {:02}:{:02}:{:02}.",
                    seconds / 3600,
                    seconds / 60 % 60,
                    seconds % 60,
                ),
            );
            self.detach(connection, key, error);
        }
        if let Some(next) = self.links.iter().map(|link| link.used_at).min() {
            self.check_after(next, limit);
        }
    }
}
