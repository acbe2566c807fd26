mod attached;
mod demand;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytestring::ByteString;
use servicebus_amqp::engine::DetachMode;
use servicebus_amqp::types::Map;

use self::attached::Attaching;
use self::demand::{Demand, Flow, KEEP};
use super::cell::{Cell, Mortal as _};
use super::clock::now;
use super::closing::Closing;
use super::failure::within;
use super::fault::closed;
use super::held_session::HeldSession;
use super::link::{Asked, Place, ReceivingLink};
use super::mode::{Mode, Taken};
use super::node::Node;
use super::operation::Operation;
use super::renewer::Hold;
use crate::error::{Error, Result};
use crate::lock_token::LockToken;
use crate::management::ReceiveMode;
use crate::renewal::KeepLock;

/// A link that lasted for so long ended for reasons of its own, and not because something is wrong.
const LONG_LIFE: Duration = Duration::from_secs(30);

/// How long a broker may take to use up credit when a receiver is closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The messages of a queue, a subscription or a session on their way in: the link, its credit, and what has arrived and is
/// not taken yet.
///
/// # Credit
///
/// The broker is given credit for as many messages as receives wait for, or as are to be fetched ahead. A receive that
/// ends with less takes the rest of its credit back; messages that were on their way by then are kept for the next
/// receive, and given back (*released*, which is not a failed delivery) when there is none within half a second. Nothing
/// is taken out of the buffer before a receive returns with it, so none is lost with a receive that is dropped.
#[derive(Debug)]
#[allow(unnameable_types, reason = "an argument of the sealed trait")]
pub struct Intake {
    node: Arc<Node>,
    settings: Settings,
    link: Cell<ReceivingLink>,
    flow: Mutex<Flow>,
    /// What links that have ended left in their inboxes.
    kept: Mutex<VecDeque<Taken>>,
    /// Locks of messages that wait here and are looked after already.
    early: Mutex<HashMap<LockToken, Hold>>,
    /// Whether a task sees to that.
    keeps_locks: AtomicBool,
    /// Held by the receive that is served next.
    turn: tokio::sync::Mutex<()>,
    attaching: Attaching,
    closing: Closing,
    /// Where the next peek begins.
    pub(crate) cursor: AtomicI64,
}

/// What an intake is made for.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) mode: ReceiveMode,
    pub(crate) identifier: Option<ByteString>,
    /// The session whose messages these are.
    pub(crate) session: Option<Arc<HeldSession>>,
    pub(crate) prefetch: u32,
    pub(crate) keep_lock: KeepLock,
    pub(crate) linger: Duration,
}

impl Intake {
    /// Attaches its link when it is first needed.
    pub(crate) fn new(node: Arc<Node>, settings: Settings) -> Arc<Self> {
        Self::with_link(node, settings, Cell::default())
    }

    /// Has its link already, and never another one.
    pub(crate) fn of_session(
        node: Arc<Node>,
        settings: Settings,
        link: Arc<ReceivingLink>,
    ) -> Arc<Self> {
        Self::with_link(node, settings, Cell::with(link))
    }

