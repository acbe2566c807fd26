//! What all connections of one emulator share: the broker behind its lock, and the ways from its effects to links.
//!
//! ```text
//! connection's task ── run(command) ──▶ Core { Broker, routes } ── effects ──▶ mailboxes of connections
//!        ▲                                                                          │ wake
//!        └──────────────────────────────── takes its own out ◀──────────────────────┘
//! ```
//!
//! Locks are taken in one order: a connection's endpoint (by its own task only), the core, a mailbox.

mod clock;
mod core;
mod faults;
mod mailbox;
mod route;
mod timekeeper;

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use servicebus_amqp::types::Timestamp;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, broadcast};

pub use self::clock::Clock;
pub(crate) use self::clock::after;
pub(crate) use self::core::Core;
pub(crate) use self::faults::Interference;
pub(crate) use self::mailbox::{Mailbox, Parcel};
pub(crate) use self::timekeeper::start as start_timekeeper;
use crate::access::Access;
use crate::broker::{Broker, Command, Error, Event, Limits};
use crate::idle::IdleTimes;
use crate::violation::Violations;

/// How many events a subscriber may fall behind.
const EVENTS: usize = 16 * 1024;

/// The settings of an emulator that connections need.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) limits: Limits,
    pub(crate) seed: u64,
    pub(crate) clock: Clock,
    pub(crate) access: Access,
    pub(crate) idle: IdleTimes,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Hub {
    core: Mutex<Core>,
    clock: Clock,
    access: RwLock<Arc<Access>>,
    /// Tells the timekeeper that an earlier timer was set.
    timer_set: Condvar,
    /// Tells those who wait for a state that something happened, if there are any.
    changed: Notify,
    watchers: AtomicUsize,
    events: broadcast::Sender<Event>,
    next_connection: AtomicU64,
    pub(crate) idle: IdleTimes,
    pub(crate) violations: Violations,
}

impl Hub {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let broker = Broker::new(settings.limits, settings.seed);
        Arc::new(Self {
            core: Mutex::new(Core::new(broker)),
            clock: settings.clock,
            access: RwLock::new(Arc::new(settings.access)),
            timer_set: Condvar::new(),
            changed: Notify::new(),
            watchers: AtomicUsize::new(0),
            events: broadcast::Sender::new(EVENTS),
            next_connection: AtomicU64::new(1),
            idle: settings.idle,
            violations: Violations::default(),
        })
    }

    /// A mailbox for a new connection.
    pub(crate) fn connect(&self) -> Arc<Mailbox> {
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Mailbox::new(id));
        self.lock().connections.insert(id, Arc::clone(&mailbox));
        mailbox
    }

    /// Carries out a command of a connection, or of the emulator's user.
    pub(crate) fn run<C: Command>(
        &self,
        from: Option<&Mailbox>,
        command: C,
    ) -> Result<C::Reply, Error> {
        self.with(from, |core, now| core.broker.apply(now, command))
    }

    /// Changes the core, then passes on what came of it.
    pub(crate) fn with<R>(
        &self,
        from: Option<&Mailbox>,
        change: impl FnOnce(&mut Core, Timestamp) -> R,
    ) -> R {
        self.with_at(self.clock.now(), from, change)
    }

    /// The same at a time that was looked up a moment ago.
    pub(crate) fn with_at<R>(
        &self,
        now: Timestamp,
        from: Option<&Mailbox>,
        change: impl FnOnce(&mut Core, Timestamp) -> R,
    ) -> R {
        let mut core = self.lock();
        let result = change(&mut core, now);
        core.pass_effects_on(from);
        self.pass_events_on(&mut core);
        if core.has_earlier_timer() {
            self.timer_set.notify_all();
        }
        drop(core);
        self.tell_watchers();
        result
    }

    /// Looks at the core without changing it.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Core) -> R) -> R {
        read(&self.lock())
    }

    /// The keys and namespaces at this moment.
    pub(crate) fn access(&self) -> Arc<Access> {
        let access = self.access.read();
        Arc::clone(&access.unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn change_access<R>(&self, change: impl FnOnce(&mut Access) -> R) -> R {
        let mut access = self.access.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut access))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Watches for changes from now on. Look at the state after that: what changes later is told.
    pub(crate) fn watch(&self) -> Watch<'_> {
        self.watchers.fetch_add(1, Ordering::Relaxed);
        Watch(self)
    }

    /// Who looked at the core without seeing the present change counted as a watcher before, under the same lock.
    fn tell_watchers(&self) {
        if self.watchers.load(Ordering::Relaxed) > 0 {
            self.changed.notify_waiters();
        }
    }

    /// A subscription to the events from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        let mut core = self.lock();
        core.broker.record_events();
        self.events.subscribe()
    }

    fn pass_events_on(&self, core: &mut Core) {
        while let Some(event) = core.broker.poll_event() {
            // Nobody listens any more: the events go nowhere.
            let _ = self.events.send(event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for changes.
#[derive(Debug)]
pub(crate) struct Watch<'a>(&'a Hub);

impl Watch<'_> {
    /// Something changes after this call.
    pub(crate) fn changed(&self) -> Pin<Box<Notified<'_>>> {
        let mut changed = Box::pin(self.0.changed.notified());
        changed.as_mut().enable();
        changed
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}
