//! What becomes of messages that cross the end of a receive, against a service that does what the test says.

use servicebus::{
    KeepLock, LockedMessage, Receiver, ReceiverOptions, SessionReceiver, SessionReceiverOptions,
};
use servicebus_amqp::types::{Flow, Performative};
use tokio::task::JoinHandle;

use crate::service::{Link, Service, detach};
use crate::support::*;

/// The service's view of a link: how many deliveries it counts, and the credit that is left.
fn flow(link: &Link, delivery_count: u32, link_credit: Option<u32>, drain: bool) -> Performative {
    Performative::Flow(Flow {
        next_incoming_id: Some(0),
        incoming_window: 5000,
        next_outgoing_id: delivery_count,
        outgoing_window: 5000,
        handle: Some(link.handle),
        delivery_count: Some(delivery_count),
        link_credit,
        drain,
        ..Flow::default()
    })
}

/// A receive of ten messages that waits for a second.
fn receive_ten(receiver: &Receiver) -> JoinHandle<Vec<LockedMessage>> {
    let receiver = receiver.clone();
    tokio::spawn(async move { receiver.receive_batch(10, secs(1)).await.unwrap() })
}

/// Messages that were on their way when the credit was taken back are returned by the next receive, in their order.
#[tokio::test(start_paused = true)]
async fn b36_messages_that_cross_the_end_of_a_receive() {
    let (client, mut service) = Service::start();
    let receiver = client.receiver("q");
    let receive = receive_ten(&receiver);
    let link = service.attached().await;
    let asked = service.flow(&link).await;
    assert_eq!(
        (asked.delivery_count, asked.link_credit),
        (Some(0), Some(10))
    );
    for _ in 0..3 {
        service.message(&link);
    }
    let first = soon(receive).await.unwrap();
    assert_eq!(texts(&first), ["0", "1", "2"]);
    // The rest of the credit is taken back; two messages are on their way.
    let taken_back = service.flow(&link).await;
    assert_eq!(taken_back.delivery_count, Some(3));
    assert_eq!(taken_back.link_credit, Some(0));
    for _ in 0..2 {
        service.message(&link);
    }
    let next = soon(receiver.receive_batch(2, secs(1))).await.unwrap();
    assert_eq!(texts(&next), ["3", "4"]);
    // None of them was given back meanwhile, and the service's count is ours.
    let again = tokio::spawn(async move { receiver.receive_batch(4, secs(1)).await.unwrap() });
    let asked = loop {
        let asked = service.flow(&link).await;
        if asked.link_credit == Some(4) {
            break asked;
        }
    };
    assert_eq!(asked.delivery_count, Some(5));
    assert!(!asked.drain);
    assert!(soon(again).await.unwrap().is_empty());
}

/// What the service says about the credit that was taken back changes nothing about the next receive.
#[tokio::test(start_paused = true)]
async fn b37_the_service_answers_in_unusual_shapes() {
    type Shape = fn(&Service, &Link);
    let shapes: [(&str, Shape, u32); 5] = [
        (
            "without drain, the count moved on",
            |service, link| service.send(link, flow(link, 10, Some(0), false)),
            10,
        ),
        (
            "with drain and without a credit",
            |service, link| service.send(link, flow(link, 10, None, true)),
            10,
        ),
        (
            "twice",
            |service, link| {
                service.send(link, flow(link, 10, Some(0), true));
                service.send(link, flow(link, 10, Some(0), true));
            },
            10,
        ),
        (
            "the count did not move",
            |service, link| service.send(link, flow(link, 3, Some(0), true)),
            3,
        ),
        ("not at all", |_, _| {}, 3),
    ];
    for (shape, answer, count) in shapes {
        let (client, mut service) = Service::start();
        let receiver = client.receiver("q");
        let receive = receive_ten(&receiver);
        let link = service.attached().await;
        service.flow(&link).await;
        for _ in 0..3 {
            service.message(&link);
        }
        assert_eq!(soon(receive).await.unwrap().len(), 3, "{shape}");
        assert_eq!(service.flow(&link).await.link_credit, Some(0), "{shape}");
        answer(&service, &link);
        settle().await;
        let receive = tokio::spawn(async move { receiver.receive_batch(2, secs(1)).await });
        let asked = service.flow(&link).await;
        assert_eq!(asked.link_credit, Some(2), "{shape}");
        assert_eq!(asked.delivery_count, Some(count), "{shape}");
        service.message(&link);
        service.message(&link);
        let next = soon(receive).await.unwrap().unwrap();
        assert_eq!(texts(&next), ["3", "4"], "{shape}");
    }
}

