//! One connection's engine behind a lock, and the task that moves its bytes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Instant;

use futures_util::task::AtomicWaker;

use super::driver::Driver;
use super::transport::ByteStream;
use crate::engine::{Config, Connection, Event, Side};

/// What is done with the events of a connection.
///
/// Its methods run under the lock of the endpoint, in the order of the events: they change state and wake waiters, and
/// never block.
pub trait Application: Send + 'static {
    /// Handles one event. Requests to the connection that it makes are transmitted in the same write as the answers of
    /// others.
    fn on_event(&mut self, connection: &mut Connection, event: Event, now: Instant);

    /// Takes in what others left for this connection, before output is transmitted.
    ///
    /// An application with an inbox of its own registers the waker of `cx` there, to be called when there is more. So
    /// connections can pass work on without taking one another's lock. Does nothing by default.
    fn poll_inbox(&mut self, cx: &mut Context<'_>, connection: &mut Connection, now: Instant) {
        let _ = (cx, connection, now);
    }

    /// When the application wants to be called, for deadlines of its own. `None`, the default, for never.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The time has come, or is past. Does nothing by default.
    fn handle_timeout(&mut self, connection: &mut Connection, now: Instant) {
        let _ = (connection, now);
    }
}

/// A connection that a task drives: the engine, and the application that gets its events.
///
/// This is the level below `net::Connection` and its links, for brokers and proxies that keep their own state per link. Dropping
/// all endpoints does not end the connection; [`Connection::close`] does.
pub struct Endpoint<A> {
    shared: Arc<Shared<A>>,
}

pub(super) struct Shared<A> {
    state: Mutex<State<A>>,
    wake: AtomicWaker,
}

pub(super) struct State<A> {
    pub(super) connection: Connection,
    pub(super) application: A,
}

impl<A: Application> Endpoint<A> {
    /// Starts a connection over a stream and spawns the task that drives it.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn spawn(
        stream: impl ByteStream + 'static,
        side: Side,
        config: Config,
        application: A,
    ) -> Self {
        let max_frame_size = config.max_frame_size;
        let connection = Connection::new(config, side, now());
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                connection,
                application,
            }),
            wake: AtomicWaker::new(),
        });
        tokio::spawn(Driver::new(Arc::clone(&shared), stream, max_frame_size));
        Self { shared }
    }
}

impl<A> Endpoint<A> {
    /// Reads or changes the state, then lets the driver write what came of it.
    ///
    /// Where a request takes the time, it is that of tokio's clock.
    pub fn with<R>(&self, change: impl FnOnce(&mut Connection, &mut A) -> R) -> R {
        let result = {
            let mut state = self.shared.lock();
            let State {
                connection,
                application,
            } = &mut *state;
            change(connection, application)
        };
        self.shared.wake.wake();
        result
    }

    /// Lets the driver look at its timers.
    pub(super) fn wake(&self) {
        self.shared.wake.wake();
    }

    /// Reads the state without waking the driver.
    pub fn read<R>(&self, read: impl FnOnce(&Connection, &mut A) -> R) -> R {
        let mut state = self.shared.lock();
        let State {
            connection,
            application,
        } = &mut *state;
        read(connection, application)
    }
}

impl<A> Shared<A> {
    pub(super) fn lock(&self) -> MutexGuard<'_, State<A>> {
        // A panic of an application leaves the engine itself in order; its other users go on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) -> &AtomicWaker {
        &self.wake
    }
}

impl<A: Application> State<A> {
    /// When the driver has to look at it again, without input.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let (connection, application) = (
            self.connection.poll_timeout(),
            self.application.poll_timeout(),
        );
        match (connection, application) {
            (Some(connection), Some(application)) => Some(connection.min(application)),
            (connection, application) => connection.or(application),
        }
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.connection.poll_timeout()) {
            self.connection.handle_timeout(now);
        }
        if is_due(self.application.poll_timeout()) {
            self.application.handle_timeout(&mut self.connection, now);
        }
    }

    /// Hands all pending events to the application.
    pub(super) fn deliver_events(&mut self, now: Instant) {
        while let Some(event) = self.connection.poll_event() {
            self.application.on_event(&mut self.connection, event, now);
        }
    }
}

impl<A> Clone for Endpoint<A> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<A> fmt::Debug for Endpoint<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

/// The present, on tokio's clock so that tests can hold it.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
