use std::time::Duration;

use bytes::Bytes;
use servicebus_amqp::engine::{Config, CreditMode, LinkOptions};
use servicebus_amqp::types::{DeliveryState, Source, Target};
use tokio::time::timeout;

use crate::pair::{LIMIT, connections, connections_with, link, message, sessions};

/// Case B41: what was cancelled before its turn never goes out, and the counts of both ends agree.
#[tokio::test]
async fn b41_a_dropped_send_that_waits_for_credit_is_taken_back() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Exact(0)).await;
    let mut kept = Vec::new();
    for number in 0..100_u32 {
        let outcome = sender.queue(message(number.to_string())).await.unwrap();
        if number % 2 == 0 {
            kept.push(outcome);
        }
    }
    receiver.set_credit(CreditMode::Exact(100)).unwrap();
    for number in 0..50 {
        let delivery = receiver.recv().await.unwrap();
        assert_eq!(delivery.payload, (number * 2).to_string().as_bytes());
        receiver
            .settle(delivery.delivery, DeliveryState::ACCEPTED)
            .unwrap();
    }
    for outcome in kept {
        outcome.await.unwrap();
    }
    assert_eq!(receiver.status().unwrap().delivery_count, 50);
    assert_eq!(sender.status().unwrap().delivery_count, 50);
}

/// Case B120: a large message that is dropped while its frames go out leaves a stream that others can use.
#[tokio::test]
async fn b120_a_dropped_send_of_many_frames_does_not_break_the_link() {
    let mut small_frames = Config::new("listener");
    small_frames.max_frame_size = 4096;
    let (client, listener) = connections_with(Config::new("client"), small_frames);
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Window(100)).await;
    let body = Bytes::from(vec![1; 1024 * 1024]);
    for polls in 1..40 {
        let mut send = std::pin::pin!(sender.send(message(body.clone())));
        for _ in 0..polls {
            tokio::select! {
                biased;
                outcome = &mut send => { outcome.unwrap(); break }
                () = tokio::task::yield_now() => {}
            }
            for (delivery, _) in receiver.take(10) {
                receiver
                    .settle(delivery.delivery, DeliveryState::ACCEPTED)
                    .unwrap();
            }
        }
    }
    let (outcome, ()) = tokio::join!(sender.send(message("last")), async {
        loop {
            let delivery = receiver.recv().await.unwrap();
            receiver
                .settle(delivery.delivery, DeliveryState::ACCEPTED)
                .unwrap();
            if delivery.payload == "last" {
                break;
            }
            assert_eq!(delivery.payload, body, "a whole message or none");
        }
    });
    assert_eq!(outcome.unwrap(), Some(DeliveryState::ACCEPTED));
}

/// Case B106: a delivery that comes while its receiver is being dropped stays for the next one.
#[tokio::test]
async fn b106_no_delivery_is_lost_by_dropped_receives() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Window(10)).await;
    let sending = async {
        for number in 0..2000_u32 {
            let mut delivery = message(number.to_be_bytes().to_vec());
            delivery.settled = true;
            sender.send(delivery).await.unwrap();
        }
    };
    let receiving = async {
        let mut expected = 0_u32;
        while expected < 2000 {
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                delivery = receiver.recv() => {
                    assert_eq!(delivery.unwrap().payload, &expected.to_be_bytes()[..]);
                    expected += 1;
                }
            }
        }
    };
    timeout(LIMIT, async { tokio::join!(sending, receiving) })
        .await
        .unwrap();
}

/// Case B75: an attach whose caller has gone is detached as soon as the peer answers it.
#[tokio::test]
async fn b75_a_dropped_attach_is_detached() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let options = LinkOptions::new(Source::new("here"), Target::new("there"));
    let attach = ours.attach_receiver("link", options, LIMIT);
    let incoming = tokio::select! {
        _ = attach => panic!("nobody answered"),
        incoming = theirs.accept() => incoming.unwrap(),
    };
    let answer = LinkOptions::answer(incoming.attach());
    // The detach may have arrived already; then there is nothing to accept any more.
    if let Ok(servicebus_amqp::net::AcceptedLink::Sender(sender)) = incoming.accept(answer) {
        timeout(LIMIT, sender.ended()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn b46_an_attach_that_is_never_answered_ends_in_time() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let options = LinkOptions::new(Source::new("here"), Target::new("there"));
    let before = tokio::time::Instant::now();
    let error = ours
        .attach_sender("link", options, Duration::from_secs(7))
        .await
        .unwrap_err();
    assert!(
        matches!(error, servicebus_amqp::engine::LinkError::NoAnswer),
        "{error}"
    );
    assert_eq!(before.elapsed(), Duration::from_secs(7));
    drop(theirs);
}
