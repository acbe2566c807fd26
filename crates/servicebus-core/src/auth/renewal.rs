//! When a token is put anew.

use std::time::{Duration, SystemTime};

use crate::time::fraction;

/// How long a token lives that the client signs itself. The default of the .NET SDK.
pub const SAS_LIFETIME: Duration = Duration::from_secs(30 * 60);

/// How long before its end a token is renewed, if it lives long enough.
const MARGIN: Duration = Duration::from_secs(10 * 60);
/// How far renewals of tokens of one age are spread.
const SPREAD: Duration = Duration::from_secs(30);
/// The longest wait: what timers can take.
const LONGEST: Duration = Duration::from_secs(49 * 24 * 60 * 60);
/// The wait for a token that is at its end by our clock although it is new: that clock is ahead.
const CLOCK_AHEAD: Duration = Duration::from_secs(30);
/// The longest wait between attempts to renew.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// How long to wait before a token that was put at `now` is put anew.
///
/// Ten minutes ahead of its end, spread over another half minute by `random` in `0.0..1.0`; a token that lives less
/// than twenty minutes is renewed after half of its life. The margin also covers clocks that differ by some minutes.
/// A token that has ended by our clock, although it was just accepted, is renewed after half a minute.
pub fn renew_after(now: SystemTime, expires: SystemTime, random: f64) -> Duration {
    let remaining = expires.duration_since(now).unwrap_or_default();
    if remaining.is_zero() {
        return CLOCK_AHEAD;
    }
    let ahead = remaining
        .saturating_sub(MARGIN)
        .saturating_sub(fraction(SPREAD, random));
    ahead.max(remaining / 2).min(LONGEST)
}

/// How long to wait after the `failures`th attempt in a row failed: 1 s, 2 s, 4 s … up to a minute, less up to a
/// half by `random` in `0.0..1.0`.
///
/// Attempts go on until one succeeds or the token is no longer needed, also past the token's end: a link that the
/// service then detaches comes back with the next good token.
pub fn retry_after(failures: u32, random: f64) -> Duration {
    let doubling = failures.saturating_sub(1).min(6);
    let full = Duration::from_secs(1 << doubling).min(LONGEST_RETRY);
    full - fraction(full / 2, random)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn after(life: Duration, random: f64) -> Duration {
        renew_after(UNIX_EPOCH, UNIX_EPOCH + life, random)
    }

    #[test]
    fn b51_a_signed_token_is_put_anew_within_20_minutes() {
        assert_eq!(after(SAS_LIFETIME, 0.0), 20 * MINUTE);
        assert_eq!(after(SAS_LIFETIME, 1.0), 20 * MINUTE - SPREAD);
    }

    #[test]
    fn b48_a_short_token_is_renewed_at_half_its_life() {
        assert_eq!(after(MINUTE, 0.0), MINUTE / 2);
        assert_eq!(after(11 * MINUTE, 0.0), 11 * MINUTE / 2);
        assert_eq!(after(60 * MINUTE, 0.0), 50 * MINUTE);
    }

    #[test]
    fn extremes_neither_spin_nor_overflow() {
        assert_eq!(
            after(Duration::from_secs(10 * 365 * 24 * 3600), 0.5),
            LONGEST
        );
        let past = renew_after(UNIX_EPOCH + MINUTE, UNIX_EPOCH, 0.0);
        assert_eq!(past, CLOCK_AHEAD);
    }

    #[test]
    fn b48_retries_begin_at_once_and_never_wait_more_than_a_minute() {
        assert_eq!(retry_after(1, 0.0), Duration::from_secs(1));
        assert_eq!(retry_after(3, 0.0), Duration::from_secs(4));
        assert_eq!(retry_after(7, 0.0), MINUTE);
        assert_eq!(retry_after(u32::MAX, 0.0), MINUTE);
        // The first renewal of a token that lives 60 s is at 30 s; the credential fails until 50 s.
        let mut at = 30;
        let mut failures = 0;
        while at < 50 {
            failures += 1;
            at += retry_after(failures, 0.0).as_secs();
        }
        assert!(at <= 61, "the token was without a renewal until {at} s");
    }

    proptest! {
        #[test]
        fn the_renewal_is_within_the_life(life in 1..10_000_000u64, random in 0.0..1.0f64) {
            let life = Duration::from_secs(life);
            let wait = after(life, random);
            prop_assert!(wait < life && wait >= life.min(2 * LONGEST) / 2);
        }
    }
}
