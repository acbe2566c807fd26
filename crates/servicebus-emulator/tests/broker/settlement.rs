//! Peek-lock and what follows.

use servicebus_amqp::types::{Map, Value};
use servicebus_emulator::broker::*;

use crate::support::*;

#[test]
fn first_delivery_is_locked_and_counts_zero() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a").id("m1").text("color", "red"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();

    assert_eq!(delivery.consumer, Some(receiver));
    assert_eq!(delivery_count(&delivery), 0);
    assert_eq!(body(&delivery.message), "a");
    assert_eq!(text_property(&delivery.message, "color").unwrap(), "red");
    let annotation = |name| annotation(&delivery.message, name).unwrap();
    assert_eq!(annotation("x-opt-sequence-number"), Value::Long(1));
    assert_eq!(annotation("x-opt-enqueued-time"), Value::Timestamp(at(0)));
    assert_eq!(annotation("x-opt-locked-until"), Value::Timestamp(at(60)));
    let message = &delivery.message;
    assert_eq!(self::annotation(message, "x-opt-message-state"), None);
    assert_eq!(world.counts(queue).active, 1, "a locked message is active");

    world.complete(queue, &delivery).unwrap();
    assert_eq!(world.counts(queue), Counts::default());
}

#[test]
fn receive_and_delete_removes_on_delivery() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver_with(queue, ReceiveMode::ReceiveAndDelete, SessionRequest::None);
    let delivery = world.receive(receiver).unwrap();
    assert_eq!(delivery.token, None);
    assert_eq!(annotation(&delivery.message, "x-opt-locked-until"), None);
    assert_eq!(world.counts(queue).active, 0);
}

#[test]
fn abandoned_message_is_the_next_one_again() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for body in ["a", "b"] {
        world.send(queue, &message(body));
    }
    let receiver = world.receiver(queue);
    for attempt in 0..3 {
        let delivery = world.receive(receiver).unwrap();
        assert_eq!(body(&delivery.message), "a");
        assert_eq!(delivery_count(&delivery), attempt);
        let properties = Map::new().with("attempt", i64::from(attempt));
        world
            .settle(queue, &delivery, Settlement::Abandon { properties })
            .unwrap();
    }
    let delivery = world.receive(receiver).unwrap();
    assert_eq!(property(&delivery.message, "attempt"), Some(Value::Long(2)));
    assert_eq!(body(&world.receive(receiver).unwrap().message), "b");
}

#[test]
fn released_message_does_not_count() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world.settle(queue, &delivery, Settlement::Release).unwrap();
    assert_eq!(delivery_count(&world.receive(receiver).unwrap()), 0);
}

#[test]
fn b109_lock_expires_and_late_complete_is_refused() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        lock_duration: secs(5),
        ..QueueOptions::default()
    });
    world.send(queue, &message("a"));
    let (first, second) = (world.receiver(queue), world.receiver(queue));
    let delivery = world.receive(first).unwrap();
    world.credit(second, 1);
    world.advance(secs(6));
    let again = world.deliveries().pop().expect("given to another receiver");
    assert_eq!(again.consumer, Some(second));
    assert_eq!(delivery_count(&again), 1);

    let error = world.complete(queue, &delivery).unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:message-lock-lost");
    assert_eq!(error.status(), 410);
    assert!(error.text().contains("The lock supplied is invalid."));
    assert!(error.text().contains("TrackingId:"));
    world.complete(queue, &again).unwrap();
}

#[test]
fn b109_closing_a_link_keeps_its_locks() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        lock_duration: secs(5),
        ..QueueOptions::default()
    });
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world.apply(DetachReceiver { consumer: receiver }).unwrap();
    let other = world.receiver(queue);
    assert!(world.receive(other).is_none(), "locked until it expires");
    world.advance(secs(5));
    let again = world.receive(other).unwrap();
    assert_eq!(delivery_count(&again), 1);
    assert!(world.complete(queue, &delivery).is_err());
}

#[test]
fn b109_renewed_lock_lasts_from_the_renewal() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        lock_duration: secs(5),
        ..QueueOptions::default()
    });
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    let tokens = vec![delivery.token.unwrap()];
    world.advance(secs(4));
    let renew = RenewLocks {
        entity: queue,
        tokens,
    };
    assert_eq!(world.apply(renew.clone()).unwrap(), [at(9)]);
    world.advance(secs(4));
    assert_eq!(world.apply(renew.clone()).unwrap(), [at(13)]);
    world.advance(secs(5));
    let error = world.apply(renew).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageLockLost);
}

#[test]
fn b56_token_in_the_wrong_byte_order_is_a_lost_lock() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let token = world.receive(receiver).unwrap().token.unwrap();
    let swapped = LockToken(servicebus_amqp::types::Uuid::from_bytes(token.to_tag()));
    let mut settle = UpdateDispositions {
        entity: queue,
        tokens: vec![swapped],
        settlement: Settlement::Complete,
        transaction: None,
    };
    let error = world.apply(settle.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageLockLost);
    settle.tokens = vec![token];
    world.apply(settle).unwrap();
}

