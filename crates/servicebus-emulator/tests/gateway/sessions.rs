//! Sessions: accepted by name or as the next, locked, renewed, lost.

use std::time::Duration;

use crate::common::*;
use servicebus_amqp::engine::LinkOptions;
use servicebus_amqp::types::{Attach, DeliveryState, Described, Descriptor, Map, Symbol, Value};
use servicebus_emulator::broker::QueueOptions;
use servicebus_emulator::{Emulator, IdleTimes};

async fn queue() -> (Emulator, Client) {
    let emulator = emulator().await;
    let client = declare(&emulator).await;
    (emulator, client)
}

/// The queue `q1` with sessions, whose locks last thirty seconds.
async fn declare(emulator: &Emulator) -> Client {
    let options = QueueOptions {
        requires_session: true,
        lock_duration: secs(30),
        ..QueueOptions::default()
    };
    emulator
        .default_namespace()
        .create_queue("q1", options)
        .unwrap();
    Client::connect(emulator).await
}

fn described(value: Value) -> Value {
    Value::Described(Box::new(Described {
        descriptor: Descriptor::Code(0x13_7000_000c),
        value,
    }))
}

fn filter(attach: &Attach) -> Value {
    let filter = attach.source.as_ref().unwrap().filter.as_ref().unwrap();
    filter.get("com.microsoft:session-filter").unwrap().clone()
}

fn next(wait: Duration) -> LinkOptions {
    let mut options = session_filter("q1", Value::Null, 10);
    let millis = u32::try_from(wait.as_millis()).unwrap();
    options.properties =
        Some(Map::new().with(Symbol::from_static("com.microsoft:timeout"), millis));
    options
}

/// .NET, Python and JavaScript send a bare value and look for a plain string; Go sends and reads a described one.
#[tokio::test]
async fn the_granted_session_is_told_in_the_form_of_the_question() {
    for (asked, told) in [
        (Value::from("a"), Value::from("a")),
        (described("a".into()), described("a".into())),
        (Value::Null, "a".into()),
        (described(Value::Null), described("a".into())),
    ] {
        let (_emulator, client) = queue().await;
        send(&client.sender("q1").await, &session_message("a", "1")).await;
        let receiver = client
            .attach_receiver(session_filter("q1", asked, 1))
            .await
            .unwrap();
        let reply = receiver.peer_attach().unwrap();
        assert_eq!(filter(reply), told);
        // Ticks of .NET, and no timestamp.
        let until = reply
            .properties
            .as_ref()
            .unwrap()
            .get("com.microsoft:locked-until-utc");
        let ticks = 621_355_968_000_000_000 + (START_MILLIS + 30_000) * 10_000;
        assert_eq!(until, Some(&Value::Long(ticks)));
        assert_eq!(text(&within(receiver.recv()).await.unwrap()), "1");
    }
}

