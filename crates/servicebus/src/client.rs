use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[cfg(feature = "entra")]
use azure_core::credentials::TokenCredential;
use servicebus_core::client as core;
use servicebus_core::client::{
    ClientState, Connect, Mode, ProvideToken, ReceiveAndDelete, Receiver, Rules, Sender,
    SessionReceiver, Transaction,
};
use servicebus_core::connection_string::{ConnectionString, Endpoint};
use servicebus_core::entity::{Entity, Subscription};
use servicebus_core::error::{Error, Result};
use servicebus_core::options::{
    ClientOptions, ReceiverOptions, SenderOptions, SessionReceiverOptions,
};
use servicebus_core::types::ByteString;
use tokio::sync::watch;

#[cfg(feature = "entra")]
use crate::entra::EntraTokens;
use crate::network::Network;

/// A client of one Service Bus namespace.
///
/// Making one does no I/O: the connection is opened by the first operation, shared by all senders and receivers, and
/// opened again when it was lost. A client can be cloned cheaply; make one and keep it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = servicebus_emulator::Emulator::start().await?;
/// # emulator.default_namespace().create_queue("orders", Default::default())?;
/// # let connection_string = emulator.connection_string();
/// use servicebus::{Client, Message};
///
/// let client = Client::from_connection_string(&connection_string)?;
/// client.sender("orders").send(Message::new("hello")).await?;
/// let message = client.receiver("orders").receive().await?;
/// message.complete().await?;
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: core::Client,
}

/// # Making a client
impl Client {
    /// A client for a connection string, as the Azure portal or an emulator gives it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) names the part of the string that is wrong, and never repeats a secret.
    pub fn from_connection_string(text: &str) -> Result<Self> {
        Self::from_connection_string_with(text, ClientOptions::default())
    }

    /// A client for a connection string, with options.
    ///
    /// # Errors
    ///
    /// As [`from_connection_string`](Self::from_connection_string).
    pub fn from_connection_string_with(text: &str, mut options: ClientOptions) -> Result<Self> {
        let string = ConnectionString::parse(text).map_err(Error::from)?;
        let connector = connector(string.endpoint(), &mut options);
        Ok(Self {
            inner: core::Client::with_connection_string(string, connector, options)?,
        })
    }

    /// A client for a namespace, as `contoso.servicebus.windows.net`, and a credential of Microsoft Entra ID, as the crate
    /// `azure_identity` has them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when the namespace is neither a host nor a URI.
    #[cfg(feature = "entra")]
    pub fn new(namespace: &str, credential: Arc<dyn TokenCredential>) -> Result<Self> {
        Self::new_with(namespace, credential, ClientOptions::default())
    }

    /// A client for a namespace and a credential of Microsoft Entra ID, with options.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[cfg(feature = "entra")]
    pub fn new_with(
        namespace: &str,
        credential: Arc<dyn TokenCredential>,
        options: ClientOptions,
    ) -> Result<Self> {
        Self::with_credential(namespace, EntraTokens::new(credential), options)
    }

    /// A client for a namespace and a shared access key or signature that can be exchanged while it works:
    /// [`NamedKeyCredential`](crate::NamedKeyCredential) or [`SasCredential`](crate::SasCredential).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when the namespace is neither a host nor a URI.
    pub fn with_credential(
        namespace: &str,
        credential: impl ProvideToken,
        mut options: ClientOptions,
    ) -> Result<Self> {
        let endpoint: Endpoint = namespace.parse()?;
        let connector = connector(&endpoint, &mut options);
        Ok(Self {
            inner: core::Client::new(endpoint, Arc::new(credential), connector, options),
        })
    }
}

fn connector(endpoint: &Endpoint, options: &mut ClientOptions) -> Arc<dyn Connect> {
    options
        .connector
        .take()
        .unwrap_or_else(|| Arc::new(Network::new(endpoint, options)))
}

/// # Sending and receiving
impl Client {
    /// A sender to a queue or a topic. Nothing happens before it sends; what is wrong with the name is an error of each
    /// send.
    pub fn sender(&self, entity: impl Into<Entity>) -> Sender {
        self.sender_with(entity, SenderOptions::default())
    }

    /// A sender to a queue or a topic, with options.
    pub fn sender_with(&self, entity: impl Into<Entity>, options: SenderOptions) -> Sender {
        self.inner.sender(entity, options)
    }