    fn with_link(node: Arc<Node>, settings: Settings, link: Cell<ReceivingLink>) -> Arc<Self> {
        let this = Arc::new(Self {
            node,
            settings,
            link,
            flow: Mutex::default(),
            kept: Mutex::default(),
            early: Mutex::default(),
            keeps_locks: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
            attaching: Attaching::default(),
            closing: Closing::default(),
            cursor: AtomicI64::new(0),
        });
        this.node.shared.add_intake(&this);
        this
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(crate) fn session(&self) -> Option<&Arc<HeldSession>> {
        self.settings.session.as_ref()
    }

    pub(crate) fn keep_lock(&self) -> KeepLock {
        self.settings.keep_lock
    }

    pub(crate) fn take_early(&self, token: LockToken) -> Option<Hold> {
        let mut early = lock(&self.early);
        // Most often there is none, and nothing to be hashed for.
        if early.is_empty() {
            return None;
        }
        early.remove(&token)
    }

    /// The name of the link, for management requests that are made for it.
    pub(crate) fn link_name(&self) -> Option<ByteString> {
        Some(self.link.living()?.name.clone())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.is_closed() || self.node.shared.closing.is_closed()
    }

    /// The error of a receiver that is of no more use, if it is.
    pub(crate) fn check(&self) -> Result<()> {
        self.closing.check()?;
        self.node.check()?;
        if self.session().is_some()
            && let Some(link) = self.link.peek()
            && !link.is_alive()
        {
            return Err(self.node.about(link.session_lost()));
        }
        Ok(())
    }

    /// Receives a message, as [`receive`](Self::receive).
    pub(crate) async fn receive_one<M: Mode>(
        self: &Arc<Self>,
        wait: Option<Duration>,
    ) -> Result<Option<M::Message>> {
        // One who takes message after message out of a full inbox lets others run now and then.
        tokio::task::coop::consume_budget().await;
        if let Some(message) = self.receive_now::<M>()? {
            return Ok(Some(message));
        }
        // Boxed, for most receives find a message, and the future is moved about by those who make a stream of it.
        let messages = Box::pin(self.receive::<M>(1, wait)).await?;
        Ok(messages.into_iter().next())
    }

    /// Takes the next message if it is here and nobody else waits for it.
    fn receive_now<M: Mode>(self: &Arc<Self>) -> Result<Option<M::Message>> {
        if lock(&self.flow).demand > 0 {
            return Ok(None);
        }
        let message = match self.pop_one() {
            Some(next) => self.open::<M>(next),
            None => return Ok(None),
        };
        self.refill();
        message
    }

    /// Receives up to `max` messages: waits for the first one for as long as it says, counted while the link is attached;
    /// then for each further one for its linger.
    pub(crate) async fn receive<M: Mode>(
        self: &Arc<Self>,
        max: usize,
        wait: Option<Duration>,
    ) -> Result<Vec<M::Message>> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let mut demand = Demand::enter(self, max);
        let mut over = std::pin::pin!(self.over(wait));
        let _turn = tokio::select! {
            biased;
            turn = self.turn.lock() => turn,
            over = &mut over => return self.nothing(over),
        };
        let mut operation = Operation::new(&self.node, "receive");
        loop {
            if let Some(dead) = self.link.peek().filter(|link| !link.is_alive()) {
                self.absorb(&dead);
            }
            if self.available() > 0 {
                let over = tokio::select! {
                    biased;
                    () = self.gather(max) => None,
                    over = &mut over => Some(over),
                };
                let messages = self.take::<M>(max)?;
                demand.taken = messages.len();
                if !messages.is_empty() {
                    return Ok(messages);
                }
                // Their locks were over.
                if let Some(over) = over {
                    return self.nothing(over);
                }
                continue;
            }
            let wait = tokio::select! {
                biased;
                wait = self.wait_for_message(&operation) => wait,
                over = &mut over => return self.nothing(over),
            };
            let Err((lived, error)) = wait else { continue };
            if self.session().is_some() {
                return Err(self.node.about(error));
            }
            if lived >= LONG_LIFE {
                operation = Operation::new(&self.node, "receive");
                if error.is_transient() {
                    continue;
                }
            }
            tokio::select! {
                biased;
                over = &mut over => return self.nothing(over),
                again = operation.failed(error) => if let Err(error) = again {
                    self.attaching.failed(&error);
                    return Err(error);
                },
            }
        }
    }

    /// The end of a receive that got nothing.
    fn nothing<T>(&self, over: Result<()>) -> Result<Vec<T>> {
        if self.is_closed() {
            return Err(self.node.about(closed()));
        }
        over.map(|()| Vec::new())
    }

