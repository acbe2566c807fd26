use std::io;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use super::Hub;

/// Runs the timers of an emulator with the system's clock.
///
/// A thread and no task: a task would sleep on tokio's clock, which a test may have paused, and a paused clock runs
/// ahead whenever all tasks wait.
pub(crate) fn start(hub: &Arc<Hub>) -> io::Result<()> {
    let hub = Arc::clone(hub);
    thread::Builder::new()
        .name("servicebus-emulator".into())
        .stack_size(512 * 1024)
        .spawn(move || hub.keep_time())?;
    Ok(())
}

impl Hub {
    fn keep_time(&self) {
        let mut core = self.lock();
        while !core.stopped {
            let now = self.clock.now();
            core.handle_timeout(now);
            self.pass_events_on(&mut core);
            self.tell_watchers();
            core.armed = core.poll_timeout();
            core = match core.armed {
                None => self
                    .timer_set
                    .wait(core)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let millis = next.as_millis().saturating_sub(now.as_millis());
                    let wait = Duration::from_millis(millis.try_into().unwrap_or(0));
                    let waited = self.timer_set.wait_timeout(core, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Ends the timekeeper.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.timer_set.notify_all();
    }
}
