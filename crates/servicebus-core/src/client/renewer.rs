use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use bytestring::ByteString;
use servicebus_amqp::engine::DeliveryKey;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::cell::Mortal as _;
use super::clock::{now, random, sleep_until, wall};
use super::link::ReceivingLink;
use super::node::Node;
use super::requests::Context;
use crate::error::{Error, ErrorKind, Recovery};
use crate::lock_token::LockToken;
use crate::management::{RenewLock, RenewSessionLock};
use crate::renewal::{Due, KeepLock, LockId, LockSchedule};

/// How many locks one request renews.
const MAX_TOKENS: usize = 100;

/// How long one request to renew may take; a lock is renewed ten seconds ahead of its end.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The least time between two rounds, so that locks that are due one after the other are renewed together.
const ROUND: Duration = Duration::from_millis(50);

/// Renews the locks of a client's messages and sessions: one task over one schedule.
#[derive(Debug, Default)]
pub(crate) struct Renewer {
    state: Mutex<State>,
    wake: Arc<Notify>,
    task: OnceLock<AbortHandle>,
}

#[derive(Debug, Default)]
struct State {
    schedule: LockSchedule<Lock>,
    /// When the task looks next; `None` when it waits to be woken.
    looks_at: Option<Instant>,
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) node: Weak<Node>,
    pub(crate) what: What,
    /// The link that it came on.
    pub(crate) link: Weak<ReceivingLink>,
    pub(crate) locked_until: SystemTime,
    pub(crate) lost: Option<CancellationToken>,
    pub(crate) holder: Holder,
}

/// Whether there is still somebody who may settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Present,
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Message(LockToken, Option<DeliveryKey>),
    Session(ByteString),
}

/// A place in the schedule. Dropping it ends the renewal; the lock is left to run out.
#[derive(Debug)]
pub(crate) struct Hold {
    renewer: Arc<Renewer>,
    id: LockId,
    released: bool,
}

impl Renewer {
    /// Holds a lock from now on that ends then.
    pub(crate) fn hold(
        self: &Arc<Self>,
        lock: Lock,
        ends: Instant,
        keep: KeepLock,
        now: Instant,
    ) -> Hold {
        self.task.get_or_init(|| {
            let task = run(Arc::downgrade(self), Arc::clone(&self.wake));
            tokio::spawn(task).abort_handle()
        });
        let remaining = ends.saturating_duration_since(now);
        let mut state = self.lock();
        let id = state.schedule.insert(lock, remaining, keep, now, random());
        self.wake_for(id, &mut state);
        drop(state);
        Hold {
            renewer: Arc::clone(self),
            id,
            released: false,
        }
    }

