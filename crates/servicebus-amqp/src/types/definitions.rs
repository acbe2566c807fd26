/// A link's number within its session (AMQP 1.0 §2.8.4).
pub type Handle = u32;

/// A length of time in milliseconds (AMQP 1.0 §2.8.6).
pub type Milliseconds = u32;

/// Which end of a link an endpoint is (AMQP 1.0 §2.8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the specification fixes the choices"
)]
pub enum Role {
    /// Sends deliveries; `false` on the wire.
    Sender,
    /// Receives deliveries; `true` on the wire.
    Receiver,
}

impl Role {
    /// The role at the other end of the link.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

/// When a sender settles its deliveries (AMQP 1.0 §2.8.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the specification fixes the choices"
)]
pub enum SenderSettleMode {
    /// All deliveries are sent unsettled; 0 on the wire.
    Unsettled,
    /// All deliveries are sent settled; 1 on the wire.
    Settled,
    /// Each delivery as the sender chooses; 2 on the wire and the default.
    #[default]
    Mixed,
}

/// When a receiver settles its deliveries (AMQP 1.0 §2.8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the specification fixes the choices"
)]
pub enum ReceiverSettleMode {
    /// The receiver settles at once and tells the sender; 0 on the wire and the default.
    #[default]
    First,
    /// The receiver states an outcome and settles once the sender has; 1 on the wire.
    Second,
}
