//! The client at work: connections, links, and what keeps them up.
//!
//! Nothing here opens a socket: a [`Connect`] does. The connection is opened when it is first needed.

mod cell;
#[allow(
    clippy::module_inception,
    reason = "the client is the noun of this room"
)]
mod client;
mod clock;
mod closing;
mod connect;
mod coordinator;
mod credential;
mod failure;
mod fault;
mod grant;
mod held_session;
mod in_flight;
mod intake;
mod link;
mod live;
mod locked_message;
mod mode;
mod node;
mod operation;
mod receiver;
mod renewer;
mod requests;
mod rules;
mod send_all;
mod sender;
mod sending_link;
mod session_receiver;
mod shared;
mod state;
mod transaction;

pub use client::Client;
pub use connect::{Connect, Connecting};
pub use credential::{ProvideToken, Providing};
pub use locked_message::{LockedMessage, SettleError};
pub use mode::{Mode, PeekLock, ReceiveAndDelete};
pub use receiver::Receiver;
pub use rules::Rules;
pub use send_all::SendAllError;
pub use sender::Sender;
pub use session_receiver::SessionReceiver;
pub use state::ClientState;
pub use transaction::Transaction;

pub(crate) use shared::Shared;
