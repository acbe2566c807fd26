use servicebus_amqp::engine::{LinkKey, SessionKey};
use servicebus_amqp::types::{Attach, ByteString, Timestamp};

use crate::broker::{ConsumerId, EntityId, TransactionId};

/// The links of one connection, by slot.
#[derive(Debug, Default)]
pub(super) struct Links(Vec<Option<Box<Link>>>);

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        if slot >= self.0.len() {
            // The engine numbers links densely and bounds their number.
            self.0.resize_with(slot + 1, || None);
        }
        if let Some(place) = self.0.get_mut(slot) {
            *place = Some(Box::new(link));
        }
    }

    pub(super) fn get(&self, key: LinkKey) -> Option<&Link> {
        let link = self.0.get(key.slot())?.as_deref()?;
        (link.key == key).then_some(link)
    }

    pub(super) fn get_mut(&mut self, key: LinkKey) -> Option<&mut Link> {
        let link = self.0.get_mut(key.slot())?.as_deref_mut()?;
        (link.key == key).then_some(link)
    }

    pub(super) fn remove(&mut self, key: LinkKey) -> Option<Link> {
        self.get(key)?;
        Some(*self.0.get_mut(key.slot())?.take()?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.0.iter().flatten().map(|link| &**link)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.0.iter_mut().flatten().map(|link| &mut **link)
    }

    /// Removes all links of a session, or of the connection.
    pub(super) fn remove_all(&mut self, session: Option<SessionKey>) -> Vec<Link> {
        let gone = |link: &Option<Box<Link>>| {
            link.as_ref()
                .is_some_and(|link| session.is_none_or(|session| session == link.session))
        };
        self.0
            .iter_mut()
            .filter(|link| gone(link))
            .filter_map(|link| link.take().map(|link| *link))
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}
