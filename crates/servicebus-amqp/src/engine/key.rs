use crate::types::Role;

/// Names a session of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// Names a link of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkKey {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// Names a delivery of one connection: one that was sent, or one that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeliveryKey {
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) role: Role,
}

impl SessionKey {
    /// A small number that no other living session of the connection has; slots of ended sessions are used again.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

impl LinkKey {
    /// A small number that no other living link of the connection has; slots of detached links are used again.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

impl DeliveryKey {
    /// A small number that no other living delivery of the connection and the same role has.
    pub fn slot(self) -> usize {
        self.slot as usize
    }

    /// [`Role::Sender`] for a delivery that was sent, [`Role::Receiver`] for one that was received.
    pub fn role(self) -> Role {
        self.role
    }
}