#[test]
fn b110_max_delivery_count_is_that_of_the_entity() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        max_delivery_count: 2,
        lock_duration: secs(5),
        ..QueueOptions::default()
    });
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    for count in 0..2 {
        let delivery = world.receive(receiver).unwrap();
        assert_eq!(delivery_count(&delivery), count);
        world.abandon(queue, &delivery);
    }
    assert!(world.receive(receiver).is_none());
    assert_eq!(world.counts(queue).dead_letter, 1);

    let dead_letters = world.find("q/$DeadLetterQueue");
    let receiver = world.receiver(dead_letters);
    let dead = world.receive(receiver).unwrap();
    assert_eq!(delivery_count(&dead), 2);
    assert_eq!(dead.message.sequence_number(), 1, "the number is kept");
    let property = |name| text_property(&dead.message, name).unwrap();
    assert_eq!(property("DeadLetterReason"), "MaxDeliveryCountExceeded");
    assert_eq!(
        property("DeadLetterErrorDescription"),
        "Message could not be consumed after 2 delivery attempts."
    );
    assert_eq!(annotation(&dead.message, "x-opt-deadletter-source"), None);
}

#[test]
fn b110_lock_expiry_counts_towards_the_limit() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        max_delivery_count: 2,
        lock_duration: secs(5),
        ..QueueOptions::default()
    });
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    world.credit(receiver, 10);
    world.advance(secs(11));
    assert_eq!(world.deliveries().len(), 2);
    assert_eq!(world.counts(queue).dead_letter, 1);
}

#[test]
fn b55_dead_letter_carries_reason_description_and_properties() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(
        queue,
        &message("a").text("kept", "yes").text("changed", "no"),
    );
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world
        .settle(
            queue,
            &delivery,
            Settlement::DeadLetter {
                reason: Some(text("because")),
                description: Some(text("of this")),
                properties: Map::new().with("changed", "yes"),
            },
        )
        .unwrap();
    let dead_letters = world.find("q/$deadletterqueue");
    let dead = world.peek(dead_letters).pop().unwrap();
    for (name, value) in [
        ("DeadLetterReason", "because"),
        ("DeadLetterErrorDescription", "of this"),
        ("kept", "yes"),
        ("changed", "yes"),
    ] {
        assert_eq!(text_property(&dead, name).unwrap(), value, "{name}");
    }
    assert_eq!(dead.delivery_count(), 0, "dead-lettering does not count");
    assert_eq!(dead.enqueued_at(), at(0));
}

#[test]
fn a_dead_letter_cannot_be_dead_lettered_again_and_is_not_counted() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        max_delivery_count: 1,
        ..QueueOptions::default()
    });
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world
        .settle(queue, &delivery, dead_letter("r", "d"))
        .unwrap();
    let dead_letters = world.find("q/$DeadLetterQueue");
    let receiver = world.receiver(dead_letters);
    for _ in 0..3 {
        let delivery = world.receive(receiver).unwrap();
        assert_eq!(delivery_count(&delivery), 0);
        let refused = world.settle(dead_letters, &delivery, dead_letter("r", "d"));
        assert_eq!(refused.unwrap_err().condition(), "amqp:not-allowed");
        world.abandon(dead_letters, &delivery);
    }
    let error = world.try_send(dead_letters, &message("b")).unwrap_err();
    assert_eq!(error.condition(), "amqp:not-allowed");
}

#[test]
fn settling_twice_is_a_lost_lock() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world.complete(queue, &delivery).unwrap();
    let error = world.complete(queue, &delivery).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageLockLost);
}

#[test]
fn credit_is_served_in_order_of_arrival() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let (a, b) = (world.receiver(queue), world.receiver(queue));
    world.credit(a, 2);
    world.credit(b, 1);
    // More credit queues up behind what waits already.
    world.credit(a, 3);
    for _ in 0..5 {
        world.send(queue, &message("x"));
    }
    let receivers: Vec<_> = world
        .deliveries()
        .iter()
        .map(|delivery| delivery.consumer.unwrap())
        .collect();
    assert_eq!(receivers, [a, a, b, a]);
    assert_eq!(world.counts(queue).active, 5);
}

#[test]
fn drain_takes_what_is_left_of_the_credit() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    world
        .apply(SetCredit {
            consumer: receiver,
            credit: 10,
            drain: true,
        })
        .unwrap();
    assert_eq!(world.deliveries().len(), 1);
    world.send(queue, &message("b"));
    assert!(world.deliveries().is_empty());
    let snapshot = world.broker.snapshot(queue).unwrap();
    assert_eq!(snapshot.receivers[0].credit, 0);
}

#[test]
fn a_repeated_flow_changes_nothing() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let receiver = world.receiver(queue);
    for _ in 0..3 {
        world.credit(receiver, 1);
    }
    for _ in 0..3 {
        world.send(queue, &message("a"));
    }
    assert_eq!(world.deliveries().len(), 1);
}
