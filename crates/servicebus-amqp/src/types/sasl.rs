use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;

use super::Symbol;

/// A SASL frame (AMQP 1.0 §5.3.3). `Debug` leaves secret bytes out.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum SaslFrame {
    /// The server's mechanisms.
    Mechanisms(SaslMechanisms),
    /// The client's choice.
    Init(SaslInit),
    /// The server's challenge. The bytes are secret.
    Challenge(Bytes),
    /// The client's response. The bytes are secret.
    Response(Bytes),
    /// The result.
    Outcome(SaslOutcome),
}

/// `sasl-mechanisms` (AMQP 1.0 §5.3.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct SaslMechanisms {
    /// The names of the mechanisms, the preferred one first.
    pub mechanisms: Vec<Symbol>,
}

/// `sasl-init` (AMQP 1.0 §5.3.3.2). `Debug` leaves the response out: it may hold a password.
#[derive(Clone, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct SaslInit {
    /// The chosen mechanism.
    pub mechanism: Symbol,
    /// The first response, in the mechanism's own form.
    pub initial_response: Option<Bytes>,
    /// The host that the client means to reach.
    pub hostname: Option<ByteString>,
}

/// `sasl-outcome` (AMQP 1.0 §5.3.3.5). `Debug` leaves the mechanism's data out.
#[derive(Clone, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct SaslOutcome {
    /// The result.
    pub code: SaslCode,
    /// More data of the mechanism.
    pub additional_data: Option<Bytes>,
}

/// The result of a SASL exchange (AMQP 1.0 §5.3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaslCode {
    /// Authenticated; 0 on the wire.
    Ok,
    /// The credentials were refused; 1 on the wire.
    Auth,
    /// A system error; 2 on the wire.
    Sys,
    /// A system error that will last; 3 on the wire.
    SysPerm,
    /// A system error that may pass; 4 on the wire.
    SysTemp,
}

impl fmt::Debug for SaslFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mechanisms(mechanisms) => mechanisms.fmt(f),
            Self::Init(init) => init.fmt(f),
            Self::Challenge(_) => f.debug_tuple("Challenge").finish_non_exhaustive(),
            Self::Response(_) => f.debug_tuple("Response").finish_non_exhaustive(),
            Self::Outcome(outcome) => outcome.fmt(f),
        }
    }
}

impl fmt::Debug for SaslInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslInit")
            .field("mechanism", &self.mechanism)
            .field("hostname", &self.hostname)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SaslOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslOutcome")
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}
