//! Arithmetic on the broker's time: milliseconds since the Unix epoch, as the wire has them.

use std::time::Duration;

use servicebus_amqp::types::Timestamp;

/// Later than any real time.
pub(super) const NEVER: Timestamp = Timestamp::from_millis(i64::MAX);

/// `duration` after `start`; [`NEVER`] past the end of the range.
pub(super) fn after(start: Timestamp, duration: Duration) -> Timestamp {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(start.as_millis().saturating_add(millis))
}

/// `2023-11-14T22:13:20`, in UTC.
pub(super) fn iso(time: Timestamp) -> String {
    let seconds = time.as_millis().div_euclid(1000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Civil date from a day number: years that begin in March put the leap day last.
    let shifted = days.saturating_add(719_468);
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_known_instants() {
        let at = |millis| iso(Timestamp::from_millis(millis));
        assert_eq!(at(0), "1970-01-01T00:00:00");
        assert_eq!(at(1_700_000_000_000), "2023-11-14T22:13:20");
        assert_eq!(at(951_782_400_000), "2000-02-29T00:00:00");
        assert_eq!(at(253_402_300_800_000), "10000-01-01T00:00:00");
        assert_eq!(at(-62_135_596_800_000), "0001-01-01T00:00:00");
    }

    #[test]
    fn saturates() {
        assert_eq!(after(Timestamp::from_millis(5), Duration::MAX), NEVER);
        assert_eq!(
            after(Timestamp::from_millis(5), Duration::from_secs(1)).as_millis(),
            1005
        );
    }
}
