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

/// How each connection is, as the newest attempt to open it, or its end, has it.
#[derive(Debug)]
pub(crate) struct States(Vec<(u64, ClientState)>);

impl States {
    pub(crate) fn new(slots: usize) -> Self {
        Self(vec![(0, ClientState::Idle); slots])
    }

    /// What is told late of a connection that there is a newer one of says nothing.
    pub(crate) fn set(&mut self, slot: usize, generation: u64, state: ClientState) -> ClientState {
        if let Some(entry) = self.0.get_mut(slot)
            && entry.0 <= generation
        {
            *entry = (generation, state);
        }
        self.worst()
    }

    fn worst(&self) -> ClientState {
        let recovering = |state: &&ClientState| matches!(state, ClientState::Recovering { .. });
        let mut states = self.0.iter().map(|(_, state)| state);
        match states.clone().find(recovering) {
            Some(state) => state.clone(),
            None if states.any(|state| *state == ClientState::Connected) => ClientState::Connected,
            None => ClientState::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(reason: &str) -> ClientState {
        ClientState::Recovering {
            reason: reason.into(),
        }
    }

    #[test]
    fn the_end_of_a_connection_that_was_replaced_says_nothing() {
        let mut states = States::new(1);
        assert_eq!(
            states.set(0, 3, ClientState::Connected),
            ClientState::Connected
        );
        assert_eq!(
            states.set(0, 4, ClientState::Connected),
            ClientState::Connected
        );
        assert_eq!(states.set(0, 3, lost("late")), ClientState::Connected);
        assert_eq!(states.set(0, 4, lost("now")), lost("now"));
    }

    #[test]
    fn one_connection_that_is_lost_is_told() {
        let mut states = States::new(3);
        assert_eq!(
            states.set(1, 0, ClientState::Connected),
            ClientState::Connected
        );
        assert_eq!(states.set(2, 1, lost("one")), lost("one"));
        assert_eq!(
            states.set(2, 2, ClientState::Connected),
            ClientState::Connected
        );
    }
}
