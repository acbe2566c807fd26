use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Something that a client did and the protocol forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The number of the connection, as in the frame log.
    pub connection: u64,
    /// What it did.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}: {}", self.connection, self.what)
    }
}

/// How many violations are kept; the first ones tell most.
const KEPT: usize = 1000;

/// The violations so far.
#[derive(Debug, Default)]
pub(crate) struct Violations(Mutex<Vec<Violation>>);

impl Violations {
    pub(crate) fn add(&self, connection: u64, what: String) {
        tracing::warn!(connection, what, "protocol violation by the client");
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < KEPT {
            all.push(Violation { connection, what });
        }
    }

    pub(crate) fn all(&self) -> Vec<Violation> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
