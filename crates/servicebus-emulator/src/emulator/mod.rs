//! The emulator as a library: start, connect, advance the clock, stop.

mod builder;
mod certificate;
mod entity;
mod events;
mod namespace;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use servicebus_amqp::engine::Side;
use servicebus_amqp::net::{ByteStream, Endpoint, Listener};
use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, yield_now};

pub use self::builder::{Builder, Profile, StartError};
pub use self::entity::{Entity, WaitError};
pub use self::events::{Events, Missed};
pub use self::namespace::Namespace;
use crate::broker::amqp_error;
use crate::gateway::{Client, FrameLog, Line, LineControl, config};
use crate::hub::{Hub, Parcel, after};
use crate::violation::Violation;

/// How many bytes an in-memory connection holds in each direction.
const PIPE: usize = 64 * 1024;

/// How long a graceful stop waits for clients to answer the close.
const STOP_TIME: Duration = Duration::from_secs(2);

/// A Service Bus in this process.
///
/// Dropping it stops it: its port is closed and its connections end. Any number of emulators run side by side; nothing
/// is shared between them.
///
/// ```
/// # let runtime = tokio::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// use servicebus_emulator::{Emulator, broker::QueueOptions};
///
/// let emulator = Emulator::start().await?;
/// let namespace = emulator.default_namespace();
/// let orders = namespace.create_queue("orders", QueueOptions::default())?;
/// println!("{}", namespace.connection_string());
/// assert_eq!(orders.counts()?.active, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Emulator {
    inner: Arc<Inner>,
    default: Namespace,
    accepting: Option<AbortHandle>,
    strict: bool,
}

/// What the emulator's tasks and handles share.
pub(crate) struct Inner {
    pub(crate) hub: Arc<Hub>,
    runtime: Handle,
    address: Option<SocketAddr>,
    ca_pem: Option<String>,
    log: Option<Arc<FrameLog>>,
    lines: Mutex<HashMap<u64, Arc<LineControl>>>,
    /// The most bytes of one write, for connections to come.
    chop: AtomicUsize,
}

/// The clock is the system's, which nobody moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the emulator runs on the system's clock; build it with Clock::manual to move its time")]
#[non_exhaustive]
pub struct NotManual;

impl Emulator {
    /// Starts an emulator with the defaults of [`Builder`]: it listens on an ephemeral port of the loopback interface.
    ///
    /// # Errors
    ///
    /// [`StartError`]
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// The settings of an emulator that is to be started.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a connection in memory: one end of a pipe, for an AMQP client.
    pub fn connect(&self) -> DuplexStream {
        let (client, server) = tokio::io::duplex(PIPE);
        self.inner.serve(server);
        client
    }

