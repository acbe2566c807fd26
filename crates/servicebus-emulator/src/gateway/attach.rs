use std::sync::Arc;

use servicebus_amqp::engine::{
    Connection, CreditMode, DrainPolicy, LinkKey, LinkOptions, OnOutcome, SessionKey,
};
use servicebus_amqp::types::{
    AmqpError, Attach, ByteString, Map, ReceiverSettleMode, Role, SenderSettleMode,
    TargetArchetype, condition,
};

use super::client::{Client, property};
use super::filter;
use super::link::{Consumer, Link, LinkKind, Node};
use super::names::link as names;
use crate::access::{Policy, Rights};
use crate::broker::{
    AttachReceiver, AttachSender, Attached, EntityId, Error, ErrorKind, ReceiveMode, SessionGrant,
    amqp_error,
};

/// How many messages a client may have on their way to the emulator, per link; the service's figure.
const SENDER_CREDIT: u32 = 1000;

/// The same for requests to nodes and coordinators.
const REQUEST_CREDIT: u32 = 100;

/// The largest message where the profile sets no limit: that of the largest tier. A client that is told 0 or nothing takes
/// it for no room at all, or for a limit of its own.
const MAX_MESSAGE_SIZE: u64 = 100 * 1024 * 1024;

/// How large clients make a batch where the profile sets no limit.
const MAX_BATCH_SIZE: i64 = 1024 * 1024;

/// Where an address leads.
enum Place {
    Cbs,
    Management(String),
    Entity(String),
}

impl Place {
    /// Addresses come as `q`, `/q`, `sb://host/q`, in any case.
    fn of(address: &str) -> Self {
        let path = match address.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            None => address,
        };
        let path = path.trim_matches('/').to_lowercase();
        match path.strip_suffix("/$management") {
            Some(entity) => Self::Management(entity.to_owned()),
            None if path == "$cbs" => Self::Cbs,
            None => Self::Entity(path),
        }
    }
}

impl Client {
    pub(super) fn on_attach(
        &mut self,
        connection: &mut Connection,
        session: SessionKey,
        key: LinkKey,
        attach: Box<Attach>,
    ) {
        if let Err(error) = self.attach(connection, session, key, attach) {
            // A client that gave up meanwhile needs no answer.
            let _ = connection.refuse_attach(key, error);
        }
    }

    fn attach(
        &mut self,
        connection: &mut Connection,
        session: SessionKey,
        key: LinkKey,
        attach: Box<Attach>,
    ) -> Result<(), AmqpError> {
        let address = match (&attach.role, &attach.target) {
            (Role::Sender, Some(TargetArchetype::Coordinator(_))) => {
                return self.attach_controller(connection, session, key, &attach);
            }
            (Role::Sender, Some(TargetArchetype::Target(target))) => target.address.clone(),
            (Role::Receiver, _) => attach
                .source
                .as_ref()
                .and_then(|source| source.address.clone()),
            _ => None,
        };
        let address = address.ok_or_else(|| {
            amqp_error(
                condition::INVALID_FIELD,
                "An attach names the entity in the address of its target (to send) or its source (to receive).",
            )
        })?;
        let (node, path) = match Place::of(&address) {
            Place::Cbs => (Node::Cbs, String::new()),
            Place::Management(path) => {
                let entity = self
                    .resolve(&path, None)
                    .map_err(|error| self.refusal(error))?;
                (Node::Management(entity), path)
            }
            Place::Entity(path) => {
                let right = match attach.role {
                    Role::Sender => Rights::Send,
                    Role::Receiver => Rights::Listen,
                };
                let entity = self
                    .resolve(&path, Some(right))
                    .map_err(|error| self.refusal(error))?;
                let attached = match attach.role {
                    Role::Sender => {
                        self.attach_producer(connection, session, key, &attach, entity, path)
                    }
                    Role::Receiver => {
                        self.attach_consumer(connection, session, key, attach, entity, path)
                    }
                };
                return attached.map_err(|error| self.refusal(error));
            }
        };
        self.attach_node(connection, session, key, &attach, node, path);
        Ok(())
    }

    fn refusal(&self, error: Error) -> AmqpError {
        self.hub
            .with(self.mailbox(), |core, _| core.broker.identify(error))
            .to_amqp()
    }

