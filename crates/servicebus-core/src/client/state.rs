use std::sync::Arc;

/// How a client's connections to the service are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientState {
    /// There is no connection, and none was needed yet.
    Idle,
    /// All connections that were needed are open.
    Connected,
    /// A connection was lost, or could not be opened. It is opened again by the next operation, and at once when one
    /// waits for it.
    Recovering {
        /// Why.
        reason: Arc<str>,
    },
    /// The client was closed.
    Closed,
}

/// How each connection is.
#[derive(Debug)]
pub(crate) struct States(Vec<ClientState>);

impl States {
    pub(crate) fn new(slots: usize) -> Self {
        Self(vec![ClientState::Idle; slots])
    }

    pub(crate) fn set(&mut self, slot: usize, state: ClientState) -> ClientState {
        if let Some(entry) = self.0.get_mut(slot) {
            *entry = state;
        }
        self.worst()
    }

    fn worst(&self) -> ClientState {
        let recovering = |state: &&ClientState| matches!(state, ClientState::Recovering { .. });
        match self.0.iter().find(recovering) {
            Some(state) => state.clone(),
            None if self.0.contains(&ClientState::Connected) => ClientState::Connected,
            None => ClientState::Idle,
        }
    }
}
