use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};

/// Something that is made when it is first needed, shared while it lives, and made again when it has died.
pub(crate) trait Mortal: Send + Sync + 'static {
    fn is_alive(&self) -> bool;
}

/// Holds one living [`Mortal`].
///
/// A task makes it; callers that need it at the same time wait for that task, and callers that stop waiting do not stop
/// it, so that short waits also come to something. It stops when the cell is dropped.
#[derive(Debug)]
pub(crate) struct Cell<T> {
    current: Mutex<Option<Arc<T>>>,
    making: tokio::sync::Mutex<Making<T>>,
}

/// The task, while it is under way or nobody has seen its result.
#[derive(Debug)]
struct Making<T>(Option<JoinHandle<Result<T>>>);

impl<T> Default for Cell<T> {
    fn default() -> Self {
        Self {
            current: Mutex::new(None),
            making: tokio::sync::Mutex::new(Making(None)),
        }
    }
}

impl<T> Cell<T> {
    /// A cell that has one already.
    pub(crate) fn with(value: Arc<T>) -> Self {
        Self {
            current: Mutex::new(Some(value)),
            ..Self::default()
        }
    }

    /// Takes it out, dead or alive.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        self.lock().take()
    }

    /// What there is, dead or alive.
    pub(crate) fn peek(&self) -> Option<Arc<T>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<T>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Mortal> Cell<T> {
    /// The living one, if there is one.
    pub(crate) fn living(&self) -> Option<Arc<T>> {
        self.lock().as_ref().filter(|it| it.is_alive()).cloned()
    }

    /// The living one, or a new one.
    pub(crate) async fn get_or_make<F>(&self, make: impl FnOnce() -> F) -> Result<Arc<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        if let Some(living) = self.living() {
            return Ok(living);
        }
        let mut making = self.making.lock().await;
        if let Some(living) = self.living() {
            return Ok(living);
        }
        // A failure that nobody waited for says nothing about now.
        if let Some(task) = making.0.take_if(|task| task.is_finished())
            && let Ok(Ok(made)) = task.await
            && made.is_alive()
        {
            return Ok(self.put(made));
        }
        let task = making.0.get_or_insert_with(|| tokio::spawn(make()));
        let made = task.await;
        making.0 = None;
        match made {
            Ok(made) => Ok(self.put(made?)),
            Err(error) => Err(
                Error::new(ErrorKind::Other, "a task of the client was ended").with_source(error),
            ),
        }
    }

    fn put(&self, made: T) -> Arc<T> {
        let made = Arc::new(made);
        *self.lock() = Some(Arc::clone(&made));
        made
    }
}

impl<T> Drop for Making<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
