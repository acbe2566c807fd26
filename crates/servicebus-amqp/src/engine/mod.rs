//! Connections, sessions and links as a pure state machine.
//!
//! A [`Connection`] is fed bytes and time and gives back bytes, events and the next moment it wants to be called:
//!
//! ```text
//! handle_input(now, &mut bytes)     bytes from the peer
//! poll_event()                      what they mean
//! poll_transmit(now, &mut out)      bytes for the peer, one vectored write
//! poll_timeout(), handle_timeout()  timers
//! ```
//!
//! Both sides of a connection are the same engine, so two of them can be run back to back without a network.
//!
//! # What ends, and which event says so
//!
//! Each thing that ends gets one event, and that event also covers everything inside it:
//!
//! * [`Event::Closed`] covers all sessions, links, deliveries and requests of the connection.
//! * [`Event::SessionEnded`] covers the links and deliveries of the session.
//! * [`Event::LinkDetached`] covers the deliveries of the link, an attach that was never answered, and a drain.
//!
//! What is covered gets no event of its own, but for deliveries that the peer cannot have seen in whole: each of them is
//! an [`Event::Unsent`] before the covering event, so that the application knows what it may send again elsewhere.
//!
//! A key is good until the event that ends its thing, or covers it, has been polled at the latest. From the moment the
//! engine knows the end, requests with the key fail with [`RequestError::Stale`].

mod arena;
mod attach;
mod config;
mod connection;
mod credit;
mod detach;
mod disposition;
mod error;
mod event;
mod handshake;
mod id_ring;
mod key;
mod link;
mod options;
mod receiver;
mod sasl;
mod sender;
mod serial;
mod session;
mod table;
mod timers;
mod trace;
mod transmit;
mod windows;

pub use config::{Config, Credentials, InitialIds, Limits, PlainAmqp, Sasl, Side};
pub use connection::{Connection, Intake};
pub use error::{ConnectionError, LinkError, RequestError, SessionError};
pub use event::{Event, IncomingDelivery};
pub use key::{DeliveryKey, LinkKey, SessionKey};
pub use options::{
    CreditMode, DetachMode, DrainPolicy, LinkOptions, LinkStatus, OnOutcome, OutgoingDelivery,
    SessionOptions, Settle,
};
pub use transmit::Transmit;
