use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytestring::ByteString;
use servicebus_amqp::engine::SessionOptions;
use servicebus_amqp::net::{Connection, Session};

use tokio::task::AbortHandle;

use super::cell::{Cell, Mortal};
use super::coordinator::Coordinator;
use super::grant::Grant;
use super::requests::Requests;
use crate::error::Result;
use crate::names;
use crate::options::TransactionScope;

/// How many seats one AMQP session has at most, so that what goes wrong in one session ends no more links than these.
const MAX_SEATS: usize = 128;

/// One AMQP connection of the client, from when it is opened to its end, and what is in it.
#[derive(Debug)]
pub(crate) struct Live {
    /// Tells the connections of a client apart.
    pub(crate) generation: u64,
    pub(crate) connection: Connection,
    /// Tells of the end of the connection.
    watch: AbortHandle,
    scope: TransactionScope,
    sessions: tokio::sync::Mutex<Vec<Seats>>,
    cbs: Cell<Requests>,
    grants: Mutex<HashMap<String, Weak<Grant>>>,
    coordinator: Cell<Coordinator>,
}

#[derive(Debug)]
struct Seats {
    session: Session,
    taken: Arc<()>,
}

/// The place of a link, or of a pair of links, in an AMQP session.
#[derive(Debug)]
pub(crate) struct Seat {
    session: Session,
    _taken: Arc<()>,
}

impl Live {
    pub(crate) fn new(
        generation: u64,
        connection: Connection,
        watch: AbortHandle,
        scope: TransactionScope,
    ) -> Self {
        Self {
            watch,
            generation,
            connection,
            scope,
            sessions: tokio::sync::Mutex::default(),
            cbs: Cell::default(),
            grants: Mutex::default(),
            coordinator: Cell::default(),
        }
    }

    /// A place for a link to an entity.
    ///
    /// For transactions across entities the service wants all links and the coordinator in one session, and the
    /// coordinator first.
    pub(crate) async fn seat(&self, limit: Duration) -> Result<Seat> {
        if self.scope == TransactionScope::CrossEntity {
            return Ok(self.coordinator(limit).await?.seat());
        }
        let mut sessions = self.sessions.lock().await;
        sessions.retain(|seats| seats.session.error().is_none());
        if let Some(seats) = sessions.iter().find(|seats| seats.has_free()) {
            return Ok(seats.seat());
        }
        let seats = Seats {
            session: self.connection.begin(SessionOptions::default()).await?,
            taken: Arc::default(),
        };
        let seat = seats.seat();
        sessions.push(seats);
        Ok(seat)
    }

    /// The links to `$cbs`, in a session of their own.
    pub(crate) async fn cbs(&self, limit: Duration) -> Result<Arc<Requests>> {
        let connection = self.connection.clone();
        let make = || async move {
            let seat = Seat::in_own_session(&connection).await?;
            Requests::attach(seat, ByteString::from_static(names::CBS_NODE), limit).await
        };
        self.cbs.get_or_make(make).await
    }

    /// The link to the coordinator of transactions, in a session of its own unless they cross entities.
    pub(crate) async fn coordinator(&self, limit: Duration) -> Result<Arc<Coordinator>> {
        let connection = self.connection.clone();
        let make = || async move {
            Coordinator::attach(Seat::in_own_session(&connection).await?, limit).await
        };
        self.coordinator.get_or_make(make).await
    }

    /// The authorisation for an audience: the one that there is, or a new one that has still to be asked for.
    pub(crate) fn grant(&self, audience: &str) -> Arc<Grant> {
        let mut grants = self.grants();
        if let Some(grant) = grants.get(audience).and_then(Weak::upgrade) {
            return grant;
        }
        grants.retain(|_, grant| grant.strong_count() > 0);
        let grant = Arc::new(Grant::new(audience));
        grants.insert(audience.to_owned(), Arc::downgrade(&grant));
        grant
    }

    /// The authorisation was refused: the next one is a new one.
    pub(crate) fn forget_grant(&self, audience: &str) {
        self.grants().remove(audience);
    }

    fn grants(&self) -> std::sync::MutexGuard<'_, HashMap<String, Weak<Grant>>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mortal for Live {
    fn is_alive(&self) -> bool {
        self.connection.error().is_none()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Seats {
    fn has_free(&self) -> bool {
        // A seat may be taken by a pair of links. Where the peer takes a single one, nobody is helped by none.
        let pairs = self.session.peer_handle_max().div_ceil(2).max(1) as usize;
        // The first count is our own.
        Arc::strong_count(&self.taken) <= pairs.min(MAX_SEATS)
    }

    fn seat(&self) -> Seat {
        Seat {
            session: self.session.clone(),
            _taken: Arc::clone(&self.taken),
        }
    }
}

impl Seat {
    async fn in_own_session(connection: &Connection) -> Result<Self> {
        Ok(Self {
            session: connection.begin(SessionOptions::default()).await?,
            _taken: Arc::default(),
        })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn another(&self) -> Self {
        Self {
            session: self.session.clone(),
            _taken: Arc::clone(&self._taken),
        }
    }
}
