use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytestring::ByteString;
use tokio::sync::watch;
use tracing::Instrument as _;

use super::connect::Connect;
use super::credential::{ProvideToken, provider};
use super::mode::{Mode, PeekLock, ReceiveAndDelete};
use super::receiver::Receiver;
use super::rules::Rules;
use super::sender::Sender;
use super::session_receiver::{SessionReceiver, Which};
use super::shared::Shared;
use super::state::ClientState;
use super::transaction::Transaction;
use crate::connection_string::{ConnectionString, Endpoint};
use crate::entity::{Entity, Subscription};
use crate::error::{Error, ErrorKind, Result};
use crate::management::ListSessions;
use crate::options::{ClientOptions, ReceiverOptions, SenderOptions, SessionReceiverOptions};

/// A client of one namespace.
///
/// Its senders and receivers share its connection, which is opened when it is first needed. It can be cloned; make one and
/// keep it. When the last clone is gone, with all senders, receivers and messages, the connection is closed in the
/// background.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

impl Client {
    /// A client with this credential, which reaches the service through this connector.
    pub fn new(
        endpoint: Endpoint,
        credential: Arc<dyn ProvideToken>,
        connector: Arc<dyn Connect>,
        options: ClientOptions,
    ) -> Self {
        let shared = Shared::new(endpoint, None, credential, connector, options);
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A client for this connection string, which reaches the service through this connector.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when the string has neither a key nor a signature.
    pub fn with_connection_string(
        string: ConnectionString,
        connector: Arc<dyn Connect>,
        options: ClientOptions,
    ) -> Result<Self> {
        let Some(access) = string.credential() else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the connection string has neither SharedAccessKey nor SharedAccessSignature",
            ));
        };
        let credential = provider(access);
        let endpoint = string.endpoint().clone();
        let shared = Shared::new(endpoint, Some(string), credential, connector, options);
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The host of the namespace.
    pub fn namespace(&self) -> &str {
        self.shared.endpoint.host()
    }

    /// The name by which the service knows the client.
    pub fn identifier(&self) -> &str {
        self.shared.identifier()
    }

    /// A sender to a queue or a topic.
    pub fn sender(&self, entity: impl Into<Entity>, options: SenderOptions) -> Sender {
        let entity = entity.into();
        let address = match entity.topic() {
            Some(_) => Err(Error::new(
                ErrorKind::InvalidArgument,
                "messages are sent to a topic, not to one of its subscriptions",
            )),
            None => entity.address(),
        };
        Sender::new(self.shared.node(entity, address), options)
    }

    /// A receiver that locks what it receives.
    pub fn receiver(
        &self,
        entity: impl Into<Entity>,
        options: ReceiverOptions,
    ) -> Receiver<PeekLock> {
        self.receiver_of(entity.into(), options)
    }

    /// A receiver of messages that are deleted as they come.
    pub fn deleting_receiver(
        &self,
        entity: impl Into<Entity>,
        options: ReceiverOptions,
    ) -> Receiver<ReceiveAndDelete> {
        self.receiver_of(entity.into(), options)
    }

    fn receiver_of<M: Mode>(&self, entity: Entity, options: ReceiverOptions) -> Receiver<M> {
        let address = match options.sub_queue {
            Some(sub_queue) => entity.sub_queue_address(sub_queue),
            None => entity.address(),
        };
        Receiver::new(self.shared.node(entity, address), options)
    }

    /// Accepts the session of this id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionCannotBeLocked`] when another receiver holds it; [`ErrorKind::InvalidOperation`] for an entity
    /// without sessions; what keeps the client from the entity otherwise.
    ///
    /// # Cancel safety
    ///
    /// A session that is granted after the future was dropped is given up at once.
    pub async fn accept_session<M: Mode>(
        &self,
        entity: impl Into<Entity>,
        session_id: impl Into<ByteString>,
        options: SessionReceiverOptions,
    ) -> Result<SessionReceiver<M>> {
        let which = Which::Named(session_id.into());
        let accepted = self.accept(entity.into(), which, options).await?;
        accepted.ok_or_else(|| Error::new(ErrorKind::Timeout, "the session was not granted"))
    }

    /// Accepts the next session that has messages and no holder; `None` when there is none within
    /// [`accept_wait`](SessionReceiverOptions::accept_wait).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOperation`] for an entity without sessions; what keeps the client from the entity otherwise.
    ///
    /// # Cancel safety
    ///
    /// A session that is granted after the future was dropped is given up at once.
    pub async fn accept_next_session<M: Mode>(
        &self,
        entity: impl Into<Entity>,
        options: SessionReceiverOptions,
    ) -> Result<Option<SessionReceiver<M>>> {
        self.accept(entity.into(), Which::Next, options).await
    }

    async fn accept<M: Mode>(
        &self,
        entity: Entity,
        which: Which,
        options: SessionReceiverOptions,
    ) -> Result<Option<SessionReceiver<M>>> {
        let address = entity.address();
        let node = self.shared.node(entity, address);
        SessionReceiver::accept(node, which, options).await
    }

    /// The ids of all sessions of an entity that have messages or, with `updated_after`, whose state was set after that
    /// time.
    ///
    /// # Errors
    ///
    /// What keeps the client from the entity.
    ///
    /// # Cancel safety
    ///
    /// Nothing happens when the future is dropped.
    pub async fn list_sessions(
        &self,
        entity: impl Into<Entity>,
        updated_after: Option<SystemTime>,
    ) -> Result<Vec<String>> {
        let entity = entity.into();
        let address = entity.address();
        let node = self.shared.node(entity, address);
        let span = tracing::debug_span!("list_sessions", entity = %node.address);
        let pages = async {
            let mut ids = Vec::new();
            let mut skip = 0;
            loop {
                let request = match updated_after {
                    Some(time) => ListSessions::updated_after(time),
                    None => ListSessions::with_messages(),
                };
                let page = node.call(&request.skip(skip), None).await?;
                if page.ids.is_empty() {
                    return Ok(ids);
                }
                skip = page.next;
                ids.extend(page.ids);
            }
        };
        pages.instrument(span).await
    }

    /// The rules of a subscription.
    pub fn rules(&self, subscription: Subscription) -> Rules {
        let entity = Entity::from(subscription);
        let address = entity.address();
        Rules::new(self.shared.node(entity, address))
    }

    /// A transaction, to be filled and committed.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.shared))
    }

    /// How the connection is, now and as it changes.
    pub fn state(&self) -> watch::Receiver<ClientState> {
        self.shared.state()
    }

    /// Whether the client was closed.
    pub fn is_closed(&self) -> bool {
        self.shared.closing.is_closed()
    }

    /// Closes the client with all of its senders and receivers: waits for answers that are under way, for up to five
    /// seconds, gives back messages that wait here, and closes the connections.
    ///
    /// # Cancel safety
    ///
    /// The client is closed when the future is dropped; closing again waits for the same end.
    pub async fn close(&self) {
        self.shared.close().await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("namespace", &self.namespace())
            .field("identifier", &self.identifier())
            .finish_non_exhaustive()
    }
}
