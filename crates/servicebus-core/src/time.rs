//! Conversions between the clocks of the wire: .NET ticks, AMQP timestamps, and the system's time.
//!
//! Ticks are 100 ns; as a point in time they count from 0001-01-01 UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use servicebus_amqp::types::Timestamp;

/// Ticks from 0001-01-01 to 1970-01-01.
const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;
const NANOS_PER_TICK: u32 = 100;
const TICKS_PER_SECOND: u64 = 10_000_000;

/// 9999-12-31T23:59:59.999Z, the last millisecond that .NET knows.
pub(crate) const END_OF_TIME: Timestamp = Timestamp::from_millis(253_402_300_799_999);

/// 10000-01-01, one past the end of time: "all sessions" in a listing of sessions.
pub(crate) const PAST_END_OF_TIME: Timestamp = Timestamp::from_millis(253_402_300_800_000);

/// The point in time this many ticks after 0001-01-01 UTC; `None` where the platform cannot represent it.
pub(crate) fn system_time_from_ticks(ticks: i64) -> Option<SystemTime> {
    let since_epoch = i128::from(ticks) - i128::from(UNIX_EPOCH_TICKS);
    let distance = duration_from_ticks(u64::try_from(since_epoch.unsigned_abs()).ok()?);
    if since_epoch >= 0 {
        UNIX_EPOCH.checked_add(distance)
    } else {
        UNIX_EPOCH.checked_sub(distance)
    }
}

/// Ticks from 0001-01-01 UTC to this point in time; saturates at the ends of `i64`.
pub(crate) fn ticks_from_system_time(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => UNIX_EPOCH_TICKS.saturating_add(ticks_from_duration(after)),
        Err(before) => UNIX_EPOCH_TICKS.saturating_sub(ticks_from_duration(before.duration())),
    }
}

/// A length of this many ticks.
pub(crate) fn duration_from_ticks(ticks: u64) -> Duration {
    let sub_second = u32::try_from(ticks % TICKS_PER_SECOND).unwrap_or_default();
    Duration::new(ticks / TICKS_PER_SECOND, sub_second * NANOS_PER_TICK)
}

/// A length in ticks, rounded down; saturates at the end of `i64`.
pub(crate) fn ticks_from_duration(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos() / u128::from(NANOS_PER_TICK)).unwrap_or(i64::MAX)
}

/// Whole milliseconds, saturated at the end of `u32`: how most lengths travel.
pub(crate) fn millis_u32(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// This part of a length: `part` of 0 is nothing, of 1 all of it. Never more than the length, whatever `part` is.
pub(crate) fn fraction(duration: Duration, part: f64) -> Duration {
    const SCALE: u32 = 32;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the value is from 0 to 2^32; NaN becomes 0"
    )]
    let parts = (part.clamp(0.0, 1.0) * (1u64 << SCALE) as f64) as u64;
    let nanos = (duration.as_nanos() * u128::from(parts)) >> SCALE;
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or_default();
    Duration::new(seconds, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unix_millis(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn ticks_of_known_dates() {
        // 2023-11-14T22:13:20Z and 2030-01-01T00:00:00Z.
        let rows = [
            (638_355_968_000_000_000, 1_700_000_000_000),
            (640_290_528_000_000_000, 1_893_456_000_000),
        ];
        for (ticks, millis) in rows {
            assert_eq!(system_time_from_ticks(ticks), Some(unix_millis(millis)));
            assert_eq!(ticks_from_system_time(unix_millis(millis)), ticks);
        }
    }

    #[test]
    fn b05_the_end_of_dot_net_time_does_not_overflow() {
        let max = 0x2bca_2875_f437_3fff; // DateTime.MaxValue.Ticks
        let end = END_OF_TIME.to_system_time().unwrap();
        let found = system_time_from_ticks(max).unwrap();
        assert_eq!(
            found.duration_since(end).unwrap(),
            Duration::from_nanos(999_900)
        );
        let _ = system_time_from_ticks(i64::MAX);
        let _ = system_time_from_ticks(i64::MIN);
        assert_eq!(millis_u32(Duration::MAX), u32::MAX);
        assert_eq!(ticks_from_duration(Duration::MAX), i64::MAX);
    }

    #[test]
    fn fractions_of_extremes() {
        assert_eq!(fraction(Duration::MAX, 1.0), Duration::MAX);
        assert_eq!(fraction(Duration::MAX, f64::NAN), Duration::ZERO);
        assert_eq!(
            fraction(Duration::from_secs(3), 0.5),
            Duration::from_millis(1500)
        );
        assert_eq!(fraction(Duration::from_secs(3), -1.0), Duration::ZERO);
        assert_eq!(
            fraction(Duration::from_secs(3), 9.0),
            Duration::from_secs(3)
        );
    }

    proptest! {
        #[test]
        fn round_trip(ticks in 0..=0x2bca_2875_f437_3fff_i64) {
            let time = system_time_from_ticks(ticks).unwrap();
            prop_assert_eq!(ticks_from_system_time(time), ticks);
        }
    }
}