    /// The address that is listened on; `None` for an emulator that is in memory only.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.inner.address
    }

    /// The certificate of the authority that signed the emulator's own, as PEM text; `None` without TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.inner.ca_pem.as_deref()
    }

    /// The namespace of clients that name no other.
    pub fn default_namespace(&self) -> &Namespace {
        &self.default
    }

    /// A namespace of its own for clients whose key has this name. It comes into being with its first use.
    pub fn namespace(&self, name: &str) -> Namespace {
        Namespace::open(&self.inner, name)
    }

    /// The connection string of the default namespace.
    pub fn connection_string(&self) -> String {
        self.default.connection_string()
    }

    /// The emulator's present time.
    pub fn now(&self) -> SystemTime {
        let now = self.inner.hub.now();
        now.to_system_time().unwrap_or(UNIX_EPOCH)
    }

    /// Moves a manual clock. All timers on the way run in order, each at its own time, and what comes of them is on its way
    /// to the clients when this returns.
    ///
    /// # Errors
    ///
    /// [`NotManual`]
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the clock where it got to.
    pub async fn advance(&self, by: Duration) -> Result<(), NotManual> {
        let hub = &self.inner.hub;
        if !hub.clock().is_manual() {
            return Err(NotManual);
        }
        let target = after(hub.now(), by);
        loop {
            let ran = hub.with(None, |core, _| {
                let next = core.poll_timeout().filter(|next| *next <= target);
                let now = next.unwrap_or(target);
                hub.clock().set(now);
                core.handle_timeout(now);
                next.is_some()
            });
            self.inner.quiesce().await;
            if !ran {
                return Ok(());
            }
        }
    }

    /// The frames of all connections so far as text; empty unless [`Builder::frame_log`] was asked for.
    pub fn frames(&self) -> String {
        let log = self.inner.log.as_ref();
        log.map(|log| log.text()).unwrap_or_default()
    }

    /// What clients did so far that the protocol forbids.
    ///
    /// With [`Builder::strict`], dropping the emulator panics if there is any.
    pub fn violations(&self) -> Vec<Violation> {
        self.inner.hub.violations.all()
    }

    /// The numbers of the connections that are open.
    pub fn connections(&self) -> Vec<u64> {
        let lines = self.inner.lines();
        let is_open = |number: &u64| self.inner.hub.read(|core| core.is_connected(*number));
        let mut numbers: Vec<_> = lines.keys().copied().filter(is_open).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Stops with a close to every client, and waits a little for their answers. Dropping stops without.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops at once.
    pub async fn stop(mut self) {
        if let Some(task) = self.accepting.take() {
            task.abort();
        }
        let error = amqp_error(
            servicebus_amqp::types::condition::CONNECTION_FORCED,
            "The emulator stops.",
        );
        self.inner.hub.read(|core| {
            for mailbox in core.mailboxes() {
                mailbox.push(Parcel::Close(error.clone()), None);
            }
        });
        let watch = self.inner.hub.watch();
        let gone = async {
            loop {
                let changed = watch.changed();
                if self
                    .inner
                    .hub
                    .read(|core| core.mailboxes().next().is_none())
                {
                    break;
                }
                changed.await;
            }
        };
        // Who does not answer in time is cut off by the drop.
        let _ = tokio::time::timeout(STOP_TIME, gone).await;
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Some(task) = self.accepting.take() {
            task.abort();
        }
        self.inner.hub.stop();
        for line in self.inner.lines().values() {
            line.cut();
        }
        let violations = self.violations();
        if self.strict && !violations.is_empty() && !thread::panicking() {
            let list: Vec<_> = violations.iter().map(ToString::to_string).collect();
            #[allow(
                clippy::panic,
                reason = "strict mode exists to fail the test that asked for it"
            )]
            {
                panic!("clients broke the protocol:\n{}", list.join("\n"));
            }
        }
    }
}

impl Inner {
    /// Serves a client over a stream.
    fn serve(self: &Arc<Self>, stream: impl ByteStream + 'static) {
        let mailbox = self.hub.connect();
        let number = mailbox.id();
        let control = Arc::new(LineControl::default());
        control.chop(self.chop.load(Ordering::Relaxed));
        {
            let mut lines = self.lines();
            // Connections that ended are forgotten once they are as many as the others.
            self.hub.read(|core| {
                if lines.len() >= 2 * core.connection_count() {
                    lines.retain(|number, _| core.is_connected(*number));
                }
            });
            lines.insert(number, Arc::clone(&control));
        }
        let line = Line::new(stream, control, number, self.log.clone());
        let client = Client::new(Arc::clone(&self.hub), mailbox);
        let _runtime = self.runtime.enter();
        Endpoint::spawn(line, Side::Listener, config(), client);
    }

    /// Takes connections for ever.
    async fn accept(self: Arc<Self>, listener: Listener) {
        loop {
            match listener.accept().await {
                Ok(incoming) => {
                    let inner = Arc::downgrade(&self);
                    tokio::spawn(async move {
                        match incoming.into_stream().await {
                            Ok(stream) => {
                                if let Some(inner) = inner.upgrade() {
                                    inner.serve(stream);
                                }
                            }
                            Err(error) => {
                                tracing::info!(%error, "a connection that did not come about");
                            }
                        }
                    });
                }
                Err(error) => {
                    // Out of descriptors, most likely: others may end meanwhile.
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Waits until every connection has taken its parcels.
    async fn quiesce(&self) {
        loop {
            yield_now().await;
            let quiet = self
                .hub
                .read(|core| core.mailboxes().all(|mailbox| mailbox.is_empty()));
            if quiet {
                break;
            }
        }
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<LineControl>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulator")
            .field("address", &self.inner.address)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}
