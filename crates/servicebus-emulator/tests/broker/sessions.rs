//! Sessions.

use bytes::Bytes;
use servicebus_emulator::broker::*;

use crate::support::*;

fn session_queue(world: &mut World) -> EntityId {
    world.queue(QueueOptions {
        requires_session: true,
        lock_duration: secs(30),
        ..QueueOptions::default()
    })
}

fn next(wait: u64) -> SessionRequest {
    SessionRequest::Next {
        wait: Some(secs(wait)),
    }
}

#[test]
fn a_message_without_session_is_refused() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    let error = world.try_send(queue, &message("a")).unwrap_err();
    assert_eq!(error.condition(), "amqp:not-allowed");
    assert!(error.text().starts_with(
        "The SessionId was not set on a message, and it cannot be sent to the entity."
    ));
    world.send(queue, &message("a").session(""));
    world.session(queue, "");
}

#[test]
fn receivers_must_fit_the_entity() {
    let mut world = World::new();
    let with = session_queue(&mut world);
    let without = world.named_queue("plain", QueueOptions::default()).unwrap();
    let attach = |world: &mut World, entity, session| {
        world
            .try_attach(entity, ReceiveMode::PeekLock, session)
            .unwrap_err()
    };
    let error = attach(&mut world, with, SessionRequest::None);
    assert_eq!(error.condition(), "amqp:not-allowed");
    assert!(error.text().starts_with(
        "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
    ));
    let error = attach(&mut world, without, SessionRequest::Named(text("s")));
    assert_eq!(error.condition(), "amqp:not-allowed");
    // The dead-letter queue has no sessions.
    let dead_letters = world.find("q/$DeadLetterQueue");
    world.receiver(dead_letters);
}

#[test]
fn a_named_session_needs_no_messages_and_has_one_holder() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    let attached = world
        .try_attach(
            queue,
            ReceiveMode::PeekLock,
            SessionRequest::Named(text("s")),
        )
        .unwrap();
    let Attached::Ready { consumer, session } = attached else {
        panic!("{attached:?}")
    };
    let expected = SessionGrant {
        id: text("s"),
        locked_until: at(30),
    };
    assert_eq!(session, Some(expected));
    let again = |world: &mut World| {
        world.try_attach(
            queue,
            ReceiveMode::PeekLock,
            SessionRequest::Named(text("s")),
        )
    };
    let error = again(&mut world).unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:session-cannot-be-locked");
    assert_eq!(error.status(), 410);
    world.apply(DetachReceiver { consumer }).unwrap();
    again(&mut world).unwrap();
}

#[test]
fn order_holds_within_a_session_and_b79_after_abandon() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    for n in 1..=10 {
        world.send(queue, &message(&n.to_string()).session("s"));
        world.send(queue, &message("other").session("t"));
    }
    let receiver = world.session(queue, "s");
    let mut seen = Vec::new();
    while let Some(delivery) = world.receive(receiver) {
        let body = body(&delivery.message);
        let first = !seen.contains(&body);
        seen.push(body.clone());
        if body == "5" && first {
            assert_eq!(delivery_count(&delivery), 0);
            world.abandon(queue, &delivery);
        } else {
            assert_eq!(delivery_count(&delivery), u32::from(body == "5"));
            world.complete(queue, &delivery).unwrap();
        }
    }
    assert_eq!(
        seen,
        ["1", "2", "3", "4", "5", "5", "6", "7", "8", "9", "10"]
    );
}

#[test]
fn accept_next_takes_the_session_with_the_oldest_message() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    for session in ["b", "a", "b"] {
        world.send(queue, &message("x").session(session));
    }
    for expected in ["b", "a"] {
        let attached = world
            .try_attach(queue, ReceiveMode::PeekLock, next(1))
            .unwrap();
        let Attached::Ready { session, .. } = attached else {
            panic!("{attached:?}")
        };
        assert_eq!(session.unwrap().id, expected);
    }
}

