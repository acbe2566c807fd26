use std::time::Duration;

/// The longest duration that .NET has, which stands for "no limit": `P10675199DT2H48M5.4775807S`.
const UNLIMITED: Duration = Duration::new(922_337_203_685, 477_580_700);

/// Reads an ISO 8601 duration of weeks, days, hours, minutes and seconds; `None` is .NET's longest, no limit.
///
/// Years and months are refused, because they have no fixed length.
pub(super) fn parse(text: &str) -> Result<Option<Duration>, String> {
    let fail = |why: &str| {
        Err(format!(
            "{text:?} is no ISO 8601 duration such as PT1M: {why}"
        ))
    };
    let Some(mut rest) = text.strip_prefix('P') else {
        return fail("it begins with P");
    };
    // Each unit may come once, and only after the larger ones.
    let (mut units, mut in_time) = (&['W', 'D'][..], false);
    let mut total = Duration::ZERO;
    let mut any = false;
    loop {
        if !in_time && let Some(time) = rest.strip_prefix('T') {
            (rest, in_time, any) = (time, true, false);
            units = &['H', 'M', 'S'];
            continue;
        }
        if rest.is_empty() {
            break;
        }
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, unit) = rest.split_at(end);
        let Some(unit) = unit.chars().next() else {
            return fail("a number without a unit");
        };
        let Some(place) = units.iter().position(|known| *known == unit) else {
            return fail(
                "its units are W and D, and after T H, M and S, each once and in this order",
            );
        };
        units = units.get(place + 1..).unwrap_or_default();
        let seconds = match unit {
            'W' => 604_800,
            'D' => 86_400,
            'H' => 3600,
            'M' => 60,
            _ => 1,
        };
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) if unit == 'S' => (whole, fraction),
            Some(_) => return fail("only seconds may have a fraction"),
            None => (number, ""),
        };
        let nanoseconds = match fraction.len() {
            0 if number.contains('.') => return fail("a fraction without digits"),
            0 => Ok(0),
            1..=9 => format!("{fraction:0<9}").parse(),
            _ => return fail("a fraction of more than nine digits"),
        };
        let part = whole
            .parse::<u64>()
            .ok()
            .and_then(|whole| whole.checked_mul(seconds))
            .zip(nanoseconds.ok())
            .map(|(seconds, nanoseconds)| Duration::new(seconds, nanoseconds))
            .and_then(|part| total.checked_add(part));
        match part {
            Some(sum) => total = sum,
            None => return fail("a number is missing or too large"),
        }
        any = true;
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    if !any {
        return fail("it has no number");
    }
    Ok((total < UNLIMITED).then_some(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations() {
        for (text, seconds) in [
            ("PT5S", 5),
            ("PT1M", 60),
            ("PT1H", 3600),
            ("P1D", 86_400),
            ("P2W", 1_209_600),
            ("P1DT2H3M4S", 93_784),
            ("PT0S", 0),
            ("PT90S", 90),
        ] {
            assert_eq!(
                parse(text),
                Ok(Some(Duration::from_secs(seconds))),
                "{text}"
            );
        }
        assert_eq!(parse("PT0.5S"), Ok(Some(Duration::from_millis(500))));
        assert_eq!(parse("P10675199DT2H48M5.4775807S"), Ok(None));
    }

    #[test]
    fn refuses_what_is_none() {
        for text in [
            "",
            "P",
            "PT",
            "1M",
            "PT1",
            "P1Y",
            "P1M",
            "PT1S1M",
            "PT1M1M",
            "PT-1S",
            "PT1.5M",
            "PT1.S",
            "P1DT",
            "PT99999999999999999999S",
            "pt1m",
            "PT1S ",
            "P1H",
            "PT1T1S",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