#[tokio::test]
async fn a_session_has_one_holder() {
    let (_emulator, client) = queue().await;
    let first = client
        .attach_receiver(session_filter("q1", "a", 1))
        .await
        .unwrap();
    let refused = client.attach_receiver(session_filter("q1", "a", 1)).await;
    let refused = link_error(refused.unwrap_err());
    assert_eq!(refused.condition, *"com.microsoft:session-cannot-be-locked");
    first.detach(Default::default(), None).await;
    client
        .attach_receiver(session_filter("q1", "a", 1))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_empty_string_is_a_session() {
    let (_emulator, client) = queue().await;
    send(&client.sender("q1").await, &session_message("", "1")).await;
    let receiver = client
        .attach_receiver(session_filter("q1", "", 1))
        .await
        .unwrap();
    within(receiver.recv()).await.unwrap();
}

#[tokio::test]
async fn a_message_without_session_is_refused() {
    let (_emulator, client) = queue().await;
    let error = send_refused(&client.sender("q1").await, &message("1")).await;
    assert_eq!(error.condition, *"amqp:not-allowed");
    let text = error.description.unwrap();
    assert!(
        text.starts_with(
            "The SessionId was not set on a message, and it cannot be sent to the entity."
        ),
        "{text}"
    );
}

/// The attach waits until a session is there.
#[tokio::test]
async fn the_next_session_is_waited_for() {
    let (_emulator, client) = queue().await;
    let sender = client.sender("q1").await;
    let attaching = client.attach_receiver(next(secs(60)));
    let sending = async {
        tokio::task::yield_now().await;
        send(&sender, &session_message("late", "1")).await;
    };
    let (receiver, ()) = tokio::join!(attaching, sending);
    let receiver = receiver.unwrap();
    assert_eq!(filter(receiver.peer_attach().unwrap()), "late".into());
    within(receiver.recv()).await.unwrap();
}

#[tokio::test]
async fn the_wait_for_a_session_ends_with_a_timeout() {
    let (emulator, client) = queue().await;
    let attaching = client.attach_receiver(next(Duration::from_millis(4958)));
    let advancing = async {
        let queue = emulator.default_namespace().entity("q1");
        queue
            .wait_until(|queue| queue.receivers.len() == 1, SOON)
            .await
            .unwrap();
        emulator.advance(Duration::from_millis(4957)).await.unwrap();
        let waiting = queue.snapshot().unwrap().receivers.len();
        emulator.advance(Duration::from_millis(1)).await.unwrap();
        waiting
    };
    let (refused, waiting) = tokio::join!(attaching, advancing);
    assert_eq!(waiting, 1);
    let refused = link_error(refused.unwrap_err());
    assert_eq!(refused.condition, *"com.microsoft:timeout");
}

/// A client that gave up gets no session, and the session goes to the next in line.
#[tokio::test]
async fn a_client_that_gave_up_takes_no_session() {
    let (emulator, client) = queue().await;
    let gone = Client::connect(&emulator).await;
    let queue = emulator.default_namespace().entity("q1");
    let waiting = tokio::spawn(async move {
        let _ = gone.attach_receiver(next(secs(60))).await;
    });
    queue
        .wait_until(|queue| queue.receivers.len() == 1, SOON)
        .await
        .unwrap();
    waiting.abort();
    queue
        .wait_until(|queue| queue.receivers.is_empty(), SOON)
        .await
        .unwrap();
    send(&client.sender("q1").await, &session_message("a", "1")).await;
    client.attach_receiver(next(secs(60))).await.unwrap();
}

#[tokio::test]
async fn a_session_lock_that_ran_out_detaches_the_link() {
    let (emulator, client) = queue().await;
    send(&client.sender("q1").await, &session_message("a", "1")).await;
    let receiver = client
        .attach_receiver(session_filter("q1", "a", 10))
        .await
        .unwrap();
    within(receiver.recv()).await.unwrap();
    emulator.advance(secs(30)).await.unwrap();
    let lost = link_error(within(receiver.ended()).await);
    assert_eq!(lost.condition, *"com.microsoft:session-lock-lost");
    let text_of_loss = lost.description.unwrap();
    assert!(
        text_of_loss.starts_with(
            "The session lock has expired on the MessageSession. Accept a new MessageSession."
        ),
        "{text_of_loss}"
    );

    let again = client
        .attach_receiver(session_filter("q1", "a", 10))
        .await
        .unwrap();
    let delivery = within(again.recv()).await.unwrap();
    assert_eq!(delivery_count(&delivery), 1);
}

#[tokio::test]
async fn closing_a_session_receiver_gives_its_messages_back_uncounted() {
    let (_emulator, client) = queue().await;
    let sender = client.sender("q1").await;
    for text in ["1", "2", "3"] {
        send(&sender, &session_message("a", text)).await;
    }
    let receiver = client
        .attach_receiver(session_filter("q1", "a", 10))
        .await
        .unwrap();
    for expected in ["1", "2", "3"] {
        assert_eq!(text(&within(receiver.recv()).await.unwrap()), expected);
    }
    receiver.detach(Default::default(), None).await;
    let receiver = client
        .attach_receiver(session_filter("q1", Value::Null, 10))
        .await
        .unwrap();
    for expected in ["1", "2", "3"] {
        let delivery = within(receiver.recv()).await.unwrap();
        assert_eq!(text(&delivery), expected);
        assert_eq!(delivery_count(&delivery), 0);
        complete(&receiver, &delivery).await;
    }
}

/// B112: a handler that is busy for five minutes and renews keeps its link, though nothing else happens there.
#[tokio::test]
async fn b112_a_session_that_is_renewed_is_kept() {
    let start = std::time::UNIX_EPOCH + Duration::from_millis(START_MILLIS as u64);
    let emulator = Emulator::builder()
        .in_memory()
        .clock(servicebus_emulator::Clock::manual(start))
        .idle_times(IdleTimes::service())
        .start()
        .await
        .unwrap();
    let client = declare(&emulator).await;
    send(&client.sender("q1").await, &session_message("a", "1")).await;
    let receiver = client
        .attach_receiver(session_filter("q1", "a", 1))
        .await
        .unwrap();
    let delivery = within(receiver.recv()).await.unwrap();
    let management = client.node("q1/$management").await;
    for _ in 0..80 {
        emulator.advance(secs(15)).await.unwrap();
        let body = Map::new().with("session-id", "a");
        let reply = management.call("renew-session-lock", body).await;
        assert_eq!(reply.status, 200);
    }
    assert!(receiver.error().is_none());
    let answer = settle(&receiver, &delivery, DeliveryState::ACCEPTED).await;
    assert_eq!(answer, Some(DeliveryState::ACCEPTED));
}
