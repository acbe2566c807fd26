use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[allow(clippy::disallowed_methods, reason = "an origin for virtual time")]
fn origin() -> Instant {
    Instant::now()
}

fn all_due(schedule: &mut LockSchedule<u32>, now: Instant) -> Vec<Due<u32>> {
    std::iter::from_fn(|| schedule.poll(now)).collect()
}

#[test]
fn a_lock_is_renewed_ten_seconds_or_half_of_it_ahead() {
    let rows = [
        (60_000, 50_000),
        (30_000, 20_000),
        (20_000, 10_000),
        (10_000, 5_000),
        (1_000, 500),
        (399, 0),
        (0, 0),
    ];
    for (remaining, wait) in rows {
        let remaining = Duration::from_millis(remaining);
        assert_eq!(renew_after(remaining, 0.0), Duration::from_millis(wait));
        assert_eq!(
            renew_after(remaining, 1.0),
            Duration::from_millis(wait) * 3 / 4
        );
    }
}

#[test]
fn b82_a_lock_that_is_not_renewed_runs_out() {
    let now = origin();
    let mut schedule = LockSchedule::new();
    schedule.insert(1, 10 * SECOND, KeepLock::Off, now, 0.0);
    assert_eq!(schedule.poll_timeout(), Some(now + 10 * SECOND));
    assert_eq!(schedule.remaining(&1, now + 4 * SECOND), 6 * SECOND);
    assert_eq!(all_due(&mut schedule, now + 9 * SECOND), []);
    assert_eq!(all_due(&mut schedule, now + 10 * SECOND), [Due::Expired(1)]);
    assert_eq!(schedule.remaining(&1, now), Duration::ZERO);
    assert!(schedule.is_empty() && schedule.poll_timeout().is_none());
}

#[test]
fn b83_nothing_is_renewed_after_settling() {
    let now = origin();
    let mut schedule = LockSchedule::new();
    schedule.insert(1, 10 * SECOND, KeepLock::UntilSettled, now, 0.0);
    assert!(schedule.remove(&1));
    assert!(!schedule.remove(&1));
    assert_eq!(all_due(&mut schedule, now + 100 * SECOND), []);
    // Settled while the renewal was on its way.
    schedule.insert(2, 10 * SECOND, KeepLock::UntilSettled, now, 0.0);
    assert_eq!(all_due(&mut schedule, now + 5 * SECOND), [Due::Renew(2)]);
    schedule.remove(&2);
    schedule.handle_renewed(2, 10 * SECOND, now + 5 * SECOND, 0.0);
    schedule.handle_failed(2, now + 5 * SECOND);
    assert!(schedule.is_empty() && schedule.poll_timeout().is_none());
}

#[test]
fn b83_the_end_of_renewal_is_said_once() {
    let now = origin();
    let mut schedule = LockSchedule::new();
    schedule.insert(1, 10 * SECOND, KeepLock::For(12 * SECOND), now, 0.0);
    assert_eq!(all_due(&mut schedule, now + 5 * SECOND), [Due::Renew(1)]);
    schedule.handle_renewed(1, 10 * SECOND, now + 5 * SECOND, 0.0);
    assert_eq!(all_due(&mut schedule, now + 11 * SECOND), []);
    assert_eq!(all_due(&mut schedule, now + 12 * SECOND), [Due::Stopped(1)]);
    assert_eq!(all_due(&mut schedule, now + 14 * SECOND), []);
    assert_eq!(all_due(&mut schedule, now + 15 * SECOND), [Due::Expired(1)]);
}

#[test]
fn b83_a_failed_renewal_is_tried_again_while_the_lock_lasts() {
    let now = origin();
    let mut schedule = LockSchedule::new();
    schedule.insert(1, 10 * SECOND, KeepLock::UntilSettled, now, 0.0);
    schedule.insert(2, 10 * SECOND, KeepLock::UntilSettled, now, 0.0);
    let mut at = now + 5 * SECOND;
    assert_eq!(all_due(&mut schedule, at), [Due::Renew(1), Due::Renew(2)]);
    schedule.handle_renewed(2, 60 * SECOND, at, 0.0);
    // Not twice while the first is on its way.
    assert_eq!(all_due(&mut schedule, at + SECOND), []);
    let mut attempts = 0;
    loop {
        schedule.handle_failed(1, at);
        at = schedule.poll_timeout().unwrap();
        match all_due(&mut schedule, at)[..] {
            [Due::Renew(1)] => attempts += 1,
            [Due::Expired(1)] => break,
            ref other => panic!("{other:?}"),
        }
    }
    // 0.25, 0.75, 1.75 and 3.75 s after the first.
    assert_eq!(attempts, 4);
    assert_eq!(at, now + 10 * SECOND);
    assert_eq!(schedule.len(), 1, "the other lock goes on");
}