    /// The entity at a path, if the client may do that there.
    fn resolve(&self, path: &str, right: Option<Rights>) -> Result<EntityId, Error> {
        self.authorise(path, right)?;
        let namespace = match self.claims.namespace() {
            Some(namespace) => Arc::clone(namespace),
            None => Arc::clone(self.hub.access().default_namespace()),
        };
        self.hub.read(|core| core.broker.resolve(&namespace, path))
    }

    /// Whether the client has shown a token for a path, where that is needed.
    pub(super) fn authorise(&self, path: &str, right: Option<Rights>) -> Result<(), Error> {
        if self.policy == Policy::Open || self.claims.permit(path, right, self.hub.now()) {
            return Ok(());
        }
        let claim = match right {
            Some(Rights::Send) => "'Send'",
            Some(Rights::Listen) => "'Listen'",
            _ => "'Manage'",
        };
        let host = self.host.as_deref().unwrap_or("localhost");
        Err(Error::new(
            ErrorKind::Unauthorized,
            format!(
                "Unauthorized access. {claim} claim(s) are required to perform this operation. Resource: 'sb://{host}/{path}'."
            ),
        ))
    }

    fn attach_producer(
        &mut self,
        connection: &mut Connection,
        session: SessionKey,
        key: LinkKey,
        attach: &Attach,
        entity: EntityId,
        path: String,
    ) -> Result<(), Error> {
        let terms = self.hub.run(self.mailbox(), AttachSender { entity })?;
        let mut options = LinkOptions::answer(attach);
        // The emulator states an outcome and settles in one; a client that asked for more waits for ever otherwise.
        options.rcv_settle_mode = ReceiverSettleMode::First;
        options.max_message_size = Some(terms.max_message_size.unwrap_or(MAX_MESSAGE_SIZE));
        let batch = terms.max_batch_size.map_or(MAX_BATCH_SIZE, |size| {
            i64::try_from(size).unwrap_or(i64::MAX)
        });
        options.properties = Some(property(names::MAX_MESSAGE_BATCH_SIZE, batch));
        options.credit = CreditMode::Window(SENDER_CREDIT);
        self.accept(
            connection,
            session,
            key,
            attach,
            options,
            path,
            LinkKind::Producer(entity),
        );
        self.hub.with(self.mailbox(), |core, _| {
            core.add_producer(entity, &self.mailbox, key);
        });
        Ok(())
    }

    fn attach_consumer(
        &mut self,
        connection: &mut Connection,
        session: SessionKey,
        key: LinkKey,
        attach: Box<Attach>,
        entity: EntityId,
        path: String,
    ) -> Result<(), Error> {
        let mode = match attach.snd_settle_mode {
            SenderSettleMode::Settled => ReceiveMode::ReceiveAndDelete,
            SenderSettleMode::Unsettled | SenderSettleMode::Mixed => ReceiveMode::PeekLock,
        };
        let command = AttachReceiver {
            entity,
            mode,
            session: filter::session_request(&attach)?,
        };
        let mailbox = Arc::clone(&self.mailbox);
        let attached = self.hub.with(self.mailbox(), |core, now| {
            core.attach_consumer(now, command, &mailbox, key)
        })?;
        let consumer = |id| Consumer {
            id,
            taken: 0,
            draining: false,
            waiting: None,
        };
        match attached {
            Attached::Ready {
                consumer: id,
                session: grant,
            } => {
                let consumer = consumer(id);
                let options = consumer_options(&attach, grant.as_ref());
                let kind = LinkKind::Consumer(consumer);
                self.accept(connection, session, key, &attach, options, path, kind);
            }
            Attached::Waiting { consumer: id } => {
                let mut consumer = consumer(id);
                let name = attach.name.clone();
                consumer.waiting = Some(attach);
                self.insert(Link {
                    key,
                    session,
                    name,
                    path,
                    kind: LinkKind::Consumer(consumer),
                    used_at: self.hub.now(),
                });
            }
        }
        Ok(())
    }

