use bytestring::ByteString;

use super::{Map, Outcome, Symbol};

/// Where a link's messages come from (AMQP 1.0 §3.5.3).
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Source {
    /// The address of the node.
    pub address: Option<ByteString>,
    /// What of the terminus survives a loss of its container.
    pub durable: TerminusDurability,
    /// When the expiry timer starts.
    pub expiry_policy: TerminusExpiryPolicy,
    /// How long the terminus lives after that, in seconds.
    pub timeout: u32,
    /// Asks the peer to create a node.
    pub dynamic: bool,
    /// Properties of the node to create.
    pub dynamic_node_properties: Option<Map>,
    /// Whether messages are moved or copied.
    pub distribution_mode: Option<Symbol>,
    /// Predicates that messages must meet, by name.
    pub filter: Option<Map>,
    /// The outcome of deliveries that are settled without one.
    pub default_outcome: Option<Outcome>,
    /// The outcomes that may be chosen.
    pub outcomes: Vec<Symbol>,
    /// Extension capabilities.
    pub capabilities: Vec<Symbol>,
}

/// Where a link's messages go (AMQP 1.0 §3.5.4).
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Target {
    /// The address of the node.
    pub address: Option<ByteString>,
    /// What of the terminus survives a loss of its container.
    pub durable: TerminusDurability,
    /// When the expiry timer starts.
    pub expiry_policy: TerminusExpiryPolicy,
    /// How long the terminus lives after that, in seconds.
    pub timeout: u32,
    /// Asks the peer to create a node.
    pub dynamic: bool,
    /// Properties of the node to create.
    pub dynamic_node_properties: Option<Map>,
    /// Extension capabilities.
    pub capabilities: Vec<Symbol>,
}

/// The target of a link that controls transactions (AMQP 1.0 §4.5.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Coordinator {
    /// The transaction capabilities, as `amqp:local-transactions`.
    pub capabilities: Vec<Symbol>,
}

/// The target of an attach: a node, or the coordinator of transactions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TargetArchetype {
    /// A node.
    Target(Box<Target>),
    /// The coordinator.
    Coordinator(Coordinator),
}

/// What of a terminus survives a loss of its container (AMQP 1.0 §3.5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the specification fixes the choices"
)]
pub enum TerminusDurability {
    /// Nothing; 0 on the wire.
    #[default]
    None,
    /// That the terminus exists, and its configuration; 1 on the wire.
    Configuration,
    /// Also the state of unsettled deliveries; 2 on the wire.
    UnsettledState,
}

/// When the expiry timer of a terminus starts (AMQP 1.0 §3.5.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the specification fixes the choices"
)]
pub enum TerminusExpiryPolicy {
    /// With the detach of the link: `link-detach`.
    LinkDetach,
    /// With the end of the session: `session-end`, the default.
    #[default]
    SessionEnd,
    /// With the close of the connection: `connection-close`.
    ConnectionClose,
    /// Not at all: `never`.
    Never,
}

impl Source {
    /// A source at this address, with the specification's defaults.
    pub fn new(address: impl Into<ByteString>) -> Self {
        Self {
            address: Some(address.into()),
            ..Self::default()
        }
    }
}

impl Target {
    /// A target at this address, with the specification's defaults.
    pub fn new(address: impl Into<ByteString>) -> Self {
        Self {
            address: Some(address.into()),
            ..Self::default()
        }
    }
}

impl From<Target> for TargetArchetype {
    fn from(target: Target) -> Self {
        Self::Target(Box::new(target))
    }
}

impl From<Coordinator> for TargetArchetype {
    fn from(coordinator: Coordinator) -> Self {
        Self::Coordinator(coordinator)
    }
}
