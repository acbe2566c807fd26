//! Messages for later.

use servicebus_amqp::types::Value;
use servicebus_emulator::broker::*;

use crate::support::*;

fn schedule(world: &mut World, entity: EntityId, drafts: &[Draft]) -> Vec<i64> {
    world
        .apply(Schedule {
            entity,
            messages: drafts.iter().map(Draft::bytes).collect(),
            transaction: None,
        })
        .unwrap()
}

fn cancel(world: &mut World, entity: EntityId, numbers: &[i64]) -> Result<(), Error> {
    world.apply(CancelScheduled {
        entity,
        sequence_numbers: numbers.to_vec(),
    })
}

#[test]
fn b99_a_scheduled_message_becomes_active_with_a_new_number() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let numbers = schedule(&mut world, queue, &[message("a").scheduled(at(10))]);
    assert_eq!(numbers, [1]);
    world.send(queue, &message("b"));
    let receiver = world.receiver(queue);
    world.credit(receiver, 10);
    assert_eq!(world.deliveries().len(), 1);
    let peeked = world.peek(queue);
    assert_eq!(peeked[0].state(), MessageState::Scheduled);
    assert_eq!(world.counts(queue).scheduled, 1);

    world.advance(secs(10));
    let delivery = world.deliveries().pop().unwrap();
    let annotation = |name| annotation(&delivery.message, name);
    assert_eq!(annotation("x-opt-sequence-number"), Some(Value::Long(3)));
    assert_eq!(
        annotation("x-opt-enqueue-sequence-number"),
        Some(Value::Long(1))
    );
    let time = Some(Value::Timestamp(at(10)));
    assert_eq!(annotation("x-opt-enqueued-time"), time);
    assert_eq!(annotation("x-opt-scheduled-enqueue-time"), time);
    assert_eq!(annotation("x-opt-message-state"), None);
    let error = cancel(&mut world, queue, &[1]).unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:message-not-found");
}

#[test]
fn an_annotation_on_a_plain_send_schedules_too() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("later").scheduled(at(5)));
    world.send(queue, &message("now").scheduled(at(-5)));
    let counts = world.counts(queue);
    assert_eq!((counts.scheduled, counts.active), (1, 1));
    world.advance(secs(5));
    assert_eq!(world.bodies(queue), ["now", "later"]);
}

#[test]
fn b99_the_past_is_now() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    schedule(&mut world, queue, &[message("a").scheduled(at(0))]);
    assert_eq!(world.counts(queue).active, 1);
}

#[test]
fn cancelling_is_all_or_nothing() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let drafts = ["a", "b"].map(|body| message(body).scheduled(at(10)));
    assert_eq!(schedule(&mut world, queue, &drafts), [1, 2]);
    for numbers in [&[1, 3][..], &[1, 1]] {
        let error = cancel(&mut world, queue, numbers).unwrap_err();
        assert_eq!(error.status(), 404);
    }
    assert_eq!(world.counts(queue).scheduled, 2);
    cancel(&mut world, queue, &[2]).unwrap();
    world.advance(secs(10));
    assert_eq!(world.bodies(queue), ["a"]);
    assert_eq!(world.broker.poll_timeout(), None);
}

#[test]
fn time_to_live_counts_from_activation() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let draft = message("a").scheduled(at(10)).ttl(secs(5));
    schedule(&mut world, queue, &[draft]);
    world.advance(secs(14));
    assert_eq!(world.counts(queue).active, 1);
    world.advance(secs(1));
    assert_eq!(world.counts(queue).active, 0);
}

#[test]
fn a_topic_holds_its_scheduled_messages_itself() {
    let mut world = World::new();
    let topic = world.topic(TopicOptions::default());
    let subscription = world.subscription(topic, "s", SubscriptionOptions::default(), None);
    assert_eq!(
        schedule(&mut world, topic, &[message("a").scheduled(at(10))]),
        [1]
    );
    assert_eq!(world.counts(topic).scheduled, 1);
    assert!(world.peek(subscription).is_empty());
    assert_eq!(world.bodies(topic), ["a"]);
    world.advance(secs(10));
    assert_eq!(world.counts(topic).scheduled, 0);
    assert_eq!(world.bodies(subscription), ["a"]);
}

#[test]
fn scheduled_messages_come_out_in_the_order_of_their_times() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for seconds in [30, 10, 20] {
        let draft = message(&seconds.to_string()).scheduled(at(seconds));
        schedule(&mut world, queue, &[draft]);
    }
    world.advance(secs(60));
    assert_eq!(world.bodies(queue), ["10", "20", "30"]);
    let times: Vec<_> = world
        .peek(queue)
        .iter()
        .map(StoredMessage::enqueued_at)
        .collect();
    assert_eq!(times, [at(10), at(20), at(30)]);
}
