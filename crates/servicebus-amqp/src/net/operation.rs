use std::task::Waker;

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
    /// The link ended before the delivery was transferred in whole: the peer has not processed it.
    #[error("the delivery was not transferred: {0}")]
    NotTransferred(LinkError),
    /// The link ended after the delivery, or its disposition, was handed to the transport and before the peer answered:
    /// whether the peer processed it is not known.
    #[error("what became of the delivery is not known: {0}")]
    Uncertain(LinkError),
}

/// The peer's answers that are waited for.
#[derive(Debug, Default)]
pub(super) struct Operations {
    entries: Slab<Operation>,
    /// Distinguishes the operations that use one slot after another.
    generation: u32,
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
    Pending { waker: Option<Waker>, unsent: bool },
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
                unsent: false,
            },
        });
        id
    }

    /// The result, which ends the operation, or `None` after noting who waits for it.
    pub(super) fn poll(
        &mut self,
        id: OperationId,
        waker: &Waker,
    ) -> Option<Result<Option<DeliveryState>, DeliveryError>> {
        let operation = self.find(id)?;
        if let Progress::Pending { waker: waiting, .. } = &mut operation.progress {
            match waiting {
                Some(waiting) => waiting.clone_from(waker),
                None => *waiting = Some(waker.clone()),
            }
            return None;
        }
        match self.entries.remove(id.slot()).progress {
            Progress::Done(result) => Some(result),
            Progress::Pending { .. } => None,
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

    /// Ends all operations of a link that are still pending.
    pub(super) fn fail_link(&mut self, link: LinkKey, error: &LinkError) {
        for (_, operation) in &mut self.entries {
            if operation.link == link {
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
