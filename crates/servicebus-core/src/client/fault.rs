//! What failures of the AMQP layer mean to an operation.

use servicebus_amqp::engine::{ConnectionError, LinkError, RequestError, SessionError};
use servicebus_amqp::net::{ConnectError, DeliveryError};
use servicebus_amqp::types::{AmqpError, SaslCode};

use crate::error::{Error, ErrorKind, Recovery};

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        let (kind, recovery) = match error {
            ConnectError::Connection(error) => return error.into(),
            // A certificate that is not trusted will not be trusted later either.
            ConnectError::Tls(_) => (ErrorKind::Communication, Recovery::None),
            ConnectError::Timeout => (ErrorKind::Timeout, Recovery::Connection),
            _ => (ErrorKind::Communication, Recovery::Connection),
        };
        Self::new(kind, error.to_string())
            .with_recovery(recovery)
            .with_source(error)
    }
}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Self {
        let (kind, recovery) = match &error {
            ConnectionError::ClosedLocally => return closed(),
            ConnectionError::ClosedByPeer(Some(reason)) => {
                return from_peer(reason, Recovery::Connection);
            }
            ConnectionError::Protocol(_) => (ErrorKind::Protocol, Recovery::Connection),
            ConnectionError::ProtocolHeader(_) => (ErrorKind::Protocol, Recovery::None),
            ConnectionError::NoMechanism { .. } => (ErrorKind::Unsupported, Recovery::None),
            ConnectionError::Authentication(SaslCode::SysTemp) => {
                (ErrorKind::Communication, Recovery::Connection)
            }
            ConnectionError::Authentication(_) => (ErrorKind::Unauthorized, Recovery::None),
            ConnectionError::HandshakeTimeout => (ErrorKind::Timeout, Recovery::Connection),
            _ => (ErrorKind::Communication, Recovery::Connection),
        };
        Self::new(kind, error.to_string())
            .with_recovery(recovery)
            .with_source(error)
    }
}

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Connection(error) => error.into(),
            SessionError::EndedLocally => closed(),
            SessionError::EndedByPeer(Some(reason)) => from_peer(&reason, Recovery::Link),
            SessionError::Refused(RequestError::Stale) => gone("the connection is gone"),
            SessionError::NoAnswer => {
                Self::new(ErrorKind::Timeout, error.to_string()).with_recovery(Recovery::Connection)
            }
            SessionError::Protocol(_) => Self::new(ErrorKind::Protocol, error.to_string())
                .with_recovery(Recovery::Link)
                .with_source(error),
            error => Self::new(ErrorKind::Communication, error.to_string())
                .with_recovery(Recovery::Link)
                .with_source(error),
        }
    }
}

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Session(error) => error.into(),
            LinkError::DetachedLocally => closed(),
            LinkError::DetachedByPeer {
                error: Some(reason),
                ..
            } => from_peer(&reason, Recovery::Link),
            LinkError::Refused(error) => error.into(),
            LinkError::NoAnswer => {
                Self::new(ErrorKind::Timeout, error.to_string()).with_recovery(Recovery::Link)
            }
            LinkError::Stolen => {
                Self::new(ErrorKind::Communication, error.to_string()).with_recovery(Recovery::None)
            }
            LinkError::Protocol(_) => Self::new(ErrorKind::Protocol, error.to_string())
                .with_recovery(Recovery::Link)
                .with_source(error),
            error => Self::new(ErrorKind::Communication, error.to_string())
                .with_recovery(Recovery::Link)
                .with_source(error),
        }
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Stale => gone("the link is gone"),
            RequestError::MessageTooLarge { .. } => {
                Self::new(ErrorKind::MessageTooLarge, error.to_string())
            }
            error => Self::new(ErrorKind::Other, error.to_string()).with_source(error),
        }
    }
}

impl From<DeliveryError> for Error {
    fn from(error: DeliveryError) -> Self {
        match error {
            DeliveryError::Refused(error) => error.into(),
            DeliveryError::NotTransferred(error) | DeliveryError::Uncertain(error) => error.into(),
            error => Self::new(ErrorKind::Other, error.to_string()).with_source(error),
        }
    }
}

/// What a peer gave as its reason to end something. Where time helps, so does a new one of what ended.
fn from_peer(reason: &AmqpError, ended: Recovery) -> Error {
    let error = Error::from_amqp(reason);
    match (error.recovery(), ended) {
        (Recovery::Retry | Recovery::Link, Recovery::Connection) | (Recovery::Retry, _) => {
            error.with_recovery(ended)
        }
        _ => error,
    }
}

fn gone(text: &'static str) -> Error {
    Error::new(ErrorKind::Communication, text)
}

/// The error of everything that is asked of something closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "it was closed by the application")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn b28_an_untrusted_certificate_is_not_tried_again() {
        let certificate = ConnectError::Tls("the certificate is not trusted".into());
        assert!(!Error::from(certificate).is_transient());
        for kind in [
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::HostUnreachable,
            io::ErrorKind::NotFound,
        ] {
            let error = Error::from(ConnectError::from(io::Error::from(kind)));
            assert_eq!(error.recovery(), Recovery::Connection, "{kind:?}");
            assert_eq!(error.kind(), ErrorKind::Communication);
        }
        assert!(Error::from(ConnectError::Timeout).is_transient());
    }
}