    /// Wakes the task when something is to be done about a lock before it looks.
    fn wake_for(&self, id: LockId, state: &mut State) {
        if let Some(due) = state.schedule.due(id)
            && state.looks_at.is_none_or(|looks_at| due < looks_at)
        {
            state.looks_at = Some(due);
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is due; says when to look again.
    fn round(self: &Arc<Self>) -> Option<Instant> {
        let now = now();
        let mut due = Batches::default();
        let mut over = Vec::new();
        let next = {
            let mut state = self.lock();
            let schedule = &mut state.schedule;
            while let Some(what) = schedule.poll(now) {
                match what {
                    Due::Renew(id) => {
                        if let Some(lock) = schedule.get(id) {
                            due.add(id, lock);
                        }
                    }
                    Due::Stopped(id) => {
                        let node = schedule.get(id).and_then(|lock| lock.node.upgrade());
                        if let Some(node) = node {
                            tracing::info!(entity = %node.address, "a lock is not renewed any more");
                        }
                    }
                    Due::Expired(lock) => over.push(lock),
                }
            }
            for id in due.orphans.drain(..) {
                over.extend(schedule.remove(id));
            }
            let next = schedule.poll_timeout().map(|next| next.max(now + ROUND));
            state.looks_at = next;
            next
        };
        for lock in over {
            lock.end();
        }
        for batch in due.batches {
            for ids in batch.ids.chunks(MAX_TOKENS) {
                let renewing = renew_messages(
                    Arc::clone(self),
                    Arc::clone(&batch.node),
                    batch.link.clone(),
                    ids.to_vec(),
                );
                tokio::spawn(renewing);
            }
        }
        for (id, node, link, session) in due.sessions {
            tokio::spawn(renew_session(Arc::clone(self), id, node, link, session));
        }
        next
    }

    fn renewed(&self, node: &Node, id: LockId, until: Option<SystemTime>) {
        let mut state = self.lock();
        let Some(lock) = state.schedule.get_mut(id) else {
            return;
        };
        let now = now();
        let until = until.unwrap_or_else(|| wall() + Duration::from_secs(300));
        lock.locked_until = until;
        let ends = node.lock_end(None, until, now);
        let remaining = ends.saturating_duration_since(now);
        state.schedule.handle_renewed(id, remaining, now, random());
        self.wake_for(id, &mut state);
    }

    fn failed(&self, id: LockId) {
        let mut state = self.lock();
        state.schedule.handle_failed(id, now());
        self.wake_for(id, &mut state);
    }

    fn lost(&self, id: LockId) {
        let lock = self.lock().schedule.remove(id);
        if let Some(lock) = lock {
            lock.end();
        }
    }
}

impl Drop for Renewer {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl Lock {
    /// Tells the holder, or lets the link forget the delivery when there is none. When a lock ends is a guess where the
    /// clocks differ: a message in the hands of the application is never given back because of it.
    fn end(self) {
        if let Some(lost) = &self.lost {
            lost.cancel();
        }
        if self.holder == Holder::Present {
            return;
        }
        if let (What::Message(_, Some(delivery)), Some(link)) = (&self.what, self.link.upgrade()) {
            link.forget(*delivery);
        }
    }
}

/// Locks that are due, by the link they came on.
#[derive(Debug, Default)]
struct Batches {
    batches: Vec<Batch>,
    sessions: Vec<(LockId, Arc<Node>, Option<ByteString>, ByteString)>,
    /// Those whose receiver or session is gone.
    orphans: Vec<LockId>,
}

#[derive(Debug)]
struct Batch {
    node: Arc<Node>,
    link: Option<ByteString>,
    ids: Vec<(LockId, LockToken)>,
}

impl Batches {
    fn add(&mut self, id: LockId, lock: &Lock) {
        let Some(node) = lock.node.upgrade() else {
            self.orphans.push(id);
            return;
        };
        let link = lock.link.upgrade();
        if let What::Session(session) = &lock.what {
            match link.filter(|link| link.is_alive()) {
                Some(link) => {
                    self.sessions
                        .push((id, node, Some(link.name.clone()), session.clone()));
                }
                // The session went with its link; it may be somebody else's by now.
                None => self.orphans.push(id),
            }
            return;
        }
        let link = link.map(|link| link.name.clone());
        match &lock.what {
            What::Session(_) => {}
            What::Message(token, _) => {
                let same =
                    |batch: &&mut Batch| Arc::ptr_eq(&batch.node, &node) && batch.link == link;
                match self.batches.iter_mut().find(same) {
                    Some(batch) => batch.ids.push((id, *token)),
                    None => self.batches.push(Batch {
                        node,
                        link,
                        ids: vec![(id, *token)],
                    }),
                }
            }
        }
    }
}

async fn run(renewer: Weak<Renewer>, wake: Arc<Notify>) {
    loop {
        let next = match renewer.upgrade() {
            Some(renewer) => renewer.round(),
            None => return,
        };
        tokio::select! {
            () = sleep_until(next) => {}
            () = wake.notified() => {}
        }
    }
}

/// Renews locks of one link. Where the service refuses several at once, the ones that are lost are searched by halves.
async fn renew_messages(
    renewer: Arc<Renewer>,
    node: Arc<Node>,
    link: Option<ByteString>,
    locks: Vec<(LockId, LockToken)>,
) {
    let mut parts = vec![locks];
    while let Some(mut part) = parts.pop() {
        let request = RenewLock::new(part.iter().map(|(_, token)| *token));
        let context = Context {
            associated_link: link.clone(),
            transaction: None,
        };
        let deadline = now().checked_add(TIMEOUT);
        match node.call_once(&request, context, deadline).await {
            Ok(ends) => {
                for ((id, _), until) in part.iter().zip(ends) {
                    renewer.renewed(&node, *id, until);
                }
                tracing::debug!(entity = %node.address, count = part.len(), "locks renewed");
            }
            Err(failure) if is_lost(&failure.error) => {
                if part.len() > 1 {
                    parts.push(part.split_off(part.len() / 2));
                    parts.push(part);
                } else if let Some((id, token)) = part.first() {
                    report_lost(&node, &failure.error, &token.to_string());
                    renewer.lost(*id);
                }
            }
            Err(failure) => {
                tracing::debug!(entity = %node.address, error = %failure.error, "locks are not renewed yet");
                after_failure(&node, &failure.error);
                for (id, _) in part {
                    renewer.failed(id);
                }
            }
        }
    }
}

async fn renew_session(
    renewer: Arc<Renewer>,
    id: LockId,
    node: Arc<Node>,
    link: Option<ByteString>,
    session: ByteString,
) {
    let request = RenewSessionLock::new(session.clone());
    let context = Context {
        associated_link: link,
        transaction: None,
    };
    let deadline = now().checked_add(TIMEOUT);
    match node.call_once(&request, context, deadline).await {
        Ok(until) => renewer.renewed(&node, id, until),
        Err(failure) if is_lost(&failure.error) => {
            report_lost(&node, &failure.error, &session);
            renewer.lost(id);
        }
        Err(failure) => {
            after_failure(&node, &failure.error);
            renewer.failed(id);
        }
    }
}

fn report_lost(node: &Node, error: &Error, lock: &str) {
    tracing::warn!(entity = %node.address, lock, %error, "a lock is lost");
}

/// Whether the lock is over. After any other error it lasts until its time, and its holder may still settle.
fn is_lost(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::MessageLockLost
            | ErrorKind::SessionLockLost
            | ErrorKind::MessageNotFound
            | ErrorKind::EntityNotFound
    )
}

fn after_failure(node: &Node, error: &Error) {
    match error.recovery() {
        Recovery::Busy => node.is_busy(now()),
        Recovery::Token => node.forget_grant(),
        _ => {}
    }
}

impl Hold {
    /// A token that is cancelled when the lock is lost or runs out.
    pub(crate) fn lost(&self) -> CancellationToken {
        let mut state = self.renewer.lock();
        match state.schedule.get_mut(self.id) {
            Some(lock) => lost_of(lock),
            None => {
                let token = CancellationToken::new();
                token.cancel();
                token
            }
        }
    }

    /// When the lock ends, as the service last said; `None` when it is over.
    pub(crate) fn locked_until(&self) -> Option<SystemTime> {
        Some(self.renewer.lock().schedule.get(self.id)?.locked_until)
    }

    /// The holder renewed the lock itself.
    pub(crate) fn renewed(&self, node: &Node, until: Option<SystemTime>) {
        self.renewer.renewed(node, self.id, until);
    }

    /// The lock is of no more interest.
    pub(crate) fn release(mut self) {
        self.released = true;
        let lock = self.renewer.lock().schedule.remove(self.id);
        drop(lock);
    }

    /// Whether the lock is held.
    pub(crate) fn is_held(&self) -> bool {
        self.renewer.lock().schedule.get(self.id).is_some()
    }
}

fn lost_of(lock: &mut Lock) -> CancellationToken {
    lock.lost.get_or_insert_with(CancellationToken::new).clone()
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        let mut state = self.renewer.lock();
        if let Some(lock) = state.schedule.get_mut(self.id) {
            lock.holder = Holder::Gone;
            state.schedule.stop(self.id);
            self.renewer.wake_for(self.id, &mut state);
        }
    }
}
