//! Time to live and duplicate detection: what the broker forgets, and what it remembers.

use servicebus_amqp::types::Timestamp;
use servicebus_emulator::broker::*;

use crate::support::*;

#[test]
fn b110_an_expired_message_is_gone_or_dead_lettered() {
    for dead_letter_on_expiration in [false, true] {
        let mut world = World::new();
        let queue = world.queue(QueueOptions {
            dead_letter_on_expiration,
            ..QueueOptions::default()
        });
        world.send(queue, &message("a").ttl(secs(5)));
        world.advance(secs(5));
        assert_eq!(world.counts(queue).active, 0);
        let dead_letters = world.find("q/$DeadLetterQueue");
        let dead = world.peek(dead_letters);
        assert_eq!(dead.len(), usize::from(dead_letter_on_expiration));
        if let Some(dead) = dead.first() {
            let property = |name| text_property(dead, name).unwrap();
            assert_eq!(property("DeadLetterReason"), "TTLExpiredException");
            assert_eq!(
                property("DeadLetterErrorDescription"),
                "The message expired and was dead lettered."
            );
            world.advance(secs(1_000_000));
            assert_eq!(
                world.counts(queue).dead_letter,
                1,
                "it does not expire again"
            );
        }
    }
}

#[test]
fn the_shorter_time_to_live_wins_and_is_shown() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        default_time_to_live: Some(secs(60)),
        ..QueueOptions::default()
    });
    world.send(queue, &message("a"));
    world.send(queue, &message("b").ttl(secs(10)));
    world.send(
        queue,
        &message("c").ttl(secs(600)).id("kept").session("kept"),
    );
    for (stored, seconds) in world.peek(queue).iter().zip([60u32, 10, 60]) {
        let decoded = decode(stored);
        assert_eq!(decoded.header.unwrap().ttl, Some(seconds * 1000));
        let properties = decoded.properties.unwrap();
        let expiry = Timestamp::from_millis(START + i64::from(seconds) * 1000);
        assert_eq!(properties.absolute_expiry_time, Some(expiry));
    }
    let kept = world.peek(queue).pop().unwrap();
    assert_eq!(kept.message_id().unwrap(), "kept");
    assert_eq!(body(&kept), "c");
    // A field behind the one that the broker sets.
    let group_id = decode(&kept).properties.unwrap().group_id;
    assert_eq!(group_id.unwrap(), "kept");
    world.advance(secs(10));
    assert_eq!(world.bodies(queue), ["a", "c"]);
    world.advance(secs(50));
    assert!(world.bodies(queue).is_empty());
}

#[test]
fn a_subscription_is_bounded_by_its_topic_and_itself() {
    let mut world = World::new();
    let topic = world.topic(TopicOptions {
        default_time_to_live: Some(secs(30)),
        ..TopicOptions::default()
    });
    let options = |ttl| SubscriptionOptions {
        default_time_to_live: ttl,
        ..SubscriptionOptions::default()
    };
    let short = world.subscription(topic, "short", options(Some(secs(10))), None);
    let long = world.subscription(topic, "long", options(Some(secs(100))), None);
    world.send(topic, &message("a").ttl(secs(1000)));
    assert_eq!(world.peek(short)[0].expires_at(), Some(at(10)));
    assert_eq!(world.peek(long)[0].expires_at(), Some(at(30)));
}

#[test]
fn a_locked_message_expires_only_when_its_lock_ends() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for body in ["completed", "abandoned", "kept too long"] {
        world.send(queue, &message(body).ttl(secs(5)));
    }
    let receiver = world.receiver(queue);
    world.credit(receiver, 3);
    let deliveries = world.deliveries();
    world.advance(secs(10));
    assert_eq!(world.counts(queue).active, 3);
    world.complete(queue, &deliveries[0]).unwrap();
    world.abandon(queue, &deliveries[1]);
    assert_eq!(
        world.counts(queue).active,
        1,
        "abandoning applies it at once"
    );
    world.advance(secs(50));
    assert_eq!(world.counts(queue).active, 0);
}

#[test]
fn duplicates_are_accepted_and_dropped_within_the_window() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        duplicate_detection: Some(secs(20)),
        ..QueueOptions::default()
    });
    world.send(queue, &message("a").id("1"));
    world.send(queue, &message("b").id("1"));
    world.send(queue, &message("c").id("2"));
    // Ids differ by case; a message without id is never a duplicate.
    world.send(queue, &message("d").id("X"));
    world.send(queue, &message("e").id("x"));
    world.send(queue, &message("f"));
    world.send(queue, &message("g"));
    assert_eq!(world.bodies(queue), ["a", "c", "d", "e", "f", "g"]);
    assert_eq!(world.peek(queue).last().unwrap().sequence_number(), 6);

    // The history outlives the message.
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world.complete(queue, &delivery).unwrap();
    world.advance(secs(19));
    world.send(queue, &message("h").id("1"));
    assert_eq!(world.counts(queue).active, 5);
    world.advance(secs(1));
    world.send(queue, &message("i").id("1"));
    assert_eq!(world.counts(queue).active, 6);
}

#[test]
fn duplicates_are_found_within_batches_and_among_scheduled_messages() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        duplicate_detection: Some(secs(20)),
        ..QueueOptions::default()
    });
    let payload = batch(&[
        message("a").id("1"),
        message("b").id("1"),
        message("c").id("2"),
    ]);
    world
        .apply(Send {
            entity: queue,
            payload,
            format: BATCH_FORMAT,
            transaction: None,
        })
        .unwrap();
    let numbers = world
        .apply(Schedule {
            entity: queue,
            messages: vec![
                message("d").id("2").scheduled(at(10)).bytes(),
                message("e").id("3").scheduled(at(10)).bytes(),
            ],
            transaction: None,
        })
        .unwrap();
    assert_eq!(numbers.len(), 2, "a number even for a duplicate");
    world.send(queue, &message("f").id("3"));
    assert_eq!(world.bodies(queue), ["a", "c", "e"]);
    let dropped = world
        .events()
        .into_iter()
        .filter(|event| matches!(event, EventKind::DuplicateDropped { .. }));
    assert_eq!(dropped.count(), 3);
}
