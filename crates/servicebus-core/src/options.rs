//! Options of clients, senders and receivers. Defaults are those of the .NET SDK unless it is said otherwise.

use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use servicebus_amqp::net::{Proxy, TlsOptions};

use crate::client::Connect;
use crate::connection_string::Endpoint;
use crate::entity::SubQueue;
use crate::renewal::KeepLock;
use crate::retry::RetryOptions;
use crate::setters::setters;

/// Options of a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Names the client in the service's errors and logs. Default: a new uuid.
    pub identifier: Option<ByteString>,
    /// Names the application in the user agent, at most 24 characters are customary. Default: none.
    pub application_id: Option<ByteString>,
    /// How failed operations are repeated.
    pub retry: RetryOptions,
    /// What the connection runs over. Default: TCP.
    pub transport: Transport,
    /// How the service's certificate is checked. Default: by the system's roots.
    pub tls: TlsOptions,
    /// The HTTP proxy to go through. Default: none.
    pub proxy: Option<Proxy>,
    /// Opens connections instead of the network, as to an emulator in memory. Default: none.
    pub connector: Option<Arc<dyn Connect>>,
    /// How long opening a connection may take. Default: 30 s.
    pub connect_timeout: Duration,
    /// Where to connect to instead of the namespace's own address, as behind a private link or a gateway. Names in the
    /// protocol stay those of the namespace.
    pub custom_endpoint: Option<Endpoint>,
    /// Which transactions are possible. Default: over one entity.
    pub transactions: TransactionScope,
    /// How many AMQP connections the entities are spread over; 0 counts as 1. What belongs together shares one: all senders
    /// and receivers of an entity, of its dead-letter queues, and of a topic's subscriptions. With
    /// [`TransactionScope::CrossEntity`] there is only one, whatever the number. Default: 1.
    pub connections: u32,
    /// How long the connection may be without a frame from the service before it counts as lost. Default: 60 s.
    pub idle_timeout: Duration,
}

/// What a connection runs over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// AMQP over TCP: port 5671 with TLS, 5672 without.
    #[default]
    Tcp,
    /// AMQP over WebSocket: port 443, which firewalls let through.
    WebSocket,
}

/// How far transactions reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransactionScope {
    /// A transaction sends to, and settles messages of, one entity.
    #[default]
    SingleEntity,
    /// A transaction may use several entities: the first one that the client uses takes what is sent to the others and
    /// passes it on when the transaction is committed. All links of the client share one AMQP session for that, and a
    /// fault of the session is a fault of all.
    CrossEntity,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            identifier: None,
            application_id: None,
            retry: RetryOptions::default(),
            transport: Transport::Tcp,
            tls: TlsOptions::default(),
            proxy: None,
            connector: None,
            connect_timeout: Duration::from_secs(30),
            custom_endpoint: None,
            transactions: TransactionScope::SingleEntity,
            connections: 1,
            idle_timeout: Duration::from_secs(60),
        }
    }
}

impl ClientOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        identifier: into Option<ByteString>,
        application_id: into Option<ByteString>,
        retry: RetryOptions,
        transport: Transport,
        tls: TlsOptions,
        proxy: into Option<Proxy>,
        connector: into Option<Arc<dyn Connect>>,
        connect_timeout: Duration,
        custom_endpoint: into Option<Endpoint>,
        transactions: TransactionScope,
        connections: u32,
        idle_timeout: Duration,
    }
}

/// Options of a sender.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SenderOptions {
    /// Names the sender in the service's errors and logs. Default: a name made from the entity's.
    pub identifier: Option<ByteString>,
}

impl SenderOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! { identifier: into Option<ByteString> }
}

/// Options of a receiver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceiverOptions {
    /// Names the receiver in the service's errors and logs. Default: a name made from the entity's.
    pub identifier: Option<ByteString>,
    /// Receives from a queue that belongs to the entity. Default: from the entity itself.
    pub sub_queue: Option<SubQueue>,
    /// How many messages are fetched ahead. Their locks run, and are renewed, while they wait. Default: 0.
    pub prefetch: u32,
    /// How long locks of messages are kept by renewing them, from when a message was received. Not in
    /// receive-and-delete. Default: 5 minutes, as the Java and JavaScript SDKs; .NET renews in its processor only.
    pub keep_lock: KeepLock,
    /// How long a receive of several messages waits for one more after each, once it has the first. Default: 20 ms.
    pub linger: Duration,
}

impl Default for ReceiverOptions {
    fn default() -> Self {
        Self {
            identifier: None,
            sub_queue: None,
            prefetch: 0,
            keep_lock: KeepLock::default(),
            linger: Duration::from_millis(20),
        }
    }
}

impl ReceiverOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        identifier: into Option<ByteString>,
        sub_queue: into Option<SubQueue>,
        prefetch: u32,
        keep_lock: KeepLock,
        linger: Duration,
    }
}

/// Options of a receiver of one session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionReceiverOptions {
    /// Names the receiver in the service's errors and logs. Default: a name made from the entity's.
    pub identifier: Option<ByteString>,
    /// How many messages of the session are fetched ahead. With more than 0, an abandoned message may come after ones
    /// that were fetched before it was. Default: 0.
    pub prefetch: u32,
    /// How long the session's lock is kept by renewing it, from when the session was accepted. Default: 5 minutes.
    pub keep_lock: KeepLock,
    /// How long to wait for the next session that has messages. Default: 60 s.
    pub accept_wait: Duration,
    /// How long a receive of several messages waits for one more after each, once it has the first. Default: 20 ms.
    pub linger: Duration,
}

impl Default for SessionReceiverOptions {
    fn default() -> Self {
        Self {
            identifier: None,
            prefetch: 0,
            keep_lock: KeepLock::default(),
            accept_wait: Duration::from_secs(60),
            linger: Duration::from_millis(20),
        }
    }
}

impl SessionReceiverOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        identifier: into Option<ByteString>,
        prefetch: u32,
        keep_lock: KeepLock,
        accept_wait: Duration,
        linger: Duration,
    }
}

/// Options of a batch of messages.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BatchOptions {
    /// How many bytes the batch may have, if that is less than the service takes. Default: what the service takes.
    pub max_size: Option<usize>,
}

impl BatchOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! { max_size: into Option<usize> }
}
