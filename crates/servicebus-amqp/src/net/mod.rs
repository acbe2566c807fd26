//! The engine driven by tokio: one task per connection, and handles that can be cloned for what is in it.
//!
//! ```text
//! Connection ── Session ── SenderLink, ReceiverLink     waiting for events, by handle
//!      └────────── Endpoint<Registry> ──────────┘       the engine behind a lock
//!                       │ wake
//!                     Driver                            bytes and timers, one task
//!                       │
//!          TCP · TLS · WebSocket · any stream
//! ```
//!
//! A caller locks, changes the engine and wakes the driver: one lock and one wake for many operations, and one write
//! for all that has come together. The lock is never held across an await.

mod connect;
mod connection;
mod driver;
mod endpoint;
mod error;
mod link;
mod listener;
mod operation;
mod registry;
mod session;
mod transport;

pub use connect::{ConnectOptions, Transport};
pub use connection::{Authenticator, Connection};
pub use endpoint::{Application, Endpoint};
pub use error::ConnectError;
pub use link::{Outcome, ReceiverLink, SenderLink};
pub use listener::{Incoming, ListenOptions, Listener};
pub use operation::DeliveryError;
pub use session::{AcceptedLink, IncomingLink, Session};
pub use transport::{ByteStream, Proxy, TlsOptions};