    /// A receiver from a queue or a [`Subscription`], which locks what it receives. Nothing happens before it receives.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = servicebus_emulator::Emulator::start().await?;
    /// # let namespace = emulator.default_namespace();
    /// # namespace.create_topic("events", Default::default())?;
    /// # namespace.create_subscription("events", "audit", Default::default())?;
    /// # let client = servicebus::Client::from_connection_string(&emulator.connection_string())?;
    /// # client.sender("events").send("hello").await?;
    /// use servicebus::Subscription;
    ///
    /// let receiver = client.receiver(Subscription::new("events", "audit"));
    /// let message = receiver.receive().await?;
    /// message.complete().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn receiver(&self, entity: impl Into<Entity>) -> Receiver {
        self.receiver_with(entity, ReceiverOptions::default())
    }

    /// A receiver from a queue or a subscription, which locks what it receives, with options: as for a dead-letter queue or
    /// prefetch.
    pub fn receiver_with(&self, entity: impl Into<Entity>, options: ReceiverOptions) -> Receiver {
        self.inner.receiver(entity, options)
    }

    /// A receiver of messages that are deleted as they come. A message is lost when the program fails before it is done
    /// with it.
    pub fn deleting_receiver(&self, entity: impl Into<Entity>) -> Receiver<ReceiveAndDelete> {
        self.deleting_receiver_with(entity, ReceiverOptions::default())
    }

    /// A receiver of messages that are deleted as they come, with options.
    pub fn deleting_receiver_with(
        &self,
        entity: impl Into<Entity>,
        options: ReceiverOptions,
    ) -> Receiver<ReceiveAndDelete> {
        self.inner.deleting_receiver(entity, options)
    }
}

/// # Sessions
impl Client {
    /// Accepts the session of this id, whether or not it has messages.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionCannotBeLocked`](crate::ErrorKind::SessionCannotBeLocked) when another receiver holds it; [`ErrorKind::InvalidOperation`](crate::ErrorKind::InvalidOperation) for an entity
    /// without sessions; what keeps the client from the entity otherwise.
    ///
    /// # Cancel safety
    ///
    /// A session that is granted after the future was dropped is given up at once.
    pub async fn accept_session(
        &self,
        entity: impl Into<Entity>,
        session_id: impl Into<ByteString>,
    ) -> Result<SessionReceiver> {
        let options = SessionReceiverOptions::default();
        self.accept_session_with(entity, session_id, options).await
    }

    /// Accepts the session of this id, with options and in either [mode](Mode).
    ///
    /// # Errors
    ///
    /// As [`accept_session`](Self::accept_session).
    ///
    /// # Cancel safety
    ///
    /// As [`accept_session`](Self::accept_session).
    pub async fn accept_session_with<M: Mode>(
        &self,
        entity: impl Into<Entity>,
        session_id: impl Into<ByteString>,
        options: SessionReceiverOptions,
    ) -> Result<SessionReceiver<M>> {
        self.inner.accept_session(entity, session_id, options).await
    }

    /// Accepts the next session that has messages and no holder; `None` when there is none within `wait`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOperation`](crate::ErrorKind::InvalidOperation) for an entity without sessions; what keeps the client from the entity otherwise.
    ///
    /// # Cancel safety
    ///
    /// A session that is granted after the future was dropped is given up at once.
    pub async fn accept_next_session(
        &self,
        entity: impl Into<Entity>,
        wait: Duration,
    ) -> Result<Option<SessionReceiver>> {
        let options = SessionReceiverOptions::default().accept_wait(wait);
        self.accept_next_session_with(entity, options).await
    }

    /// Accepts the next session, with options and in either [mode](Mode).
    ///
    /// # Errors
    ///
    /// As [`accept_next_session`](Self::accept_next_session).
    ///
    /// # Cancel safety
    ///
    /// As [`accept_next_session`](Self::accept_next_session).
    pub async fn accept_next_session_with<M: Mode>(
        &self,
        entity: impl Into<Entity>,
        options: SessionReceiverOptions,
    ) -> Result<Option<SessionReceiver<M>>> {
        self.inner.accept_next_session(entity, options).await
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
        self.inner.list_sessions(entity, updated_after).await
    }
}

/// # The rest
impl Client {
    /// A transaction, to be filled and committed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = servicebus_emulator::Emulator::start().await?;
    /// # emulator.default_namespace().create_queue("orders", Default::default())?;
    /// # let client = servicebus::Client::from_connection_string(&emulator.connection_string())?;
    /// # client.sender("orders").send("first step").await?;
    /// let order = client.receiver("orders").receive().await?;
    /// let transaction = client.transaction();
    /// transaction.complete(order).await?;
    /// transaction.send(&client.sender("orders"), "next step").await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction(&self) -> Transaction {
        self.inner.transaction()
    }

    /// The rules of a subscription.
    pub fn rules(&self, subscription: Subscription) -> Rules {
        self.inner.rules(subscription)
    }

    /// The host of the namespace.
    pub fn namespace(&self) -> &str {
        self.inner.namespace()
    }

    /// The name by which the service knows the client.
    pub fn identifier(&self) -> &str {
        self.inner.identifier()
    }

    /// How the connection is, now and as it changes: for health probes.
    pub fn state(&self) -> watch::Receiver<ClientState> {
        self.inner.state()
    }

    /// Whether the client was closed.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Closes the client with all of its senders and receivers, clones included. What is asked of them from now on fails
    /// with [`ErrorKind::Closed`](crate::ErrorKind::Closed). Sends and settlements that are under way are waited for, for up to five seconds; messages
    /// that wait here are given back. Closing again does nothing.
    ///
    /// # Cancel safety
    ///
    /// The client is closed when the future is dropped; close again to wait and to give messages back.
    pub async fn close(&self) {
        self.inner.close().await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
