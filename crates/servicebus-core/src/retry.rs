//! Whether and when a failed operation is tried again, as a function of what failed and the time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Recovery};
use crate::setters::setters;
use crate::time::fraction;

/// How failed operations are repeated. What is repeated at all is decided by [`Error::is_transient`].
///
/// The defaults are those of the .NET SDK.
///
/// ```
/// use std::time::Duration;
/// use servicebus_core::retry::RetryOptions;
///
/// let patient = RetryOptions::default().max_retries(10).total_timeout(Duration::from_secs(300));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetryOptions {
    /// How the wait grows. Default: exponential.
    pub backoff: Backoff,
    /// How often an operation is repeated after its first attempt. Default: 3.
    pub max_retries: u32,
    /// What the wait grows from, or is when it does not grow. Default: 0.8 s.
    pub delay: Duration,
    /// The longest wait between two attempts. Default: 60 s.
    pub max_delay: Duration,
    /// How long one attempt may take. Default: 60 s.
    pub try_timeout: Duration,
    /// How long an operation may take with all of its attempts and waits. Default: no limit but that of the attempts.
    pub total_timeout: Option<Duration>,
    /// How long a sender or receiver that was told that the service is busy waits before its next attempt, and its
    /// other operations with it. Default: 10 s.
    pub busy_wait: Duration,
}

/// How the wait between attempts grows.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Backoff {
    /// The same wait each time.
    Fixed,
    /// Twice the delay before the first repetition, and twice the wait before with each one more.
    #[default]
    Exponential,
    /// What this function says; `None` gives up.
    Custom(Arc<CustomBackoff>),
}

/// Says how long to wait before repeating: given how many attempts failed, from 1, and the last failure.
pub type CustomBackoff = dyn Fn(u32, &Error) -> Option<Duration> + Send + Sync;

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed => "Fixed",
            Self::Exponential => "Exponential",
            Self::Custom(_) => "Custom",
        })
    }
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            backoff: Backoff::Exponential,
            max_retries: 3,
            delay: Duration::from_millis(800),
            max_delay: Duration::from_secs(60),
            try_timeout: Duration::from_secs(60),
            total_timeout: None,
            busy_wait: Duration::from_secs(10),
        }
    }
}

impl RetryOptions {
    /// No repetition: each operation is tried once.
    pub fn none() -> Self {
        Self::default().max_retries(0)
    }

    setters! {
        backoff: Backoff,
        max_retries: u32,
        delay: Duration,
        max_delay: Duration,
        try_timeout: Duration,
        total_timeout: into Option<Duration>,
        busy_wait: Duration,
    }

    /// How long to wait after the `failures`th attempt failed, from 1.
    ///
    /// The waits of clients that failed together are spread over the second half of it by `random` in `0.0..1.0`.
    fn wait(&self, failures: u32, error: &Error, random: f64) -> Option<Duration> {
        let full = match &self.backoff {
            Backoff::Fixed => self.delay,
            Backoff::Exponential => {
                let factor = 2u32.checked_pow(failures).unwrap_or(u32::MAX);
                self.delay.checked_mul(factor).unwrap_or(Duration::MAX)
            }
            Backoff::Custom(wait) => return wait(failures, error),
        };
        let full = full.min(self.max_delay);
        Some(full - fraction(full / 2, random))
    }
}

/// The attempts of one operation.
#[derive(Debug)]
pub struct Attempts<'a> {
    options: &'a RetryOptions,
    failures: u32,
    deadline: Option<Instant>,
    authorised_anew: bool,
}

impl<'a> Attempts<'a> {
    /// The first attempt is about to begin.
    pub fn new(options: &'a RetryOptions, now: Instant) -> Self {
        Self {
            options,
            failures: 0,
            deadline: options
                .total_timeout
                .and_then(|total| now.checked_add(total)),
            authorised_anew: false,
        }
    }

    /// When an attempt that begins now has to end; `None` for never.
    pub fn try_deadline(&self, now: Instant) -> Option<Instant> {
        let one = now.checked_add(self.options.try_timeout);
        match (one, self.deadline) {
            (Some(one), Some(all)) => Some(one.min(all)),
            (one, all) => one.or(all),
        }
    }

    /// How many attempts failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// How long to wait before the next attempt; `None` when there is to be none and `error` is the result.
    ///
    /// A refused token is worth one more attempt with a new one, at once.
    pub fn after_failure(&mut self, error: &Error, now: Instant, random: f64) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        let recovery = error.recovery();
        let token_refused = recovery == Recovery::Token && !self.authorised_anew;
        if !(recovery.is_transient() || token_refused) || self.failures > self.options.max_retries {
            return None;
        }
        let wait = match recovery {
            Recovery::Token => {
                self.authorised_anew = true;
                Duration::ZERO
            }
            Recovery::Busy => self
                .options
                .wait(self.failures, error, random)?
                .max(self.options.busy_wait),
            _ => self.options.wait(self.failures, error, random)?,
        };
        let begins = now.checked_add(wait);
        let in_time = match self.deadline {
            Some(deadline) => begins.is_some_and(|begins| begins < deadline),
            None => true,
        };
        in_time.then_some(wait)
    }
}

/// The wait that an entity's operations share after the service said that it is busy.
///
/// It is a point in time and nothing else, so that an operation that is cancelled in its wait leaves nothing behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct HoldOff {
    until: Option<Instant>,
}

impl HoldOff {
    /// The service is busy: wait from now on. A wait that is longer already stays.
    pub fn on_busy(&mut self, now: Instant, wait: Duration) {
        self.until = self.until.max(now.checked_add(wait));
    }

