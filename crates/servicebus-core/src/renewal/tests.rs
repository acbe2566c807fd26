use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[allow(clippy::disallowed_methods, reason = "an origin for virtual time")]
fn origin() -> Instant {
    Instant::now()
}

/// What is due, by the names that the tests give their locks.
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
    let lock = schedule.insert(1, 10 * SECOND, KeepLock::Off, now, 0.0);
    assert_eq!(schedule.poll_timeout(), Some(now + 10 * SECOND));
    assert_eq!(schedule.remaining(lock, now + 4 * SECOND), 6 * SECOND);
    assert_eq!(all_due(&mut schedule, now + 9 * SECOND), []);
    assert_eq!(all_due(&mut schedule, now + 10 * SECOND), [Due::Expired(1)]);
    assert_eq!(schedule.remaining(lock, now), Duration::ZERO);
    assert!(schedule.is_empty() && schedule.poll_timeout().is_none());
}

#[test]
fn b83_nothing_is_renewed_after_settling() {
    let now = origin();
    let mut schedule = LockSchedule::new();
    let first = schedule.insert(1, 10 * SECOND, KeepLock::UntilSettled, now, 0.0);
    assert_eq!(schedule.remove(first), Some(1));
    assert_eq!(schedule.remove(first), None);
    assert_eq!(all_due(&mut schedule, now + 100 * SECOND), []);
    // Settled while the renewal was on its way.
    let second = schedule.insert(2, 10 * SECOND, KeepLock::UntilSettled, now, 0.0);
    let due = all_due(&mut schedule, now + 5 * SECOND);
    assert_eq!(due, [Due::Renew(second)]);
    schedule.remove(second);
    schedule.handle_renewed(second, 10 * SECOND, now + 5 * SECOND, 0.0);
    schedule.handle_failed(second, now + 5 * SECOND);
    assert!(schedule.is_empty() && schedule.poll_timeout().is_none());
}

/// A lock has the place of one that is gone, and none of what was meant for that one.
#[test]
fn b83_an_answer_that_comes_late_is_not_for_the_next_lock() {
    let now = origin();
    let mut schedule = LockSchedule::new();
    let keep = |schedule: &mut LockSchedule<u32>, name| {
        schedule.insert(name, 10 * SECOND, KeepLock::UntilSettled, now, 0.0)
    };
    let gone = keep(&mut schedule, 1);
    let other = keep(&mut schedule, 2);
    schedule.remove(gone);
    let next = keep(&mut schedule, 3);
    schedule.handle_renewed(gone, 300 * SECOND, now, 0.0);
    schedule.stop(gone);
    assert_eq!(schedule.remove(gone), None);
    assert_eq!(schedule.remaining(next, now), 10 * SECOND);
    let mut due = all_due(&mut schedule, now + 5 * SECOND);
    due.sort_by_key(|due| matches!(due, Due::Renew(id) if *id == next));
    assert_eq!(due, [Due::Renew(other), Due::Renew(next)]);
}

#[test]
fn b83_the_end_of_renewal_is_said_once() {
    let now = origin();
    let mut schedule = LockSchedule::new();
    let lock = schedule.insert(1, 10 * SECOND, KeepLock::For(12 * SECOND), now, 0.0);
    assert_eq!(all_due(&mut schedule, now + 5 * SECOND), [Due::Renew(lock)]);
    schedule.handle_renewed(lock, 10 * SECOND, now + 5 * SECOND, 0.0);
    assert_eq!(all_due(&mut schedule, now + 11 * SECOND), []);
    let due = all_due(&mut schedule, now + 12 * SECOND);
    assert_eq!(due, [Due::Stopped(lock)]);
    assert_eq!(all_due(&mut schedule, now + 14 * SECOND), []);
    assert_eq!(all_due(&mut schedule, now + 15 * SECOND), [Due::Expired(1)]);
}

#[test]
fn a_lock_that_is_given_up_is_not_renewed_and_its_end_is_told() {
    let now = origin();
    let mut schedule = LockSchedule::new();
    let lock = schedule.insert(1, 10 * SECOND, KeepLock::UntilSettled, now, 0.0);
    schedule.stop(lock);
    assert_eq!(schedule.due(lock), Some(now + 10 * SECOND));
    assert_eq!(all_due(&mut schedule, now + 9 * SECOND), []);
    assert_eq!(all_due(&mut schedule, now + 10 * SECOND), [Due::Expired(1)]);
}