    /// Waits until a message is there. The error tells how long the link lived.
    async fn wait_for_message(
        self: &Arc<Self>,
        operation: &Operation<'_>,
    ) -> Result<(), (Duration, Error)> {
        let link = async {
            self.check()?;
            if let Some(link) = self.link.living() {
                return Ok(link);
            }
            let deadline = operation.begin().await?;
            self.link(deadline).await
        };
        let link = link.await.map_err(|error| (Duration::ZERO, error))?;
        if self.available() > 0 {
            // Left by the link before this one.
            return Ok(());
        }
        self.adjust_credit(&link);
        let since = now();
        if let Err(error) = link.link.wait_for(1).await {
            self.absorb(&link);
            let error = match self.session() {
                Some(_) => link.session_lost(),
                None => error.into(),
            };
            return Err((now().saturating_duration_since(since), error));
        }
        Ok(())
    }

    /// The attached link, or a new one. A session has but one.
    pub(crate) async fn link(
        self: &Arc<Self>,
        deadline: Option<Instant>,
    ) -> Result<Arc<ReceivingLink>> {
        self.check()?;
        if let Some(link) = self.link.living() {
            return Ok(link);
        }
        if let Some(dead) = self.link.peek() {
            if self.session().is_some() {
                return Err(dead.session_lost());
            }
            self.absorb(&dead);
        }
        self.keep_prefetched_locks();
        let node = Arc::clone(&self.node);
        let asked = self.asked();
        let make = || async move {
            let place = Place::for_link_to(&node).await?;
            ReceivingLink::attach(&node, place, asked).await
        };
        let link = within(deadline, self.link.get_or_make(make));
        let link = self.closing.unless_closed(link);
        // Boxed, for most receives find the link attached.
        let link = Box::pin(self.node.shared.closing.unless_closed(link)).await?;
        // It may have been closed while the link was attached.
        self.check()?;
        self.attaching.succeeded();
        Ok(link)
    }

    fn asked(&self) -> Asked {
        Asked {
            mode: self.settings.mode,
            identifier: self.settings.identifier.clone(),
            filter: None,
            properties: Map::new(),
            limit: self.node.try_timeout(),
        }
    }

    /// How many messages are here.
    fn available(&self) -> usize {
        let inbox = self.link.peek().map_or(0, |link| link.link.inbox_len());
        lock(&self.kept).len() + inbox
    }

    /// Waits for more messages after the first.
    async fn gather(&self, max: usize) {
        let mut asked = false;
        loop {
            let Some(link) = self.link.living() else {
                return;
            };
            if self.available() >= max {
                return;
            }
            if !asked {
                self.adjust_credit(&link);
                asked = true;
            }
            let more = link.link.wait_for(link.link.inbox_len() + 1);
            tokio::select! {
                biased;
                more = more => if more.is_err() { return },
                () = tokio::time::sleep(self.settings.linger) => return,
            }
        }
    }

    /// Takes up to `max` messages that are here.
    fn take<M: Mode>(&self, max: usize) -> Result<Vec<M::Message>> {
        let mut messages = Vec::new();
        while messages.len() < max {
            let mut taken = self.pop(max - messages.len()).into_iter();
            if taken.len() == 0 {
                break;
            }
            lock(&self.flow).taken += taken.len();
            while let Some(next) = taken.next() {
                match self.open::<M>(next) {
                    Ok(message) => messages.extend(message),
                    Err(error) if messages.is_empty() => {
                        let mut kept = lock(&self.kept);
                        taken.rev().for_each(|rest| kept.push_front(rest));
                        return Err(error);
                    }
                    // It was told of in the log.
                    Err(_) => {}
                }
            }
        }
        Ok(messages)
    }

    /// The message of a delivery; `None` when its lock is over.
    fn open<M: Mode>(&self, taken: Taken) -> Result<Option<M::Message>> {
        let (link, delivery) = (Arc::clone(&taken.link), taken.delivery.delivery);
        M::receive(taken, self).map_err(|error| {
            tracing::warn!(entity = %self.node.address, %error, "a message cannot be read");
            if self.settings.mode == ReceiveMode::PeekLock {
                // It counts as failed, so that it does not come for ever.
                link.refuse(delivery);
            }
            self.node.about(error)
        })
    }

