use std::collections::BTreeSet;

use servicebus_amqp::engine::{LinkKey, SessionKey};
use servicebus_amqp::types::{Attach, ByteString, Timestamp};

use crate::broker::{ConsumerId, EntityId, TransactionId};

/// The links of one connection.
///
/// A client may have tens of thousands of them: what is done for one link or request must not look at all.
#[derive(Debug, Default)]
pub(super) struct Links {
    by_slot: Vec<Option<Box<Link>>>,
    /// The slots of sessions, each with those of its links.
    by_session: BTreeSet<(usize, usize)>,
    /// The same of the links for replies, by their node.
    replies: BTreeSet<(usize, Node, usize)>,
}

/// A link of a client.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) key: LinkKey,
    pub(super) session: SessionKey,
    pub(super) name: ByteString,
    /// The path of what it leads to, in lower case.
    pub(super) path: String,
    pub(super) kind: LinkKind,
    /// When something was done on it; kept when idle times are set.
    pub(super) used_at: Timestamp,
}

/// What a link is for.
#[derive(Debug)]
pub(super) enum LinkKind {
    /// The client sends messages to an entity.
    Producer(EntityId),
    /// The client receives messages from an entity.
    Consumer(Consumer),
    /// The client sends requests to a node.
    Requests(Node),
    /// The client receives a node's replies, at this address.
    Replies {
        node: Node,
        address: Option<ByteString>,
    },
    /// The client opens and ends transactions: these are open.
    Controller(Vec<TransactionId>),
}

/// Something that answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    Cbs,
    Management(EntityId),
}

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) id: ConsumerId,
    /// How many deliveries were taken out of the mailbox.
    pub(super) taken: u64,
    /// Whether the client waits for the end of a drain.
    pub(super) draining: bool,
    /// The attach, while it waits for a session.
    pub(super) waiting: Option<Box<Attach>>,
}

impl Links {
    pub(super) fn insert(&mut self, link: Link) {
        let slot = link.key.slot();
        self.by_session.insert((link.session.slot(), slot));
        if let LinkKind::Replies { node, .. } = link.kind {
            self.replies.insert((link.session.slot(), node, slot));
        }
        if slot >= self.by_slot.len() {
            // The engine numbers links densely and bounds their number.
            self.by_slot.resize_with(slot + 1, || None);
        }
        if let Some(place) = self.by_slot.get_mut(slot) {
            debug_assert!(place.is_none(), "the engine tells of a link's end first");
            *place = Some(Box::new(link));
        }
    }

    pub(super) fn get(&self, key: LinkKey) -> Option<&Link> {
        self.in_slot(key.slot()).filter(|link| link.key == key)
    }

    pub(super) fn get_mut(&mut self, key: LinkKey) -> Option<&mut Link> {
        let link = self.by_slot.get_mut(key.slot())?.as_deref_mut()?;
        (link.key == key).then_some(link)
    }

    pub(super) fn remove(&mut self, key: LinkKey) -> Option<Link> {
        self.get(key)?;
        let link = *self.by_slot.get_mut(key.slot())?.take()?;
        let (session, slot) = (link.session.slot(), key.slot());
        self.by_session.remove(&(session, slot));
        if let LinkKind::Replies { node, .. } = link.kind {
            self.replies.remove(&(session, node, slot));
        }
        Some(link)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.by_slot.iter().flatten().map(|link| &**link)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.by_slot.iter_mut().flatten().map(|link| &mut **link)
    }

    /// The links of a session for the replies of a node, with the addresses of their targets.
    pub(super) fn replies(
        &self,
        session: SessionKey,
        node: Node,
    ) -> impl Iterator<Item = (&Link, Option<&str>)> {
        let of = session.slot();
        self.replies
            .range((of, node, 0)..=(of, node, usize::MAX))
            .filter_map(move |(.., slot)| {
                let link = self.in_slot(*slot)?;
                match &link.kind {
                    LinkKind::Replies { address, .. } if link.session == session => {
                        Some((link, address.as_deref()))
                    }
                    _ => None,
                }
            })
    }

    /// Removes all links of a session.
    pub(super) fn remove_session(&mut self, session: SessionKey) -> Vec<Link> {
        let of = session.slot();
        let keys: Vec<_> = self
            .by_session
            .range((of, 0)..=(of, usize::MAX))
            .filter_map(|(_, slot)| self.in_slot(*slot))
            .filter(|link| link.session == session)
            .map(|link| link.key)
            .collect();
        keys.into_iter()
            .filter_map(|key| self.remove(key))
            .collect()
    }

    /// Removes all links of the connection.
    pub(super) fn remove_all(&mut self) -> Vec<Link> {
        let links = std::mem::take(self).by_slot;
        links.into_iter().flatten().map(|link| *link).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_session.is_empty()
    }

    fn in_slot(&self, slot: usize) -> Option<&Link> {
        self.by_slot.get(slot)?.as_deref()
    }
}
