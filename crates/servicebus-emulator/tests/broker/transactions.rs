//! Transactions.

use servicebus_emulator::broker::*;

use crate::support::*;

fn begin(world: &mut World) -> TransactionId {
    world.apply(BeginTransaction).unwrap()
}

fn end(world: &mut World, transaction: TransactionId, end: TransactionEnd) -> Result<(), Error> {
    world.apply(EndTransaction { transaction, end })
}

fn send_in(
    world: &mut World,
    transaction: TransactionId,
    entity: EntityId,
    draft: &Draft,
) -> Result<(), Error> {
    world.apply(Send {
        entity,
        payload: draft.bytes(),
        format: 0,
        transaction: Some(transaction),
    })
}

fn settle_in(
    world: &mut World,
    transaction: TransactionId,
    entity: EntityId,
    delivery: &Delivery,
    settlement: Settlement,
) -> Result<(), Error> {
    world.apply(Settle {
        entity,
        token: delivery.token.unwrap(),
        settlement,
        transaction: Some(transaction),
    })
}

#[test]
fn commit_makes_sends_and_settlements_of_several_entities_real_together() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let other = world.named_queue("other", QueueOptions::default()).unwrap();
    world.send(queue, &message("in"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    let transaction = begin(&mut world);
    settle_in(
        &mut world,
        transaction,
        queue,
        &delivery,
        Settlement::Complete,
    )
    .unwrap();
    send_in(&mut world, transaction, other, &message("out")).unwrap();
    send_in(&mut world, transaction, queue, &message("again")).unwrap();
    assert!(world.bodies(other).is_empty());
    assert_eq!(world.bodies(queue), ["in"]);
    end(&mut world, transaction, TransactionEnd::Commit).unwrap();
    assert_eq!(world.bodies(other), ["out"]);
    assert_eq!(world.bodies(queue), ["again"]);
}

#[test]
fn rollback_leaves_messages_locked_until_their_lock_ends() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("in"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    let transaction = begin(&mut world);
    settle_in(
        &mut world,
        transaction,
        queue,
        &delivery,
        Settlement::Complete,
    )
    .unwrap();
    send_in(&mut world, transaction, queue, &message("out")).unwrap();
    end(&mut world, transaction, TransactionEnd::Rollback).unwrap();
    assert_eq!(world.bodies(queue), ["in"]);
    assert!(world.receive(receiver).is_none(), "still locked");
    world.complete(queue, &delivery).unwrap();
    assert_eq!(world.counts(queue).active, 0);
}

#[test]
fn a_lock_that_ends_meanwhile_waits_for_the_transaction() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        lock_duration: secs(30),
        ..QueueOptions::default()
    });
    for body in ["committed", "rolled back"] {
        world.send(queue, &message(body));
    }
    let receiver = world.receiver(queue);
    for how in [TransactionEnd::Commit, TransactionEnd::Rollback] {
        let delivery = world.receive(receiver).unwrap();
        let transaction = begin(&mut world);
        settle_in(
            &mut world,
            transaction,
            queue,
            &delivery,
            Settlement::Complete,
        )
        .unwrap();
        world.advance(secs(40));
        end(&mut world, transaction, how).unwrap();
    }
    let again = world.receive(receiver).expect("given back by the rollback");
    assert_eq!(body(&again.message), "rolled back");
    assert_eq!(delivery_count(&again), 1);
}

#[test]
fn every_settlement_takes_part() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for body in ["abandoned", "deferred", "dead"] {
        world.send(queue, &message(body));
    }
    let receiver = world.receiver(queue);
    world.credit(receiver, 3);
    let deliveries = world.deliveries();
    let transaction = begin(&mut world);
    for (delivery, settlement) in deliveries
        .iter()
        .zip([abandon(), defer(), dead_letter("r", "d")])
    {
        settle_in(&mut world, transaction, queue, delivery, settlement).unwrap();
    }
    assert_eq!(world.counts(queue).active, 3);
    end(&mut world, transaction, TransactionEnd::Commit).unwrap();
    let counts = world.counts(queue);
    assert_eq!(
        (counts.active, counts.deferred, counts.dead_letter),
        (1, 1, 1)
    );
}