    /// The next delivery of the attached link.
    fn pop_one(&self) -> Option<Taken> {
        let link = self.link.living()?;
        if !lock(&self.kept).is_empty() {
            return None;
        }
        let (delivery, arrived) = link.link.try_take()?;
        lock(&self.flow).taken += 1;
        Some(Taken {
            delivery,
            arrived,
            link,
        })
    }

    fn pop(&self, max: usize) -> Vec<Taken> {
        let mut kept = lock(&self.kept);
        if !kept.is_empty() {
            let count = kept.len().min(max);
            return kept.drain(..count).collect();
        }
        drop(kept);
        let Some(link) = self.link.peek() else {
            return Vec::new();
        };
        inbox(&link, max)
    }

    /// Keeps what is in the inbox of a link that has ended. What belongs to a session went with it, unless it was
    /// deleted at the broker.
    fn absorb(&self, link: &Arc<ReceivingLink>) {
        let left = inbox(link, usize::MAX);
        if self.session().is_some() && self.settings.mode == ReceiveMode::PeekLock {
            return;
        }
        lock(&self.kept).extend(left);
    }

    /// Gives back what is here.
    fn release_all(&self) {
        lock(&self.early).clear();
        for taken in self.pop_all() {
            taken.link.release(taken.delivery.delivery);
        }
    }

    fn pop_all(&self) -> Vec<Taken> {
        let mut all: Vec<_> = lock(&self.kept).drain(..).collect();
        if let Some(link) = self.link.peek() {
            all.extend(inbox(&link, usize::MAX));
        }
        all
    }

    /// Ends the intake: what is here is given back, or kept to be received when it was deleted at the broker.
    pub(crate) async fn close(&self) {
        self.closing.close();
        let Some(link) = self.link.peek().or_else(|| self.link.end()) else {
            return;
        };
        let surplus = lock(&self.flow).surplus > 0;
        still(&link, surplus).await;
        self.link.end();
        let left = inbox(&link, usize::MAX);
        lock(&self.kept).extend(left);
        if self.settings.mode == ReceiveMode::PeekLock {
            self.release_all();
        }
        link.link.detach(DetachMode::Close, None).await;
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        // What was deleted at the broker is lost: there is nobody left to take it.
        if self.settings.mode != ReceiveMode::PeekLock {
            return;
        }
        self.release_all();
        let surplus = lock(&self.flow).surplus > 0;
        let Some(link) = self.link.end().filter(|link| link.is_alive()) else {
            return;
        };
        if (surplus || has_credit(&link))
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(give_back(link, surplus));
        }
    }
}

fn has_credit(link: &ReceivingLink) -> bool {
    link.link.status().is_ok_and(|status| status.credit > 0)
}

/// Takes the broker's credit back, and waits for what is on its way, for a second at most.
async fn still(link: &ReceivingLink, surplus: bool) {
    if link.is_alive() && surplus {
        // What was on its way when credit was taken back; a drain without credit is not answered.
        tokio::time::sleep(KEEP).await;
    }
    if link.is_alive() && has_credit(link) {
        // A broker that does not answer keeps what it sent until its locks run out.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, link.link.drain()).await;
    }
}

/// Gives back what is on its way to a receiver that was dropped. The link ends with the last message that came on it.
async fn give_back(link: Arc<ReceivingLink>, surplus: bool) {
    still(&link, surplus).await;
    for taken in inbox(&link, usize::MAX) {
        taken.link.release(taken.delivery.delivery);
    }
}

fn inbox(link: &Arc<ReceivingLink>, max: usize) -> Vec<Taken> {
    let taken = link.link.take(max).into_iter();
    taken
        .map(|(delivery, arrived)| Taken {
            delivery,
            arrived,
            link: Arc::clone(link),
        })
        .collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
