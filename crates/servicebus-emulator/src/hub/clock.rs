use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use servicebus_amqp::types::Timestamp;

/// The emulator's own clock: locks, schedules, time to live, tokens and idle times run on it.
///
/// It is not tokio's clock, so a test may pause that one and still have locks that last.
#[derive(Clone, Debug, Default)]
pub struct Clock(Kind);

#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The system's time. The default.
    pub const fn system() -> Self {
        Self(Kind::System)
    }

    /// A clock that stands still at `start` until [`Emulator::advance`](crate::Emulator::advance) moves it.
    pub fn manual(start: SystemTime) -> Self {
        let start = Timestamp::from(start).as_millis();
        Self(Kind::Manual(Arc::new(AtomicI64::new(start))))
    }

    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.0, Kind::Manual(_))
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the one place where the emulator reads the system's time"
    )]
    pub(crate) fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::System => SystemTime::now().into(),
            Kind::Manual(now) => Timestamp::from_millis(now.load(Ordering::Acquire)),
        }
    }

    /// Moves a manual clock forward; without effect on the system's.
    pub(crate) fn set(&self, time: Timestamp) {
        if let Kind::Manual(now) = &self.0 {
            now.fetch_max(time.as_millis(), Ordering::AcqRel);
        }
    }
}

/// `duration` after `start`, at most the end of time.
pub(crate) fn after(start: Timestamp, duration: Duration) -> Timestamp {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(start.as_millis().saturating_add(millis))
}