#[test]
fn scheduling_takes_part_and_answers_numbers_at_once() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for how in [TransactionEnd::Rollback, TransactionEnd::Commit] {
        let transaction = begin(&mut world);
        let numbers = world
            .apply(Schedule {
                entity: queue,
                messages: vec![message("a").scheduled(at(10)).bytes()],
                transaction: Some(transaction),
            })
            .unwrap();
        assert_eq!(world.counts(queue).scheduled, 0);
        end(&mut world, transaction, how).unwrap();
        if how == TransactionEnd::Commit {
            world
                .apply(CancelScheduled {
                    entity: queue,
                    sequence_numbers: numbers,
                })
                .unwrap();
        }
    }
}

#[test]
fn b93_a_refused_send_refuses_the_commit() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let sessions = world
        .named_queue(
            "sessions",
            QueueOptions {
                requires_session: true,
                ..QueueOptions::default()
            },
        )
        .unwrap();
    let transaction = begin(&mut world);
    send_in(&mut world, transaction, queue, &message("a")).unwrap();
    send_in(&mut world, transaction, sessions, &message("no session")).unwrap_err();
    let error = end(&mut world, transaction, TransactionEnd::Commit).unwrap_err();
    assert_eq!(error.condition(), "amqp:transaction:rollback");
    assert!(world.bodies(queue).is_empty());
}

#[test]
fn a_transaction_ends_once_and_after_two_minutes() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let transaction = begin(&mut world);
    end(&mut world, transaction, TransactionEnd::Commit).unwrap();
    let error = end(&mut world, transaction, TransactionEnd::Commit).unwrap_err();
    assert_eq!(error.condition(), "amqp:transaction:unknown-id");

    let transaction = begin(&mut world);
    send_in(&mut world, transaction, queue, &message("a")).unwrap();
    world.advance(secs(120));
    let error = send_in(&mut world, transaction, queue, &message("b")).unwrap_err();
    assert_eq!(error.condition(), "amqp:transaction:unknown-id");
    assert!(world.bodies(queue).is_empty());
    let unknown = TransactionId::from_bytes(&[7; 16]).unwrap();
    assert!(end(&mut world, unknown, TransactionEnd::Rollback).is_err());
    assert_eq!(TransactionId::from_bytes(b"short"), None);
}

#[test]
fn a_transaction_holds_a_hundred_messages_and_one_receiving_entity() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let other = world.named_queue("other", QueueOptions::default()).unwrap();
    let transaction = begin(&mut world);
    for _ in 0..100 {
        send_in(&mut world, transaction, queue, &message("a")).unwrap();
    }
    let error = send_in(&mut world, transaction, queue, &message("a")).unwrap_err();
    assert!(
        error
            .text()
            .starts_with("Can't send more than 100 messages in a single transaction")
    );

    for entity in [queue, other] {
        world.send(entity, &message("in"));
    }
    let transaction = begin(&mut world);
    for (entity, allowed) in [(queue, true), (other, false)] {
        let receiver = world.receiver(entity);
        let delivery = world.receive(receiver).unwrap();
        let settled = settle_in(
            &mut world,
            transaction,
            entity,
            &delivery,
            Settlement::Complete,
        );
        assert_eq!(settled.is_ok(), allowed);
        if let Err(error) = settled {
            assert_eq!(error.condition(), "amqp:not-allowed");
            assert!(
                error
                    .text()
                    .starts_with("Local transactions cannot span multiple top-level entities")
            );
        }
    }
}

#[test]
fn settling_twice_in_a_transaction_is_refused() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    let transaction = begin(&mut world);
    settle_in(
        &mut world,
        transaction,
        queue,
        &delivery,
        Settlement::Complete,
    )
    .unwrap();
    assert!(
        settle_in(
            &mut world,
            transaction,
            queue,
            &delivery,
            Settlement::Complete
        )
        .is_err()
    );
    assert!(world.complete(queue, &delivery).is_err());
}

#[test]
fn properties_that_cannot_be_written_are_refused_when_they_are_given() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    let transaction = begin(&mut world);
    let properties = servicebus_amqp::types::Map::new().with(1, "the name is no text");
    let settlement = Settlement::Abandon { properties };
    let error = settle_in(&mut world, transaction, queue, &delivery, settlement).unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:argument-error");
    end(&mut world, transaction, TransactionEnd::Commit).unwrap_err();
    world.complete(queue, &delivery).unwrap();
}
