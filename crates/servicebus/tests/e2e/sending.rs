//! Sending: one, many, later; what is repeated and what is not.

use std::sync::{Arc, Mutex};

use servicebus::{Client, Connect, Connecting, ErrorKind, Message, RetryOptions, SendAllError};
use servicebus_amqp::engine::Config;
use servicebus_emulator::broker::QueueOptions;
use servicebus_emulator::{Answered, Failure, Fault, Operated};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn b98_send_all_splits_and_keeps_the_order() {
    let world = World::standard().await;
    let queue = world.queue("q");
    let all: Vec<String> = (0..3000).map(|n| format!("{n:01024}")).collect();
    soon(world.client.sender("q").send_all(all.clone()))
        .await
        .unwrap();
    let snapshot = queue.snapshot().unwrap();
    assert_eq!(snapshot.messages.len(), 3000);
    let receiver = world.client.receiver("q");
    let mut received = Vec::new();
    while received.len() < 3000 {
        let batch = soon(receiver.receive_batch(1000, secs(1))).await.unwrap();
        received.extend(texts(&batch));
        receiver
            .settle_all(batch, servicebus::Settlement::Complete)
            .await;
    }
    assert_eq!(received, all);
}

#[tokio::test(start_paused = true)]
async fn b98_a_message_that_is_too_large_stops_send_all_and_says_where() {
    let world = World::standard().await;
    let queue = world.queue("q");
    let messages = [
        "a".to_owned(),
        "b".to_owned(),
        "x".repeat(300 * 1024),
        "c".to_owned(),
    ];
    let error: SendAllError = soon(world.client.sender("q").send_all(messages))
        .await
        .unwrap_err();
    assert_eq!(error.error().kind(), ErrorKind::MessageTooLarge);
    assert_eq!(error.sent(), 2, "the two before it are sent");
    assert_eq!(queue.counts().unwrap().active, 2);
}

#[tokio::test(start_paused = true)]
async fn b98_nothing_to_send_is_no_error() {
    let world = World::new().await;
    let sender = world.client.sender("there is no such queue");
    soon(sender.send_all(Vec::<Message>::new())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn b98_send_all_keeps_sessions_apart() {
    let world = World::new().await;
    let queue = world.session_queue("q");
    let messages = (0..6).map(|n| Message::new(n.to_string()).session_id(format!("s{}", n % 2)));
    soon(world.client.sender("q").send_all(messages))
        .await
        .unwrap();
    let sessions = queue.snapshot().unwrap().sessions;
    let counts: Vec<_> = sessions
        .iter()
        .map(|s| (s.id.to_string(), s.messages))
        .collect();
    assert_eq!(counts, [("s0".to_owned(), 3), ("s1".to_owned(), 3)]);
}

#[tokio::test(start_paused = true)]
async fn b96_a_full_batch_is_taken() {
    let world = World::standard().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    let mut batch = soon(sender.batch()).await.unwrap();
    assert_eq!(batch.max_size(), 256 * 1024);
    let mut count = 0;
    while batch
        .try_add(&Message::new("x".repeat(1000)).property("n", count))
        .unwrap()
    {
        count += 1;
    }
    assert!(batch.size() > 255 * 1024 && batch.size() <= batch.max_size());
    soon(sender.send_batch(batch)).await.unwrap();
    assert_eq!(
        queue.counts().unwrap().active,
        usize::try_from(count).unwrap()
    );
}

/// Connects to the namespace that is the one in use now.
#[derive(Debug)]
struct Moved(Mutex<InMemory>);

impl Connect for Moved {
    fn connect(&self, config: Config) -> Connecting<'_> {
        let emulator = Arc::clone(&self.0.lock().unwrap().0);
        Box::pin(async move { InMemory(emulator).connect(config).await })
    }
}

/// The next link may take less than the one before it: what was made for that one is refused here.
#[tokio::test(start_paused = true)]
async fn b95_a_new_link_that_takes_less() {
    let (large, small) = (World::new().await, World::standard().await);
    large.queue("q");
    let queue = small.queue("q");
    let connector = Arc::new(Moved(Mutex::new(InMemory(Arc::clone(&large.emulator)))));
    let options = impatient().connector(Arc::clone(&connector) as Arc<dyn Connect>);
    let text = large.emulator.connection_string();
    let client = Client::from_connection_string_with(&text, options).unwrap();
    let sender = client.sender("q");
    let mut made_before = soon(sender.batch()).await.unwrap();
    assert_eq!(made_before.max_size(), 1024 * 1024);
    assert!(
        made_before
            .try_add(&Message::new("x".repeat(300 * 1024)))
            .unwrap()
    );
    soon(sender.send("x".repeat(2 * 1024 * 1024)))
        .await
        .unwrap();

    *connector.0.lock().unwrap() = InMemory(Arc::clone(&small.emulator));
    let mut state = client.state();
    state.borrow_and_update();
    large.order(Fault::Drop { connection: None });
    soon(state.changed()).await.unwrap();
    let batch = soon(sender.batch()).await.unwrap();
    assert_eq!(batch.max_size(), 256 * 1024);
    let error = soon(sender.send_batch(made_before)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageTooLarge);
    assert_eq!(queue.counts().unwrap().active, 0);
}

#[tokio::test(start_paused = true)]
async fn b95_a_message_beyond_the_limit_of_the_link_never_leaves() {
    let world = World::standard().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    let error = soon(sender.send("x".repeat(256 * 1024))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageTooLarge);
    // The link is as before.
    soon(sender.send("small")).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 1);
}

