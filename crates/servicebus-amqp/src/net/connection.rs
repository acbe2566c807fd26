use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::endpoint::{Endpoint, now};
use super::registry::Registry;
use super::session::{Session, SessionShared};
use super::transport::ByteStream;
use crate::engine::{Config, ConnectionError, SessionError, SessionOptions, Side};
use crate::types::{AmqpError, Open, SaslCode, SaslInit};

/// An AMQP connection (AMQP 1.0 §2.4): a handle that can be cloned, of either side.
///
/// A task of its own moves the bytes and keeps the timers. When the last handle is gone, those of sessions and links
/// included, the connection is closed in the background.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<ConnectionInner>,
}

struct ConnectionInner {
    endpoint: Endpoint<Registry>,
    shared: Arc<ConnectionShared>,
    handshake_timeout: Duration,
    close_timeout: Duration,
}

/// Decides on the clients of a listener, by the mechanism that they chose of those offered and the credentials that they
/// bring.
pub type Authenticator = dyn Fn(&SaslInit) -> SaslCode + Send + Sync;

/// What the events of the connection say, for those who wait for it.
#[derive(Default)]
pub(super) struct ConnectionShared {
    notify: Notify,
    open: OnceLock<Box<Open>>,
    ended: OnceLock<ConnectionError>,
    authenticator: Option<Arc<Authenticator>>,
}

impl Connection {
    /// Starts a connection over any stream: a socket, an in-memory pipe, a tunnel. Spawns the task that drives it.
    ///
    /// A listener that offers SASL takes clients without credentials (`ANONYMOUS`, `MSSBCBS`) and refuses others; see
    /// [`over_authenticated`](Self::over_authenticated).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn over(stream: impl ByteStream + 'static, side: Side, config: Config) -> Self {
        Self::spawn(stream, side, config, ConnectionShared::default())
    }

    /// Starts the listening side of a connection; the function decides on the client, whatever mechanism it chooses.
    ///
    /// It runs in the task of the connection and must not block.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn over_authenticated(
        stream: impl ByteStream + 'static,
        config: Config,
        authenticator: Arc<Authenticator>,
    ) -> Self {
        let shared = ConnectionShared {
            authenticator: Some(authenticator),
            ..ConnectionShared::default()
        };
        Self::spawn(stream, Side::Listener, config, shared)
    }

    fn spawn(
        stream: impl ByteStream + 'static,
        side: Side,
        config: Config,
        shared: ConnectionShared,
    ) -> Self {
        let shared = Arc::new(shared);
        let (handshake_timeout, close_timeout) = (config.handshake_timeout, config.close_timeout);
        let endpoint = Endpoint::spawn(stream, side, config, Registry::new(Arc::clone(&shared)));
        Self {
            inner: Arc::new(ConnectionInner {
                endpoint,
                shared,
                handshake_timeout,
                close_timeout,
            }),
        }
    }

    /// Waits for the peer's `open`, and gives it. Bounded by [`Config::handshake_timeout`].
    ///
    /// # Errors
    ///
    /// Why the connection ended before, or since.
    ///
    /// # Cancel safety
    ///
    /// Only looks on: dropping the future changes nothing.
    pub async fn opened(&self) -> Result<&Open, ConnectionError> {
        let shared = &self.inner.shared;
        shared
            .wait(|| {
                shared.ended.get().cloned().map_or_else(
                    || shared.open.get().map(|open| Ok(&**open)),
                    |error| Some(Err(error)),
                )
            })
            .await
    }

    /// Why the connection ended, if it has.
    pub fn error(&self) -> Option<&ConnectionError> {
        self.inner.shared.ended.get()
    }

    /// Waits until the connection has ended, for whatever reason. Not bounded.
    ///
    /// # Cancel safety
    ///
    /// Only looks on: dropping the future changes nothing.
    pub async fn closed(&self) -> ConnectionError {
        let shared = &self.inner.shared;
        shared.wait(|| shared.ended.get().cloned()).await
    }

    /// Closes the connection with all its sessions and links, and waits for the peer's answer; at most for
    /// [`Config::close_timeout`]. Closing again waits for the same end.
    ///
    /// # Cancel safety
    ///
    /// The close goes on when the future is dropped.
    pub async fn close(&self) -> ConnectionError {
        self.start_close(None);
        self.closed().await
    }

    /// Closes the connection as [`close`](Self::close) does, and tells the peer that this is why.
    ///
    /// # Cancel safety
    ///
    /// The close goes on when the future is dropped.
    pub async fn close_with(&self, error: AmqpError) -> ConnectionError {
        self.start_close(Some(error));
        self.closed().await
    }

    fn start_close(&self, error: Option<AmqpError>) {
        self.inner
            .endpoint
            .with(|connection, _| connection.close(now(), error));
    }

    /// Begins a session, and waits for the peer's answer; at most for [`Config::handshake_timeout`].
    ///
    /// # Errors
    ///
    /// [`SessionError`]: the peer's channels are in use, the peer refused, did not answer in time, or the connection ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the session in the background.
    pub async fn begin(&self, options: SessionOptions) -> Result<Session, SessionError> {
        let shared = Arc::new(SessionShared::default());
        let key = self.inner.endpoint.with(|connection, registry| {
            let key = connection.begin(options)?;
            registry.add_session(key, Arc::clone(&shared));
            Ok::<_, SessionError>(key)
        });
        let key = key.map_err(|error| self.closed_or(error))?;
        let session = Session::new(self.clone(), key, shared);
        timeout(self.inner.handshake_timeout, session.wait_begun())
            .await
            .map_err(|_| SessionError::NoAnswer)??;
        Ok(session)
    }

    /// Waits for a session that the peer begins. It is answered already. Not bounded.
    ///
    /// # Errors
    ///
    /// Why the connection ended.
    ///
    /// # Cancel safety
    ///
    /// No session is lost when the future is dropped.
    pub async fn accept(&self) -> Result<Session, ConnectionError> {
        let take = || {
            let requested = self.inner.endpoint.read(|_, registry| {
                let key = registry.requested_sessions.pop_front()?;
                Some((key, registry.session(key)?))
            });
            match requested {
                Some((key, shared)) => Some(Ok(Session::new(self.clone(), key, shared))),
                None => self.error().cloned().map(Err),
            }
        };
        self.inner.shared.wait(take).await
    }

    pub(super) fn endpoint(&self) -> &Endpoint<Registry> {
        &self.inner.endpoint
    }

    pub(super) fn close_timeout(&self) -> Duration {
        self.inner.close_timeout
    }

    /// A request on a connection that has ended fails with a stale key; its end says more.
    fn closed_or(&self, error: SessionError) -> SessionError {
        self.error()
            .cloned()
            .map_or(error, SessionError::Connection)
    }
}

