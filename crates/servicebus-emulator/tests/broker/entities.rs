//! Entities: addresses, limits, status, updates, deletion, faults.

use servicebus_emulator::broker::*;

use crate::support::*;

#[test]
fn b114_addresses_in_all_their_forms_are_one_entity() {
    let mut world = World::new();
    let queue = world
        .named_queue("Orders", QueueOptions::default())
        .unwrap();
    for address in [
        "Orders",
        "/orders",
        "ORDERS",
        "amqps://localhost:5671/orders",
        "sb://ns.servicebus.windows.net/Orders/",
    ] {
        assert_eq!(world.find(address), queue, "{address}");
    }
    let dead_letters = world.find("orders/$DeadLetterQueue");
    assert_eq!(world.find("/Orders/$deadletterqueue"), dead_letters);
    assert_ne!(dead_letters, queue);
    let transfer = world.find("orders/$Transfer/$DeadLetterQueue");
    assert_ne!(transfer, dead_letters);

    let topic = world.topic(TopicOptions::default());
    let subscription = world.subscription(topic, "s", SubscriptionOptions::default(), None);
    for address in ["t/Subscriptions/s", "T/subscriptions/S"] {
        assert_eq!(world.find(address), subscription);
    }
    let error = world.broker.resolve("ns", "sb://host/nothing").unwrap_err();
    assert_eq!(error.condition(), "amqp:not-found");
    assert!(
        error.text().starts_with("The messaging entity 'sb://")
            && error.text().contains("nothing' could not be found."),
        "{error}"
    );
}

#[test]
fn namespaces_do_not_see_each_other() {
    let mut world = World::new();
    let mut create = |namespace: &str| {
        world
            .apply(CreateQueue {
                namespace: namespace.into(),
                name: "q".into(),
                options: QueueOptions::default(),
            })
            .unwrap()
    };
    let (a, b) = (create("a"), create("b"));
    world.send(a, &message("in a"));
    assert!(world.bodies(b).is_empty());
    let receiver = world.receiver(a);
    let delivery = world.receive(receiver).unwrap();
    assert!(
        world.complete(b, &delivery).is_err(),
        "a token of another entity"
    );
    world
        .apply(DeleteNamespace {
            namespace: "a".into(),
        })
        .unwrap();
    assert!(world.broker.resolve("a", "q").is_err());
    assert_eq!(world.broker.resolve("b", "q").unwrap(), b);
    assert_eq!(world.broker.entities("a").count(), 0);
    assert_eq!(world.broker.entities("b").count(), 3);
}

#[test]
fn names_are_checked_and_taken_once() {
    let mut world = World::new();
    world.named_queue("q", QueueOptions::default()).unwrap();
    let error = world.named_queue("Q", QueueOptions::default()).unwrap_err();
    assert_eq!(error.status(), 409);
    for name in [
        "",
        "a b",
        "a/$DeadLetterQueue",
        "t/Subscriptions/s",
        "-",
        "a?",
    ] {
        let error = world
            .named_queue(name, QueueOptions::default())
            .unwrap_err();
        assert_eq!(error.status(), 400, "{name}: {error}");
    }
    for name in ["a/b/c", "a-b_c.d", "masstransit~type", "é"] {
        world.named_queue(name, QueueOptions::default()).unwrap();
    }
}

#[test]
fn b110_lock_durations_of_the_service() {
    let mut world = World::with(Limits::standard());
    for (seconds, ok) in [(5, true), (300, true), (360, false), (0, false), (4, false)] {
        let created = world.named_queue(
            &format!("q{seconds}"),
            QueueOptions {
                lock_duration: secs(seconds),
                ..QueueOptions::default()
            },
        );
        assert_eq!(created.is_ok(), ok, "{seconds} s");
        if let Err(error) = created {
            assert_eq!(error.status(), 400);
        }
    }
}

#[test]
fn limits_of_a_profile() {
    let mut world = World::with(Limits {
        message_size: Some(200),
        entity_size: Some(300),
        id_length: Some(8),
        ..Limits::unlimited()
    });
    let queue = world.queue(QueueOptions::default());
    let terms = world.apply(AttachSender { entity: queue }).unwrap();
    assert_eq!(terms.max_message_size, Some(200));
    let error = world
        .try_send(queue, &message(&"x".repeat(200)))
        .unwrap_err();
    assert_eq!(error.condition(), "amqp:link:message-size-exceeded");
    assert!(
        error
            .text()
            .contains("exceeds the limit (200 bytes) currently allowed on the link")
    );
    let error = world
        .try_send(queue, &message("a").id("123456789"))
        .unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:argument-out-of-range");
    world.send(queue, &message(&"x".repeat(150)).id("12345678"));
    let error = world
        .try_send(queue, &message(&"x".repeat(150)))
        .unwrap_err();
    assert_eq!(error.condition(), "amqp:resource-limit-exceeded");
    assert_eq!(error.status(), 403);
    assert!(
        error
            .text()
            .starts_with("The maximum entity size has been reached or exceeded for Queue: 'q'.")
    );
}

