use std::task::Waker;
use std::time::Instant;

use slab::Slab;

use crate::engine::{LinkError, LinkKey, RequestError};
use crate::types::DeliveryState;

/// Why a delivery was not sent, or its outcome is not known.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryError {
    /// The request was refused here; nothing was sent.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The link ended, or the time was up, before the delivery was transferred in whole: the peer has not processed it.
    #[error("the delivery was not transferred: {0}")]
    NotTransferred(LinkError),
    /// The link ended, or the time was up, after the delivery, or its disposition, was handed to the transport and before
    /// the peer answered: whether the peer processed it is not known.
    #[error("what became of the delivery is not known: {0}")]
    Uncertain(LinkError),
}

/// The peer's answers that are waited for.
#[derive(Debug, Default)]
pub(super) struct Operations {
    entries: Slab<Operation>,
    /// Distinguishes the operations that use one slot after another.
    generation: u32,
    /// No deadline is earlier than this. Most operations are over long before theirs, so that it is only looked for when
    /// this one has come.
    next_deadline: Option<Instant>,
}

/// Names an operation: its slot in the lower half, its generation in the upper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperationId(u64);

#[derive(Debug)]
struct Operation {
    id: OperationId,
    link: LinkKey,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    Pending {
        waker: Option<Waker>,
        deadline: Option<Instant>,
        /// Whether the deadline has passed.
        late: bool,
        unsent: bool,
    },
    Done(Result<Option<DeliveryState>, DeliveryError>),
}

/// What one who waits for an operation finds.
#[derive(Debug)]
pub(super) enum Polled {
    Pending,
    /// Its deadline is the first one: the driver has to know.
    PendingAndFirst,
    /// Its time is up.
    Late,
    Done(Result<Option<DeliveryState>, DeliveryError>),
}

impl OperationId {
    pub(super) const fn from_context(context: u64) -> Self {
        Self(context)
    }

    pub(super) const fn context(self) -> u64 {
        self.0
    }

    const fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

impl Operations {
    pub(super) fn start(&mut self, link: LinkKey) -> OperationId {
        self.generation = self.generation.wrapping_add(1);
        let entry = self.entries.vacant_entry();
        let id = OperationId(u64::from(self.generation) << 32 | entry.key() as u64);
        entry.insert(Operation {
            id,
            link,
            progress: Progress::Pending {
                waker: None,
                deadline: None,
                late: false,
                unsent: false,
            },
        });
        id
    }

    /// The result, which ends the operation; or else notes who waits for it, and until when.
    pub(super) fn poll(
        &mut self,
        id: OperationId,
        waker: &Waker,
        until: Option<Instant>,
    ) -> Polled {
        let Some(operation) = self.find(id) else {
            return Polled::Pending;
        };
        match &mut operation.progress {
            Progress::Pending { late: true, .. } => Polled::Late,
            Progress::Pending {
                waker: waiting,
                deadline,
                ..
            } => {
                match waiting {
                    Some(waiting) => waiting.clone_from(waker),
                    None => *waiting = Some(waker.clone()),
                }
                *deadline = until;
                let first =
                    until.is_some_and(|until| self.next_deadline.is_none_or(|next| until < next));
                if !first {
                    return Polled::Pending;
                }
                self.next_deadline = until;
                Polled::PendingAndFirst
            }
            Progress::Done(_) => match self.entries.remove(id.slot()).progress {
                Progress::Done(result) => Polled::Done(result),
                _ => Polled::Pending,
            },
        }
    }

    /// When to look for operations whose time is up.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Tells those whose time is up.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.next_deadline.is_none_or(|next| next > now) {
            return;
        }
        self.next_deadline = None;
        for (_, operation) in &mut self.entries {
            let Progress::Pending {
                waker,
                deadline: Some(deadline),
                late,
                ..
            } = &mut operation.progress
            else {
                continue;
            };
            if *deadline > now {
                let next = self.next_deadline.get_or_insert(*deadline);
                *next = (*next).min(*deadline);
                continue;
            }
            *late = true;
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    /// Whether the operation was still pending.
    pub(super) fn abandon(&mut self, id: OperationId) -> bool {
        let pending = self
            .find(id)
            .is_some_and(|operation| matches!(operation.progress, Progress::Pending { .. }));
        if self.find(id).is_some() {
            self.entries.remove(id.slot());
        }
        pending
    }

    pub(super) fn finish(
        &mut self,
        id: OperationId,
        result: Result<Option<DeliveryState>, DeliveryError>,
    ) {
        if let Some(operation) = self.find(id) {
            operation.finish(result);
        }
    }

    /// Notes that the delivery was not transferred; the end of its link follows.
    pub(super) fn mark_unsent(&mut self, id: OperationId) {
        if let Some(Operation {
            progress: Progress::Pending { unsent, .. },
            ..
        }) = self.find(id)
        {
            *unsent = true;
        }
    }

    /// Ends all operations of these links that are still pending.
    pub(super) fn fail(&mut self, links: impl Fn(LinkKey) -> bool, error: &LinkError) {
        for (_, operation) in &mut self.entries {
            if links(operation.link) {
                let fate = match operation.progress {
                    Progress::Pending { unsent: true, .. } => {
                        DeliveryError::NotTransferred(error.clone())
                    }
                    _ => DeliveryError::Uncertain(error.clone()),
                };
                operation.finish(Err(fate));
            }
        }
    }

    fn find(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.entries
            .get_mut(id.slot())
            .filter(|operation| operation.id == id)
    }
}

impl Operation {
    /// The first result stands.
    fn finish(&mut self, result: Result<Option<DeliveryState>, DeliveryError>) {
        if let Progress::Pending { waker, .. } = &mut self.progress {
            let waker = waker.take();
            self.progress = Progress::Done(result);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}
