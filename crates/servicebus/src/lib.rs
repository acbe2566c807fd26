//! Azure Service Bus for Rust, over AMQP 1.0.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let emulator = servicebus_emulator::Emulator::start().await?;
//! # emulator.default_namespace().create_queue("orders", Default::default())?;
//! # let connection_string = emulator.connection_string();
//! use servicebus::{Client, Message};
//!
//! let client = Client::from_connection_string(&connection_string)?;
//!
//! let sender = client.sender("orders");
//! sender.send(Message::new("hello").message_id("order-17")).await?;
//!
//! let receiver = client.receiver("orders");
//! let message = receiver.receive().await?;
//! message.complete().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Behaviour
//!
//! * **Nothing is done before it is needed.** Clients, senders and receivers are made without I/O. The connection and its
//!   links come with the first operation, and come again after they were lost.
//! * **Everything can be shared.** All methods take `&self`; handles can be cloned and used from many tasks at once.
//! * **Settling is confirmed.** [`LockedMessage::complete`] returns when the service has said that the message is
//!   completed, or why not, and consumes the message: it cannot be settled twice.
//! * **Nothing is lost by dropping a future.** Each asynchronous method says what happens then.
//! * **"Nothing there" is no error.** It is `None` or an empty list.
//! * **Only what is safe is repeated.** A message has an id before its first attempt. When it may have been taken and
//!   the answer was lost each time, the error is [`ErrorKind::Uncertain`].
//!
//! The [guides] have a page each on locks, sessions, dead letters, duplicates, transactions, retries, testing, and moving from
//! `azservicebus`.
//!
//! # Features
//!
//! * `entra` (default): credentials of Microsoft Entra ID, through the traits of `azure_core`.
//! * `serde_json`: JSON bodies.
#![forbid(unsafe_code)]

mod client;
#[cfg(feature = "entra")]
mod entra;
pub mod guides;
mod network;

pub use client::Client;

pub use servicebus_amqp::net::{Proxy, TlsOptions};
pub use servicebus_core::auth::{NamedKeyCredential, SasCredential, Token, TokenKind};
pub use servicebus_core::batch::MessageBatch;
pub use servicebus_core::client::{
    ClientState, Connect, Connecting, LockedMessage, Mode, PeekLock, ProvideToken, Providing,
    ReceiveAndDelete, Receiver, Rules, SendAllError, Sender, SessionReceiver, SettleError,
    Transaction,
};
pub use servicebus_core::connection_string::{ConnectionString, ConnectionStringError, Endpoint};
pub use servicebus_core::entity::{Entity, SubQueue, Subscription};
pub use servicebus_core::error::{Error, ErrorKind, Recovery, Result};
pub use servicebus_core::lock_token::LockToken;
pub use servicebus_core::message::{
    AmqpFields, BrokerProperties, DateTimeOffset, Message, MessageState, ReceivedMessage, TimeSpan,
    Uri,
};
pub use servicebus_core::options::{
    BatchOptions, ClientOptions, ReceiverOptions, SenderOptions, SessionReceiverOptions,
    TransactionScope, Transport,
};
pub use servicebus_core::renewal::KeepLock;
pub use servicebus_core::retry::{Backoff, RetryOptions};
pub use servicebus_core::rules::{CorrelationFilter, Rule, RuleFilter};
pub use servicebus_core::settlement::{DeadLetter, Settlement};

/// AMQP values, for bodies and properties of other types than bytes and text.
pub mod types {
    pub use servicebus_core::types::{
        Array, Body, ByteString, Bytes, Described, Descriptor, Map, MessageId, Symbol, Timestamp,
        Uuid, Value,
    };
}

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
