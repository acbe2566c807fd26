//! Peek and batch delete.

use servicebus_emulator::broker::*;

use crate::support::*;

#[test]
fn b68_peek_goes_on_from_a_number_whatever_the_state() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for body in ["deferred", "locked", "gone", "active"] {
        world.send(queue, &message(body));
    }
    world.send(queue, &message("scheduled").scheduled(at(10)));
    let receiver = world.receiver(queue);
    world.credit(receiver, 3);
    let deliveries = world.deliveries();
    world.settle(queue, &deliveries[0], defer()).unwrap();
    world.complete(queue, &deliveries[2]).unwrap();
    let peek = |world: &mut World, from, count| {
        world
            .apply(Peek {
                entity: queue,
                from,
                count,
                session: None,
            })
            .unwrap()
            .iter()
            .map(|stored| (stored.sequence_number(), body(stored)))
            .collect::<Vec<_>>()
    };
    let all = [
        (1, "deferred"),
        (2, "locked"),
        (4, "active"),
        (5, "scheduled"),
    ]
    .map(|(n, body)| (n, body.to_owned()));
    assert_eq!(peek(&mut world, 0, 10), all);
    assert_eq!(peek(&mut world, 3, 1), all[2..3]);
    assert!(peek(&mut world, 6, 10).is_empty());
    let states: Vec<_> = world.peek(queue).iter().map(StoredMessage::state).collect();
    use MessageState::{Active, Deferred, Scheduled};
    assert_eq!(states, [Deferred, Active, Active, Scheduled]);
    assert!(
        world
            .peek(queue)
            .iter()
            .all(|stored| stored.locked_until().is_none())
    );
}

#[test]
fn b68_one_call_peeks_at_most_250() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for _ in 0..260 {
        world.send(queue, &message("x"));
    }
    assert_eq!(world.peek(queue).len(), 250);
}

#[test]
fn peek_by_session() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        requires_session: true,
        ..QueueOptions::default()
    });
    for (body, session) in [("a", "s"), ("b", "t"), ("c", "s")] {
        world.send(queue, &message(body).session(session));
    }
    let mut peek = |session: Option<&str>| {
        world.apply(Peek {
            entity: queue,
            from: 0,
            count: 10,
            session: session.map(Into::into),
        })
    };
    let bodies: Vec<_> = peek(Some("s")).unwrap().iter().map(body).collect();
    assert_eq!(bodies, ["a", "c"]);
    assert_eq!(peek(None).unwrap_err().condition(), "amqp:not-allowed");
}

#[test]
fn batch_delete_takes_old_active_messages_and_skips_locked_ones() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for body in ["locked", "a", "b"] {
        world.send(queue, &message(body).ttl(secs(1000)));
    }
    let receiver = world.receiver(queue);
    world.receive(receiver).unwrap();
    world.advance(secs(10));
    world.send(queue, &message("new"));
    let delete = |world: &mut World, count| {
        world
            .apply(BatchDelete {
                entity: queue,
                count,
                before: Some(at(5)),
                session: None,
            })
            .unwrap()
    };
    assert_eq!(delete(&mut world, 1), 1);
    assert_eq!(world.bodies(queue), ["locked", "b", "new"]);
    assert_eq!(delete(&mut world, 100), 1);
    assert_eq!(delete(&mut world, 100), 0);
    assert_eq!(world.bodies(queue), ["locked", "new"]);
    assert_eq!(body(&world.receive(receiver).unwrap().message), "new");
}

#[test]
fn a_snapshot_shows_everything() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a").id("m"));
    world.send(queue, &message("b"));
    let receiver = world.receiver(queue);
    world.credit(receiver, 1);
    let delivery = world.deliveries().pop().unwrap();
    let snapshot = world.broker.snapshot(queue).unwrap();
    assert_eq!(&*snapshot.path, "q");
    assert_eq!(snapshot.counts.active, 2);
    assert_eq!(snapshot.messages[0].lock, delivery.token);
    assert_eq!(snapshot.messages[0].message.locked_until(), Some(at(60)));
    assert_eq!(snapshot.messages[1].lock, None);
    assert_eq!(snapshot.receivers[0].consumer, receiver);
}

#[test]
fn events_tell_what_happened() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a").id("m"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world.advance(secs(60));
    let again = world.receive(receiver).unwrap();
    world.complete(queue, &again).unwrap();
    let sequence_number = 1;
    assert_eq!(
        world.events(),
        [
            EventKind::Created,
            EventKind::Enqueued {
                sequence_number,
                message_id: Some(text("m"))
            },
            EventKind::Locked {
                sequence_number,
                token: delivery.token.unwrap()
            },
            EventKind::LockExpired { sequence_number },
            EventKind::Locked {
                sequence_number,
                token: again.token.unwrap()
            },
            EventKind::Settled {
                sequence_number,
                settlement: SettlementKind::Completed
            },
        ]
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut broker = Broker::new(Limits::unlimited(), seed);
        let mut world = World {
            broker: {
                broker.record_events();
                broker
            },
            now: at(0),
        };
        let queue = world.queue(QueueOptions::default());
        world.send(queue, &message("a"));
        let receiver = world.receiver(queue);
        world.receive(receiver).unwrap().token
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