impl Drop for ConnectionInner {
    fn drop(&mut self) {
        self.endpoint
            .with(|connection, _| connection.close(now(), None));
    }
}

impl ConnectionShared {
    pub(super) fn opened(&self, open: Box<Open>) {
        let _ = self.open.set(open);
        self.notify();
    }

    pub(super) fn end(&self, error: ConnectionError) {
        let _ = self.ended.set(error);
        self.notify();
    }

    pub(super) fn authenticate(&self, init: &SaslInit) -> SaslCode {
        match (&self.authenticator, init.mechanism.as_str()) {
            (Some(authenticator), _) => authenticator(init),
            (None, "ANONYMOUS" | "MSSBCBS") => SaslCode::Ok,
            (None, _) => SaslCode::Auth,
        }
    }

    pub(super) fn notify(&self) {
        self.notify.notify_waiters();
    }

    async fn wait<T>(&self, ready: impl FnMut() -> Option<T>) -> T {
        wait(&self.notify, ready).await
    }
}

impl fmt::Debug for ConnectionShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionShared")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("ended", &self.inner.shared.ended)
            .finish_non_exhaustive()
    }
}

/// Waits until something is ready; looks again after each notification.
pub(super) async fn wait<T>(notify: &Notify, mut ready: impl FnMut() -> Option<T>) -> T {
    if let Some(value) = ready() {
        return value;
    }
    loop {
        let mut notified = std::pin::pin!(notify.notified());
        notified.as_mut().enable();
        if let Some(value) = ready() {
            return value;
        }
        notified.await;
    }
}
