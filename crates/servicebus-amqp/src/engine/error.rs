use std::io;
use std::sync::Arc;

use thiserror::Error;

use crate::types::{AmqpError, SaslCode, Symbol};

/// Why a connection is gone.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The application closed it.
    #[error("the connection was closed locally")]
    ClosedLocally,
    /// The peer closed it, with an error or without.
    #[error("the peer closed the connection{}", reason(.0.as_deref()))]
    ClosedByPeer(Option<Box<AmqpError>>),
    /// The peer broke the protocol or a limit. The error was sent with the close where a close was still possible.
    #[error("the peer broke the protocol: {0}")]
    Protocol(Box<AmqpError>),
    /// The peer speaks another protocol: the first eight bytes that it sent.
    #[error("the peer does not speak this protocol: it began with {}", .0.escape_ascii())]
    ProtocolHeader([u8; 8]),
    /// The peer offers no SASL mechanism that the configuration has credentials for.
    #[error("no SASL mechanism in common: the peer offers {offered:?}")]
    NoMechanism {
        /// What the peer offers.
        offered: Vec<Symbol>,
    },
    /// SASL ended without success.
    #[error("authentication failed: SASL outcome {0:?}")]
    Authentication(SaslCode),
    /// The peer was silent for longer than the idle time-out.
    #[error("nothing came from the peer within the idle time-out")]
    IdleTimeout,
    /// The handshake (headers, SASL, open) took too long.
    #[error("the connection was not opened in time")]
    HandshakeTimeout,
    /// The byte stream ended without a close, or the task that drives the connection was dropped.
    #[error("the connection ended without a close")]
    Lost,
    /// The transport failed. Reported by what drives the engine.
    #[error("transport: {0}")]
    Io(Arc<io::Error>),
}

/// Why a session is gone.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The application ended it.
    #[error("the session was ended locally")]
    EndedLocally,
    /// The peer ended it, with an error or without.
    #[error("the peer ended the session{}", reason(.0.as_deref()))]
    EndedByPeer(Option<Box<AmqpError>>),
    /// The peer broke the protocol or a limit within the session; the error was sent with the end.
    #[error("the peer broke the protocol: {0}")]
    Protocol(Box<AmqpError>),
    /// The session was to begin on a channel above the channel-max that the peer then announced.
    #[error("the peer takes no channel above {channel_max}")]
    ChannelMax {
        /// The peer's limit.
        channel_max: u16,
    },
    /// The request was refused here: by what drives the engine, or by the engine when it learnt the peer's limits.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The peer did not answer the begin in time. Reported by what drives the engine.
    #[error("the peer did not answer the begin in time")]
    NoAnswer,
    /// The connection is gone.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

/// Why a link is gone, or could not be attached.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The application detached it.
    #[error("the link was detached locally")]
    DetachedLocally,
    /// The peer detached it, refused it, with an error or without.
    #[error("the peer {} the link{}", if *.closed { "closed" } else { "detached" }, reason(.error.as_deref()))]
    DetachedByPeer {
        /// Whether the peer closed the link and did not only detach it.
        closed: bool,
        /// Why.
        error: Option<Box<AmqpError>>,
    },
    /// The peer broke the protocol or a limit of the link; the error was sent with the detach.
    #[error("the peer broke the protocol: {0}")]
    Protocol(Box<AmqpError>),
    /// The peer attached a link of the same name; the older one was detached (AMQP 1.0 §2.6.1).
    #[error("the link was attached again elsewhere")]
    Stolen,
    /// The link was to be attached with a handle above the handle-max that the peer then announced.
    #[error("the peer takes no handle above {handle_max}")]
    HandleMax {
        /// The peer's limit.
        handle_max: u32,
    },
    /// The attach does not fit the peer's max-frame-size.
    #[error("the attach does not fit a frame of {max_frame_size} bytes")]
    FrameTooLarge {
        /// The peer's limit.
        max_frame_size: u32,
    },
    /// The request was refused here. Reported by what drives the engine.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The peer did not answer the attach or the detach in time. Reported by what drives the engine.
    #[error("the peer did not answer in time")]
    NoAnswer,
    /// The session is gone.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Why the engine refuses a request. The state is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The key names something that is gone, or is being detached, ended or closed.
    #[error("it is already gone")]
    Stale,
    /// The request is for the other role: credit for a sender, send for a receiver.
    #[error("the request does not fit the role of the link")]
    WrongRole,
    /// The request does not fit the state: as accepting an attach that was accepted before.
    #[error("the request does not fit the state of the link")]
    WrongState,
    /// The transfer is already under way, so the delivery cannot be cancelled.
    #[error("the delivery was already transferred")]
    AlreadyTransferred,
    /// All channels that the peer takes are in use.
    #[error("no session beyond the peer's channel-max of {channel_max}")]
    ChannelMax {
        /// The peer's limit.
        channel_max: u16,
    },
    /// All handles that the peer takes on this session are in use.
    #[error("no link beyond the peer's handle-max of {handle_max} on this session")]
    HandleMax {
        /// The peer's limit.
        handle_max: u32,
    },
    /// A link of this name and role is attached or about to be.
    #[error("a link of this name exists")]
    NameInUse,
    /// The message is larger than the peer takes on this link.
    #[error("a message of {size} bytes exceeds the link's limit of {limit}")]
    MessageTooLarge {
        /// The size of the message.
        size: u64,
        /// The peer's max-message-size.
        limit: u64,
    },
    /// A delivery-tag has at most 32 bytes (AMQP 1.0 §2.8.7).
    #[error("a delivery tag of {length} bytes; at most 32 are legal")]
    Tag {
        /// The length of the tag.
        length: usize,
    },
    /// The frame does not fit the peer's max-frame-size.
    #[error("the frame does not fit the peer's limit of {max_frame_size} bytes")]
    FrameTooLarge {
        /// The peer's limit.
        max_frame_size: u32,
    },
}

fn reason(error: Option<&AmqpError>) -> String {
    error.map_or_else(String::new, |error| format!(": {error}"))
}