#[test]
fn b74_accept_next_waits_and_gives_up_in_time() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    let attached = world
        .try_attach(queue, ReceiveMode::PeekLock, next(4))
        .unwrap();
    let Attached::Waiting { consumer } = attached else {
        panic!("{attached:?}")
    };
    world.advance(std::time::Duration::from_millis(3999));
    assert!(world.effects().is_empty());
    world.advance(std::time::Duration::from_millis(1));
    let effects = world.effects();
    let [
        Effect::SessionRefused {
            consumer: refused,
            error,
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(*refused, consumer);
    assert_eq!(error.condition(), "com.microsoft:timeout");
    // Nothing is left of the receiver.
    world.send(queue, &message("a").session("s"));
    assert!(world.effects().is_empty());
    world.session(queue, "s");
}

#[test]
fn waiting_receivers_get_sessions_in_order() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    let mut wait = || {
        let attached = world
            .try_attach(queue, ReceiveMode::PeekLock, next(60))
            .unwrap();
        match attached {
            Attached::Waiting { consumer } => consumer,
            Attached::Ready { .. } => panic!("no session is free"),
        }
    };
    let (first, cancelled, second) = (wait(), wait(), wait());
    // B75: a receiver that gives up does not get a session that nobody would own.
    world
        .apply(DetachReceiver {
            consumer: cancelled,
        })
        .unwrap();
    world.send(queue, &message("a").session("s"));
    world.send(queue, &message("b").session("t"));
    let accepted: Vec<_> = world
        .effects()
        .into_iter()
        .map(|effect| match effect {
            Effect::SessionAccepted { consumer, session } => (consumer, session.id.to_string()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        accepted,
        [(first, "s".to_owned()), (second, "t".to_owned())]
    );
    assert_eq!(body(&world.receive(first).unwrap().message), "a");
}

#[test]
fn a_session_that_is_given_back_goes_to_the_next_receiver_uncounted() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    world.send(queue, &message("a").session("s"));
    let first = world.session(queue, "s");
    let delivery = world.receive(first).unwrap();
    let waiting = world
        .try_attach(queue, ReceiveMode::PeekLock, next(60))
        .unwrap();
    assert!(matches!(waiting, Attached::Waiting { .. }));
    world.apply(DetachReceiver { consumer: first }).unwrap();
    let effects = world.effects();
    let [Effect::SessionAccepted { consumer, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    let error = world.complete(queue, &delivery).unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:session-lock-lost");
    assert_eq!(delivery_count(&world.receive(*consumer).unwrap()), 0);
}

#[test]
fn b112_an_unrenewed_session_is_lost_and_its_deliveries_count() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    world.send(queue, &message("a").session("s"));
    let receiver = world.session(queue, "s");
    let delivery = world.receive(receiver).unwrap();
    assert_eq!(delivery.message.locked_until(), Some(at(30)));
    // Five minutes of work with renewals.
    for n in 1..=20 {
        world.advance(secs(15));
        let until = world
            .apply(RenewSessionLock {
                entity: queue,
                session: text("s"),
            })
            .unwrap();
        assert_eq!(until, at(15 * n + 30));
    }
    assert!(world.effects().is_empty(), "the link stays");
    world.advance(secs(30));
    let effects = world.effects();
    let [Effect::DetachReceiver { consumer, error }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(*consumer, receiver);
    assert_eq!(error.condition(), "com.microsoft:session-lock-lost");
    assert!(error.text().starts_with(
        "The session lock has expired on the MessageSession. Accept a new MessageSession."
    ));
    let error = world.complete(queue, &delivery).unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:session-lock-lost");
    assert_eq!(error.status(), 410);
    let error = world
        .apply(RenewSessionLock {
            entity: queue,
            session: text("s"),
        })
        .unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:session-lock-lost");
    let receiver = world.session(queue, "s");
    assert_eq!(delivery_count(&world.receive(receiver).unwrap()), 1);
}

#[test]
fn state_outlives_receivers_and_messages() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    let receiver = world.session(queue, "s");
    let read = |world: &mut World| {
        world.apply(ReadSessionState {
            entity: queue,
            session: text("s"),
        })
    };
    let write = |world: &mut World, state: Option<&'static [u8]>| {
        world
            .apply(WriteSessionState {
                entity: queue,
                session: text("s"),
                state: state.map(Bytes::from_static),
            })
            .unwrap();
    };
    let list = |world: &mut World, updated_after| {
        world
            .apply(ListSessions {
                entity: queue,
                updated_after,
                skip: 0,
                top: 100,
            })
            .unwrap()
    };
    assert_eq!(read(&mut world).unwrap(), None);
    write(&mut world, Some(b"progress"));
    assert_eq!(read(&mut world).unwrap().unwrap(), "progress");
    world.apply(DetachReceiver { consumer: receiver }).unwrap();
    assert_eq!(
        read(&mut world).unwrap_err().kind(),
        ErrorKind::SessionLockLost
    );
    assert_eq!(list(&mut world, None), ["s"], "state keeps it listed");
    assert_eq!(list(&mut world, Some(at(-1))), ["s"]);
    assert!(list(&mut world, Some(at(0))).is_empty());
    world.session(queue, "s");
    assert_eq!(read(&mut world).unwrap().unwrap(), "progress");
    write(&mut world, None);
    assert_eq!(read(&mut world).unwrap(), None);
    assert!(list(&mut world, None).is_empty());
}

#[test]
fn sessions_are_listed_by_page() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    for session in ["c", "a", "b"] {
        world.send(queue, &message("x").session(session));
    }
    let mut page = |skip| {
        world
            .apply(ListSessions {
                entity: queue,
                updated_after: None,
                skip,
                top: 2,
            })
            .unwrap()
    };
    assert_eq!(page(0), ["a", "b"]);
    assert_eq!(page(2), ["c"]);
    assert!(page(3).is_empty());
}