#[test]
fn b83_a_failed_renewal_is_tried_again_while_the_lock_lasts() {
    let now = origin();
    let mut schedule = LockSchedule::new();
    let failing = schedule.insert(1, 10 * SECOND, KeepLock::UntilSettled, now, 0.0);
    let other = schedule.insert(2, 10 * SECOND, KeepLock::UntilSettled, now, 0.0);
    let mut at = now + 5 * SECOND;
    assert_eq!(
        all_due(&mut schedule, at),
        [Due::Renew(failing), Due::Renew(other)]
    );
    schedule.handle_renewed(other, 60 * SECOND, at, 0.0);
    // Not twice while the first is on its way.
    assert_eq!(all_due(&mut schedule, at + SECOND), []);
    let mut attempts = 0;
    loop {
        schedule.handle_failed(failing, at);
        at = schedule.due(failing).unwrap();
        match all_due(&mut schedule, at)[..] {
            [Due::Renew(_)] => attempts += 1,
            [Due::Expired(1)] => break,
            ref due => panic!("{due:?}"),
        }
    }
    // 0.25, 0.75, 1.75 and 3.75 s after the first.
    assert_eq!(attempts, 4);
    assert_eq!(at, now + 10 * SECOND);
    assert_eq!(schedule.len(), 1, "the other lock goes on");
}

/// Messages that are settled soon after they came leave the schedule as small as the number of those that are held.
#[test]
fn the_schedule_does_not_grow_with_the_messages_that_went_through() {
    let start = origin();
    let mut schedule = LockSchedule::new();
    let mut held = std::collections::VecDeque::new();
    for number in 0..100_000u32 {
        let now = start + number * Duration::from_millis(1);
        held.push_back(schedule.insert(number, 300 * SECOND, KeepLock::UntilSettled, now, 0.5));
        if held.len() > 100 {
            assert!(schedule.remove(held.pop_front().unwrap()).is_some());
        }
        assert!(schedule.queue_len() < 300, "{}", schedule.queue_len());
    }
    assert_eq!(schedule.len(), 100);
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
    for name in 0..LOCKS {
        schedule.insert(name, 30 * SECOND, KeepLock::UntilSettled, start, random());
    }
    let answer_time = Duration::from_millis(100);
    let mut in_flight: BTreeSet<(Instant, LockId)> = BTreeSet::new();
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
        while let Some(&(at, id)) = in_flight.first().filter(|(at, _)| *at <= now) {
            in_flight.remove(&(at, id));
            schedule.handle_renewed(id, 30 * SECOND, now, random());
        }
        for due in all_due(&mut schedule, now) {
            let Due::Renew(id) = due else {
                panic!("{due:?}")
            };
            in_flight.insert((now + answer_time, id));
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
    Stop(u32),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..6u32;
    let step = prop_oneof![
        (name.clone(), 0..40_000u64, 0..60_000u64)
            .prop_map(|(n, r, keep)| Step::Insert(n, r, keep)),
        name.clone().prop_map(Step::Remove),
        (name.clone(), 0..40_000u64).prop_map(|(n, r)| Step::Renewed(n, r)),
        name.clone().prop_map(Step::Failed),
        name.prop_map(Step::Stop),
        (0..20_000u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Whatever happens: each lock has its entry in the queue, an expired one is named once and is gone, and polling ends.
    #[test]
    fn the_schedule_keeps_its_invariants(steps in steps(), random in 0.0..1.0f64) {
        let mut now = origin();
        let mut schedule = LockSchedule::new();
        let mut ids = HashMap::new();
        for step in steps {
            let millis = Duration::from_millis;
            match step {
                Step::Insert(name, remaining, keep) => {
                    let keep = if keep < 50_000 { KeepLock::For(millis(keep)) } else { KeepLock::UntilSettled };
                    let id = schedule.insert(name, millis(remaining), keep, now, random);
                    if let Some(before) = ids.insert(name, id) {
                        schedule.remove(before);
                    }
                }
                Step::Remove(name) => {
                    if let Some(id) = ids.get(&name) {
                        schedule.remove(*id);
                    }
                }
                Step::Renewed(name, remaining) => {
                    if let Some(id) = ids.get(&name) {
                        schedule.handle_renewed(*id, millis(remaining), now, random);
                    }
                }
                Step::Failed(name) => {
                    if let Some(id) = ids.get(&name) {
                        schedule.handle_failed(*id, now);
                    }
                }
                Step::Stop(name) => {
                    if let Some(id) = ids.get(&name) {
                        schedule.stop(*id);
                    }
                }
                Step::Pass(time) => now += millis(time),
            }
            for due in all_due(&mut schedule, now) {
                match due {
                    Due::Expired(name) => {
                        let id = ids.remove(&name).unwrap();
                        prop_assert_eq!(schedule.get(id), None);
                    }
                    Due::Renew(id) | Due::Stopped(id) => {
                        prop_assert!(!schedule.remaining(id, now).is_zero());
                    }
                }
            }
            let timeout = schedule.poll_timeout();
            prop_assert!(timeout.is_none_or(|at| at > now));
            for id in ids.values().filter(|id| schedule.get(**id).is_some()) {
                prop_assert!(!schedule.remaining(*id, now).is_zero());
                prop_assert!(timeout <= schedule.due(*id));
            }
        }
        // Each lock ends, also after all of that.
        let held = schedule.len();
        let mut expired = 0;
        while let Some(at) = schedule.poll_timeout() {
            expired += all_due(&mut schedule, at.max(now)).iter().filter(|due| matches!(due, Due::Expired(_))).count();
        }
        prop_assert_eq!(expired, held);
    }
}