#[test]
fn a_header_beyond_the_limit_dead_letters() {
    let mut world = World::with(Limits::standard());
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a").text("big", &"x".repeat(65 * 1024)));
    let dead_letters = world.find("q/$DeadLetterQueue");
    let dead = world.peek(dead_letters).pop().unwrap();
    assert_eq!(
        text_property(&dead, "DeadLetterReason").unwrap(),
        "HeaderSizeExceeded"
    );
}

#[test]
fn b98_a_batch_is_stored_as_a_whole_or_not_at_all() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        requires_session: true,
        ..QueueOptions::default()
    });
    let send = |world: &mut World, payload| {
        world.apply(Send {
            entity: queue,
            payload,
            format: BATCH_FORMAT,
            transaction: None,
        })
    };
    let bad = batch(&[message("a").session("s"), message("b")]);
    assert!(send(&mut world, bad).is_err());
    assert_eq!(world.counts(queue).active, 0);
    let good = batch(&["a", "b", "c"].map(|body| message(body).session("s").id(body)));
    send(&mut world, good).unwrap();
    let receiver = world.session(queue, "s");
    world.credit(receiver, 10);
    let numbers: Vec<_> = world
        .deliveries()
        .iter()
        .map(|delivery| (delivery.message.sequence_number(), body(&delivery.message)))
        .collect();
    let expected = [(1, "a"), (2, "b"), (3, "c")].map(|(n, body)| (n, body.to_owned()));
    assert_eq!(numbers, expected);
    let error = send(&mut world, bytes::Bytes::new()).unwrap_err();
    assert_eq!(error.condition(), "amqp:decode-error");
}

#[test]
fn partition_key_and_session_must_agree() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a").session("s").partition_key("s"));
    let error = world
        .try_send(queue, &message("a").session("s").partition_key("p"))
        .unwrap_err();
    assert_eq!(error.condition(), "amqp:not-allowed");
    world.send(queue, &message("a").partition_key("p"));
    let stored = world.peek(queue).pop().unwrap();
    assert_eq!(
        annotation(&stored, "x-opt-partition-key"),
        Some("p".into()),
        "the sender's annotations come back"
    );
}

#[test]
fn status_forbids_and_detaches() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let set = |world: &mut World, status| {
        world
            .apply(UpdateQueue {
                entity: queue,
                options: QueueOptions {
                    status,
                    ..QueueOptions::default()
                },
            })
            .unwrap();
        world.effects()
    };
    let effects = set(&mut world, Status::ReceiveDisabled);
    let [
        Effect::DetachReceiver { consumer, error },
        Effect::DetachSenders { entity, .. },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!((*consumer, *entity), (receiver, queue));
    assert_eq!(error.condition(), "com.microsoft:entity-disabled");
    world.send(queue, &message("b"));
    let attached = world.try_attach(queue, ReceiveMode::PeekLock, SessionRequest::None);
    assert_eq!(attached.unwrap_err().kind(), ErrorKind::EntityDisabled);

    set(&mut world, Status::SendDisabled);
    let error = world.try_send(queue, &message("c")).unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:entity-disabled");
    assert_eq!(error.status(), 400);
    let receiver = world.receiver(queue);
    assert!(world.receive(receiver).is_some());

    set(&mut world, Status::Disabled);
    assert!(world.try_send(queue, &message("c")).is_err());
    set(&mut world, Status::Active);
    world.send(queue, &message("c"));
}

#[test]
fn an_update_gives_locks_back_and_keeps_what_cannot_change() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    let update = |options| UpdateQueue {
        entity: queue,
        options,
    };
    let error = world
        .apply(update(QueueOptions {
            requires_session: true,
            ..QueueOptions::default()
        }))
        .unwrap_err();
    assert!(error.text().starts_with("SubCode=40000."));
    world.apply(update(QueueOptions::default())).unwrap();
    assert!(world.complete(queue, &delivery).is_err());
    world.effects();
    let receiver = world.receiver(queue);
    assert_eq!(delivery_count(&world.receive(receiver).unwrap()), 0);
}

