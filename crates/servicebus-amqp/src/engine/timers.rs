use std::time::{Duration, Instant};

/// No peer needs a sign of life more often.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(10);

/// The three timers of a connection. A time too far off for the clock is never.
#[derive(Debug)]
pub(super) struct Timers {
    /// When the handshake, or the wait for the peer's close, is given up.
    deadline: Option<Instant>,
    /// How long the peer may be silent.
    idle: Option<Duration>,
    received: Instant,
    /// How often the peer must hear from us.
    interval: Option<Duration>,
    next_heartbeat: Option<Instant>,
    heartbeat_due: bool,
}

impl Timers {
    pub(super) fn new(now: Instant, handshake: Duration) -> Self {
        Self {
            deadline: now.checked_add(handshake),
            idle: None,
            received: now,
            interval: None,
            next_heartbeat: None,
            heartbeat_due: false,
        }
    }

    /// The connection is open: the idle time-outs run.
    pub(super) fn opened(
        &mut self,
        now: Instant,
        idle: Option<Duration>,
        peer_idle_millis: Option<u32>,
    ) {
        self.deadline = None;
        self.idle = idle.filter(|idle| !idle.is_zero());
        // AMQP 1.0 §2.4.5: the peer may give up after its time-out, so half of it is safe.
        self.interval = peer_idle_millis
            .filter(|millis| *millis != 0)
            .map(|millis| (Duration::from_millis(millis.into()) / 2).max(SHORTEST_HEARTBEAT));
        self.sent(now);
    }

    /// Our close was sent. Nothing may follow it (AMQP 1.0 §2.7.9), no heartbeat either: only the wait for the peer's close
    /// is timed.
    pub(super) fn closing(&mut self, now: Instant, timeout: Duration) {
        self.stop();
        self.deadline = now.checked_add(timeout);
    }

    pub(super) fn stop(&mut self) {
        self.deadline = None;
        self.idle = None;
        self.interval = None;
        self.next_heartbeat = None;
        self.heartbeat_due = false;
    }

    pub(super) fn received(&mut self, now: Instant) {
        self.received = now;
    }

    pub(super) fn sent(&mut self, now: Instant) {
        self.heartbeat_due = false;
        self.next_heartbeat = self.interval.and_then(|interval| now.checked_add(interval));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let silent = self.idle.and_then(|idle| self.received.checked_add(idle));
        [self.deadline, silent, self.next_heartbeat]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn deadline_passed(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    pub(super) fn peer_is_silent(&self, now: Instant) -> bool {
        self.idle
            .and_then(|idle| self.received.checked_add(idle))
            .is_some_and(|silent| silent <= now)
    }

    /// Marks a heartbeat as due when it is. The next one is set at once, so that a transport that takes nothing does not
    /// make the timer fire without end.
    pub(super) fn heartbeat(&mut self, now: Instant) {
        if self.next_heartbeat.is_some_and(|next| next <= now) {
            self.sent(now);
            self.heartbeat_due = true;
        }
    }

    pub(super) fn take_heartbeat(&mut self) -> bool {
        std::mem::take(&mut self.heartbeat_due)
    }
}