    /// The broker found a session for a link that waited for one.
    pub(super) fn accept_session(
        &mut self,
        connection: &mut Connection,
        key: LinkKey,
        grant: &SessionGrant,
    ) -> bool {
        self.touch(key);
        let Some(Link {
            kind: LinkKind::Consumer(consumer),
            ..
        }) = self.links.get_mut(key)
        else {
            return false;
        };
        let Some(attach) = consumer.waiting.take() else {
            return false;
        };
        let options = consumer_options(&attach, Some(grant));
        connection.accept_attach(key, options).is_ok()
    }

    fn attach_controller(
        &mut self,
        connection: &mut Connection,
        session: SessionKey,
        key: LinkKey,
        attach: &Attach,
    ) -> Result<(), AmqpError> {
        let mut options = LinkOptions::answer(attach);
        options.rcv_settle_mode = ReceiverSettleMode::First;
        options.credit = CreditMode::Window(REQUEST_CREDIT);
        options.max_message_size = Some(64 * 1024);
        options.properties = Some(Map::new());
        let kind = LinkKind::Controller(Vec::new());
        self.accept(
            connection,
            session,
            key,
            attach,
            options,
            String::new(),
            kind,
        );
        Ok(())
    }

    fn attach_node(
        &mut self,
        connection: &mut Connection,
        session: SessionKey,
        key: LinkKey,
        attach: &Attach,
        node: Node,
        path: String,
    ) {
        let mut options = LinkOptions::answer(attach);
        options.properties = Some(Map::new());
        let kind = match attach.role {
            Role::Sender => {
                options.rcv_settle_mode = ReceiverSettleMode::First;
                options.credit = CreditMode::Window(REQUEST_CREDIT);
                options.max_message_size = Some(MAX_MESSAGE_SIZE);
                LinkKind::Requests(node)
            }
            Role::Receiver => LinkKind::Replies {
                node,
                address: target_address(attach),
            },
        };
        self.accept(connection, session, key, attach, options, path, kind);
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the last step of each way to attach; what it takes has no meaning as a whole"
    )]
    fn accept(
        &mut self,
        connection: &mut Connection,
        session: SessionKey,
        key: LinkKey,
        attach: &Attach,
        options: LinkOptions,
        path: String,
        kind: LinkKind,
    ) {
        let link = Link {
            key,
            session,
            name: attach.name.clone(),
            path,
            kind,
            used_at: self.hub.now(),
        };
        if let Err(error) = connection.accept_attach(key, options) {
            tracing::debug!(%error, "the client gave up before its link was accepted");
            self.forget(link);
            return;
        }
        self.insert(link);
    }

    fn insert(&mut self, link: Link) {
        self.links.insert(link);
        self.watch_links();
    }
}

fn consumer_options(attach: &Attach, grant: Option<&SessionGrant>) -> LinkOptions {
    let mut options = LinkOptions::answer(attach);
    options.drain = DrainPolicy::Manual;
    options.on_outcome = OnOutcome::Report;
    options.properties = Some(Map::new());
    if let (Some(grant), Some(source)) = (grant, &mut options.source) {
        **source = filter::granted(source, &grant.id);
        options.properties = Some(filter::locked_until(grant.locked_until));
    }
    options
}

fn target_address(attach: &Attach) -> Option<ByteString> {
    match &attach.target {
        Some(TargetArchetype::Target(target)) => target.address.clone(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(address: &str) -> String {
        match Place::of(address) {
            Place::Entity(path) => path,
            Place::Cbs | Place::Management(_) => panic!("{address} leads to a node"),
        }
    }

    #[test]
    fn b114_every_spelling_leads_to_the_same_entity() {
        for address in [
            "q",
            "/q",
            "Q",
            "amqps://localhost:5671/q",
            "sb://ns.servicebus.windows.net/q/",
        ] {
            assert_eq!(entity(address), "q", "{address}");
        }
        assert_eq!(entity("T/Subscriptions/S"), "t/subscriptions/s");
        assert_eq!(entity("q/$DeadLetterQueue"), "q/$deadletterqueue");
        assert!(matches!(Place::of("/$cbs"), Place::Cbs));
        for address in ["q/$management", "amqps://host/Q/$Management"] {
            assert!(matches!(Place::of(address), Place::Management(path) if path == "q"));
        }
    }
}