#[test]
fn deferred_messages_stay_in_their_session() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    world.send(queue, &message("a").session("s"));
    world.send(queue, &message("b").session("s"));
    let receiver = world.session(queue, "s");
    let delivery = world.receive(receiver).unwrap();
    world.settle(queue, &delivery, defer()).unwrap();
    assert_eq!(body(&world.receive(receiver).unwrap().message), "b");
    let mut fetch = |session: Option<&str>| {
        world.apply(ReceiveDeferred {
            entity: queue,
            sequence_numbers: vec![1],
            mode: ReceiveMode::PeekLock,
            session: session.map(Into::into),
        })
    };
    assert_eq!(fetch(None).unwrap_err().condition(), "amqp:not-allowed");
    assert_eq!(
        fetch(Some("t")).unwrap_err().kind(),
        ErrorKind::SessionLockLost
    );
    let deferred = fetch(Some("s")).unwrap().pop().unwrap();
    assert_eq!(body(&deferred.message), "a");
    world.complete(queue, &deferred).unwrap();
}

#[test]
fn ten_thousand_sessions_come_and_go() {
    let mut world = World::new();
    let queue = session_queue(&mut world);
    for n in 0..10_000 {
        world.send(queue, &message("x").session(&n.to_string()));
    }
    for n in 0..10_000 {
        let attached = world
            .try_attach(queue, ReceiveMode::PeekLock, next(1))
            .unwrap();
        let Attached::Ready { consumer, session } = attached else {
            panic!("{attached:?}")
        };
        assert_eq!(session.unwrap().id, n.to_string());
        let delivery = world.receive(consumer).unwrap();
        world.complete(queue, &delivery).unwrap();
        world.apply(DetachReceiver { consumer }).unwrap();
    }
    let snapshot = world.broker.snapshot(queue).unwrap();
    assert!(snapshot.sessions.is_empty(), "nothing is kept of them");
    assert_eq!(world.broker.poll_timeout(), None);
}