#[test]
fn deletion_detaches_and_leaves_nothing() {
    let mut world = World::new();
    let topic = world.topic(TopicOptions::default());
    let subscription = world.subscription(topic, "s", SubscriptionOptions::default(), None);
    world.send(topic, &message("a").ttl(secs(5)));
    world.send(topic, &message("b").scheduled(at(10)));
    let receiver = world.receiver(subscription);
    let delivery = world.receive(receiver).unwrap();
    world.apply(DeleteEntity { entity: topic }).unwrap();
    let detached = world
        .effects()
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::DetachReceiver { consumer, error } => {
                assert_eq!(error.condition(), "amqp:resource-deleted");
                Some(consumer)
            }
            _ => None,
        });
    assert_eq!(detached.collect::<Vec<_>>(), [receiver]);
    assert!(world.broker.resolve("ns", "t/Subscriptions/s").is_err());
    assert!(world.complete(subscription, &delivery).is_err());
    assert!(world.try_send(topic, &message("c")).is_err());
    assert_eq!(world.broker.poll_timeout(), None, "no timer is left");

    // The ids of the new entity are not those of the old one.
    let new = world.topic(TopicOptions::default());
    assert_ne!(new, topic);
    assert!(world.try_send(topic, &message("c")).is_err());
}

#[test]
fn an_idle_entity_is_deleted_unless_it_is_used() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        auto_delete_on_idle: Some(secs(300)),
        ..QueueOptions::default()
    });
    world.advance(secs(299));
    world.send(queue, &message("a"));
    world.advance(secs(299));
    world.peek(queue);
    world.advance(secs(299));
    assert_eq!(world.counts(queue).active, 1);
    world.advance(secs(1));
    assert!(world.broker.counts(queue).is_err());
    assert!(world.events().contains(&EventKind::Deleted));
}

#[test]
fn a_waiting_receiver_keeps_an_entity_alive() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions {
        auto_delete_on_idle: Some(secs(300)),
        ..QueueOptions::default()
    });
    let receiver = world.receiver(queue);
    world.advance(secs(10_000));
    world.apply(DetachReceiver { consumer: receiver }).unwrap();
    assert!(world.broker.counts(queue).is_ok());
    world.advance(secs(600));
    assert!(world.broker.counts(queue).is_err());
}

#[test]
fn purge_removes_everything() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for body in ["active", "locked", "deferred"] {
        world.send(queue, &message(body).ttl(secs(100)));
    }
    world.send(queue, &message("scheduled").scheduled(at(10)));
    let receiver = world.receiver(queue);
    let locked = world.receive(receiver).unwrap();
    let deferred = world.receive(receiver).unwrap();
    world.settle(queue, &deferred, defer()).unwrap();
    assert_eq!(world.apply(Purge { entity: queue }).unwrap(), 4);
    assert_eq!(world.counts(queue), Counts::default());
    assert!(world.complete(queue, &locked).is_err());
    assert_eq!(world.broker.poll_timeout(), None);
    world.send(queue, &message("next"));
    assert_eq!(world.peek(queue)[0].sequence_number(), 5);
}

#[test]
fn faults_fail_the_next_operations_of_their_kind() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    let busy = Error::new(
        ErrorKind::ServerBusy,
        "The namespace is being throttled. Error code : 50002.",
    );
    world
        .apply(FailNext {
            entity: queue,
            operation: Operation::Send,
            times: 2,
            error: busy,
        })
        .unwrap();
    for _ in 0..2 {
        let error = world.try_send(queue, &message("a")).unwrap_err();
        assert_eq!(error.condition(), "com.microsoft:server-busy");
        assert_eq!(error.status(), 503);
    }
    world.send(queue, &message("a"));
    world.peek(queue);
}

#[test]
fn faults_expire_duplicate_and_detach() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    world.send(queue, &message("a"));
    let receiver = world.receiver(queue);
    let delivery = world.receive(receiver).unwrap();
    world
        .apply(ExpireLock {
            entity: queue,
            sequence_number: 1,
        })
        .unwrap();
    assert!(world.complete(queue, &delivery).is_err());
    let number = world
        .apply(Duplicate {
            entity: queue,
            sequence_number: 1,
        })
        .unwrap();
    assert_eq!(number, 2);
    assert_eq!(world.bodies(queue), ["a", "a"]);
    world
        .apply(DetachLinks {
            entity: queue,
            error: Error::new(
                ErrorKind::DetachForced,
                "IdleTimerExpired: Idle timeout: 00:10:00.",
            ),
        })
        .unwrap();
    let effects = world.effects();
    assert!(
        matches!(&effects[..], [Effect::DetachReceiver { consumer, .. }, Effect::DetachSenders { .. }] if *consumer == receiver)
    );
}

#[test]
fn malformed_messages_are_refused_with_a_place() {
    let mut world = World::new();
    let queue = world.queue(QueueOptions::default());
    for payload in [
        &b""[..],
        b"hello",
        &[0x00, 0x53, 0x75, 0xa0, 9],
        &[0x00, 0x53, 0x73, 0xa0, 0],
    ] {
        let error = world
            .apply(Send {
                entity: queue,
                payload: bytes::Bytes::copy_from_slice(payload),
                format: 0,
                transaction: None,
            })
            .unwrap_err();
        assert_eq!(error.condition(), "amqp:decode-error");
        assert!(error.text().contains("(at byte "), "{error}");
    }
}