    /// How much of the wait is left; zero when there is none.
    pub fn remaining(&self, now: Instant) -> Duration {
        self.until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;

    #[allow(clippy::disallowed_methods, reason = "an origin for virtual time")]
    fn origin() -> Instant {
        Instant::now()
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn failed(kind: ErrorKind) -> Error {
        Error::new(kind, "")
    }

    fn waits(options: &RetryOptions, kind: ErrorKind) -> Vec<Duration> {
        let now = origin();
        let mut attempts = Attempts::new(options, now);
        std::iter::from_fn(|| attempts.after_failure(&failed(kind), now, 0.0)).collect()
    }

    #[test]
    fn the_defaults_are_those_of_dot_net() {
        let options = RetryOptions::default();
        assert_eq!(options.max_retries, 3);
        assert_eq!(options.delay, seconds(0.8));
        assert_eq!(options.max_delay, seconds(60.0));
        assert_eq!(options.try_timeout, seconds(60.0));
        // 2^n times 0.8 s before repetition n.
        assert_eq!(
            waits(&options, ErrorKind::Communication),
            [seconds(1.6), seconds(3.2), seconds(6.4)]
        );
    }

    #[test]
    fn the_wait_does_not_pass_its_maximum() {
        let options = RetryOptions::default().max_retries(100);
        let waits = waits(&options, ErrorKind::Communication);
        assert_eq!(waits.len(), 100);
        assert!(waits.iter().skip(7).all(|&wait| wait == seconds(60.0)));
    }

    #[test]
    fn fixed_and_custom_backoff() {
        let fixed = RetryOptions::default().backoff(Backoff::Fixed);
        assert_eq!(waits(&fixed, ErrorKind::Timeout), [seconds(0.8); 3]);
        let custom = Backoff::Custom(Arc::new(|failures, error| {
            (failures < 3 && error.kind() == ErrorKind::Timeout).then_some(seconds(failures.into()))
        }));
        let custom = RetryOptions::default().backoff(custom);
        assert_eq!(
            waits(&custom, ErrorKind::Timeout),
            [seconds(1.0), seconds(2.0)]
        );
        assert!(waits(&custom, ErrorKind::Communication).is_empty());
    }

    #[test]
    fn b103_a_mistake_is_not_repeated() {
        let options = RetryOptions::default();
        for kind in [
            ErrorKind::EntityNotFound,
            ErrorKind::QuotaExceeded,
            ErrorKind::MessageTooLarge,
            ErrorKind::MessageLockLost,
            ErrorKind::SessionLockLost,
            ErrorKind::EntityDisabled,
            ErrorKind::InvalidArgument,
            ErrorKind::Transaction,
            ErrorKind::Closed,
            ErrorKind::Uncertain,
        ] {
            assert!(waits(&options, kind).is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn b70_a_refused_token_is_renewed_once() {
        let options = RetryOptions::default();
        assert_eq!(waits(&options, ErrorKind::Unauthorized), [Duration::ZERO]);
    }

    #[test]
    fn b101_a_busy_service_is_left_alone_for_ten_seconds() {
        let options = RetryOptions::default();
        assert_eq!(waits(&options, ErrorKind::ServiceBusy), [seconds(10.0); 3]);
        // A short limit for one attempt does not turn the wait into a failure.
        let short = options.try_timeout(seconds(2.0));
        assert_eq!(waits(&short, ErrorKind::ServiceBusy).len(), 3);
    }

    #[test]
    fn b101_the_hold_off_ends_by_itself() {
        let now = origin();
        let mut hold_off = HoldOff::default();
        assert_eq!(hold_off.remaining(now), Duration::ZERO);
        hold_off.on_busy(now, seconds(10.0));
        hold_off.on_busy(now, seconds(1.0));
        assert_eq!(hold_off.remaining(now + seconds(3.0)), seconds(7.0));
        assert_eq!(hold_off.remaining(now + seconds(30.0)), Duration::ZERO);
        hold_off.on_busy(now, Duration::MAX);
        assert!(hold_off.remaining(now + seconds(1.0)) < seconds(10.0));
    }

    #[test]
    fn the_total_time_bounds_attempts_and_waits() {
        let options = RetryOptions::default().total_timeout(seconds(5.0));
        let now = origin();
        let mut attempts = Attempts::new(&options, now);
        assert_eq!(attempts.try_deadline(now), Some(now + seconds(5.0)));
        let error = failed(ErrorKind::Communication);
        assert_eq!(attempts.after_failure(&error, now, 0.0), Some(seconds(1.6)));
        // 2 s are past and 3.2 s would be waited for: too late for another attempt.
        assert_eq!(
            attempts.after_failure(&error, now + seconds(2.0), 0.0),
            None
        );
    }

    proptest! {
        #[test]
        fn nothing_overflows(
            delay in any::<u64>(), max in any::<u64>(), failures in 1..u32::MAX, random in -1.0..2.0f64,
        ) {
            let options = RetryOptions::default()
                .delay(Duration::from_nanos(delay))
                .max_delay(Duration::from_nanos(max))
                .try_timeout(Duration::MAX)
                .total_timeout(Duration::MAX);
            let wait = options.wait(failures, &failed(ErrorKind::Timeout), random).unwrap();
            prop_assert!(wait <= Duration::from_nanos(max));
            let now = origin();
            let attempts = Attempts::new(&options, now);
            prop_assert_eq!(attempts.try_deadline(now), None);
        }

        #[test]
        fn the_spread_is_the_second_half(random in 0.0..1.0f64) {
            let options = RetryOptions::default();
            let wait = options.wait(1, &failed(ErrorKind::Timeout), random).unwrap();
            prop_assert!(wait > seconds(0.8) && wait <= seconds(1.6));
        }
    }
}
