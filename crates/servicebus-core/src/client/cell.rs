use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::fault::closed;
use crate::error::{Error, ErrorKind, Result};

/// Something that is made when it is first needed, shared while it lives, and made again when it has died.
pub(crate) trait Mortal: Send + Sync + 'static {
    fn is_alive(&self) -> bool;
}

/// Holds one living [`Mortal`].
///
/// A task makes it; callers that need it at the same time wait for that task, and callers that stop waiting do not stop
/// it, so that short waits also come to something. Nothing is locked while one waits, so a future that is not polled for
/// a while keeps nobody else waiting. The task stops when the cell is dropped.
#[derive(Debug)]
pub(crate) struct Cell<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    current: Option<Arc<T>>,
    /// While it is under way, or nobody has seen its result.
    making: Option<Making<T>>,
    /// None is made any more.
    ended: bool,
}

/// What the task made, once it has.
type Made<T> = watch::Receiver<Option<Result<Arc<T>>>>;

#[derive(Debug)]
struct Making<T> {
    task: AbortHandle,
    made: Made<T>,
}

impl<T> Default for Cell<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                current: None,
                making: None,
                ended: false,
            }),
        }
    }
}

impl<T> Cell<T> {
    /// A cell that has one already.
    pub(crate) fn with(value: Arc<T>) -> Self {
        let this = Self::default();
        this.lock().current = Some(value);
        this
    }

    /// Takes it out, dead or alive.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        self.lock().current.take()
    }

    /// Takes it out for good, dead or alive, with what was made and is not used yet; what is being made is given up.
    pub(crate) fn end(&self) -> Option<Arc<T>> {
        let mut state = self.lock();
        state.ended = true;
        let unused = state.making.take().and_then(|making| making.result());
        state.current.take().or_else(|| unused.and_then(Result::ok))
    }

    /// What there is, dead or alive.
    pub(crate) fn peek(&self) -> Option<Arc<T>> {
        self.lock().current.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Mortal> Cell<T> {
    /// The living one, if there is one.
    pub(crate) fn living(&self) -> Option<Arc<T>> {
        self.lock().living()
    }

    /// The living one, or a new one.
    pub(crate) async fn get_or_make<F>(&self, make: impl FnOnce() -> F) -> Result<Arc<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut made = {
            let mut state = self.lock();
            if let Some(living) = state.living() {
                return Ok(living);
            }
            if state.ended {
                return Err(closed());
            }
            // A failure that nobody waited for says nothing about now.
            if let Some(making) = state.making.take_if(|making| making.is_over())
                && let Some(Ok(made)) = making.result()
                && made.is_alive()
            {
                state.current = Some(Arc::clone(&made));
                return Ok(made);
            }
            let making = state.making.get_or_insert_with(|| Making::start(make()));
            making.made.clone()
        };
        let result = match made.wait_for(Option::is_some).await {
            Ok(result) => result.clone(),
            Err(_) => None,
        };
        let mut state = self.lock();
        let first = state
            .making
            .take_if(|making| making.made.same_channel(&made))
            .is_some();
        match result {
            Some(Ok(made)) => {
                if first {
                    state.current = Some(Arc::clone(&made));
                }
                Ok(made)
            }
            Some(Err(error)) => Err(error),
            None if state.ended => Err(closed()),
            None => Err(Error::new(
                ErrorKind::Other,
                "a task of the client was ended",
            )),
        }
    }
}

impl<T: Mortal> State<T> {
    fn living(&self) -> Option<Arc<T>> {
        self.current.as_ref().filter(|it| it.is_alive()).cloned()
    }
}

impl<T: Mortal> Making<T> {
    fn start(make: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        let (result, made) = watch::channel(None);
        let task = tokio::spawn(async move {
            let made = make.await.map(Arc::new);
            result.send_replace(Some(made));
        });
        Self {
            task: task.abort_handle(),
            made,
        }
    }
}

impl<T> Making<T> {
    fn result(&self) -> Option<Result<Arc<T>>> {
        self.made.borrow().clone()
    }

    fn is_over(&self) -> bool {
        self.made.borrow().is_some() || self.made.has_changed().is_err()
    }
}

impl<T> Drop for Making<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