/// Two thousand messages in work, locks of 30 s, and a service that answers after 100 ms: for five minutes no lock is
/// lost, and no tenth of a second holds a fifth of the renewals.
#[test]
fn b84_many_locks_are_renewed_without_a_storm() {
    const LOCKS: u32 = 2_000;
    let start = origin();
    let mut schedule = LockSchedule::new();
    // Low-discrepancy numbers stand for chance.
    let mut turn = 0u32;
    let mut random = || {
        turn += 1;
        (f64::from(turn) * 0.618_033_988_749_895).fract()
    };
    for key in 0..LOCKS {
        schedule.insert(key, 30 * SECOND, KeepLock::UntilSettled, start, random());
    }
    let answer_time = Duration::from_millis(100);
    let mut in_flight: BTreeSet<(Instant, u32)> = BTreeSet::new();
    let mut renewals = Vec::new();
    let end = start + 300 * SECOND;
    loop {
        let next_answer = in_flight.first().map(|(at, _)| *at);
        let now = match (schedule.poll_timeout(), next_answer) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap(),
        };
        if now > end {
            break;
        }
        while let Some(&(at, key)) = in_flight.first().filter(|(at, _)| *at <= now) {
            in_flight.remove(&(at, key));
            schedule.handle_renewed(key, 30 * SECOND, now, random());
        }
        for due in all_due(&mut schedule, now) {
            let Due::Renew(key) = due else {
                panic!("{due:?}")
            };
            in_flight.insert((now + answer_time, key));
            renewals.push(now);
        }
    }
    assert!(
        renewals.len() > 15 * LOCKS as usize,
        "each about every 18 s"
    );
    let mut first = 0;
    let mut worst = 0;
    for (last, at) in renewals.iter().enumerate() {
        while *at - renewals[first] > Duration::from_millis(100) {
            first += 1;
        }
        worst = worst.max(last - first + 1);
    }
    assert!(
        worst <= LOCKS as usize / 5,
        "{worst} renewals within 100 ms"
    );
}

#[test]
fn clocks_that_differ_do_not_cost_a_lock() {
    let at =
        |seconds: u64| SystemTime::UNIX_EPOCH + 1_000_000 * SECOND + Duration::from_secs(seconds);
    // A lock of 30 s, given when the broker's clock shows 0.
    let ends = at(30);
    let mut clock = LockClock::default();
    assert_eq!(clock.remaining(ends, at(0)), 30 * SECOND);
    assert_eq!(
        clock.remaining(ends, at(10)),
        20 * SECOND,
        "ours is ahead: too short a guess"
    );
    assert_eq!(clock.remaining(ends, at(40)), SHORTEST_LOCK, "far ahead");
    let behind = SystemTime::UNIX_EPOCH;
    assert_eq!(
        clock.remaining(ends, behind),
        LONGEST_LOCK,
        "far behind, and nothing learned yet"
    );
    // A message that was enqueued two seconds before it was delivered, then an old one.
    clock.observe(SystemTime::UNIX_EPOCH + 999_998 * SECOND, ends);
    clock.observe(SystemTime::UNIX_EPOCH, ends);
    assert_eq!(clock.remaining(ends, behind), 32 * SECOND);
    // Nonsense teaches nothing.
    clock.observe(ends, ends);
    clock.observe(at(99), ends);
    assert_eq!(clock.remaining(ends, behind), 32 * SECOND);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64, u64),
    Remove(u32),
    Renewed(u32, u64),
    Failed(u32),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..6u32;
    let step = prop_oneof![
        (key.clone(), 0..40_000u64, 0..60_000u64).prop_map(|(k, r, keep)| Step::Insert(k, r, keep)),
        key.clone().prop_map(Step::Remove),
        (key.clone(), 0..40_000u64).prop_map(|(k, r)| Step::Renewed(k, r)),
        key.prop_map(Step::Failed),
        (0..20_000u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// Whatever happens: the queue and the table agree, an expired lock is named once and is gone, and polling ends.
    #[test]
    fn the_schedule_keeps_its_invariants(steps in steps(), random in 0.0..1.0f64) {
        let mut now = origin();
        let mut schedule = LockSchedule::new();
        for step in steps {
            let millis = Duration::from_millis;
            match step {
                Step::Insert(key, remaining, keep) => {
                    let keep = if keep < 50_000 { KeepLock::For(millis(keep)) } else { KeepLock::UntilSettled };
                    schedule.insert(key, millis(remaining), keep, now, random);
                }
                Step::Remove(key) => { schedule.remove(&key); }
                Step::Renewed(key, remaining) => schedule.handle_renewed(key, millis(remaining), now, random),
                Step::Failed(key) => schedule.handle_failed(key, now),
                Step::Pass(time) => now += millis(time),
            }
            for due in all_due(&mut schedule, now) {
                match due {
                    Due::Expired(key) => prop_assert_eq!(schedule.remaining(&key, now), Duration::ZERO),
                    Due::Renew(key) | Due::Stopped(key) => {
                        prop_assert!(!schedule.remaining(&key, now).is_zero());
                    }
                }
            }
            prop_assert_eq!(schedule.locks.len(), schedule.queue.len());
            prop_assert!(schedule.poll_timeout().is_none_or(|at| at > now));
            for key in schedule.locks.keys() {
                prop_assert!(!schedule.remaining(key, now).is_zero());
            }
        }
    }
}