/// The fourth shape: the link is detached. It is attached anew, with credit of its own.
#[tokio::test(start_paused = true)]
async fn b37_the_service_detaches_instead() {
    let (client, mut service) = Service::start();
    let receiver = client.receiver("q");
    let receive = receive_ten(&receiver);
    let link = service.attached().await;
    service.flow(&link).await;
    service.message(&link);
    assert_eq!(soon(receive).await.unwrap().len(), 1);
    service.send(&link, detach(&link, "amqp:link:detach-forced"));
    settle().await;
    let receive = tokio::spawn(async move { receiver.receive_batch(2, secs(5)).await });
    let link = service.attached().await;
    let asked = service.flow(&link).await;
    assert_eq!(
        (asked.delivery_count, asked.link_credit),
        (Some(0), Some(2))
    );
    service.message(&link);
    service.message(&link);
    let next = soon(receive).await.unwrap().unwrap();
    assert_eq!(texts(&next), ["1", "2"]);
}

/// Closing asks the service to use its credit up, and does not wait for ever for it.
#[tokio::test(start_paused = true)]
async fn b36_a_drain_that_is_not_answered_does_not_hold_up_close() {
    let (client, mut service) = Service::start();
    let options = ReceiverOptions::new().prefetch(7);
    let receiver = client.receiver_with("q", options);
    let receive = tokio::spawn({
        let receiver = receiver.clone();
        async move { receiver.receive().await.unwrap() }
    });
    let link = service.attached().await;
    service.flow(&link).await;
    service.message(&link);
    let message = soon(receive).await.unwrap();
    let began = tokio::time::Instant::now();
    let close = tokio::spawn(async move { receiver.close().await });
    let drain = loop {
        let asked = service.flow(&link).await;
        if asked.drain {
            break asked;
        }
    };
    // The credit is what it was.
    assert_eq!(
        (drain.delivery_count, drain.link_credit),
        (Some(1), Some(6))
    );
    service.message(&link);
    let given_back = service.disposition().await;
    assert_eq!(given_back.first, 1);
    assert_eq!(
        given_back.state,
        Some(servicebus_amqp::types::DeliveryState::RELEASED)
    );
    soon(close).await.unwrap();
    assert!(began.elapsed() <= secs(2), "{:?}", began.elapsed());
    drop(message);
}

/// A session whose receives end early, again and again, is kept.
#[tokio::test(start_paused = true)]
async fn b80_receives_that_end_early_do_not_cost_the_session() {
    let (client, mut service) = Service::start();
    let accept = tokio::spawn({
        let client = client.clone();
        let options = SessionReceiverOptions::new().keep_lock(KeepLock::UntilSettled);
        async move { client.accept_session_with("q", "a", options).await.unwrap() }
    });
    let link = service.attached().await;
    let session: SessionReceiver = soon(accept).await.unwrap();
    let lost = session.lock_lost();
    let session = std::sync::Arc::new(session);
    let mut handled = 0;
    for _ in 0..10 {
        let began = tokio::time::Instant::now();
        let receive = tokio::spawn({
            let session = std::sync::Arc::clone(&session);
            async move { session.receive_batch(10, secs(1)).await.unwrap() }
        });
        loop {
            // What takes the credit back is never answered.
            if service.flow(&link).await.link_credit == Some(10) {
                break;
            }
        }
        service.message(&link);
        service.message(&link);
        let messages = soon(receive).await.unwrap();
        assert!(began.elapsed() <= secs(2), "{:?}", began.elapsed());
        let expected = [handled.to_string(), (handled + 1).to_string()];
        assert_eq!(texts(&messages), expected, "in their order");
        handled += 2;
        for message in messages {
            let complete = tokio::spawn(message.complete());
            let asked = service.disposition().await;
            service.confirm(&link, &asked);
            soon(complete).await.unwrap().unwrap();
        }
        tokio::time::sleep(secs(6)).await;
    }
    assert!(!lost.is_cancelled());
    // Sixty seconds, with a lock of thirty.
    assert!(service.renewals() >= 2, "{}", service.renewals());
}