#[tokio::test(start_paused = true)]
async fn b18_ids_that_are_too_long_are_refused_here() {
    let world = World::new().await;
    world.queue("q");
    let sender = world.client.sender("q");
    let long = "x".repeat(129);
    for message in [
        Message::new("m").message_id(long.clone()),
        Message::new("m").session_id(long.clone()),
        Message::new("m").partition_key(long.clone()),
        Message::new("m").session_id("a").partition_key("b"),
    ] {
        let error = soon(sender.send(message)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[tokio::test(start_paused = true)]
async fn b99_a_scheduled_message_becomes_active_at_its_time() {
    let world = World::new().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    let at = world.emulator.now() + secs(60);
    let numbers = soon(sender.schedule_all(["a", "b"], at)).await.unwrap();
    assert_eq!(numbers.len(), 2);
    let receiver = world.client.receiver("q");
    let peeked = soon(receiver.peek(10)).await.unwrap();
    assert_eq!(peeked[0].state(), servicebus::MessageState::Scheduled);
    assert_eq!(peeked[0].scheduled_enqueue_time(), Some(at));

    soon(sender.cancel_scheduled(numbers[0])).await.unwrap();
    let error = soon(sender.cancel_scheduled(numbers[0])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageNotFound);
    assert!(
        soon(receiver.receive_within(millis(50)))
            .await
            .unwrap()
            .is_none()
    );
    world.advance(secs(61)).await;
    let message = soon(receiver.receive()).await.unwrap();
    assert_eq!(message.text().as_deref(), Some("b"));
    assert_eq!(queue.counts().unwrap().scheduled, 0);
    // Nothing was to be done.
    soon(sender.cancel_scheduled_all([])).await.unwrap();
}

/// The answer is lost with the connection: the message is sent again under the same id, and kept once.
#[tokio::test(start_paused = true)]
async fn b104_a_send_whose_answer_was_lost_is_repeated_under_its_id() {
    let world = World::new().await;
    let options = QueueOptions {
        duplicate_detection: Some(secs(600)),
        ..QueueOptions::default()
    };
    let queue = world.queue_with("q", options);
    let sender = world.client.sender("q");
    soon(sender.send("attached")).await.unwrap();
    world.order(lost_answers(Answered::Send, true, 1));
    let sending = tokio::spawn(async move { sender.send("once").await });
    soon(queue.wait_until(|now| now.messages.len() == 2, secs(5)))
        .await
        .unwrap();
    world.order(Fault::Drop { connection: None });
    soon(sending).await.unwrap().unwrap();
    assert_eq!(queue.counts().unwrap().active, 2);
}

#[tokio::test(start_paused = true)]
async fn b104_when_each_answer_is_lost_the_outcome_is_uncertain() {
    let options = impatient().retry(RetryOptions::none().try_timeout(millis(200)));
    let world = World::with(options).await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    world.order(lost_answers(Answered::Send, true, 1));
    let error = soon(sender.send("m")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncertain);
    assert_eq!(queue.counts().unwrap().active, 1);
    soon(sender.send("next")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn b103_what_passes_is_repeated_and_what_does_not_is_not() {
    let rows = [
        (Failure::InternalError, 3, true),
        (Failure::Timeout, 3, true),
        (Failure::ServerBusy, 3, true),
        (Failure::InternalError, 4, false),
        (Failure::EntityDisabled, 1, false),
        (Failure::QuotaExceeded, 1, false),
        (Failure::EntityNotFound, 1, false),
        (Failure::Unauthorized, 1, true),
        (Failure::Unauthorized, 2, false),
    ];
    for (error, times, taken) in rows {
        let world = World::new().await;
        let queue = world.queue("q");
        world.order(Fault::Fail {
            entity: "q".into(),
            operation: Operated::Send,
            error,
            times,
        });
        let result = soon(world.client.sender("q").send("m")).await;
        assert_eq!(result.is_ok(), taken, "{error:?} {times}: {result:?}");
        let active = queue.counts().unwrap().active;
        assert_eq!(active, usize::from(taken), "{error:?} {times}");
    }
}

/// The wait is a point in time: an operation that is cancelled in it leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn b101_a_busy_service_is_left_alone_and_then_used_again() {
    let retry = RetryOptions::default().try_timeout(secs(2)).max_retries(5);
    let world = World::with(impatient().retry(retry)).await;
    world.queue("q");
    world.queue("other");
    let sender = world.client.sender("q");
    sender.send("attached").await.unwrap();
    world.order(Fault::Fail {
        entity: "q".into(),
        operation: Operated::Send,
        error: Failure::ServerBusy,
        times: 1,
    });
    let began = tokio::time::Instant::now();
    tokio::select! {
        _ = sender.send("cancelled") => panic!("it was to wait"),
        () = tokio::time::sleep(secs(3)) => {}
    }
    // Another entity is not held up.
    world.client.sender("other").send("m").await.unwrap();
    assert!(began.elapsed() < secs(4));
    sender.send("waits for the rest").await.unwrap();
    let waited = began.elapsed();
    assert!(waited >= secs(10) && waited < secs(11), "{waited:?}");
    let again = tokio::time::Instant::now();
    sender.send("at once").await.unwrap();
    assert!(again.elapsed() < millis(100));
}

/// A thousand sends of one sender are on their way at a time.
#[tokio::test(start_paused = true)]
async fn sends_do_not_wait_for_one_another() {
    let world = World::new().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    let sends = (0..5000).map(|n| sender.send(n.to_string()));
    let results = soon(futures_util::future::join_all(sends)).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(queue.counts().unwrap().active, 5000);
}

/// A send that is dropped before it was written is not sent; the link works on.
#[tokio::test(start_paused = true)]
async fn b120_dropped_sends_leave_the_link_in_order() {
    let world = World::new().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    soon(sender.send("attached")).await.unwrap();
    let large = vec![7u8; 3 * 1024 * 1024];
    for polls in 0..20 {
        let mut send = Box::pin(sender.send(large.clone()));
        for _ in 0..polls {
            if futures_util::poll!(&mut send).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(send);
        soon(sender.send("small")).await.unwrap();
    }
    let messages = queue.snapshot().unwrap().messages;
    assert!(messages.len() >= 21 && messages.len() <= 41);
}

#[tokio::test(start_paused = true)]
async fn misuse_is_an_error_of_the_operation() {
    let world = World::new().await;
    world.topic("t", &["s"]);
    let subscription = servicebus::Subscription::new("t", "s");
    let error = soon(world.client.sender(subscription).send("m"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let error = soon(world.client.sender("").send("m")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let error = soon(world.client.sender("nowhere").send("m"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound);
    assert_eq!(error.entity(), Some("nowhere"));
}
