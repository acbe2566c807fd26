//! Forwarding from entity to entity.

use servicebus_amqp::types::Value;
use servicebus_emulator::broker::*;

use crate::support::*;

fn forwarding_to(target: &str) -> QueueOptions {
    QueueOptions {
        forward_to: Some(target.into()),
        ..QueueOptions::default()
    }
}

#[test]
fn a_message_moves_on_with_the_number_of_its_origin() {
    let mut world = World::new();
    let target = world
        .named_queue("target", QueueOptions::default())
        .unwrap();
    world.send(target, &message("first"));
    let source = world.queue(forwarding_to("sb://ns/Target"));
    world.send(source, &message("a"));
    assert_eq!(world.bodies(target), ["first", "a"]);
    let stored = world.peek(target).pop().unwrap();
    assert_eq!(stored.sequence_number(), 2);
    assert_eq!(
        annotation(&stored, "x-opt-enqueue-sequence-number"),
        Some(Value::Long(1))
    );
    assert_eq!(world.counts(source), Counts::default());
    let error = world
        .try_attach(source, ReceiveMode::PeekLock, SessionRequest::None)
        .unwrap_err();
    assert!(
        error.text().starts_with(
            "Cannot create a message receiver on an entity with auto-forwarding enabled"
        )
    );
}

#[test]
fn the_fifth_hop_dead_letters() {
    let mut world = World::new();
    let mut target = None;
    for n in (0..6).rev() {
        let options = QueueOptions {
            forward_to: target.take(),
            ..QueueOptions::default()
        };
        let name = format!("q{n}");
        world.named_queue(&name, options).unwrap();
        target = Some(name);
    }
    let (first, last) = (world.find("q1"), world.find("q5"));
    world.send(first, &message("four hops"));
    assert_eq!(world.bodies(last), ["four hops"]);
    let start = world.find("q0");
    world.send(start, &message("five hops"));
    assert_eq!(world.counts(last).active, 1);
    let dead_letters = world.find("q4/$DeadLetterQueue");
    let dead = world.peek(dead_letters).pop().unwrap();
    assert_eq!(body(&dead), "five hops");
    assert_eq!(
        text_property(&dead, "DeadLetterReason").unwrap(),
        "MaxTransferHopCountExceeded"
    );
    assert_eq!(
        text_property(&dead, "DeadLetterErrorDescription").unwrap(),
        "The maximum number of allowed hops when forwarding between queues has been exceeded. This value is set to 4."
    );
}

#[test]
fn dead_letters_move_on_with_reason_and_source() {
    let mut world = World::new();
    let target = world
        .named_queue("graveyard", QueueOptions::default())
        .unwrap();
    let queue = world.queue(QueueOptions {
        forward_dead_lettered_to: Some("graveyard".into()),
        ..QueueOptions::default()
    });
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world.abandon(queue, &delivery);
    let delivery = world.receive(receiver).unwrap();
    world
        .settle(queue, &delivery, dead_letter("r", "d"))
        .unwrap();
    assert_eq!(world.counts(queue), Counts::default());
    let stored = world.peek(target).pop().unwrap();
    assert_eq!(text_property(&stored, "DeadLetterReason").unwrap(), "r");
    assert_eq!(
        annotation(&stored, "x-opt-deadletter-source"),
        Some(Value::from("q"))
    );
    assert_eq!(stored.delivery_count(), 0, "counted anew at the target");
}

#[test]
fn what_cannot_be_forwarded_goes_where_the_limits_say() {
    for (failure, place) in [
        (ForwardFailure::DeadLetter, "q/$DeadLetterQueue"),
        (
            ForwardFailure::TransferDeadLetter,
            "q/$Transfer/$DeadLetterQueue",
        ),
    ] {
        let mut world = World::with(Limits {
            forward_failure: failure,
            ..Limits::unlimited()
        });
        let target = world
            .named_queue("target", QueueOptions::default())
            .unwrap();
        let queue = world.queue(forwarding_to("target"));
        world.apply(DeleteEntity { entity: target }).unwrap();
        world.send(queue, &message("a"));
        let place = world.find(place);
        assert_eq!(world.bodies(place), ["a"], "{failure:?}");
    }
}

#[test]
fn a_subscription_forwards_and_the_target_decides_about_sessions() {
    let mut world = World::new();
    world
        .named_queue(
            "sessions",
            QueueOptions {
                requires_session: true,
                ..QueueOptions::default()
            },
        )
        .unwrap();
    let topic = world.topic(TopicOptions::default());
    let options = SubscriptionOptions {
        forward_to: Some("sessions".into()),
        ..SubscriptionOptions::default()
    };
    world.subscription(topic, "s", options, None);
    world.send(topic, &message("with").session("x"));
    world.send(topic, &message("without"));
    let target = world.find("sessions");
    assert_eq!(world.counts(target).active, 1);
    let dead_letters = world.find("sessions/$DeadLetterQueue");
    assert_eq!(world.bodies(dead_letters), ["without"]);
}

#[test]
fn forwarding_needs_a_target_and_no_sessions() {
    let mut world = World::new();
    let error = world
        .named_queue("q", forwarding_to("nowhere"))
        .unwrap_err();
    assert_eq!(error.status(), 404);
    assert!(error.text().starts_with("SubCode=40400."));
    world
        .named_queue("target", QueueOptions::default())
        .unwrap();
    let error = world
        .named_queue(
            "q",
            QueueOptions {
                requires_session: true,
                ..forwarding_to("target")
            },
        )
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    world.named_queue("q", forwarding_to("")).unwrap();
}

#[test]
fn a_queue_that_begins_to_forward_passes_on_what_it_holds() {
    let mut world = World::new();
    let target = world
        .named_queue("target", QueueOptions::default())
        .unwrap();
    let queue = world.queue(QueueOptions::default());
    for body in ["a", "b"] {
        world.send(queue, &message(body));
    }
    let receiver = world.receiver(queue);
    world.receive(receiver).unwrap();
    world
        .apply(UpdateQueue {
            entity: queue,
            options: forwarding_to("target"),
        })
        .unwrap();
    assert_eq!(world.bodies(target), ["a", "b"]);
    assert_eq!(world.counts(queue).active, 0);
}
