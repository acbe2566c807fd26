//! Connections, sessions and links as a pure state machine.
