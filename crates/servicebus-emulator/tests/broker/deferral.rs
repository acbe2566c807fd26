//! Deferral.

use servicebus_amqp::types::Value;
use servicebus_emulator::broker::*;

use crate::support::*;

fn fetch(world: &mut World, entity: EntityId, numbers: &[i64]) -> Result<Vec<Delivery>, Error> {
    world.apply(ReceiveDeferred {
        entity,
        sequence_numbers: numbers.to_vec(),
        mode: ReceiveMode::PeekLock,
        session: None,
    })
}

fn deferred(world: &mut World) -> (EntityId, Delivery) {
    let queue = world.queue(QueueOptions {
        lock_duration: secs(30),
        ..QueueOptions::default()
    });
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world.settle(queue, &delivery, defer()).unwrap();
    assert!(world.receive(receiver).is_none(), "not received any more");
    let deferred = fetch(world, queue, &[1]).unwrap().pop().unwrap();
    (queue, deferred)
}

#[test]
fn b63_a_deferred_message_is_fetched_by_number_with_a_lock_of_its_own() {
    let mut world = World::new();
    let (queue, delivery) = deferred(&mut world);
    assert_eq!(delivery.consumer, None);
    assert_eq!(delivery_count(&delivery), 1, "deferring counts");
    let state = annotation(&delivery.message, "x-opt-message-state");
    assert_eq!(state, Some(Value::Int(1)));
    let error = fetch(&mut world, queue, &[1]).unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:message-not-found");
    assert_eq!(error.status(), 404);
    world.complete(queue, &delivery).unwrap();
    assert_eq!(world.counts(queue), Counts::default());
}

#[test]
fn abandoning_or_deferring_again_counts_and_keeps_it_deferred() {
    let mut world = World::new();
    let (queue, delivery) = deferred(&mut world);
    world.abandon(queue, &delivery);
    let delivery = fetch(&mut world, queue, &[1]).unwrap().pop().unwrap();
    assert_eq!(delivery_count(&delivery), 2);
    world.settle(queue, &delivery, defer()).unwrap();
    let delivery = fetch(&mut world, queue, &[1]).unwrap().pop().unwrap();
    assert_eq!(delivery_count(&delivery), 3);
    world.advance(secs(30));
    let delivery = fetch(&mut world, queue, &[1]).unwrap().pop().unwrap();
    assert_eq!(delivery_count(&delivery), 4, "so does the end of its lock");
}

#[test]
fn dead_lettering_it_does_not_count() {
    let mut world = World::new();
    let (queue, delivery) = deferred(&mut world);
    world
        .settle(queue, &delivery, dead_letter("r", "d"))
        .unwrap();
    let dead_letters = world.find("q/$DeadLetterQueue");
    assert_eq!(world.peek(dead_letters)[0].delivery_count(), 1);
}

#[test]
fn its_lock_can_be_renewed() {
    let mut world = World::new();
    let (queue, delivery) = deferred(&mut world);
    world.advance(secs(20));
    let renewed = world.apply(RenewLocks {
        entity: queue,
        tokens: vec![delivery.token.unwrap()],
    });
    assert_eq!(renewed.unwrap(), [at(50)]);
}

#[test]
fn fetching_is_all_or_nothing() {
    let mut world = World::new();
    let (queue, delivery) = deferred(&mut world);
    world.abandon(queue, &delivery);
    world.send(queue, &message("active"));
    for numbers in [&[1, 2][..], &[1, 99], &[1, 1]] {
        let error = fetch(&mut world, queue, numbers).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MessageNotFound, "{numbers:?}");
    }
    assert_eq!(fetch(&mut world, queue, &[1]).unwrap().len(), 1);
}

#[test]
fn receive_and_delete_by_number() {
    let mut world = World::new();
    let (queue, delivery) = deferred(&mut world);
    world.abandon(queue, &delivery);
    let mut received = world
        .apply(ReceiveDeferred {
            entity: queue,
            sequence_numbers: vec![1],
            mode: ReceiveMode::ReceiveAndDelete,
            session: None,
        })
        .unwrap();
    assert_eq!(received.pop().unwrap().token, None);
    assert_eq!(world.counts(queue), Counts::default());
}

#[test]
fn an_expired_deferred_message_stays() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        dead_letter_on_expiration: true,
        ..QueueOptions::default()
    });
    world.send(queue, &message("a").ttl(secs(5)));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world.settle(queue, &delivery, defer()).unwrap();
    world.advance(secs(60));
    assert_eq!(world.counts(queue).deferred, 1);
    assert_eq!(world.counts(queue).dead_letter, 0);
    assert_eq!(fetch(&mut world, queue, &[1]).unwrap().len(), 1);
}
